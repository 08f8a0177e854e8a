"""The outcome of long work, kept beside the ledger. Not part of it: neither audited nor exported."""

import json
from collections.abc import Sequence, Set
from itertools import islice

import apsw

from treering.core.objects import Source
from treering.core.scope import sees
from treering.derived.job_rows import Named, sources_in
from treering.edges.ledger_rows.job_records import (
    changed_by_erasure,
    job_of,
    packed_job,
    scope_of_job,
    without_erased,
)
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.tables import JOBS
from treering.ports.jobs import JobRow
from treering.ports.projection import Change


class SqliteJobs:
    """`ports.jobs.JobLog` over a space's `Database`, and the `Follower` that forgets what is erased."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job, durably, without what it tells of objects that were erased while it ran."""
        with self._database.write() as connection:
            kept = without_erased(row, _erased_of(connection, row))
            connection.execute(
                "INSERT INTO jobs(id, body) VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body",
                (job_id, packed_job(job_id, kept)),
            )

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        row = self._database.row("SELECT body FROM jobs WHERE id = ?", (job_id,))
        return job_of(job_id, row[0]) if row else None

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs at, below or above a scope, those begun last first."""
        with self._database.read() as connection:
            rows = (job_of(*row) for row in connection.execute("SELECT id, body FROM jobs ORDER BY row DESC"))
            return list(islice((row for row in rows if sees(scope, scope_of_job(row), descend=True)), limit))

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        named = Named(frozenset(object_ids), frozenset())
        return sum(named.is_in(job_of(*row)) for row in self._database.rows("SELECT id, body FROM jobs"))

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Tell whether the table is there."""
        return next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'"), None) is not None

    def prepare(self, connection: apsw.Connection) -> None:
        """Make the table where it is missing."""
        connection.execute(JOBS)

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Take out of all jobs what they tell of erased objects, in the transaction that erases them."""
        erased = [change for change in changes if change.after is None]
        if not erased:
            return
        jobs = {job: job_of(job, body) for job, body in connection.execute("SELECT id, body FROM jobs")}
        ids = frozenset(change.object_id for change in erased)
        origins = {change.before.origin for change in erased if isinstance(change.before, Source)}
        for job, row in changed_by_erasure(jobs, ids, origins).items():
            connection.execute("UPDATE jobs SET body = ? WHERE id = ?", (packed_job(job, row), job))


def _erased_of(connection: apsw.Connection, row: JobRow) -> Set[str]:
    """Return those of the objects a job names that are in the audit log, but not in the ledger any more."""
    ids = json.dumps(sources_in(row))
    sql = (
        "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM objects WHERE id = value) "
        "AND EXISTS (SELECT 1 FROM audit WHERE target = value)"
    )
    return frozenset(identity for (identity,) in connection.execute(sql, (ids,)))
