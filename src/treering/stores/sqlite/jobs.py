"""Jobs in a space's database: neither audited nor exported."""

import json
from collections.abc import Sequence, Set

import apsw

from treering.core.objects import Source
from treering.ports.index import Change
from treering.ports.runtime import JobRow
from treering.retrieval.index.projection import sources_in
from treering.stores.rows.jobs import (
    WaitingJobs,
    changed_by_erasure,
    job_of,
    jobs_naming,
    jobs_seen,
    packed_job,
    without_erased,
)
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.tables import JOBS


class SqliteJobs(WaitingJobs):
    """`ports.runtime.JobLog` over a space's `Database`, and the `Follower` that removes erased data from jobs."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    def save(self, job_id: str, row: JobRow) -> None:
        """Store the state of a job durably, without data about objects that were erased while it ran."""
        with self._database.write() as connection:
            _keep_job(connection, job_id, row, sources_in(row))

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        row = self._database.row("SELECT body FROM jobs WHERE id = ?", (job_id,))
        return job_of(job_id, row[0]) if row else None

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest jobs at, below or above a scope, the last started ones first."""
        with self._database.read() as connection:
            return jobs_seen(connection.execute("SELECT id, body FROM jobs ORDER BY row DESC"), scope, limit)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        return jobs_naming(self._database.rows("SELECT id, body FROM jobs"), object_ids)

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Return whether the table exists."""
        return next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'"), None) is not None

    def prepare(self, connection: apsw.Connection) -> None:
        """Create the table if it is missing."""
        connection.execute(JOBS)

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Store the jobs that wait for this transaction, and remove data about erased objects from all jobs."""
        for job, row, ids in self.come_due(changes):
            _keep_job(connection, job, row, ids)
        if erased := [change for change in changes if change.after is None]:
            self._forget(connection, erased)

    def _forget(self, connection: apsw.Connection, erased: Sequence[Change]) -> None:
        jobs = list(connection.execute("SELECT id, body FROM jobs"))
        ids = frozenset(change.object_id for change in erased)
        origins = {change.before.origin for change in erased if isinstance(change.before, Source)}
        for job, row in changed_by_erasure(jobs, ids, origins).items():
            connection.execute("UPDATE jobs SET body = ? WHERE id = ?", (packed_job(job, row), job))


def _keep_job(connection: apsw.Connection, job_id: str, row: JobRow, ids: Sequence[str]) -> None:
    """Store a job without data about those of the ids that are erased."""
    remaining = without_erased(row, _erased_among(connection, ids))
    connection.execute(
        "INSERT INTO jobs(id, body) VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body",
        (job_id, packed_job(job_id, remaining)),
    )


def _erased_among(connection: apsw.Connection, ids: Sequence[str]) -> Set[str]:
    """Return the ids that are in the audit log, but no longer in the ledger."""
    if not ids:
        return frozenset()
    sql = (
        "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM objects WHERE id = value) "
        "AND EXISTS (SELECT 1 FROM audit WHERE target = value)"
    )
    return frozenset(identity for (identity,) in connection.execute(sql, (json.dumps(ids),)))
