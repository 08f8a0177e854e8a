"""Access keys in a small SQLite file of their own, shared by any number of servers and commands."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from treering.core.errors import InvalidInput
from treering.ports.stores import AccessKey
from treering.stores.rows.access_keys import COLUMNS, key_of, row_of, taken_name
from treering.stores.sqlite.database import Database
from treering.system.address import Address

APPLICATION_ID = 0x54524B59  # "TRKY"
_VERSION = 3
_SCHEMA = f"""
CREATE TABLE access_keys(
  id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, space TEXT NOT NULL, scope TEXT NOT NULL,
  granted TEXT NOT NULL, channel TEXT NOT NULL, created TEXT NOT NULL, expires TEXT, revoked TEXT, used TEXT,
  per_minute INTEGER, at_once INTEGER, max_body INTEGER, read_up_to TEXT
) STRICT;
CREATE UNIQUE INDEX access_keys_by_name ON access_keys(name) WHERE revoked IS NULL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""
_FROM_2 = f"""
ALTER TABLE access_keys ADD COLUMN read_up_to TEXT;
PRAGMA user_version = {_VERSION};
"""
_FROM_1 = f"""
ALTER TABLE access_keys ADD COLUMN per_minute INTEGER;
ALTER TABLE access_keys ADD COLUMN at_once INTEGER;
ALTER TABLE access_keys ADD COLUMN max_body INTEGER;
{_FROM_2}"""
_UPGRADES = {1: _FROM_1, 2: _FROM_2}
_ALL = f"SELECT {', '.join(COLUMNS)} FROM access_keys"  # noqa: S608 - our own names


def open_access_keys(address: Address, create: bool) -> "SqliteAccessKeys":
    """Open the access keys of a file. Raises as `SqliteAccessKeys`."""
    return SqliteAccessKeys(address, create=create)


class SqliteAccessKeys:
    """`ports.stores.AccessKeys` in one file, whose transactions survive `kill -9` and power loss."""

    def __init__(self, address: Address, *, create: bool) -> None:
        """Open the file of an address. Raises `NotFound` with `create=False`, `InvalidInput` for another file."""
        self._database = Database(address.place, create=create)
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def add(self, key: AccessKey) -> None:
        """Store a new key. Raises `Conflict` if another key with this name is not revoked."""
        marks = ", ".join("?" * len(COLUMNS))
        with self._database.write() as connection:
            if next(
                connection.execute("SELECT 1 FROM access_keys WHERE name = ? AND revoked IS NULL", (key.name,)), None
            ):
                raise taken_name(key.name)
            connection.execute(f"INSERT INTO access_keys({', '.join(COLUMNS)}) VALUES({marks})", row_of(key))

    def find(self, key_id: str) -> AccessKey | None:
        """Return a key, even if it is revoked or has expired."""
        row = self._database.row(f"{_ALL} WHERE id = ?", (key_id,))
        return key_of(row) if row else None

    def all(self) -> Sequence[AccessKey]:
        """Return all keys, the oldest first."""
        return [key_of(row) for row in self._database.rows(f"{_ALL} ORDER BY created, id")]

    def revoke(self, key_id: str, *, at: datetime) -> None:
        """Revoke a key."""
        self._change("UPDATE access_keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (at.isoformat(), key_id))

    def note_use(self, key_id: str, *, at: datetime) -> None:
        """Store the time of the last use of a key."""
        self._change("UPDATE access_keys SET used = ? WHERE id = ?", (at.isoformat(), key_id))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _change(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._database.write() as connection:
            connection.execute(sql, values)

    def _prepare(self) -> None:
        if self._state() == (APPLICATION_ID, _VERSION):
            return
        with self._database.write() as connection:
            state = _state_of(connection)  # another process may have been faster
            if not next(connection.execute("SELECT 1 FROM sqlite_master LIMIT 1"), None):
                connection.execute(_SCHEMA)
            elif state[0] == APPLICATION_ID and state[1] in _UPGRADES:
                connection.execute(_UPGRADES[state[1]])
            elif state != (APPLICATION_ID, _VERSION):
                raise InvalidInput(
                    f"{self._database.path} contains no access keys that this version of Treering can read.",
                    hint="Give another file with --keys; `treering key create` creates it if it does not exist.",
                )

    def _state(self) -> tuple[int, int]:
        with self._database.read() as connection:
            return _state_of(connection)


def _state_of(connection: apsw.Connection) -> tuple[int, int]:
    application = next(connection.execute("PRAGMA application_id"))[0]
    version = next(connection.execute("PRAGMA user_version"))[0]
    return int(application), int(version)
