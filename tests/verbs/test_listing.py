"""A search without a text lists the objects that pass its filter."""

import pytest

from space_parts import decide, note, task
from treering.core.errors import InvalidInput


def listed(space, where, text="", scope="/", **options):
    return space.query("search", scope=scope, input={"text": text}, options={"filter": where, **options})


def titles(report):
    return [hit.title for hit in report.hits]


class TestListing:
    def test_open_work_is_listed_with_owner_priority_and_order(self, space):
        first = task(space, "Fix the login", priority="high", owner_refs=["agent-a"], status="in_progress")
        task(space, "Ship the login", depends_on=[first])
        report = space.query("search", options={"filter": {"type": "work_item", "status": ["open", "in_progress"]}})
        assert titles(report) == ["Ship the login", "Fix the login"]
        assert [(hit.work.owner_refs, hit.work.priority, hit.work.depends_on) for hit in report.hits] == [
            ((), "normal", (first,)),
            (("agent-a",), "high", ()),
        ]
        assert 'Waits for: "Fix the login" (in progress)' in report.hits[0].text

    def test_titles_that_differ_in_a_number_are_all_listed(self, space):
        for number in range(30):
            task(space, f"Ticket {number}: check module number {number}")
        assert len(listed(space, {"type": "work_item"}, limit=100).hits) == 30

    def test_a_limit_shows_the_newest_and_reports_more(self, space):
        for number in range(5):
            task(space, f"Ticket {number}")
        report = listed(space, {"type": "work_item"}, limit=2)
        assert titles(report) == ["Ticket 4", "Ticket 3"]
        assert "More objects pass the filter; the newest 2 are listed." in report.warnings

    def test_withdrawn_objects_are_listed_on_request(self, space):
        old = decide(space, "Deploy on Friday", note(space, "We deploy on Friday."))
        space.crystallize("knowledge", input={"id": old, "status": "archived"})
        assert titles(listed(space, {"type": "knowledge"})) == []
        assert titles(listed(space, {"type": "knowledge"}, withdrawn=True)) == ["Deploy on Friday"]

    def test_archived_work_does_not_use_up_the_limit(self, space):
        task(space, "Current")
        for number in range(4):
            archived = task(space, f"Archived {number}")
            space.crystallize("work_item", input={"id": archived, "lifecycle_state": "archived"})
        assert titles(listed(space, {"type": "work_item"}, limit=1)) == ["Current"]

    def test_the_past_is_listed_as_it_was(self, space):
        task(space, "Before")
        moment = space.engine.ledger.sequence()
        task(space, "After")
        assert titles(listed(space, {"type": "work_item"}, as_of=moment)) == ["Before"]

    def test_scopes_below_are_named_and_listed_on_request(self, space):
        task(space, "Above")
        task(space, "Below", scope="/team")
        report = listed(space, {"type": "work_item"})
        assert titles(report) == ["Above"]
        assert any("/team" in one for one in report.warnings)
        assert titles(listed(space, {"type": "work_item"}, descend=True)) == ["Below", "Above"]

    def test_sources_are_listed_with_their_first_text(self, space):
        quote = note(space, "Uploads are retried.", title="Client")
        (hit,) = listed(space, {"type": "source"}).hits
        assert (hit.segment_id, hit.text) == (quote["segment_id"], "Uploads are retried.")

    def test_an_empty_listing_states_that_nothing_passes(self, space):
        note(space, "Uploads are retried.")
        report = listed(space, {"type": "work_item"})
        assert (report.status, report.empty.hint) == ("empty", "No object here passes the filter.")

    def test_neither_a_text_nor_a_filter_is_refused(self, space):
        with pytest.raises(InvalidInput, match="neither a text"):
            space.query("search")

    @pytest.mark.parametrize("field", ["role", "metadata.path"])
    def test_fields_of_passages_need_a_text(self, space, field):
        with pytest.raises(InvalidInput, match=field):
            listed(space, {"not": {field: "code"}})


class TestHints:
    @pytest.mark.parametrize("text", ["*", "uploads", "open tickets"])
    def test_a_text_without_matches_points_to_the_listing(self, space, text):
        note(space, "Uploads are retried.")
        task(space, "Fix the login")
        space.embed_pending()
        report = listed(space, {"type": "work_item", "status": "in_progress"}, text)
        assert "Without a text, a search lists everything that passes the filter." in report.empty.hint
        assert "loosen" not in report.empty.hint
