"""Leases in a space's database. Operational: neither audited nor exported."""

import apsw

from treering.edges.stores.sqlite.database import Database
from treering.ports.clock import Clock


class SqliteLeases:
    """`ports.lease.Leases` over a space's `Database`, whose tables `SqliteIndex.prepare` makes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease; tell whether `owner` holds it now."""
        with self._database.write() as connection:
            return take_lease(connection, name, owner, now=self._clock.now().timestamp(), seconds=seconds)

    def holder(self, name: str) -> str | None:
        """Tell who holds a lease now."""
        row = self._database.row("SELECT owner, until FROM leases WHERE name = ?", (name,))
        return row[0] if row and row[1] > self._clock.now().timestamp() else None


def take_lease(connection: apsw.Connection, name: str, owner: str, *, now: float, seconds: float) -> bool:
    """Take or renew a lease for `seconds` from `now` (a Unix time); tell whether `owner` holds it."""
    row = next(connection.execute("SELECT owner, until FROM leases WHERE name = ?", (name,)), None)
    if row and row[0] != owner and row[1] > now:
        return False
    sql = "INSERT OR REPLACE INTO leases(name, owner, until) VALUES(?, ?, ?)"
    connection.execute(sql, (name, owner, now + seconds))
    return True
