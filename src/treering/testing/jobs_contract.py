"""What every log of jobs must do, as tests.

A backend's own test class inherits `JobsContract`:

class TestMyJobs(JobsContract):
    @pytest.fixture
    def open_jobs(self, clock):
        def open_jobs():
            ledger = MemoryLedger(clock=clock)
            return ledger, MyJobs(ledger)
        return open_jobs
"""

from collections.abc import Callable
from typing import Any

import pytest

from treering.core.objects import Source
from treering.core.patch import Erase
from treering.ports.jobs import JobLog
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder
from treering.testing.clocks import SteppingClock

OpenJobs = Callable[[], tuple[Ledger, JobLog]]
"""Opens a new ledger on the test's clock, and the jobs beside it. The fixture that makes it closes what it opened."""


class JobsContract:
    """Inherit this in a test class and return the fixture `open_jobs`."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    @pytest.fixture
    def make(self, clock: SteppingClock) -> Builder:
        return Builder(clock)

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

    def test_what_a_job_tells_of_erased_objects_goes_with_them(
        self, ledger: Ledger, jobs: JobLog, make: Builder
    ) -> None:
        gone, kept = make.source("Bees."), make.source("Ants.", origin="kept.md")
        ledger.commit(make.patch(gone, kept))
        jobs.save("job:1", _job(gone, kept, target="notes.md"))
        jobs.save("job:2", _job(kept, target="kept.md"))
        assert (jobs.remains([gone.id]), jobs.remains([kept.id]), jobs.remains([gone.id, kept.id])) == (1, 2, 2)
        ledger.commit(make.patch(Erase(id=gone.id, expected_revision=1)))
        assert jobs.remains([gone.id]) == 0
        assert jobs.find("job:1") == {**_job(kept, target="(erased)"), "warnings": []}
        assert jobs.find("job:2") == _job(kept, target="kept.md")

    def test_a_job_that_ends_after_an_erasure_does_not_bring_it_back(
        self, ledger: Ledger, jobs: JobLog, make: Builder
    ) -> None:
        gone = make.source("Bees.")
        ledger.commit(make.patch(gone))
        jobs.save("job:1", _job(gone, target="folder"))
        ledger.commit(make.patch(Erase(id=gone.id, expected_revision=1)))
        jobs.save("job:1", _job(gone, target="folder"))
        assert jobs.remains([gone.id]) == 0
        assert "notes.md" not in str(jobs.find("job:1"))

    def test_what_is_read_again_after_an_erasure_is_told_of(self, ledger: Ledger, jobs: JobLog, make: Builder) -> None:
        gone = make.source("Bees.")
        ledger.commit(make.patch(gone))
        ledger.commit(make.patch(Erase(id=gone.id, expected_revision=1)))
        again = make.source("Bees again.")
        ledger.commit(make.patch(again))
        jobs.save("job:1", _job(again, target="notes.md"))
        assert jobs.find("job:1") == _job(again, target="notes.md")


def _job(*sources: Source, target: str) -> dict[str, Any]:
    """Make what a job of ingest tells of sources."""
    first = sources[0]
    warnings = [f"{first.origin}: cut at 2 MB"] if first.origin == "notes.md" else []
    items = [{"source_id": item.id, "origin": item.origin, "outcome": "created"} for item in sources]
    return {"scope": "/", "target": target, "state": "done", "items": items, "warnings": warnings}
