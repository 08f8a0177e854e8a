"""Access keys in a table of a database, shared by all servers of its spaces."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import psycopg

from treering.extensions.postgres.connection.failures import translated
from treering.extensions.postgres.connection.pools import connected, shared_pool
from treering.extensions.postgres.connection.schema import SCHEMA
from treering.extensions.postgres.connection.target import database_of
from treering.extensions.postgres.connection.transactions import PreparingConnection
from treering.ports.stores import AccessKey
from treering.stores.rows.access_keys import COLUMNS, key_of, row_of, taken_name
from treering.system.address import SPACE, Address

TABLE = "access_keys"
_TABLE = f"{SCHEMA}.{TABLE}"
_TEXT = 'text COLLATE "C"'
# A separate table, created with the first key or by a plan. It belongs to no space and no version of the schema.
MADE = f"""
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS {_TABLE}(
  id {_TEXT} PRIMARY KEY, name {_TEXT} NOT NULL, digest bytea NOT NULL, space {_TEXT} NOT NULL, scope {_TEXT} NOT NULL,
  granted {_TEXT} NOT NULL, channel {_TEXT} NOT NULL, created {_TEXT} NOT NULL, expires {_TEXT}, revoked {_TEXT},
  used {_TEXT}, per_minute bigint, at_once bigint, max_body bigint, read_up_to {_TEXT}
);
ALTER TABLE {_TABLE} ADD COLUMN IF NOT EXISTS per_minute bigint, ADD COLUMN IF NOT EXISTS at_once bigint,
  ADD COLUMN IF NOT EXISTS max_body bigint, ADD COLUMN IF NOT EXISTS read_up_to {_TEXT};
CREATE UNIQUE INDEX IF NOT EXISTS access_keys_by_name ON {_TABLE}(name) WHERE revoked IS NULL;
"""
_LOCK = 0x7472_6565_6B65_7973
"""The advisory lock for creating the table, which would fail if two processes created it concurrently."""
_STATE = """
SELECT to_regclass(%s) IS NOT NULL,
  EXISTS(SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'read_up_to')
"""
_ALL = f"SELECT {', '.join(COLUMNS)} FROM {_TABLE}"  # noqa: S608 - our own names


def open_access_keys(address: Address, create: bool) -> "PostgresAccessKeys":
    """Open the access keys of a database, which always has them."""
    del create
    return PostgresAccessKeys(address)


class PostgresAccessKeys:
    """`ports.stores.AccessKeys` in a database. The address may be that of any of its spaces."""

    def __init__(self, address: Address) -> None:
        """Connect to the database. Raises `InvalidInput`, `Unavailable`."""
        options = tuple(option for option in address.options if option[0] != SPACE)
        target = database_of(replace(address, options=options))
        self._place = target.shown
        self._is_made = False
        with translated(self._place):
            self._pool = shared_pool(target)

    def add(self, key: AccessKey) -> None:
        """Store a new key. Raises `Conflict` if another key with this name is not revoked."""
        marks = ", ".join(["%s"] * len(COLUMNS))
        with connected(self._pool, self._place) as connection, connection.transaction():
            _make(connection)
            try:
                connection.execute(f"INSERT INTO {_TABLE}({', '.join(COLUMNS)}) VALUES({marks})", row_of(key))
            except psycopg.errors.UniqueViolation as error:
                raise taken_name(key.name) from error

    def find(self, key_id: str) -> AccessKey | None:
        """Return a key, even if it is revoked or has expired."""
        rows = self._rows(f"{_ALL} WHERE id = %s", (key_id,))
        return rows[0] if rows else None

    def all(self) -> Sequence[AccessKey]:
        """Return all keys, the oldest first."""
        return self._rows(f"{_ALL} ORDER BY created, id", ())

    def revoke(self, key_id: str, *, at: datetime) -> None:
        """Revoke a key."""
        self._change(f"UPDATE {_TABLE} SET revoked = %s WHERE id = %s AND revoked IS NULL", at, key_id)  # noqa: S608

    def note_use(self, key_id: str, *, at: datetime) -> None:
        """Store the time of the last use of a key."""
        self._change(f"UPDATE {_TABLE} SET used = %s WHERE id = %s", at, key_id)  # noqa: S608 - our own names

    def close(self) -> None:
        """Return the connections to their pool."""
        self._pool.give_up()

    def _rows(self, sql: str, values: Sequence[str]) -> list[AccessKey]:
        with connected(self._pool, self._place) as connection:
            self._is_made = self._is_made or _is_made(connection)
            if not self._is_made:
                return []
            return [key_of(row) for row in connection.execute(sql, values)]

    def _change(self, sql: str, at: datetime, key_id: str) -> None:
        with connected(self._pool, self._place) as connection:
            connection.execute(sql, (at.isoformat(), key_id))


def _is_made(connection: PreparingConnection) -> bool:
    """Return whether the table exists, after upgrading one of an older version."""
    row = connection.execute(_STATE, (_TABLE, _TABLE)).fetchone()
    there, current = row or (False, False)
    if there and not current:
        with connection.transaction():
            _make(connection)
    return bool(there)


def _make(connection: PreparingConnection) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    connection.execute(MADE)
