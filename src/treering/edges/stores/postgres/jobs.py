"""The outcome of long work, kept beside the ledger. Not part of it: neither audited nor exported."""

from collections.abc import Sequence, Set
from itertools import islice

from treering.core.scope import sees
from treering.derived.job_rows import Named, sources_in
from treering.edges.ledger_rows.job_records import (
    changed_by_erasure,
    job_of,
    packed_job,
    scope_of_job,
    without_erased,
)
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.jobs import JobRow

_ALL = "SELECT id, body FROM jobs WHERE space = %(space)s"
_KEEP = (
    "INSERT INTO jobs(space, id, number, body) SELECT %(space)s, %(id)s, coalesce(max(number), 0) + 1, %(body)s "
    "FROM jobs WHERE space = %(space)s ON CONFLICT (space, id) DO UPDATE SET body = excluded.body"
)


class PostgresJobs:
    """`ports.jobs.JobLog` of one space. Erasures take what jobs tell of them in their own transaction."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job, durably, without what it tells of objects that were erased while it ran."""
        # In the turn of a writer: no erasure comes between looking and keeping.
        with self._space.write() as transaction:
            _keep(transaction, job_id, without_erased(row, _erased_of(transaction, row)))

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        with self._space.read() as transaction:
            sql = "SELECT body FROM jobs WHERE space = %(space)s AND id = %(id)s"
            body = transaction.first(sql, id=job_id)
        return None if body is None else job_of(job_id, body)

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs at, below or above a scope, those begun last first."""
        with self._space.read() as transaction:
            newest = transaction.stream("jobs", f"{_ALL} ORDER BY number DESC, id DESC")
            rows = (job_of(*row) for row in newest)
            return list(islice((row for row in rows if sees(scope, scope_of_job(row), descend=True)), limit))

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        named = Named(frozenset(object_ids), frozenset())
        with self._space.read() as transaction:
            return sum(named.is_in(job_of(*row)) for row in transaction.rows(_ALL))


def forget_in_jobs(transaction: Transaction, erased: Set[str], origins: Set[str]) -> None:
    """Take out of all jobs what they tell of objects that this transaction erases, and of where they were read from."""
    jobs = {job: job_of(job, body) for job, body in transaction.rows(_ALL)}
    for job, row in changed_by_erasure(jobs, erased, origins).items():
        _keep(transaction, job, row)


def _keep(transaction: Transaction, job_id: str, row: JobRow) -> None:
    transaction.later(_KEEP, id=job_id, body=packed_job(job_id, row))


def _erased_of(transaction: Transaction, row: JobRow) -> Set[str]:
    """Return those of the objects a job names that are in the audit log, but not in the ledger any more."""
    sql = (
        "SELECT id FROM unnest(%(ids)s::text[]) AS named(id) "
        "WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.space = %(space)s AND o.id = named.id) "
        "AND EXISTS (SELECT 1 FROM audit a WHERE a.space = %(space)s AND a.target = named.id)"
    )
    ids = sources_in(row)
    return frozenset(transaction.column(sql, ids=ids)) if ids else frozenset()
