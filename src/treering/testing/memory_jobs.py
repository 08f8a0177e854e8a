"""The log of jobs in memory: what `ports.jobs.JobLog` means, for a log that lives elsewhere than the ledger."""

import json
from collections.abc import Sequence, Set
from threading import RLock

from treering.core.objects import Object, Source
from treering.core.scope import sees
from treering.derived.following import follow
from treering.derived.job_rows import Named, origins_in
from treering.ports.jobs import JobRow
from treering.ports.ledger import Ledger
from treering.ports.projection import Change


class MemoryJobs:
    """`ports.jobs.JobLog` that ends with the process.

    It learns of erasures from the ledger's changes, which it follows before each call (`derived.following.follow`).
    """

    def __init__(self, ledger: Ledger) -> None:
        self.cursor = 0
        self._ledger = ledger
        self._lock = RLock()
        self._rows: dict[str, JobRow] = {}
        self._origins: dict[str, set[str]] = {}
        """By source: where it was read from."""
        self._erased: set[str] = set()

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job, without what it tells of objects that were erased while it ran."""
        with self._followed():
            kept: JobRow = json.loads(json.dumps(dict(row)))
            # By what this job says alone: what was erased may have been read again from where it was read.
            named = Named(self._erased, frozenset(origins_in(kept, self._erased)))
            self._rows[job_id] = named.without(kept) if named.is_in(kept) else kept

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        with self._followed():
            return self._rows.get(job_id)

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs at, below or above a scope, those begun last first."""
        with self._followed():
            newest = list(reversed(self._rows.values()))
        return [row for row in newest if sees(scope, row["scope"], descend=True)][:limit]

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        named = Named(frozenset(object_ids))
        with self._followed():
            return sum(map(named.is_in, self._rows.values()))

    def apply(self, changes: Sequence[Change], *, upto: int) -> None:
        """Take out of all jobs what they tell of objects that were erased."""
        for change in changes:
            self._note_origins(change.before, change.after)
        if erased := {change.object_id for change in changes if change.after is None}:
            self._erased |= erased
            self._forget(erased)
        self.cursor = upto

    def clear(self) -> None:
        """Begin anew to look for erasures. The jobs themselves are made of no changes, and stay."""
        self.cursor = 0
        self._origins, self._erased = {}, set()

    def _followed(self) -> RLock:
        """Return the lock, once the ledger's erasures are known."""
        with self._lock:
            follow(self._ledger, self)
        return self._lock

    def _note_origins(self, *items: Object | None) -> None:
        for item in items:
            if isinstance(item, Source):
                self._origins.setdefault(item.id, set()).add(item.origin)

    def _forget(self, ids: Set[str]) -> None:
        told = {origin for row in self._rows.values() for origin in origins_in(row, ids)}
        named = Named(ids, told.union(*(self._origins.pop(identity, ()) for identity in ids)))
        self._rows |= {job: named.without(row) for job, row in self._rows.items() if named.is_in(row)}
