"""An engine in a Postgres with pgvector: one table per space, with an HNSW index in half precision if it is large."""

import json
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import psycopg
from psycopg import errors
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import EngineAddress, OpenEngine
from treering.extensions.engines.server_engine import (
    REBUILD,
    ServerEngine,
    check_dimension,
    invalid_address,
    invalid_connection,
    refused,
)
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.retrieval.index.tables import EXACT_ROWS
from treering.system.address import Address

_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)


def copied(vectors: Mapping[int, Vector]) -> bytes:
    """Return keys and vectors of one dimension in the format of binary COPY."""
    dimension = len(next(iter(vectors.values())))
    row = np.dtype(
        [
            *(("fields", ">i2"), ("key_size", ">i4"), ("key", ">i8")),
            *(("size", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("values", ">f4", (dimension,))),
        ]
    )
    rows = np.zeros(len(vectors), row)
    rows["fields"], rows["key_size"], rows["size"], rows["dimension"] = 2, 8, 4 + 4 * dimension, dimension
    rows["key"] = list(vectors)
    rows["values"] = np.stack(list(vectors.values()))
    return _BEGIN + rows.tobytes() + _END


def written(vector: Vector) -> str:
    """Return a vector as text."""
    return f"[{','.join(map(str, vector.tolist()))}]"


MOST_DIMENSIONS = 4_000
"""The maximal dimension that pgvector can index."""

_SCHEMA = "treering_vectors"
_MOST_ALLOWED = 100_000  # filtered passages that the server compares one by one
_LINKS, _BREADTH_OF_BUILDING = 16, 64
_BREADTH, _MOST_BREADTH = 200, 1_000  # with 40, pgvector's default, one of the 16 nearest is missed among 100,000
# More vectors need more than 200. Recall of the nearest 50 of a million passages (vectors of the static model, real
# questions): 0.937 for 200, 0.956 for 300, 0.970 for 432, 0.981 for 700 and 0.987 for 1,000, at 9, 14, 17, 26 and 36 ms
# of CPU on a busy server. Vectors of the built-in encoder are harder: of 100,000 passages, 0.958 for 200, 0.973 for
# 300, 0.981 for 400.
_BREADTH_IS_FOR, _BREADTH_GROWS = 100_000, 0.5
_MORE = 20  # additional results in half precision that are compared exactly
_BYTES_OF_LINKS = 800  # memory per vector for building the graph, besides its components
_MOST_MEMORY = 2 * 2**30
_MAKE = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS {_SCHEMA};
CREATE TABLE IF NOT EXISTS {_SCHEMA}.engines(mark text PRIMARY KEY, state text NOT NULL);
"""
_STATE = f"SELECT state FROM {_SCHEMA}.engines WHERE mark = %s"  # noqa: S608 - our schema
_KEEP = f"INSERT INTO {_SCHEMA}.engines VALUES(%s, %s) ON CONFLICT (mark) DO UPDATE SET state = excluded.state"
_SETTINGS = (("hnsw.ef_search", str(_BREADTH)), ("hnsw.iterative_scan", "strict_order"))
_INSTALL = "Install pgvector 0.8 or newer, and run `CREATE EXTENSION vector` there as a superuser."


class EngineConnections(Protocol):
    """The connections of an engine to its server. Thread-safe."""

    def transaction(self) -> AbstractContextManager[psycopg.Connection]:
        """Open a connection in a transaction; commit at the end, or roll back on an error."""
        ...

    def close(self) -> None:
        """Close the engine's own connections. Idempotent."""
        ...


class PgvectorEngine(ServerEngine):
    """`ports.vector_engine.VectorEngine` over a table of one database. Changes are applied in one transaction.

    A table of `EXACT_ROWS` vectors or more is searched by an HNSW index; otherwise, and with a filter, all vectors
    are compared.
    """

    def __init__(self, connections: EngineConnections, shown: str, mark: str, dimension: int) -> None:
        super().__init__(shown, dimension)
        self._connections = connections
        self._mark = mark
        # One table per space, because an index over several would miss most results of one of them.
        self._name = f"space_{blake2b(mark.encode(), digest_size=12).hexdigest()}"
        self._table = f"{_SCHEMA}.{self._name}"
        # The index in half precision takes half the space. Its results are compared exactly.
        self._half = f"(vector::halfvec({dimension}))"

    @property
    def kind(self) -> str:
        """The name of the engine for users, with the kind of search."""
        with self._connected() as connection:
            return "pgvector HNSW" if self._is_indexed(connection) else "pgvector, every vector compared"

    def state(self) -> EngineState | None:
        """Return the stored state."""
        with self._connected() as connection:
            return self._state(connection)

    def begin(self, state: EngineState) -> None:
        """Create an empty table, replacing an existing one."""
        with self._connected() as connection:
            with self._installing():
                connection.execute(_MAKE)
            connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            columns = f"key bigint PRIMARY KEY, vector vector({self._dimension}) NOT NULL"
            with self._installing():
                connection.execute(f"CREATE TABLE {self._table}({columns})")
            self._keep(connection, replace(state, count=0))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Apply changes and store the new state in one transaction."""
        self._check(changes)
        with self._connected() as connection:
            before = self._state(connection)
            sql = f"DELETE FROM {self._table} WHERE key = ANY(%s)"  # noqa: S608 - our table
            gone = connection.execute(sql, [list(changes.keys)]).rowcount if changes.keys else 0
            if changes.vectors:
                sql = f"COPY {self._table}(key, vector) FROM STDIN (FORMAT BINARY)"
                with connection.cursor() as cursor, cursor.copy(sql) as copy:
                    copy.write(copied(changes.vectors))
            count = (before.count if before else 0) - gone + len(changes.vectors)
            self._keep(connection, replace(state, count=count))
        if state.loaded is None and not changes.left:
            self._build_graph()

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest passages; `None` if too many are allowed."""
        check_dimension(vector, self._dimension)
        if allowed is not None and len(allowed) > _MOST_ALLOWED:
            return None
        with self._connected() as connection:
            which, values = "", {"query": written(vector), "limit": limit}
            if allowed is not None:
                which, values["allowed"] = "WHERE key = ANY(%(allowed)s)", allowed.tolist()
            elif self._may_walk(connection):
                nearest = f"ORDER BY {self._half} <=> %(query)s::halfvec({self._dimension}) LIMIT %(more)s"
                which, values["more"] = nearest, limit + _MORE
            sql = (
                f"WITH compared AS MATERIALIZED (SELECT key, vector FROM {self._table} {which}) "  # noqa: S608 - our table
                "SELECT key FROM compared ORDER BY vector <=> %(query)s::vector, key LIMIT %(limit)s"
            )
            rows = connection.execute(sql, values).fetchall()
        return np.array([key for (key,) in rows], np.int64)

    def drop(self) -> None:
        """Drop the table and the state."""
        with self._connected() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            if self._is_made(connection):
                connection.execute(f"DELETE FROM {_SCHEMA}.engines WHERE mark = %s", [self._mark])  # noqa: S608 - our schema

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _build_graph(self) -> None:
        """Create the index when there are enough vectors. Until then, searches compare all of them."""
        with self._connected() as connection:
            state = self._state(connection)
            if state is None or state.count < EXACT_ROWS or self._is_indexed(connection):
                return
            needed = state.count * (2 * self._dimension + _BYTES_OF_LINKS)
            connection.execute(f"SET LOCAL maintenance_work_mem = '{min(needed, _MOST_MEMORY) // 1024 + 65_536}kB'")
            connection.execute(
                f"CREATE INDEX {self._name}_graph ON {self._table} USING hnsw ({self._half} halfvec_cosine_ops) "
                f"WITH (m = {_LINKS}, ef_construction = {_BREADTH_OF_BUILDING})"
            )

    def _state(self, connection: psycopg.Connection) -> EngineState | None:
        if not self._is_made(connection):
            return None
        row = connection.execute(_STATE, [self._mark]).fetchone()
        return None if row is None else self._state_in(row[0])

    def _keep(self, connection: psycopg.Connection, state: EngineState) -> None:
        connection.execute(_KEEP, [self._mark, json.dumps(asdict(state))])

    def _is_made(self, connection: psycopg.Connection) -> bool:
        return _first(connection, "SELECT to_regclass(%s) IS NOT NULL", f"{_SCHEMA}.engines")

    def _is_indexed(self, connection: psycopg.Connection) -> bool:
        return _first(connection, "SELECT to_regclass(%s) IS NOT NULL", f"{self._table}_graph")

    def _may_walk(self, connection: psycopg.Connection) -> bool:
        """Return whether there is an index, and set the breadth of its search by the number of vectors."""
        times = f"greatest(1, power(greatest(reltuples, 0) / {_BREADTH_IS_FOR}, {_BREADTH_GROWS}))"
        breadth = f"least({_MOST_BREADTH}, {_BREADTH} * {times})::integer::text"
        sql = f"SELECT set_config('hnsw.ef_search', {breadth}, true) FROM pg_class WHERE oid = to_regclass(%s)"  # noqa: S608 - our own numbers
        return connection.execute(sql, [f"{self._table}_graph"]).fetchone() is not None

    @contextmanager
    def _installing(self) -> Iterator[None]:
        """Convert errors of a server without pgvector to errors with a hint for installing it."""
        try:
            yield
        except (errors.InsufficientPrivilege, errors.UndefinedFile, errors.FeatureNotSupported) as error:
            raise Unavailable(f"{self._shown} cannot store vectors: {_line(error)}.", hint=_INSTALL) from error
        except errors.UndefinedObject as error:
            raise Unavailable(f"{self._shown} has no type `halfvec`.", hint=_INSTALL) from error

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        """Open a connection in a transaction, and convert errors."""
        try:
            with self._connections.transaction() as connection:
                yield connection
        except errors.UndefinedTable as error:
            raise Corrupt(f"The table of {self._shown} does not exist any more.", hint=REBUILD) from error
        except psycopg.OperationalError as error:
            raise Unavailable(
                f"Cannot reach {self._shown}: {_line(error)}.", hint="Check that the server runs."
            ) from error
        except psycopg.Error as error:
            raise refused(self._shown, _line(error)) from error


def open_pgvector(address: EngineAddress, mark: str, dimension: int) -> PgvectorEngine:
    """Open the engine at an address, without connecting. Raises `InvalidInput`."""
    _check_dimension(dimension)
    given = address.address
    url = Address("postgresql", given.place, given.user, given.password, given.options).url
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise invalid_address(address, "Postgres", "pgvector://HOST/DATABASE") from None
    settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS)
    return PgvectorEngine(SpareConnections(url, settings), str(address), mark, dimension)


def engine_over_postgres(connection: object, _database: str | None) -> OpenEngine:
    """Return a function that opens engines over a Postgres connection pool of the program, which stays open.

    Raises `InvalidInput` for another object.
    """
    if not isinstance(connection, ConnectionPool):
        hint = "Give a psycopg_pool.ConnectionPool, or set memory.postgres.url."
        raise invalid_connection(connection, "pool of Postgres connections", hint)

    def opened(address: EngineAddress, mark: str, dimension: int) -> PgvectorEngine:
        _check_dimension(dimension)
        return PgvectorEngine(LentConnections(connection, _SETTINGS), str(address), mark, dimension)

    return opened


def _check_dimension(dimension: int) -> None:
    if dimension > MOST_DIMENSIONS:
        raise InvalidInput(
            f"pgvector indexes up to {MOST_DIMENSIONS:,} components, but the vectors of this model have {dimension:,}.",
            hint="Use another engine.",
        )


def _first(connection: psycopg.Connection, sql: str, *values: str) -> bool:
    row = connection.execute(sql, values).fetchone()
    return bool(row and row[0])


def _line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


_LENT_SECONDS = 20.0


class LentConnections:
    """`EngineConnections` over a pool of the program, which stays open. `settings` apply to each transaction."""

    def __init__(self, pool: "ConnectionPool[Any]", settings: tuple[tuple[str, str], ...]) -> None:
        self._pool = pool
        self._settings = settings

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Open a connection in a transaction; commit at the end, or roll back on an error."""
        with self._pool.connection(_LENT_SECONDS) as connection:
            came_with = connection.row_factory, connection.prepare_threshold
            # No prepared statements, because the program may end them at any time.
            connection.row_factory, connection.prepare_threshold = tuple_row, None
            try:
                with connection.transaction():
                    for name, value in self._settings:
                        connection.execute("SELECT set_config(%s, %s, true)", [name, value])
                    yield connection
            finally:
                connection.row_factory, connection.prepare_threshold = came_with

    def close(self) -> None:
        """Do nothing: the program closes the pool."""


_SPARE = 4
_IDLE_SECONDS = 5


class SpareConnections:
    """The engine's own connections: one per concurrent thread, and a few spare ones. `settings`: server options."""

    def __init__(self, url: str, settings: str) -> None:
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._spare: list[psycopg.Connection] = []
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Open a connection in a transaction; commit at the end, or roll back on an error."""
        connection = self._taken()
        try:
            with connection.transaction():
                yield connection
        finally:
            self._put_back(connection)

    def close(self) -> None:
        """Close the spare connections, and others when they are returned. Idempotent."""
        with self._lock:
            self._closed, spare, self._spare = True, self._spare, []
        for connection in spare:
            connection.close()

    def _taken(self) -> psycopg.Connection:
        with self._lock:
            while self._spare:
                connection = self._spare.pop()
                if not connection.closed:
                    return connection
        return psycopg.connect(self._url, autocommit=True, connect_timeout=_IDLE_SECONDS, options=self._settings)

    def _put_back(self, connection: psycopg.Connection) -> None:
        with self._lock:
            keep = not (self._closed or connection.closed) and len(self._spare) < _SPARE
            if keep:
                self._spare.append(connection)
        if not keep:
            connection.close()
