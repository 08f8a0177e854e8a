"""Jobs as rows keep them: sealed, read again, and without what they tell of erased objects."""

from collections.abc import Mapping, Set

from treering.core.canonical import canonical_json
from treering.core.errors import Corrupt
from treering.derived.job_rows import Named, origins_in
from treering.edges.ledger_rows.packing import json_of, pack_sealed, unpack_sealed
from treering.edges.ledger_rows.row_failures import row_of
from treering.ports.jobs import JobRow


def packed_job(job_id: str, row: JobRow) -> bytes:
    """Return a job as its row keeps it."""
    return pack_sealed(canonical_json(dict(row)), name=job_id)


def job_of(job_id: str, body: str | bytes) -> JobRow:
    """Return what `packed_job` packed. Raises `Corrupt` for a damaged row."""
    with row_of("a job"):
        row = json_of(unpack_sealed(body, name=job_id))
    if not isinstance(row, dict):
        raise Corrupt("The record of a job is damaged.", hint="Restore the space from a backup.")
    return row


def scope_of_job(row: JobRow) -> str:
    """Return the scope a job works at. Raises `Corrupt` for a damaged row."""
    with row_of("a job"):
        return str(row["scope"])


def without_erased(row: JobRow, erased: Set[str]) -> JobRow:
    """Return a job without what it tells of objects that are erased, by their ids."""
    return Named(erased, frozenset(_origins(row, erased))).without(row) if erased else dict(row)


def changed_by_erasure(jobs: Mapping[str, JobRow], erased: Set[str], origins: Set[str]) -> dict[str, JobRow]:
    """Return those jobs that tell of erased objects or of where these were read from, without it, by job."""
    named = Named(erased, frozenset(origins).union(*(_origins(row, erased) for row in jobs.values())))
    return {job: named.without(row) for job, row in jobs.items() if named.is_in(row)}


def _origins(row: JobRow, ids: Set[str]) -> list[str]:
    with row_of("a job"):
        return list(origins_in(row, ids))
