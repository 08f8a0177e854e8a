"""Leases in a space's database: neither audited nor exported."""

import os
from collections.abc import Sequence
from typing import Any

import apsw

from treering.ports.runtime import LONGEST_SECONDS, Clock, Holding
from treering.stores.rows.jobs import check_lease_length
from treering.stores.sqlite.database import Database

_COLUMNS = "SELECT name, owner, process, renewed, seconds FROM held_leases"


class SqliteLeases:
    """`ports.runtime.Leases` over a space's `Database`. `SqliteIndex.prepare` creates the table."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Acquire or renew a lease; return whether `owner` holds it."""
        check_lease_length(seconds)
        with self._database.write() as connection:
            now = self._clock.elapsed()
            known = _find(connection, name, now)
            if known and known.owner != owner:
                return False
            if not seconds:
                _sweep(connection, name, now)
                return True
            sql = "INSERT OR REPLACE INTO held_leases(name, owner, process, renewed, seconds) VALUES(?, ?, ?, ?, ?)"
            connection.execute(sql, (name, owner, os.getpid(), now, seconds))
            return True

    def holder(self, name: str) -> str | None:
        """Return the owner of a lease, or `None`."""
        with self._database.read() as connection:
            known = _find(connection, name, self._clock.elapsed())
        return known.owner if known else None

    def held(self) -> Sequence[Holding]:
        """Return the current leases, by name."""
        rows = self._database.rows(f"{_COLUMNS} ORDER BY name")
        now = self._clock.elapsed()
        return [known for row in rows if (known := _holding(row, now))]

    def clear(self, name: str) -> Holding | None:
        """Remove a lease from its owner; return it."""
        with self._database.write() as connection:
            known = _find(connection, name, self._clock.elapsed())
            connection.execute("DELETE FROM held_leases WHERE name = ?", (name,))
        return known


def _find(connection: apsw.Connection, name: str, now: float) -> Holding | None:
    row = next(connection.execute(f"{_COLUMNS} WHERE name = ?", (name,)), None)
    return _holding(row, now) if row else None


def _sweep(connection: apsw.Connection, name: str, now: float) -> None:
    """Remove a lease and all that are over: their names contain scopes, which may be erased."""
    sql = "DELETE FROM held_leases WHERE name = ? OR renewed > ? OR renewed + min(seconds, ?) <= ?"
    connection.execute(sql, (name, now, LONGEST_SECONDS, now))


def _holding(row: tuple[Any, ...], now: float) -> Holding | None:
    """Return a lease; `None` if it has expired or was acquired before the machine started."""
    name, owner, process, renewed, seconds = row
    if not all(isinstance(value, int | float) for value in (process, renewed, seconds)):
        return None  # a row of another program is not a lease; the next owner replaces it
    age = now - renewed
    left = min(seconds, LONGEST_SECONDS) - age
    return Holding(name, owner, process, age, left) if age >= 0 and left > 0 else None
