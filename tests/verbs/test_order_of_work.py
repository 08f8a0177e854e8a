"""Taking and starting work, and the order in which a brief lists it."""

import pytest

from space_parts import open_space, task


def change(space, identity, **fields):
    return space.crystallize("work_item", input={"id": identity, **fields})


def open_work(space):
    (section,) = [one for one in space.query("brief").sections if one.name == "Open"]
    return [entry.text for entry in section.entries]


@pytest.fixture
def agents(tmp_path):
    """The same space, opened by two agents."""
    spaces = [open_space(str(tmp_path / "board.db"), actor=name, channel="agent") for name in ("agent-a", "agent-b")]
    yield spaces
    for space in spaces:
        space.close()


class TestTaking:
    def test_taking_work_in_progress_names_its_owner(self, agents):
        first, second = agents
        work = task(first, "Fix the login", owner_refs=["agent-a"], status="in_progress")
        report = change(second, work, owner_refs=["agent-b"], status="in_progress")
        assert report.warnings == ('"Fix the login" was in progress with "agent-a", who no longer owns it.',)
        assert report.status == "ok"

    def test_joining_or_handing_over_work_warns_nobody(self, agents):
        first, second = agents
        work = task(first, "Fix the login", owner_refs=["agent-a"], status="in_progress")
        assert not change(second, work, owner_refs=["agent-a", "agent-b"]).warnings
        assert not change(first, work, owner_refs=["agent-b"]).warnings

    def test_taking_work_that_nobody_began_is_no_reason_to_warn(self, agents):
        first, second = agents
        work = task(first, "Fix the login", owner_refs=["agent-a"])
        assert not change(second, work, owner_refs=["agent-b"], status="in_progress").warnings


class TestStarting:
    @pytest.mark.parametrize("field", ["depends_on", "blocked_by"])
    def test_starting_before_a_dependency_is_finished_warns(self, space, field):
        before = task(space, "Measure the load")
        work = task(space, "Raise the limit", **{field: [before]})
        expected = '"Raise the limit" is in progress, but it waits for "Measure the load" (open).'
        dry = space.crystallize("work_item", input={"id": work, "status": "in_progress"}, options={"dry_run": True})
        assert dry.warnings == (expected,)
        assert change(space, work, status="in_progress").warnings == (expected,)

    def test_new_work_in_progress_is_checked_too(self, space):
        before = task(space, "Measure the load")
        given = {"title": "Raise the limit", "status": "in_progress", "depends_on": [before]}
        assert "waits for" in space.crystallize("work_item", input=given).warnings[0]

    def test_finished_dependencies_allow_a_start(self, space):
        before = task(space, "Measure the load")
        change(space, before, status="resolved", resolution="40 per second.")
        work = task(space, "Raise the limit", depends_on=[before])
        assert not change(space, work, status="in_progress").warnings

    def test_an_unknown_status_is_refused_as_before(self, space):
        with pytest.raises(Exception, match="begun"):
            change(space, task(space, "Raise the limit"), status="begun")


class TestBrief:
    def test_brief_names_owners_and_what_work_waits_for(self, space):
        before = task(space, "Measure the load", owner_refs=["agent-a"], status="in_progress")
        task(space, "Raise the limit", depends_on=[before])
        assert open_work(space) == [
            "Measure the load (in progress, owner agent-a)",
            'Raise the limit (waits for "Measure the load" (in progress))',
        ]

    def test_brief_lists_work_that_can_be_started_before_work_that_waits(self, space):
        ready = task(space, "Ready", priority="low")
        task(space, "Waiting", depends_on=[ready], priority="urgent")
        change(space, task(space, "Blocked", priority="urgent"), status="blocked")
        begun = task(space, "Begun", status="in_progress", priority="low")
        assert [text.split(" ")[0] for text in open_work(space)][:2] == ["Begun", "Ready"]
        assert begun

    def test_brief_names_an_owner_by_the_name_of_its_node(self, space):
        ada = space.crystallize("node", input={"kind": "person", "name": "Ada"}).ids[0]
        task(space, "Measure the load", owner_refs=[ada])
        assert open_work(space) == ["Measure the load (owner Ada)"]

    def test_brief_shortens_a_title_and_not_the_state_of_its_work(self, space):
        task(space, "Measure the load of the server " * 8, owner_refs=["agent-a"])
        (text,) = open_work(space)
        assert text.endswith("… (owner agent-a)")
        assert len(text) <= 200
