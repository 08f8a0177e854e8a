"""Connections to a database: bounded per process, shared by all spaces of it that are open."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

import psycopg
from psycopg_pool import ConnectionPool

from treering.edges.stores.postgres.exchange import PreparingConnection
from treering.edges.stores.postgres.target import Target
from treering.ports.interrupt import uninterrupted

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
        self.users = 0

    def take(self, *, timeout: float) -> PreparingConnection:
        """Take a connection out. Raises `psycopg_pool.PoolTimeout` where none is free or can be made in time."""
        return self._pool.getconn(timeout)

    def put_back(self, connection: PreparingConnection) -> None:
        """Give a connection back. One that is broken, or was left in a transaction, is not used again as it is."""
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
        """Close the connections when the last space that uses them is closed."""
        with _opening:
            self.users -= 1
            last = not self.users
            if last:
                _open.pop(self._key, None)
        if last:
            self._pool.close()


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
