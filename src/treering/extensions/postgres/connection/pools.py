"""Connections to a database: limited per process, and shared by all open spaces in it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from treering.core.errors import InvalidInput
from treering.extensions.postgres.connection.failures import translated
from treering.extensions.postgres.connection.target import Target
from treering.extensions.postgres.connection.transactions import PreparingConnection, UnpreparedConnection
from treering.ports.runtime import uninterrupted

_IDLE_SECONDS = 300.0
_SECONDS = 20.0
_OUTAGE_SECONDS = 8.0
"""How long a call waits for a server that cannot be reached. The pool connects after 0, 1, 3 and 7 seconds."""
_DOWN_SECONDS = 1.0
"""How long a call waits for a server that another call could not reach."""
_RECONNECT_SECONDS = 5.0
"""After this time, the pool connects for a new call at once. Otherwise its pauses would grow to minutes."""
_open: "dict[str, Pool]" = {}
_opening = threading.Lock()


class Connections:
    """A limited number of connections. Writers use at most half of them, so that readers never wait for writers."""

    def __init__(self, pool: "ConnectionPool[Any]") -> None:
        self._pool = pool
        self._writers = threading.BoundedSemaphore(pool.max_size // 2)

    def take(self, *, timeout: float) -> PreparingConnection:
        """Acquire a connection. Raises `psycopg_pool.PoolTimeout` if none is available in time."""
        connection: PreparingConnection = self._pool.getconn(timeout)
        return connection

    def put_back(self, connection: PreparingConnection) -> None:
        """Return a connection. One that is broken or in a transaction is reset or closed."""
        self._pool.putconn(connection)

    @contextmanager
    def as_writer(self, *, timeout: float) -> Iterator[bool]:
        """Acquire the right to use a connection for writing; yield whether it was available in time."""
        taken = self._writers.acquire(timeout=timeout)
        try:
            yield taken
        finally:
            if taken:
                self._writers.release()

    def give_up(self) -> None:
        """Release the connections. Does nothing if the program closes them itself."""


class Pool(Connections):
    """Connections to a database, shared by all of its spaces in this process."""

    def __init__(self, target: Target, *, behind_pooler: bool) -> None:
        self._key = target.conninfo
        pool = ConnectionPool(
            target.conninfo,
            connection_class=UnpreparedConnection if behind_pooler else PreparingConnection,
            # The driver would discard all prepared statements with each rollback.
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=0,
            max_size=target.connections,
            max_idle=_IDLE_SECONDS,
            reconnect_timeout=_RECONNECT_SECONDS,
            name="treering",
            open=True,
        )
        super().__init__(pool)
        self.users: int = 0
        self._is_down = False

    def take(self, *, timeout: float) -> PreparingConnection:
        """Acquire a connection. If the server cannot be reached, calls wait briefly, once one of them has waited."""
        failures = self._failures()
        patience = min(timeout, _DOWN_SECONDS if self._is_down else _OUTAGE_SECONDS)
        try:
            connection = super().take(timeout=patience)
        except PoolTimeout:
            self._is_down = self._is_down or self._failures() > failures
            if self._is_down or patience == timeout:
                raise
            connection = super().take(timeout=timeout - patience)  # all connections are in use
        self._is_down = False
        return connection

    def _failures(self) -> int:
        """Return how many attempts to connect have failed."""
        return self._pool.get_stats().get("connections_errors", 0)

    def give_up(self) -> None:
        """Close the connections when the last space releases them."""
        with _opening:
            self.users -= 1
            last = not self.users
            if last:
                _open.pop(self._key, None)
        if last:
            self._pool.close()


def shared_pool(target: Target) -> Pool:
    """Return the connections of this process to a database. Each caller must release them.

    The first caller connects, and the driver's error is raised at once. A server that does not answer does not block
    callers for other servers.
    """
    with _opening:
        is_open = target.conninfo in _open
    behind_pooler = not is_open and _is_behind_pooler(target)
    with _opening:
        pool = _open.get(target.conninfo)
        if pool is None:
            pool = _open[target.conninfo] = Pool(target, behind_pooler=behind_pooler)
        pool.users += 1
        return pool


def _is_behind_pooler(target: Target) -> bool:
    """Connect, and return whether a pooler such as PgBouncer answered: it reports another process than the server."""
    with psycopg.connect(target.conninfo) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        return row != (connection.info.backend_pid,)


def give_back(pool: Connections, connection: PreparingConnection) -> None:
    """Roll back an open transaction, and return the connection to its pool."""
    if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error), uninterrupted():
            connection.execute("ROLLBACK")
    pool.put_back(connection)


@contextmanager
def connected(pool: Pool, place: str) -> Iterator[PreparingConnection]:
    """Lend a connection outside a space's transactions. Errors name `place`."""
    with translated(place):
        connection = pool.take(timeout=_SECONDS)
        try:
            yield connection
        finally:
            give_back(pool, connection)


_FEWEST = 2


def _nothing_noted(_space: int, _sequence: int) -> None:
    """Do nothing: without prepared statements, there are no plans to renew."""


class LentPool(Connections):
    """Connections of a pool of the program, which stays open. Settings of connections are restored afterwards.

    Raises `InvalidInput` for another object, or a pool that is too small to read during a write.
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
        super().__init__(pool)
        self._came_with: dict[int, tuple[bool, Any]] = {}

    def place(self) -> str:
        """Return host, port and name of the database. Raises `Unavailable`."""
        with translated("the pool that was given"), self._pool.connection(_SECONDS) as connection:
            info = connection.info
            return f"{info.host}:{info.port}/{info.dbname}"

    def take(self, *, timeout: float) -> PreparingConnection:
        """Acquire a connection with our settings."""
        connection: Any = self._pool.getconn(timeout)
        self._came_with[id(connection)] = connection.autocommit, connection.row_factory
        try:
            connection.autocommit, connection.row_factory = True, tuple_row
            # No prepared statements, because the program may end them at any time.
            connection.prepares, connection.known = False, {}
            connection.plans, connection.note_growth = [], _nothing_noted
        except BaseException:
            self.put_back(connection)
            raise
        lent: PreparingConnection = connection
        return lent

    def put_back(self, connection: PreparingConnection) -> None:
        """Return a connection with its original settings. The pool drops a broken one."""
        autocommit, row_factory = self._came_with.pop(id(connection))
        connection.row_factory = row_factory
        with suppress(psycopg.Error):
            connection.autocommit = autocommit
        self._pool.putconn(connection)
