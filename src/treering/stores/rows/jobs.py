"""Jobs in rows: sealed, parsed, and without data about erased objects."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, Generic, TypeVar

from treering.core.canonical import canonical_json
from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Source
from treering.core.scope import sees
from treering.ports.index import Change
from treering.ports.runtime import LONGEST_SECONDS, IsKept, JobRow
from treering.retrieval.index.projection import Named, origins_in, sources_in
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import json_of, pack_sealed, unpack_sealed
from treering.stores.rows.read_checks import Body

T = TypeVar("T")


def packed_job(job_id: str, row: JobRow) -> bytes:
    """Pack a job for its row."""
    return pack_sealed(canonical_json(dict(row)), name=job_id)


def job_of(job_id: str, body: str | bytes) -> JobRow:
    """Unpack a job. Raises `Corrupt` for a damaged row."""
    with row_of("a job"):
        row = json_of(unpack_sealed(body, name=job_id))
    if not isinstance(row, dict):
        raise Corrupt("The record of a job is damaged.", hint="Restore the space from a backup.")
    return row


def _scope_of_job(row: JobRow) -> str:
    """Return the scope of a job. Raises `Corrupt` for a damaged row."""
    with row_of("a job"):
        return str(row["scope"])


def jobs_seen(rows: Iterable[tuple[str, Body]], scope: str, limit: int) -> list[JobRow]:
    """Return the first jobs at, below or above a scope. `rows`: ids and bodies."""
    jobs = (job for row in rows if (job := job_of(*row)).get("scope", "") is not None)
    return list(islice((job for job in jobs if sees(scope, _scope_of_job(job), descend=True)), limit))


def jobs_naming(rows: Iterable[tuple[str, Body]], object_ids: Sequence[str]) -> int:
    """Count the jobs that name one of some objects. `rows`: ids and bodies."""
    return sum(1 for _ in _naming(rows, Named(frozenset(object_ids))))


def without_erased(row: JobRow, erased: Set[str]) -> JobRow:
    """Return a job without its data about erased objects."""
    return Named(erased, frozenset(_origins(row, erased))).without(row) if erased else dict(row)


def changed_by_erasure(
    rows: Sequence[tuple[str, Body]], erased: Set[str], origins: Set[str]
) -> dict[str, dict[str, Any]]:
    """Return the jobs with data about erased objects or their origins, without this data, by id."""
    earlier = (_origins(row, erased) for _, row in _naming(rows, Named(erased)))
    named = Named(erased, frozenset(origins).union(*earlier))
    return {job: named.without(row) for job, row in _naming(rows, named)}


def _naming(rows: Iterable[tuple[str, Body]], named: Named) -> Iterator[tuple[str, JobRow]]:
    """Yield the jobs that name one of some objects. Others are not checked, because a job may have thousands of items.

    A sealed job is written by `canonical_json`, which has one form for each string.
    """
    wanted = [canonical_json(one)[1:-1] for one in (*named.ids, *named.origins)]
    for job, body in rows:
        with row_of("a job"):
            text = unpack_sealed(body, name=None)
        is_read = len(wanted) > _MAX_SEARCHED or isinstance(body, str) or any(one in text for one in wanted)
        if is_read and named.is_in(row := job_of(job, body)):
            yield job, row


_MAX_SEARCHED = 50
"""To search a row for more names takes longer than to parse it."""


class DatabaseJobs(ABC, Generic[T]):
    """`ports.runtime.JobLog` in the ledger's database, and the `Follower` that removes erased data from jobs.

    Jobs may also be stored in the next transaction of their thread (`ports.runtime.JobsInCommits`).
    """

    def __init__(
        self, read: Callable[[], AbstractContextManager[T]], write: Callable[[], AbstractContextManager[T]]
    ) -> None:
        self._read = read
        self._write = write
        self._of_thread = threading.local()

    def save(self, job_id: str, row: JobRow) -> None:
        """Store the state of a job durably, without data about objects that were erased while it ran."""
        # In a write transaction, so that no erasure happens in between.
        with self._write() as transaction:
            self._keep(transaction, job_id, row, sources_in(row))

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        with self._read() as transaction:
            body = self._body(transaction, job_id)
        return None if body is None else job_of(job_id, body)

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest jobs at, below or above a scope, the last started ones first."""
        with self._read() as transaction:
            return jobs_seen(self._newest(transaction), scope, limit)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        with self._read() as transaction:
            return jobs_naming(self._all(transaction), object_ids)

    def follow(self, transaction: T, changes: Sequence[Change], /) -> None:
        """Store the jobs that wait for this transaction, and remove data about erased objects from all jobs."""
        for job, row, named in self._come_due(changes):
            self._keep(transaction, job, row, named)
        if erased := [change for change in changes if change.after is None]:
            ids = frozenset(change.object_id for change in erased)
            origins = {change.before.origin for change in erased if isinstance(change.before, Source)}
            for job, row in changed_by_erasure(list(self._all(transaction)), ids, origins).items():
                self._put(transaction, job, packed_job(job, row))

    @contextmanager
    def kept_in_commit(self, job_id: str, row: JobRow) -> Iterator[IsKept]:
        """Store the state of a job in the first transaction of the block that changes objects."""
        rows = self._rows()
        rows[job_id] = row
        try:
            yield lambda: job_id not in rows
        finally:
            rows.pop(job_id, None)

    def _come_due(self, changes: Sequence[Change]) -> Iterator[tuple[str, JobRow, Sequence[str]]]:
        """Yield the waiting jobs with the ids in them that this transaction does not write, and remove them."""
        rows = self._rows()
        for job_id in list(rows):
            row, standing = rows.pop(job_id), {change.object_id for change in changes if change.after}
            yield job_id, row, [identity for identity in sources_in(row) if identity not in standing]

    def _rows(self) -> dict[str, JobRow]:
        waiting: dict[str, JobRow] = self._of_thread.__dict__.setdefault("rows", {})
        return waiting

    def _keep(self, transaction: T, job_id: str, row: JobRow, ids: Sequence[str]) -> None:
        """Store a job without the data of ids that are erased."""
        erased = self._erased_among(transaction, ids) if ids else frozenset()
        self._put(transaction, job_id, packed_job(job_id, without_erased(row, erased)))

    @abstractmethod
    def _body(self, transaction: T, job_id: str) -> Body | None: ...

    @abstractmethod
    def _all(self, transaction: T) -> Iterable[tuple[str, Body]]: ...

    @abstractmethod
    def _newest(self, transaction: T) -> Iterable[tuple[str, Body]]:
        """Return all jobs, the last started ones first."""

    @abstractmethod
    def _put(self, transaction: T, job_id: str, body: bytes) -> None: ...

    @abstractmethod
    def _erased_among(self, transaction: T, ids: Sequence[str]) -> Set[str]:
        """Return the ids that are in the audit log, but no longer in the ledger."""


def _origins(row: JobRow, ids: Set[str]) -> list[str]:
    with row_of("a job"):
        return list(origins_in(row, ids))


def check_lease_length(seconds: float) -> None:
    """Raise `InvalidInput` if a lease would block others for too long."""
    if seconds > LONGEST_SECONDS:
        raise InvalidInput(
            f"A lease of {seconds:g} seconds is too long; at most {LONGEST_SECONDS:g} are allowed.",
            hint="Request a shorter lease and renew it.",
        )
