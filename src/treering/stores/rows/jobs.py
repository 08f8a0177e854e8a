"""Jobs in rows: sealed, parsed, and without data about erased objects."""

import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import islice
from typing import Any

from treering.core.canonical import canonical_json
from treering.core.errors import Corrupt, InvalidInput
from treering.core.scope import sees
from treering.ports.index import Change
from treering.ports.runtime import LONGEST_SECONDS, IsKept, JobRow
from treering.retrieval.index.projection import Named, origins_in, sources_in
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import json_of, pack_sealed, unpack_sealed
from treering.stores.rows.read_checks import Body


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
        if (isinstance(body, str) or any(one in text for one in wanted)) and named.is_in(row := job_of(job, body)):
            yield job, row


class WaitingJobs:
    """Jobs that are stored in the next transaction of their thread (`ports.runtime.JobsInCommits`)."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @contextmanager
    def kept_in_commit(self, job_id: str, row: JobRow) -> Iterator[IsKept]:
        """Store the state of a job in the first transaction of the block that changes objects."""
        rows = self._rows()
        rows[job_id] = row
        try:
            yield lambda: job_id not in rows
        finally:
            rows.pop(job_id, None)

    def come_due(self, changes: Sequence[Change]) -> Iterator[tuple[str, JobRow, Sequence[str]]]:
        """Yield the waiting jobs with the ids in them that this transaction does not write, and remove them."""
        rows = self._rows()
        for job_id in list(rows):
            row, standing = rows.pop(job_id), {change.object_id for change in changes if change.after}
            yield job_id, row, [identity for identity in sources_in(row) if identity not in standing]

    def _rows(self) -> dict[str, JobRow]:
        waiting: dict[str, JobRow] = self._of_thread.__dict__.setdefault("rows", {})
        return waiting


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
