"""The port of jobs: what long work has done so far, per item, across crashes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

JobRow = Mapping[str, Any]


class JobLog(Protocol):
    """Remembers the outcome of long work. Operational, not part of the ledger."""

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job."""
        ...

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        ...

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs that ran at a scope, below it, or at one of its ancestors."""
        ...

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects; 0 after they were erased."""
        ...
