"""Connections of a pool that the host program opened, for an engine: used, and left as they were."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

_SECONDS = 20.0


class LentConnections:
    """`pgvector_engine.EngineConnections` over a pool that stays open. `settings` hold in each transaction of ours."""

    def __init__(self, pool: "ConnectionPool[Any]", settings: tuple[tuple[str, str], ...]) -> None:
        self._pool = pool
        self._settings = settings

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Hold a connection in a transaction, which is committed at the end, or rolled back where an error came."""
        with self._pool.connection(_SECONDS) as connection:
            came_with = connection.row_factory, connection.prepare_threshold
            # What is prepared on a connection of the host's is the host's: it may end that at any time.
            connection.row_factory, connection.prepare_threshold = tuple_row, None
            try:
                with connection.transaction():
                    for name, value in self._settings:
                        connection.execute("SELECT set_config(%s, %s, true)", [name, value])
                    yield connection
            finally:
                connection.row_factory, connection.prepare_threshold = came_with

    def close(self) -> None:
        """Do nothing: the pool is closed by whoever opened it."""
