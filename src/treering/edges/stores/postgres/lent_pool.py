"""Connections of a pool that the host program opened, for one space: used, and left as they were."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from treering.core.errors import InvalidInput
from treering.edges.stores.postgres.exchange import PreparingConnection
from treering.edges.stores.postgres.failures import translated

_FEWEST = 2
_SECONDS = 20.0


class _NothingPrepared(dict[Any, int | bytes]):
    """Forgets how often statements were sent on a connection, so that none is ever prepared there."""

    def __setitem__(self, key: Any, value: int | bytes) -> None:
        """Keep nothing."""


class LentPool:
    """`pools.Connections` over a pool that stays open. Its connections go back with the settings they came with.

    Raises `InvalidInput` for what is no such pool, or one too small to read while somebody writes.
    """

    def __init__(self, pool: object) -> None:
        if not isinstance(pool, ConnectionPool):
            raise InvalidInput(
                f"connection: {type(pool).__name__} is not a pool of Postgres connections for threads.",
                hint="Give a psycopg_pool.ConnectionPool, or set memory.postgres.url.",
            )
        if pool.max_size < _FEWEST:
            raise InvalidInput(
                f"connection: the pool has {pool.max_size} connection at most.",
                hint=f"Make it with max_size={_FEWEST} or more: one connection is for writing.",
            )
        self._pool: ConnectionPool[Any] = pool
        self._writers = threading.BoundedSemaphore(pool.max_size // 2)
        self._came_with: dict[int, tuple[bool, Any]] = {}

    def place(self) -> str:
        """Return host, port and name of the database. Raises `Unavailable`."""
        with translated("the pool that was given"), self._pool.connection(_SECONDS) as connection:
            info = connection.info
            return f"{info.host}:{info.port}/{info.dbname}"

    def take(self, *, timeout: float) -> PreparingConnection:
        """Take a connection out, set for our use."""
        connection: Any = self._pool.getconn(timeout)
        self._came_with[id(connection)] = connection.autocommit, connection.row_factory
        try:
            connection.autocommit, connection.row_factory = True, tuple_row
            # What is prepared on a connection of the host's is the host's: it may end that at any time.
            connection.known, connection.names = _NothingPrepared(), 0
        except BaseException:
            self.put_back(connection)
            raise
        lent: PreparingConnection = connection
        return lent

    def put_back(self, connection: psycopg.Connection[Any]) -> None:
        """Give a connection back as it came. The pool drops one that is broken."""
        autocommit, row_factory = self._came_with.pop(id(connection))
        connection.row_factory = row_factory
        with suppress(psycopg.Error):
            connection.autocommit = autocommit
        self._pool.putconn(connection)

    @contextmanager
    def as_writer(self, *, timeout: float) -> Iterator[bool]:
        """Hold the right to take a connection for writing; tell whether it was to be had in time."""
        if not self._writers.acquire(timeout=timeout):
            yield False
            return
        try:
            yield True
        finally:
            self._writers.release()

    def give_up(self) -> None:
        """Do nothing: the pool is closed by whoever opened it."""
