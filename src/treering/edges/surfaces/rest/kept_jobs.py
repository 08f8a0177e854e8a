"""The row of one job in a space's log of jobs, written by the server that runs it."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from treering.ports.clock import Clock
from treering.ports.interrupt import check_between_steps, uninterrupted
from treering.ports.jobs import JobLog
from treering.ports.jobs import JobRow as StoredRow
from treering.tools.engine import Engine
from treering.tools.ingest_report import ENDED, JobError, JobRow, JobState


class KeptJob:
    """Keeps a job, and is the log of jobs to the call that does its work: so both write one row.

    Safe to use from many threads.
    """

    def __init__(self, log: JobLog, row: JobRow, clock: Clock) -> None:
        self._log = log
        self._row = row
        self._clock = clock
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """The job's id."""
        return self._row.id

    def lend(self, engine: Engine) -> Engine:
        """Return the engine of the call that does the job's work."""
        return replace(engine, jobs=self, job=self.id)

    def turn(self, state: JobState, *errors: JobError) -> None:
        """Keep that the job is in another state now."""
        with self._lock:
            self._keep(self._row.model_copy(update={"state": state, "errors": errors}))

    def touch(self) -> None:
        """Keep that the job is still alive. One that nobody heard of for a minute counts as interrupted."""
        with self._lock:
            if self._row.state not in ENDED:
                self._keep(self._row)

    def save(self, job_id: str, row: StoredRow) -> None:
        """Keep what the call has done so far. Raises what ends the call, if it has to end."""
        with self._lock:
            # The call does not know who asked for it, nor whether anything comes after what it tells of.
            ours = {"state": "running", "holder": self._row.holder, "request": self._row.request}
            self._keep(JobRow.model_validate({**row, "id": job_id, **ours}))
        check_between_steps()

    def find(self, job_id: str) -> StoredRow | None:
        """Return a job's last state."""
        return self._log.find(job_id)

    def recent(self, limit: int, *, scope: str) -> Sequence[StoredRow]:
        """Return the newest jobs."""
        return self._log.recent(limit, scope=scope)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        return self._log.remains(object_ids)

    def _keep(self, row: JobRow) -> None:
        self._row = row.model_copy(update={"updated_at": self._clock.now()})
        with uninterrupted():
            self._log.save(self._row.id, self._row.model_dump(mode="json"))
