"""Connections to a database: bounded per process, shared by all spaces of it that are open."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from treering.core.errors import InvalidInput
from treering.extensions.postgres.connection.failures import translated
from treering.extensions.postgres.connection.target import Target
from treering.extensions.postgres.connection.transactions import PreparingConnection
from treering.ports.runtime import uninterrupted

_IDLE_SECONDS = 300.0
_open: "dict[str, Pool]" = {}
_opening = threading.Lock()


class Connections(Protocol):
    """A bounded number of connections, of which at most some are held by writers."""

    def take(self, *, timeout: float) -> PreparingConnection:
        """Take a connection out. Raises `psycopg_pool.PoolTimeout` where none is free or can be made in time."""
        ...

    def put_back(self, connection: PreparingConnection) -> None:
        """Give a connection back."""
        ...

    def as_writer(self, *, timeout: float) -> AbstractContextManager[bool]:
        """Hold the right to take a connection for writing; tell whether it was to be had in time."""
        ...

    def give_up(self) -> None:
        """Tell that the connections are not used any more."""
        ...


class Pool:
    """A bounded number of connections. Half of them, at most, are held by writers: readers never wait for these."""

    def __init__(self, target: Target) -> None:
        self._key = target.conninfo
        self._pool = ConnectionPool(
            target.conninfo,
            connection_class=PreparingConnection,
            # The driver would forget all that is prepared with each transaction that is rolled back.
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=0,
            max_size=target.connections,
            max_idle=_IDLE_SECONDS,
            name="treering",
            open=True,
        )
        self._writers = threading.BoundedSemaphore(target.connections // 2)
        self.users: int = 0

    def take(self, *, timeout: float) -> PreparingConnection:
        """Take a connection out. Raises `psycopg_pool.PoolTimeout` where none is free or can be made in time."""
        return self._pool.getconn(timeout)

    def put_back(self, connection: PreparingConnection) -> None:
        """Give a connection back. One that is broken, or was left in a transaction, is not used again as it is."""
        self._pool.putconn(connection)

    def as_writer(self, *, timeout: float) -> AbstractContextManager[bool]:
        """Hold the right to take a connection for writing; tell whether it was to be had in time."""
        return _held(self._writers, timeout)

    def give_up(self) -> None:
        """Close the connections when the last space that uses them is closed."""
        with _opening:
            self.users -= 1
            last = not self.users
            if last:
                _open.pop(self._key, None)
        if last:
            self._pool.close()


@contextmanager
def _held(places: threading.BoundedSemaphore, timeout: float) -> Iterator[bool]:
    """Hold one of some places; tell whether one was to be had in time."""
    taken = places.acquire(timeout=timeout)
    try:
        yield taken
    finally:
        if taken:
            places.release()


def shared_pool(target: Target) -> Pool:
    """Return the connections of this process to a database; each caller gives them up again.

    The first caller tries the address: what is wrong with it is raised as the driver says it, at once. A server that
    does not answer holds up nobody who wants another one.
    """
    with _opening:
        is_open = target.conninfo in _open
    if not is_open:
        psycopg.connect(target.conninfo).close()
    with _opening:
        pool = _open.get(target.conninfo)
        if pool is None:
            pool = _open[target.conninfo] = Pool(target)
        pool.users += 1
        return pool


def give_back(pool: Connections, connection: PreparingConnection) -> None:
    """Roll back what is open on a connection, and give it back to its pool."""
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error), uninterrupted():
            connection.execute("ROLLBACK")
    pool.put_back(connection)


# Connections of a pool that the host program opened, for one space: used, and left as they were.


_FEWEST = 2
_SECONDS = 20.0


def _nothing_noted(_space: int, _sequence: int) -> None:
    """Note nothing: of a connection on which nothing is prepared, no plans are kept."""


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
                f"connection: {type(pool).__name__} is not a thread-safe pool of Postgres connections.",
                hint="Give a psycopg_pool.ConnectionPool, or set memory.postgres.url.",
            )
        if pool.max_size < _FEWEST:
            raise InvalidInput(
                f"connection: the pool has at most {pool.max_size} connection.",
                hint=f"Create it with max_size={_FEWEST} or more: one connection is for writing.",
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
            connection.plans, connection.note_growth = [], _nothing_noted
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

    def as_writer(self, *, timeout: float) -> AbstractContextManager[bool]:
        """Hold the right to take a connection for writing; tell whether it was to be had in time."""
        return _held(self._writers, timeout)

    def give_up(self) -> None:
        """Do nothing: the pool is closed by whoever opened it."""
