"""The outcome of long work, kept beside the ledger. Not part of it: neither audited nor exported."""

import json
from collections.abc import Sequence

from treering.core.canonical import canonical_json
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.packing import pack, unpack
from treering.ports.index import JobRow


class SqliteJobs:
    """`ports.index.JobLog` over a space's `Database`, whose tables `SqliteIndex.prepare` makes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job, durably."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO jobs(id, body) VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET body = excluded.body",
                (job_id, pack(canonical_json(dict(row)))),
            )

    def find(self, job_id: str) -> JobRow | None:
        """Give a job's last state."""
        row = self._database.row("SELECT body FROM jobs WHERE id = ?", (job_id,))
        return _parsed(row[0]) if row else None

    def recent(self, limit: int) -> Sequence[JobRow]:
        """Give the newest jobs, those begun last first."""
        rows = self._database.rows("SELECT body FROM jobs ORDER BY row DESC LIMIT ?", (limit,))
        return [_parsed(body) for (body,) in rows]


def _parsed(body: str | bytes) -> JobRow:
    row: JobRow = json.loads(unpack(body))
    return row
