"""Leases in a space's database. Operational: neither audited nor exported.

A row holds when the lease was renewed, by the clock of the machine that nobody sets (`ports.clock.Clock.elapsed`), and
its length. All processes that share the file share that clock, for SQLite's WAL works on one machine only. It begins
anew when the machine starts: a lease that was renewed in the future is one from before, and its holder is gone.
"""

import os
from collections.abc import Sequence
from typing import Any

import apsw

from treering.core.errors import InvalidInput
from treering.edges.stores.sqlite.database import Database
from treering.ports.clock import Clock
from treering.ports.lease import LONGEST_SECONDS, Holding

_COLUMNS = "SELECT name, owner, process, renewed, seconds FROM held_leases"


class SqliteLeases:
    """`ports.lease.Leases` over a space's `Database`, whose tables `SqliteIndex.prepare` makes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease; tell whether `owner` holds it now."""
        if seconds > LONGEST_SECONDS:
            raise InvalidInput(
                f"A lease of {seconds:g} seconds is too long; at most {LONGEST_SECONDS:g} are allowed.",
                hint="Take it for less, and renew it.",
            )
        with self._database.write() as connection:
            now = self._clock.elapsed()
            known = _find(connection, name, now)
            if known and known.owner != owner:
                return False
            sql = "INSERT OR REPLACE INTO held_leases(name, owner, process, renewed, seconds) VALUES(?, ?, ?, ?, ?)"
            connection.execute(sql, (name, owner, os.getpid(), now, seconds))
            return True

    def holder(self, name: str) -> str | None:
        """Tell who holds a lease now."""
        with self._database.read() as connection:
            known = _find(connection, name, self._clock.elapsed())
        return known.owner if known else None

    def held(self) -> Sequence[Holding]:
        """List the leases that are held now, by name."""
        rows = self._database.rows(f"{_COLUMNS} ORDER BY name")
        now = self._clock.elapsed()
        return [known for row in rows if (known := _holding(row, now))]

    def clear(self, name: str) -> Holding | None:
        """Take a lease away from its owner; return what was held."""
        with self._database.write() as connection:
            known = _find(connection, name, self._clock.elapsed())
            connection.execute("DELETE FROM held_leases WHERE name = ?", (name,))
        return known


def _find(connection: apsw.Connection, name: str, now: float) -> Holding | None:
    row = next(connection.execute(f"{_COLUMNS} WHERE name = ?", (name,)), None)
    return _holding(row, now) if row else None


def _holding(row: tuple[Any, ...], now: float) -> Holding | None:
    """Return a lease as it stands; `None` where its time is over, or it is of a time before the machine started."""
    name, owner, process, renewed, seconds = row
    if not all(isinstance(value, int | float) for value in (process, renewed, seconds)):
        return None  # a row that something else wrote holds nothing: the next who takes the lease replaces it
    age = now - renewed
    left = min(seconds, LONGEST_SECONDS) - age
    return Holding(name, owner, process, age, left) if age >= 0 and left > 0 else None
