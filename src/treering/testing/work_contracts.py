"""What every log of jobs, all leases and every projection must do, as tests.

A backend's own test class inherits `JobsContract`, or `ProjectionContract`: for any history and any cut, catching up
equals rebuilding.

class TestMyJobs(JobsContract):
    @pytest.fixture
    def open_jobs(self, clock):
        def open_jobs():
            ledger = MemoryLedger(clock=clock)
            return ledger, MyJobs(ledger)
        return open_jobs

class TestMyProjection(ProjectionContract):
    @pytest.fixture
    def open_projection(self, clock):
        def open_projection():
            projection = MyProjection()
            return MemoryLedger(clock=clock), projection, projection.contents
        return open_projection
"""

import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.errors import InvalidInput, NotFound
from treering.core.objects import Source
from treering.ports.index import Projection
from treering.ports.ledger import Ledger
from treering.ports.runtime import LONGEST_SECONDS, JobLog, JobsInCommits, Leases
from treering.retrieval.index.projection import FeedPosition, follow
from treering.testing.builders import Builder
from treering.testing.fakes import START, SteppingClock
from treering.testing.index_contract.histories import HistoryWriter, Step, histories
from treering.testing.index_contract.stage import LedgerWriter
from treering.testing.ledger_contract.stage import LedgerStage, erasing, updating
from treering.testing.memory_ledger import MemoryLedger

OpenJobs = Callable[[], tuple[Ledger, JobLog]]
"""Open a new ledger with the clock of the test, and its job log. The fixture closes them."""


class JobsContract(LedgerStage):
    """Inherit this in a test class and return the fixture `open_jobs`."""

    @pytest.fixture
    def opened(self, open_jobs: OpenJobs) -> tuple[Ledger, JobLog]:
        return open_jobs()

    @pytest.fixture
    def ledger(self, opened: tuple[Ledger, JobLog]) -> Ledger:
        return opened[0]

    @pytest.fixture
    def jobs(self, opened: tuple[Ledger, JobLog]) -> JobLog:
        return opened[1]

    def test_the_last_state_of_a_job_is_kept(self, jobs: JobLog) -> None:
        jobs.save("job:1", {"state": "running", "done": 1, "scope": "/a"})
        jobs.save("job:1", {"state": "done", "done": 2, "scope": "/a"})
        assert jobs.find("job:1") == {"state": "done", "done": 2, "scope": "/a"}
        assert jobs.find("job:3") is None

    def test_what_was_saved_does_not_change_with_what_was_given(self, jobs: JobLog) -> None:
        row: dict[str, Any] = {"scope": "/", "items": [{"outcome": "created"}]}
        jobs.save("job:1", row)
        row["items"].append({"outcome": "failed"})
        assert jobs.find("job:1") == {"scope": "/", "items": [{"outcome": "created"}]}

    def test_the_newest_begun_come_first_and_no_more_than_asked_for(self, jobs: JobLog) -> None:
        for number in (1, 2, 3, 1):
            jobs.save(f"job:{number}", {"number": number, "scope": "/"})
        assert [row["number"] for row in jobs.recent(5, scope="/")] == [3, 2, 1]
        assert [row["number"] for row in jobs.recent(2, scope="/")] == [3, 2]

    def test_jobs_are_seen_at_below_and_above_their_scope(self, jobs: JobLog) -> None:
        jobs.save("job:1", {"number": 1, "scope": "/a"})
        jobs.save("job:2", {"number": 2, "scope": "/b"})
        assert [row["number"] for row in jobs.recent(5, scope="/")] == [2, 1]
        assert [row["number"] for row in jobs.recent(5, scope="/a/below")] == [1]
        assert list(jobs.recent(5, scope="/c")) == []

    def test_a_row_without_a_scope_is_found_by_its_id_alone(self, jobs: JobLog) -> None:
        jobs.save("kept", {"scope": None, "items": []})
        assert list(jobs.recent(5, scope="/")) == []
        assert jobs.find("kept") == {"scope": None, "items": []}

    def test_what_a_job_tells_of_erased_objects_goes_with_them(
        self, ledger: Ledger, jobs: JobLog, make: Builder
    ) -> None:
        gone, kept = make.source("Bees."), make.source("Ants.", origin="kept.md")
        ledger.commit(make.patch(gone, kept))
        jobs.save("job:1", _job(gone, kept, target="notes.md"))
        jobs.save("job:2", _job(kept, target="kept.md"))
        assert (jobs.remains([gone.id]), jobs.remains([kept.id]), jobs.remains([gone.id, kept.id])) == (1, 2, 2)
        ledger.commit(make.patch(erasing(gone.id)))
        assert jobs.remains([gone.id]) == 0
        assert jobs.find("job:1") == {**_job(kept, target="(erased)"), "warnings": []}
        assert jobs.find("job:2") == _job(kept, target="kept.md")

    def test_a_job_that_ends_after_an_erasure_does_not_bring_it_back(
        self, ledger: Ledger, jobs: JobLog, make: Builder
    ) -> None:
        gone = make.source("Bees.")
        ledger.commit(make.patch(gone))
        jobs.save("job:1", _job(gone, target="folder"))
        ledger.commit(make.patch(erasing(gone.id)))
        jobs.save("job:1", _job(gone, target="folder"))
        assert jobs.remains([gone.id]) == 0
        assert "notes.md" not in str(jobs.find("job:1"))

    def test_a_job_is_kept_with_what_a_block_commits_or_not_at_all(
        self, ledger: Ledger, jobs: JobLog, make: Builder
    ) -> None:
        if not isinstance(jobs, JobsInCommits):
            pytest.skip("this log lies elsewhere than its ledger")
        one, other = make.source("Bees."), make.source("Ants.", origin="kept.md")
        row = _job(one, target="notes.md")
        with jobs.kept_in_commit("job:1", row) as is_kept:
            assert not is_kept()
            ledger.commit(make.patch(one))
            assert is_kept()
        assert jobs.find("job:1") == row
        with jobs.kept_in_commit("job:2", row) as is_kept:
            with pytest.raises(NotFound):
                ledger.commit(make.patch(erasing(other.id)))
            assert not is_kept()
        ledger.commit(make.patch(other))
        assert jobs.find("job:2") is None
        ledger.commit(make.patch(erasing(one.id)))
        assert jobs.remains([one.id]) == 0

    def test_a_job_that_is_kept_with_a_commit_tells_nothing_that_was_erased_before(
        self, ledger: Ledger, jobs: JobLog, make: Builder
    ) -> None:
        if not isinstance(jobs, JobsInCommits):
            pytest.skip("this log lies elsewhere than its ledger")
        gone, other = make.source("Bees."), make.source("Ants.", origin="kept.md")
        ledger.commit(make.patch(gone))
        ledger.commit(make.patch(erasing(gone.id)))
        with jobs.kept_in_commit("job:1", _job(gone, other, target="folder")):
            ledger.commit(make.patch(other))
        assert jobs.remains([gone.id]) == 0
        assert jobs.remains([other.id]) == 1

    def test_what_is_read_again_after_an_erasure_is_told_of(self, ledger: Ledger, jobs: JobLog, make: Builder) -> None:
        gone = make.source("Bees.")
        ledger.commit(make.patch(gone))
        ledger.commit(make.patch(erasing(gone.id)))
        again = make.source("Bees again.")
        ledger.commit(make.patch(again))
        jobs.save("job:1", _job(again, target="notes.md"))
        assert jobs.find("job:1") == _job(again, target="notes.md")


def _job(*sources: Source, target: str) -> dict[str, Any]:
    """Return the sources recorded by an ingest job."""
    first = sources[0]
    warnings = [f"{first.origin}: cut at 2 MB"] if first.origin == "notes.md" else []
    items = [{"source_id": item.id, "origin": item.origin, "outcome": "created"} for item in sources]
    return {"scope": "/", "target": target, "state": "done", "items": items, "warnings": warnings}


# What all leases must do, as tests.


class LeaseContract:
    """Inherit this in a test class and return the fixture `leases`, new ones by the test's clock."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    def test_a_lease_has_one_owner(self, leases: Leases) -> None:
        assert leases.take("work", "ada", seconds=60)
        assert leases.take("work", "bob", seconds=60) is False
        assert leases.holder("work") == "ada"

    def test_leases_of_other_names_are_free(self, leases: Leases) -> None:
        assert leases.take("work", "ada", seconds=60)
        assert leases.take("rest", "bob", seconds=60)

    def test_an_owner_takes_its_lease_again(self, leases: Leases, clock: SteppingClock) -> None:
        leases.take("work", "ada", seconds=60)
        clock.set(START + timedelta(seconds=50))
        assert leases.take("work", "ada", seconds=60)
        clock.set(START + timedelta(seconds=100))
        assert leases.holder("work") == "ada"

    def test_a_lease_that_is_not_renewed_in_time_is_anybodys(self, leases: Leases, clock: SteppingClock) -> None:
        leases.take("work", "ada", seconds=60)
        clock.set(START + timedelta(seconds=59.5))
        assert leases.holder("work") == "ada"
        clock.set(START + timedelta(seconds=61))
        assert leases.holder("work") is None
        assert leases.take("work", "bob", seconds=60)
        assert not leases.take("work", "ada", seconds=60)

    def test_a_lease_is_given_back_with_no_seconds(self, leases: Leases) -> None:
        leases.take("work", "ada", seconds=60)
        leases.take("work", "ada", seconds=0)
        assert leases.holder("work") is None
        assert leases.take("work", "bob", seconds=60)

    def test_nobody_gives_back_what_another_holds(self, leases: Leases) -> None:
        leases.take("work", "ada", seconds=60)
        assert not leases.take("work", "bob", seconds=0)
        assert leases.holder("work") == "ada"

    def test_nobody_holds_what_was_never_taken(self, leases: Leases) -> None:
        assert leases.holder("work") is None
        assert list(leases.held()) == []
        assert leases.clear("work") is None

    def test_what_is_held_is_listed_by_name_with_its_times(self, leases: Leases, clock: SteppingClock) -> None:
        leases.take("work", "ada", seconds=60)
        leases.take("rest", "bob", seconds=30)
        leases.take("past", "eve", seconds=10)
        clock.set(START + timedelta(seconds=20))
        rest, work = leases.held()
        assert [(one.name, one.owner, one.process) for one in (rest, work)] == [
            ("rest", "bob", os.getpid()),
            ("work", "ada", os.getpid()),
        ]
        assert [work.renewed, work.left, rest.renewed, rest.left] == pytest.approx([20, 40, 20, 10], abs=0.1)

    def test_a_lease_can_be_taken_away_and_its_owner_learns_it_when_renewing(self, leases: Leases) -> None:
        leases.take("work", "ada", seconds=60)
        taken = leases.clear("work")
        assert taken is not None
        assert (taken.name, taken.owner) == ("work", "ada")
        assert leases.take("work", "bob", seconds=60)
        assert not leases.take("work", "ada", seconds=60)

    def test_nobody_takes_one_for_longer_than_a_day(self, leases: Leases) -> None:
        with pytest.raises(InvalidInput, match="too long"):
            leases.take("work", "ada", seconds=LONGEST_SECONDS + 1)
        assert leases.holder("work") is None
        assert leases.take("work", "ada", seconds=LONGEST_SECONDS)

    def test_of_many_threads_one_gets_the_lease(self, leases: Leases) -> None:
        begin, got = threading.Barrier(8), []

        def take(number: int) -> None:
            begin.wait(10)
            if leases.take("work", f"owner {number}", seconds=60):
                got.append(number)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1


Contents = Callable[[], object]
"""Returns the state of a projection as a comparable value."""

OpenProjection = Callable[[], tuple[Projection, Contents]]
"""Open a new projection. The fixture closes it."""


class ProjectionContract(LedgerStage):
    """Inherit this in a test class and return the fixture `open_projection`."""

    @pytest.fixture
    def ledger(self, clock: SteppingClock) -> Ledger:
        return MemoryLedger(clock=clock)

    def test_a_new_one_begins_at_the_beginning(self, open_projection: OpenProjection) -> None:
        projection, _ = open_projection()
        assert projection.cursor == 0

    def test_the_cursor_moves_over_events_that_change_nothing(self, open_projection: OpenProjection) -> None:
        projection, contents = open_projection()
        before = contents()
        projection.apply([], upto=7)
        assert projection.cursor == 7
        assert contents() == before

    def test_changes_that_were_applied_are_not_applied_again(
        self, open_projection: OpenProjection, ledger: Ledger, make: Builder
    ) -> None:
        projection, contents = open_projection()
        source = make.source("Bees hum.", "Ants dig.")
        ledger.commit(make.patch(source))
        ledger.commit(make.patch(updating(source.id, title="Notes")))
        projection.apply(ledger.changes(0, 1), upto=1)
        projection.apply(ledger.changes(0, 2), upto=2)
        once = contents()
        projection.apply(ledger.changes(0, 2), upto=2)
        projection.apply(ledger.changes(0, 1), upto=1)
        assert (projection.cursor, contents()) == (2, once)
        assert once == _anew(open_projection, ledger)

    def test_what_was_erased_is_gone(self, open_projection: OpenProjection, ledger: Ledger, make: Builder) -> None:
        projection, contents = open_projection()
        empty = contents()
        source = make.source("Bees hum.")
        ledger.commit(make.patch(source))
        follow(ledger, projection)
        assert contents() != empty
        ledger.commit(make.patch(erasing(source.id)))
        follow(ledger, projection)
        assert contents() == empty

    def test_one_that_was_cleared_starts_over(
        self, open_projection: OpenProjection, ledger: Ledger, make: Builder
    ) -> None:
        projection, contents = open_projection()
        empty = contents()
        ledger.commit(make.patch(make.source("Bees hum.")))
        follow(ledger, projection)
        grown = contents()
        projection.clear()
        assert (projection.cursor, contents()) == (0, empty)
        assert follow(ledger, projection) == FeedPosition(1, 1)
        assert contents() == grown

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=histories, cuts=st.lists(st.integers(0, 4), min_size=25, max_size=25))
    def test_catching_up_equals_rebuilding(
        self, open_projection: OpenProjection, steps: Sequence[Step], cuts: Sequence[int]
    ) -> None:
        clock = SteppingClock()
        ledger = MemoryLedger(clock=clock)
        projection, contents = open_projection()
        history = HistoryWriter(LedgerWriter(ledger, clock))
        for step, size in zip(steps, cuts, strict=False):
            history.take(step)
            follow(ledger, projection, size, batch=2)
        follow(ledger, projection, batch=3)
        assert contents() == _anew(open_projection, ledger)


def _anew(open_projection: OpenProjection, ledger: Ledger) -> object:
    projection, contents = open_projection()
    follow(ledger, projection)
    return contents()
