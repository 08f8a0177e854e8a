"""The view of a space for a caller with access to one scope and the scopes below it.

`verbs.scoped_ledger` only organizes: a call sees the ancestors of its scope, and may name any scope. This view is
access control: nothing outside of its scopes is shown, named or counted, and nothing outside of the first one is
changed, whatever the call requests.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from treering.core.patch import Patch, PatchRecord
from treering.core.scope import WHOLE_SPACE, Boundary, is_within
from treering.extensions.server.confined_index import ConfinedIndex
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.runtime import IsKept, JobLog, JobRow, JobsInCommits
from treering.retrieval.index.lookup import IndexLookup
from treering.verbs.engine import Engine
from treering.verbs.scoped_ledger import ScopedLedger

_MAX_JOBS = 1_000


def confined(engine: Engine, boundary: Boundary, *, index: Index | None = None) -> Engine:
    """Return an engine with access to the scopes of a boundary; the same engine for the whole space.

    `index`: its index within the boundary, if there is one already. Caches belong to an index.
    """
    if boundary == WHOLE_SPACE:
        return engine
    index = index or ConfinedIndex(engine.index, boundary)
    return replace(
        engine,
        ledger=ConfinedLedger(engine.ledger, boundary),
        index=index,
        lookup=IndexLookup(index),
        jobs=SeenJobs(engine.jobs, lambda row: is_within(str(row["scope"]), boundary.scope)),
    )


def with_jobs_of(engine: Engine, holder: str, *, sees_all: bool) -> Engine:
    """Return an engine that stores jobs for a holder, and sees only those unless it `sees_all`."""
    return replace(
        engine, jobs=SeenJobs(engine.jobs, lambda row: sees_all or row.get("holder") == holder, holder=holder)
    )


class ConfinedLedger(ScopedLedger):
    """A ledger limited to the scopes of a boundary."""

    def __init__(self, ledger: Ledger, boundary: Boundary) -> None:
        super().__init__(ledger, scope=boundary.scope, descend=True)
        self.boundary = boundary

    def _placed(self, patch: Patch) -> Patch:
        """Leave a patch at its scope if that is within this one; ids above the boundary are unknown to it."""
        placed = patch if patch.scope and is_within(patch.scope, self._scope) else super()._placed(patch)
        return placed.model_copy(update={"top": self.boundary.top or self.boundary.scope})

    def _key(self, key: str | None) -> str | None:
        """Return an idempotency key unchanged: the view of the call's scope has qualified it already."""
        return key

    def _sees(self, scope: str) -> bool:
        return self.boundary.holds(scope)

    def _holds(self, record: PatchRecord) -> bool:
        """Return whether a patch may be reviewed here: patches of scopes above may not, even if those are readable."""
        return record.scope is not None and is_within(record.scope, self._scope)


class SeenJobs:
    """A `ports.runtime.JobLog` limited to the jobs for which `sees` returns true.

    `holder`: the holder of saved jobs that name none.
    """

    def __init__(self, jobs: JobLog, sees: Callable[[JobRow], bool], *, holder: str = "") -> None:
        self._jobs = jobs
        self._sees = sees
        self._holder = holder

    def save(self, job_id: str, row: JobRow) -> None:
        """Save the state of a job."""
        self._jobs.save(job_id, self._held(row))

    @contextmanager
    def kept_in_commit(self, job_id: str, row: JobRow) -> Iterator[IsKept]:
        """Save the state of a job in a transaction of the block, if the log can."""
        if not isinstance(self._jobs, JobsInCommits):
            yield lambda: False
            return
        with self._jobs.kept_in_commit(job_id, self._held(row)) as is_kept:
            yield is_kept

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state; `None` if it is unknown or hidden."""
        row = self._jobs.find(job_id)
        return row if row and self._sees(row) else None

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest visible jobs."""
        return [row for row in self._jobs.recent(_MAX_JOBS, scope=scope) if self._sees(row)][:limit]

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        return self._jobs.remains(object_ids)

    def _held(self, row: JobRow) -> JobRow:
        return {**row, "holder": row.get("holder") or self._holder}
