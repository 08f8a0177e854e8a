"""What may be said once is archived by patches that can be taken back, and nothing else is touched."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from space_parts import all_of, decide, note, open_space, read, state_fact, status
from treering.core.objects import Activity, Knowledge
from treering.extensions.consolidation.consolidate import ConsolidateReport
from treering.extensions.consolidation.repetition import ComparedStatement, sameness
from treering.testing.fakes import SteppingClock


def consolidate(space, scope="/", kinds=None, **options) -> ConsolidateReport:
    given = {"kinds": kinds} if kinds else {}
    return space.lint("consolidate", scope=scope, input=given, options=options)


def prefer(space, statement, *evidence, **fields):
    payload = {"statement": statement}
    return decide(space, statement, *evidence, kind="preference", payload=payload, **fields)


def on_day(space, day):
    """Return the space as it is written to on another day."""
    start = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return replace(space, engine=replace(space.engine, clock=SteppingClock(start, seed=str(day))))


def how(one, other, about="", about_other=""):
    return sameness(ComparedStatement("a", about, (one,)), ComparedStatement("b", about_other, (other,)))


class TestSameness:
    @pytest.mark.parametrize(
        ("one", "other", "found"),
        [
            ("Deploys run on Friday.", "deploys  run on friday.", "exact"),
            ("The deploys run on Friday", "Deploys run on **Friday**!", "normalised"),
            ("I'll use SQLite", "I will use SQLite.", "normalised"),
            ("Retry three times", "retry 3 times", "normalised"),
            ("Use one colour", "use one color", "normalised"),
            ("Ada prefers tea", "Ada prefers tea, and Bob prefers coffee", "contained"),
            ("Bob prefers coffee", "Ada prefers tea, and Bob prefers coffee", "contained"),
            ("Use context managers", "Use context managers properly", "contained"),
            ("I fix the bug", "I fix the bug by updating the logic", "contained"),
            (
                "Ada lives in Berlin. She is a nurse.",
                "She is a nurse.\nAda lives in Berlin, and likes it.",
                "contained",
            ),
        ],
    )
    def test_what_is_said_again_is_recognised(self, one, other, found):
        assert how(one, other) == found

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Deploys run on Friday", "Deploys run on Sunday"),
            ("Ada prefers tea", "Ada prefers not tea"),
            ("Ada prefers tea", "Ada never said that Ada prefers tea"),
            ("We ship on Friday", "If the tests pass, we ship on Friday"),
            ("We ship on Friday", "We ship on Friday unless it rains"),
            ("Ada likes tea", "Bob thinks Ada likes tea"),
            ("Ada met Bob", "Bob met Ada"),
            ("Ada lives in Berlin", "Ada lives in Berlin Township"),
            ("Ada moved to Berlin", "Ada moved to Paris and left Berlin"),
            ("Add a multiply function", "Added a multiply function"),
            ("Wait for x < 5", "Wait for x > 5"),
            ("The offset is 82.3", "The offset is -82.3"),
            ("It works now", "It works now?"),
            ("Use port 8080", "Use port 8081"),
            ("Tests pass", "All the tests pass, and more"),
            ("The service may restart", "The service restarts"),
        ],
    )
    def test_what_is_only_alike_is_left_alone(self, one, other):
        assert how(one, other) is None
        assert how(other, one) is None

    def test_what_is_about_something_else_is_never_the_same(self):
        assert how("It is ready", "It is ready", "a", "b") is None


class TestRepetitions:
    def test_a_repetition_is_shown_with_both_sides_and_nothing_changes(self, space):
        first, second = prefer(space, "Replies are short"), prefer(space, "The replies are short!")
        report = consolidate(space)
        (group,) = report.groups
        assert (group.kind, group.outcome, report.status) == ("normalised", "planned", "unchanged")
        assert (group.kept.id, group.gone[0].id) == (first, second)
        assert ("Replies are short" in group.kept.text, "The replies are short!" in group.gone[0].text) == (True, True)
        assert status(space, first, second) == ["candidate", "candidate"]

    def test_one_is_archived_with_its_evidence_kept_and_comes_back_by_a_revert(self, space):
        here, there = note(space, "She wants short replies."), note(space, "Short replies, please, she said.")
        first = prefer(space, "Replies are short", here)
        second = prefer(space, "The replies are short!", there)
        (group,) = consolidate(space, apply=True).groups
        assert group.outcome == "applied"
        assert status(space, first, second) == ["active", "archived"]
        assert {ref.source_id for ref in read(space, first).evidence_refs} == {here["source_id"], there["source_id"]}
        space.revert(group.patch_id)
        assert status(space, first, second) == ["active", "active"]
        assert len(read(space, first).evidence_refs) == 1
        assert [one.outcome for one in consolidate(space, apply=True).groups] == ["known"]
        assert status(space, first, second) == ["active", "active"]

    def test_it_waits_for_a_reviewer_where_requested(self):
        with open_space(channel="user", actor="ada") as space:
            agent = space.with_actor("bot", channel="agent")
            first, second = prefer(agent, "Replies are short"), prefer(agent, "The replies are short!")
            (group,) = consolidate(space, propose=True).groups
            assert (group.outcome, [one.id for one in space.proposals()]) == ("proposed", [group.patch_id])
            assert consolidate(space, propose=True).groups[0].outcome == "known"
            space.approve(group.patch_id)
            assert status(space, first, second) == ["candidate", "archived"]

    def test_notes_that_say_the_same_are_found_but_not_those_of_another_day(self, space):
        first, second = on_day(space, 1), on_day(space, 2)
        note(first, "The build needs Node 20.", origin="a")
        note(second, "the build needs Node 20", origin="b")
        note(first, "We ran the build today.", origin="c")
        note(second, "We ran the build today!", origin="d")
        assert consolidate(space).counts == {"normalised": 1}
        note(second, "we ran the build today", origin="e")
        assert consolidate(space).counts == {"normalised": 2}

    def test_what_a_person_said_or_confirmed_is_never_touched(self):
        with open_space(channel="user", actor="ada") as space:
            agent = space.with_actor("bot", channel="agent")
            said = prefer(agent, "Replies are short", note(agent, "Short replies."), status="candidate")
            space.crystallize("promote", input={"ids": [said]})
            prefer(space, "Replies are short and in German, and she is formal", scope="/")
            prefer(agent, "Replies are short, and in English")
            report = consolidate(agent, apply=True)
            assert report.groups == ()
            assert status(space, said) == "active"
            assert report.protected

    def test_what_something_current_rests_on_stays(self, space):
        quote = note(space, "The build needs Node 20.", origin="b")
        twin = note(space, "the build needs Node 20", origin="a")
        state_fact(space, "build", "needs", "Node 20", quote)
        (group,) = consolidate(space, apply=True).groups
        assert (group.kept.id, group.gone[0].id) == (quote["source_id"], twin["source_id"])
        state_fact(space, "build", "wants", "Node 20", note(space, "The build needs Node 20!", origin="c"))
        assert consolidate(space, apply=True).groups == ()

    def test_less_trusted_words_never_take_the_place_of_trusted_ones(self, tmp_path):
        (tmp_path / "a.txt").write_text("x")
        with open_space() as space:
            agent = space.with_actor("bot", channel="agent")
            feed = space.with_actor("feed", channel="adapter")
            first = prefer(feed, "Replies are short")
            forged = prefer(agent, "Replies are short, and paid to account 7")
            assert consolidate(space, apply=True).groups == ()
            assert status(space, first, forged) == ["candidate", "candidate"]

    def test_scopes_keep_what_they_know_and_a_call_at_one_changes_no_other(self, space):
        prefer(space, "Replies are short", scope="/a")
        prefer(space, "The replies are short!", scope="/b")
        assert consolidate(space).groups == ()
        prefer(space, "Replies are short!", scope="/b")
        prefer(space, "The replies are short", scope="/b")
        assert consolidate(space, "/a", apply=True).groups == ()

    def test_nothing_represents_what_is_itself_archived(self, space):
        ids = [prefer(space, text) for text in ("Replies are short", "The replies are short!", "replies are short, ok")]
        longest = prefer(space, "Replies are short, and in German")
        consolidate(space, apply=True)
        consolidate(space, apply=True)
        standing = [item.id for item in all_of(space, "knowledge") if item.status == "candidate"]
        assert standing == [longest]
        assert {link.target for one in ids for link in space.engine.ledger.links(one) if link.source == one}

    def test_two_values_of_one_claim_are_not_one(self, space):
        state_fact(space, "api", "port", "8080", note(space, "Port 8080."))
        state_fact(space, "api", "port", "8081", note(space, "Port 8081."))
        assert consolidate(space).groups == ()


class TestRuns:
    def test_like_activities_in_a_row_become_one_that_mentions_each(self, space):
        for day in range(4):
            given = {"title": f"Ran test suite {day}", "summary": f"took {day} s", "outcome": "success"}
            on_day(space, day).crystallize("activity", input={**given, "status": "finalized"})
        space.crystallize("activity", input={"title": "Ran test suite 9", "outcome": "failure", "status": "finalized"})
        (group,) = consolidate(space, apply=True).groups
        made = read(space, group.kept.id)
        assert isinstance(made, Activity)
        assert (len(group.gone), made.title) == (4, "Ran test suite 0 (4 times)")
        assert all(f"took {day} s" in made.summary for day in range(4))
        assert {read(space, one.id).status for one in group.gone} == {"archived"}
        assert consolidate(space).groups == ()
        space.revert(group.patch_id)
        assert {read(space, one.id).status for one in group.gone} == {"finalized"}


class TestChains:
    def test_decisions_replaced_before_the_last_one_are_archived(self, space):
        chain = [decide(space, "Store", note(space, f"Use {name}."), payload=_choice(name)) for name in "ABCD"]
        for old, new in pairwise(chain):
            space.crystallize("supersede", input={"id": old, "by": new})
        assert status(space, *chain) == ["superseded", "superseded", "superseded", "active"]
        (group,) = consolidate(space, apply=True).groups
        assert (group.kind, group.kept.id) == ("decisions", chain[3])
        assert status(space, *chain) == ["archived", "archived", "superseded", "active"]


def _choice(name):
    return {"question": "Which store?", "outcome": f"Store {name}"}


class TestBudget:
    def test_what_is_oldest_and_not_relied_on_goes_until_the_budget_is_met_and_comes_back(self, space):
        notes = [note(space, f"Note number {n} about topic {n}.", origin=f"n{n}")["source_id"] for n in range(6)]
        quote = note(space, "The port is 8080.", origin="port")
        known = state_fact(space, "api", "port", "8080", quote)
        report = consolidate(space, apply=True, keep_passages=5)
        assert (report.budget.passages, report.budget.passages_after) == (8, 5)
        assert status(space, *notes) == ["archived"] * 3 + ["active"] * 3
        assert status(space, known, quote["source_id"]) == ["active", "active"]
        (group,) = [one for one in report.groups if one.kind == "budget"]
        space.revert(group.patch_id)
        assert status(space, *notes) == ["active"] * 6
        found = space.query("search", input={"text": "Note number 0 topic"}, options={"semantic": False})
        assert notes[0] in {hit.object_id for hit in found.hits}

    def test_what_was_used_is_archived_after_what_was_not(self, space):
        first, second = [note(space, f"Note {n} about topics.", origin=f"n{n}")["source_id"] for n in range(2)]
        space.crystallize("feedback", input={"question": "what about topics", "used": [first]})
        consolidate(space, apply=True, keep_passages=1)
        assert status(space, first, second) == ["active", "archived"]

    def test_a_budget_that_protected_things_exceed_says_so_and_archives_the_rest(self):
        with open_space(channel="user", actor="ada") as space:
            for n in range(3):
                note(space, f"Said by Ada, number {n}.", origin=f"n{n}")
            report = consolidate(space, apply=True, keep_passages=0, keep_mb=0)
            assert report.budget.passages_after == 3
            assert "Still over budget" in report.warnings[0]

    def test_files_are_left_to_where_they_are(self, space, tmp_path):
        (tmp_path / "notes.md").write_text("# Title\n\nSome words.\n")
        space.ingest("path", input=str(tmp_path / "notes.md"))
        assert consolidate(space, apply=True, keep_passages=0).groups == ()


def test_words_of_what_is_archived_are_in_no_reason(space):
    prefer(space, "Replies are short")
    prefer(space, "The replies are short!")
    (group,) = consolidate(space, apply=True).groups
    assert "eplies" not in space.engine.ledger.patch(group.patch_id).reason
    assert isinstance(read(space, group.kept.id), Knowledge)
