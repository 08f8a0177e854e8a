import gc

import pytest
from ingest_parts import Folder, Jobs, desk_of, make_desk

from space_parts import decide, note, open_space
from treering.core.errors import Conflict, Denied, InvalidPatch, Unavailable
from treering.core.objects import Source
from treering.core.patch import Author, Create
from treering.core.policy import Policy
from treering.ports.runtime import collecting_seldom
from treering.testing.fakes import SteppingClock
from treering.testing.memory_ledger import MemoryLedger
from treering.verbs.ingest.known import KnownSources


def items(count, start=0):
    return {"items": [{"origin": f"note:{number}", "text": f"text {number}"} for number in range(start, start + count)]}


def created_by(patch):
    return [
        operation.object.origin
        for operation in patch.operations
        if isinstance(operation, Create) and isinstance(operation.object, Source)
    ]


class Kept(Jobs):
    """A job log that notes every state it was told."""

    def __init__(self):
        super().__init__()
        self.states = []

    def save(self, job_id, row):
        self.states.append(row["state"])
        super().save(job_id, row)


class Doorkeeper(MemoryLedger):
    """A ledger that refuses patches about some origins, as long as it is told to."""

    def __init__(self, clock, refusal, *origins):
        super().__init__(clock=clock)
        self.refusal = refusal
        self.origins = set(origins)
        self.refused = 0

    def commit(self, patch, *, idempotency_key=None):
        if self.origins.intersection(created_by(patch)):
            self.refused += 1
            raise self.refusal
        return super().commit(patch, idempotency_key=idempotency_key)


def desk_with(refusal, *origins):
    clock = SteppingClock()
    return desk_of(Doorkeeper(clock, refusal, *origins), clock)


class Watchful(Doorkeeper):
    """A ledger that notes at each commit after how many new objects Python looks for cycles."""

    def commit(self, patch, *, idempotency_key=None):
        self.objects = gc.get_threshold()[0]
        return super().commit(patch, idempotency_key=idempotency_key)


@pytest.mark.parametrize("refused", [(), ("note:1",)])
def test_cycles_are_looked_for_seldom_while_much_is_read_and_as_before_afterwards(refused):
    clock = SteppingClock()
    ledger = Watchful(clock, Conflict("no", hint=""), *refused)
    before = gc.get_threshold()
    desk_of(ledger, clock).ingest("source", items(3))
    assert ledger.objects > before[0]
    assert gc.get_threshold() == before


def test_of_two_at_once_the_last_one_leaves_the_collector_as_the_first_one_found_it():
    before = gc.get_threshold()
    first, second = collecting_seldom(), collecting_seldom()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() != before
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_a_program_that_switched_the_collector_off_finds_it_so():
    gc.disable()
    try:
        make_desk().ingest("source", items(3))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_many_items_share_a_patch():
    desk = make_desk()
    desk.ingest("source", items(600))
    assert len(desk.ledger.patches()) == 3


class Counting(MemoryLedger):
    """A ledger that counts how often it is asked for the sources of an origin."""

    asked = 0

    def sources(self, *, scope, root):
        self.asked += 1
        return super().sources(scope=scope, root=root)


def test_origins_that_were_looked_up_together_are_not_requested_one_by_one():
    ledger = Counting(clock=SteppingClock())
    desk_of(ledger, SteppingClock()).ingest("source", items(3))
    known = KnownSources(ledger, scope="/")
    known.look_up(f"note:{number}" for number in range(5))
    ledger.asked = 0
    assert [known.source(f"note:{number}") is not None for number in range(5)] == [True, True, True, False, False]
    assert ledger.asked == 0


def test_an_origin_in_doubt_is_requested_again():
    ledger = Counting(clock=SteppingClock())
    known = KnownSources(ledger, scope="/")
    known.look_up(["note:0"])
    desk_of(ledger, SteppingClock()).ingest("source", items(1))
    known.doubt(["note:0"])
    assert known.source("note:0") is not None


def test_the_job_of_a_single_batch_is_kept_once():
    jobs = Kept()
    desk = desk_of(MemoryLedger(clock=SteppingClock()), SteppingClock(), jobs=jobs)
    desk.ingest("source", items(3))
    assert jobs.states == ["done"]


def test_a_run_of_several_batches_tells_how_it_stands_meanwhile():
    jobs = Kept()
    desk = desk_of(MemoryLedger(clock=SteppingClock()), SteppingClock(), jobs=jobs)
    desk.ingest("source", items(300))
    assert (jobs.states[0], jobs.states[-1]) == ("running", "done")


def test_a_batch_does_not_grow_without_bound_in_text():
    desk = make_desk()
    big = [{"origin": f"note:{number}", "text": "word " * 300_000} for number in range(3)]
    desk.ingest("source", {"items": big})
    assert len(desk.ledger.patches()) == 2


@pytest.mark.parametrize("refusal", [InvalidPatch("bad one", hint="Mend it."), Denied("not you", hint="Mend it.")])
def test_what_the_ledger_refuses_fails_alone(refusal):
    desk = desk_with(refusal, "note:3")
    report = desk.ingest("source", items(10))
    assert report.counts == {"created": 9, "failed": 1}
    assert (report.items[0].origin, report.items[0].why) == ("note:3", f"{refusal.message} Mend it.")
    assert len(desk.all("source")) == 9


def test_a_draft_that_breaks_the_rules_of_the_objects_fails_alone(tmp_path):
    desk = make_desk()
    (tmp_path / "a.md").write_text("alpha")
    (tmp_path / "b.json").write_text('{"name": ""}')
    (tmp_path / "c.md").write_text("gamma")
    report = desk.read(tmp_path)
    assert report.counts == {"created": 2, "failed": 1}
    assert report.items[0].origin.endswith("#b.json")
    assert report.items[0].why.startswith("name: ")


def test_a_conflict_that_does_not_end_is_reported_for_its_item():
    desk = desk_with(Conflict("somebody was first", hint="Run again."), "note:1")
    report = desk.ingest("source", items(3))
    assert report.counts == {"created": 2, "failed": 1}
    assert "somebody was first" in report.items[0].why


def test_a_ledger_that_cannot_answer_ends_the_run_and_the_next_one_resumes():
    desk = desk_with(Unavailable("the disk is full", hint="Make room."), "note:270")
    with pytest.raises(Unavailable, match="the disk is full"):
        desk.ingest("source", items(300))
    assert desk.ingest("status").state == "interrupted"
    assert len(desk.all("source")) == 256
    desk.ledger.origins.clear()
    report = desk.ingest("source", items(300))
    assert report.counts == {"unchanged": 256, "created": 44}


class Broken(Folder):
    """Is stopped by the user after some items."""

    def __init__(self, after):
        super().__init__()
        self.after = after

    def _reading(self, origin, file, known, limits):
        if self.after == 0:
            raise KeyboardInterrupt
        self.after -= 1
        return super()._reading(origin, file, known, limits)


def test_a_run_that_was_stopped_resumes_where_it_had_got_to(tmp_path):
    for number in range(300):
        (tmp_path / f"n{number:03}.md").write_text(f"number {number}")
    adapter = Broken(after=270)
    desk = make_desk(adapter=adapter)
    with pytest.raises(KeyboardInterrupt):
        desk.read(tmp_path)
    job = desk.ingest("status")
    assert (job.state, job.counts) == ("interrupted", {"created": 256})
    adapter.after = -1
    assert desk.read(tmp_path).counts == {"unchanged": 256, "created": 44}
    assert desk.read(tmp_path).status == "unchanged"


def test_job_without_a_heartbeat_is_interrupted():
    clock = SteppingClock()
    desk = make_desk(clock=clock)
    job = desk.ingest("source", items(1)).job
    desk.jobs.rows[job]["state"] = "running"
    assert desk.ingest("status").state == "running"
    clock.set(clock.now().replace(hour=5))
    assert desk.ingest("status").state == "interrupted"


class Rival(Folder):
    """While the first file is read, somebody else ingests the same folder."""

    def __init__(self):
        super().__init__()
        self.meanwhile = None

    def _reading(self, origin, file, known, limits):
        if self.meanwhile:
            act, self.meanwhile = self.meanwhile, None
            act()
        return super()._reading(origin, file, known, limits)


@pytest.fixture
def contested(tmp_path):
    adapter = Rival()
    desk = make_desk(adapter=adapter)
    (tmp_path / "a.md").write_text("alpha")
    (tmp_path / "b.md").write_text("beta")
    adapter.meanwhile = lambda: desk.read(tmp_path)
    return desk, adapter, tmp_path


def test_two_runs_over_the_same_new_folder_agree(contested):
    desk, _, folder = contested
    report = desk.read(folder)
    assert report.counts == {"unchanged": 2}
    assert len(desk.all("source")) == 2


def test_two_runs_over_an_edited_folder_agree(contested):
    desk, adapter, folder = contested
    desk.read(folder)
    (folder / "a.md").write_text("alpha beta")
    adapter.meanwhile = lambda: desk.read(folder)
    assert desk.read(folder).counts == {"unchanged": 2}
    assert desk.sources()["a.md"].revision == 2


def test_a_file_another_run_has_removed_already_is_no_failure(contested):
    desk, adapter, folder = contested
    desk.read(folder)
    (folder / "a.md").unlink()
    (folder / "b.md").write_text("better")
    adapter.meanwhile = lambda: desk.read(folder)
    report = desk.read(folder)
    assert "failed" not in report.counts
    assert desk.sources()["a.md"].status == "archived"


def test_where_the_policy_asks_for_review_a_batch_is_proposed_once():
    desk = make_desk(policy=Policy(direct_channels=frozenset({"system"})))
    report = desk.ingest("source", items(2))
    assert (report.status, report.counts) == ("proposed", {"proposed": 2})
    assert desk.all("source") == []
    again = desk.ingest("source", items(3))
    assert again.counts == {"proposed": 3}
    (newer, older) = desk.ledger.patches(status="proposed")
    assert (len(older.operations), len(newer.operations)) == (2, 1)


def test_a_proposed_batch_is_there_once_approved():
    desk = make_desk(policy=Policy(direct_channels=frozenset({"system"})))
    desk.ingest("source", items(2))
    (proposed,) = desk.ledger.patches(status="proposed")
    desk.ledger.approve(proposed.id, by=Author(actor="eve", channel="system"))
    assert desk.ingest("source", items(2)).status == "unchanged"


WAL_HEADER, FRAME_HEADER = 32, 24


def transactions(file):
    """Count the transactions in the write-ahead log of a file: the last page of each tells the size of the file."""
    log = file.with_name(f"{file.name}-wal").read_bytes()
    size, salts = int.from_bytes(log[8:12]), log[16:24]
    places = range(WAL_HEADER, len(log), FRAME_HEADER + size)
    frames = [log[place : place + FRAME_HEADER] for place in places]
    return sum(frame[8:16] == salts and frame[4:8] != bytes(4) for frame in frames)


def test_a_note_and_the_job_that_mentions_it_are_one_transaction(tmp_path):
    file = tmp_path / "space.db"
    with open_space(f"sqlite:{file}") as space:
        note(space, "The uploader retries.", origin="a.md")
        before = transactions(file)
        report = space.ingest("source", input={"text": "The uploader waits.", "origin": "b.md"})
        assert transactions(file) == before + 1
        told = space.ingest("status", input={"job": report.job})
        assert (told.state, told.done, told.counts) == ("done", 1, {"created": 1})
        assert [item.origin for item in told.items] == ["b.md"]


def test_a_job_reports_what_became_stale_by_the_note_it_was_kept_with(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
        held = decide(space, "Retry three times", note(space, "The uploader retries.", origin="a.md"))
        report = space.ingest("source", input={"text": "It gives up at once.", "origin": "a.md"})
        assert report.staled == (held,)
        told = space.ingest("status", input={"job": report.job})
        assert (told.state, told.staled) == ("done", (held,))


def test_a_reading_that_leaves_nothing_but_what_waits_already_names_no_job(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        reviewed = Policy(direct_channels=frozenset({"user", "system"}))
        space.engine.ledger.change_policy(reviewed, by=Author(actor="eve", channel="user"))
        proposed = space.ingest("source", input=items(2))
        assert (proposed.counts, space.ingest("status", input={"job": proposed.job}).state) == ({"proposed": 2}, "done")
        again = space.ingest("source", input=items(2))
        assert (again.counts, again.job) == ({"proposed": 2}, "")
