"""Taking a database from one version of the schema to the next, while its spaces are used."""

import time
from collections.abc import Iterator

import psycopg
from psycopg import errors

from treering.core.errors import InvalidInput
from treering.edges.stores.postgres.schema import SCHEMA, VERSIONS, Versions

_LOCK = 0x7472_6565_7269_6E67
"""The advisory lock that whoever migrates a database holds."""
_LOCK_MS = 300
_PAUSE_SECONDS = 0.3
_ATTEMPTS = 100


def is_current(connection: psycopg.Connection, versions: Versions = VERSIONS) -> bool:
    """Tell whether the database has all steps of all versions. Raises `InvalidInput` where it has newer ones."""
    return next(_left(versions, _done(connection)), None) is None


def migrate(connection: psycopg.Connection, versions: Versions = VERSIONS) -> None:
    """Make the steps that are missing, each in a transaction of its own.

    Of several processes one makes them, and the others wait. Where a process ends between two steps, the next one goes
    on from there. Spaces are used meanwhile: a step that finds a table in use lets others go first and tries again.
    Raises `InvalidInput` for a database of a newer Treering, `psycopg.errors.LockNotAvailable` where a table is in use
    for very long. `connection` is in no transaction.
    """
    connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    try:
        with connection.transaction():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {SCHEMA}.migrations(version integer, step integer, "
                "PRIMARY KEY(version, step))"
            )
        for version, step in list(_left(versions, _done(connection))):
            _make(connection, versions[version - 1][step - 1], version, step)
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))


def _make(connection: psycopg.Connection, sql: str, version: int, step: int) -> None:
    """Make a step. Behind a lock that is waited for everybody else waits, too: so it is waited for in small bits."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_MS}ms'")
                connection.execute(sql)
                noted = f"INSERT INTO {SCHEMA}.migrations(version, step) VALUES(%s, %s)"
                connection.execute(noted, (version, step))
        except errors.LockNotAvailable:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _done(connection: psycopg.Connection) -> set[tuple[int, int]]:
    try:
        rows = connection.execute(f"SELECT version, step FROM {SCHEMA}.migrations").fetchall()  # noqa: S608 - our own name
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return set()
    return {(version, step) for version, step in rows}


def _left(versions: Versions, done: set[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return version and step of what is to be made, in order."""
    newest = max((version for version, _ in done), default=0)
    if newest > len(versions):
        raise InvalidInput(
            f"The database was written by a newer Treering (schema {newest}, this one knows {len(versions)}).",
            hint="Upgrade Treering: pip install --upgrade treering.",
        )
    for version, steps in enumerate(versions, start=1):
        yield from ((version, step) for step in range(1, len(steps) + 1) if (version, step) not in done)
