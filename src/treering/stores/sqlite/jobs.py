"""Jobs in a space's database: neither audited nor exported."""

import json
from collections.abc import Iterator, Sequence, Set

import apsw

from treering.stores.rows.jobs import DatabaseJobs
from treering.stores.rows.read_checks import Body
from treering.stores.sqlite.index.tables import JOBS

_ALL = "SELECT id, body FROM jobs"


class SqliteJobs(DatabaseJobs[apsw.Connection]):
    """The jobs of a space over connections of its `Database`."""

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Return whether the table exists."""
        return next(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'"), None) is not None

    def prepare(self, connection: apsw.Connection) -> None:
        """Create the table if it is missing."""
        connection.execute(JOBS)

    def _body(self, connection: apsw.Connection, job_id: str) -> Body | None:
        row = next(connection.execute("SELECT body FROM jobs WHERE id = ?", (job_id,)), None)
        return row[0] if row else None

    def _all(self, connection: apsw.Connection) -> Iterator[tuple[str, Body]]:
        return connection.execute(_ALL)

    def _newest(self, connection: apsw.Connection) -> Iterator[tuple[str, Body]]:
        return connection.execute(f"{_ALL} ORDER BY row DESC")

    def _put(self, connection: apsw.Connection, job_id: str, body: bytes) -> None:
        sql = "INSERT INTO jobs(id, body) VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body"
        connection.execute(sql, (job_id, body))

    def _erased_among(self, connection: apsw.Connection, ids: Sequence[str]) -> Set[str]:
        sql = (
            "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM objects WHERE id = value) "
            "AND EXISTS (SELECT 1 FROM audit WHERE target = value)"
        )
        return frozenset(identity for (identity,) in connection.execute(sql, (json.dumps(ids),)))
