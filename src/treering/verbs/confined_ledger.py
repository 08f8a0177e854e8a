"""What somebody sees of a space who is let into one scope only: that scope, and what lies below it.

A scope alone (`scoped_ledger`) organises: a call at it sees its ancestors too, and a call may name any scope. This is
for access control: nothing above and nothing beside is told of, named or changed, whatever the call asks for.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from treering.core.errors import NotFound
from treering.core.objects import Object
from treering.core.patch import Patch, PatchRecord, Receipt
from treering.core.scope import ROOT, is_within
from treering.core.writing.plan import Plan, named_in
from treering.ports.ledger import Ledger, missing_object
from treering.ports.runtime import IsKept, JobLog, JobRow, JobsInCommits
from treering.verbs.engine import Engine
from treering.verbs.scoped_ledger import ScopedLedger

_MOST_JOBS = 1_000


def confined(engine: Engine, *, scope: str) -> Engine:
    """Return an engine that knows nothing of what lies outside of a scope; the same one for the root."""
    if scope == ROOT:
        return engine
    ledger = ConfinedLedger(engine.ledger, scope=scope)
    return replace(engine, ledger=ledger, jobs=SeenJobs(engine.jobs, lambda row: is_within(str(row["scope"]), scope)))


def with_jobs_of(engine: Engine, holder: str, *, sees_all: bool) -> Engine:
    """Return an engine that keeps jobs in the name of a holder, and knows those alone unless it `sees_all`."""
    return replace(
        engine, jobs=SeenJobs(engine.jobs, lambda row: sees_all or row.get("holder") == holder, holder=holder)
    )


class ConfinedLedger(ScopedLedger):
    """A ledger of which only a scope and what lies below it is there."""

    def __init__(self, ledger: Ledger, *, scope: str) -> None:
        super().__init__(ledger, scope=scope, descend=True)
        self.scope = scope

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
        """Apply a patch. Raises `NotFound` for an id in it that lies elsewhere."""
        self._check_names(patch)
        return super().commit(patch, idempotency_key=idempotency_key)

    def preview(self, patch: Patch) -> Plan:
        """Plan a patch. Raises as `commit` does."""
        self._check_names(patch)
        return super().preview(patch)

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
        """Keep a patch for review. Raises as `commit` does."""
        self._check_names(patch)
        return super().propose(patch, idempotency_key=idempotency_key)

    def _placed(self, patch: Patch) -> Patch:
        """Leave a patch at the scope it was made at, which lies in this one: `confinement` holds it to that."""
        return patch if patch.scope and is_within(patch.scope, self._scope) else super()._placed(patch)

    def _key(self, key: str | None) -> str | None:
        """Return an idempotency key as the view of the call's scope has made it."""
        return key

    def _sees(self, scope: str) -> bool:
        return is_within(scope, self._scope)

    def _check_names(self, patch: Patch) -> None:
        """Raise `NotFound` for an object that a patch names and that lies elsewhere, as for one that is not there."""
        known = _Known(self.whole)
        named = {identity for operation in patch.operations for identity in named_in(operation, known)}
        for identity, head in self.whole.heads(named).items():
            if not self._sees(head.scope):
                raise missing_object(identity)


class SeenJobs:
    """`ports.runtime.JobLog` of which only the jobs that `sees` is true of are there.

    `holder`: in whose name a job is kept that says nothing of it.
    """

    def __init__(self, jobs: JobLog, sees: Callable[[JobRow], bool], *, holder: str = "") -> None:
        self._jobs = jobs
        self._sees = sees
        self._holder = holder

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job."""
        self._jobs.save(job_id, self._held(row))

    @contextmanager
    def kept_in_commit(self, job_id: str, row: JobRow) -> Iterator[IsKept]:
        """Keep the state of a job in a transaction of the block, where the log can."""
        if not isinstance(self._jobs, JobsInCommits):
            yield lambda: False
            return
        with self._jobs.kept_in_commit(job_id, self._held(row)) as is_kept:
            yield is_kept

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state; `None` for one that is not seen."""
        row = self._jobs.find(job_id)
        return row if row and self._sees(row) else None

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs that are seen."""
        return [row for row in self._jobs.recent(_MOST_JOBS, scope=scope) if self._sees(row)][:limit]

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        return self._jobs.remains(object_ids)

    def _held(self, row: JobRow) -> JobRow:
        return {**row, "holder": row.get("holder") or self._holder}


@dataclass(frozen=True, slots=True)
class _Known:
    """The objects of a ledger, as `core.writing.plan` asks for them."""

    ledger: Ledger

    def get(self, identity: str) -> Object | None:
        """Return the current revision, or `None`."""
        try:
            return self.ledger.get(identity)
        except NotFound:
            return None
