"""Work items and activities: their sources as people write them, and work that is recorded twice."""

import pytest

from space_parts import note, read, task
from treering.core.errors import InvalidInput, NotFound


@pytest.fixture
def client(space):
    """The source of a file of ten lines."""
    lines = "\n".join(f"line {number}" for number in range(1, 11))
    return note(space, lines, origin="client.py", title="client.py")["source_id"]


def open_with(space, **fields):
    return space.crystallize("work_item", input={"title": "Fix the client", **fields})


class TestSources:
    @pytest.mark.parametrize("text", ["client.py", '"line 4"'])
    def test_a_source_is_named_as_evidence_is(self, space, client, text):
        report = open_with(space, source_refs=[text])
        assert read(space, report.ids[0]).source_refs == (client,)
        assert [one.given for one in report.evidence] == [text]

    def test_ids_stay_and_the_same_source_is_stored_once(self, space, client):
        other = note(space, "Another text.", origin="other.md")["source_id"]
        report = open_with(space, source_refs=[other, "client.py", client])
        assert read(space, report.ids[0]).source_refs == (other, client)

    def test_a_change_names_sources_too(self, space, client):
        work = task(space, "Fix the client")
        space.crystallize("work_item", input={"id": work, "source_refs": ["client.py"]})
        assert read(space, work).source_refs == (client,)

    def test_an_activity_and_its_work_name_sources_too(self, space, client):
        given = {
            "title": "Debugged the client",
            "source_refs": ["client.py"],
            "work_items": [{"title": "Fix the client", "source_refs": ["client.py"]}],
        }
        report = space.crystallize("activity", input=given)
        named = [read(space, one).source_refs for one in report.ids if one.startswith(("act:", "work:"))]
        assert named == [(client,), (client,)]

    def test_an_unknown_source_is_refused(self, space, client):
        with pytest.raises((NotFound, InvalidInput), match=r"missing\.py"):
            open_with(space, source_refs=["missing.py"])


class TestDuplicates:
    def test_work_opened_twice_is_reported(self, space):
        first = task(space, "Fix the client", status="in_progress")
        report = open_with(space)
        assert report.possible_duplicates == (first,)
        assert report.status == "ok"

    def test_finished_and_other_work_is_no_duplicate(self, space):
        task(space, "Fix the client", kind="bug")
        task(space, "Fix the client of the server")
        done = task(space, "Fix the client")
        space.crystallize("work_item", input={"id": done, "status": "resolved", "resolution": "Fixed."})
        assert open_with(space).possible_duplicates == ()

    def test_an_activity_reports_work_that_it_opens_again(self, space):
        first = task(space, "Fix the client")
        report = space.crystallize(
            "activity", input={"title": "Looked at the client", "work_items": [{"title": "Fix the client"}]}
        )
        assert report.possible_duplicates == (first,)
