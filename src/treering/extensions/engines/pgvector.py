"""An engine in a Postgres with pgvector: vectors in a table per space, and HNSW in half precision over many of them."""

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
from treering.extensions.engines.server_engine import REBUILD, ServerEngine, check_dimension
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.retrieval.index.tables import EXACT_ROWS
from treering.system.address import Address

# Vectors in the forms that pgvector reads.


_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)


def copied(vectors: Mapping[int, Vector]) -> bytes:
    """Return what binary COPY reads of keys and vectors (all of one dimension)."""
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
"""More components than these pgvector does not index."""

_SCHEMA = "treering_vectors"
_MOST_ALLOWED = 100_000  # passages that pass a filter and are compared one by one in the server
_LINKS, _BREADTH_OF_BUILDING = 16, 64
_BREADTH, _MOST_BREADTH = 200, 1_000  # at 40, which is pgvector's own, one of 16 nearest is missed at 100,000
# Of more vectors, 200 finds less. Of the nearest 50 of a million passages (vectors of the static model, questions of
# people) 200 finds 0.937, 300 0.956, 432 0.970, 700 0.981 and 1,000 0.987, for 9, 14, 17, 26 and 36 ms of the CPU of a
# busy server. Vectors of the built-in encoder are harder: of 100,000 passages 200 finds 0.958, 300 0.973, 400 0.981.
_BREADTH_IS_FOR, _BREADTH_GROWS = 100_000, 0.5
_MORE = 20  # nearest in half precision that are compared exactly besides those that are wanted
_BYTES_OF_LINKS = 800  # what a vector takes besides its components while the graph is built
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
    """Connections of an engine to its server. Safe to use from many threads."""

    def transaction(self) -> AbstractContextManager[psycopg.Connection]:
        """Hold a connection in a transaction, which is committed at the end, or rolled back where an error came."""
        ...

    def close(self) -> None:
        """Close what is the engine's own. Doing it twice is harmless."""
        ...


class PgvectorEngine(ServerEngine):
    """`ports.vector_engine.VectorEngine` over a table of one database. A change is one transaction.

    From `indexed_from` vectors on an HNSW graph is searched; below, and among the passages that a filter allows, every
    vector is compared.
    """

    def __init__(
        self, connections: EngineConnections, shown: str, mark: str, dimension: int, *, indexed_from: int = EXACT_ROWS
    ) -> None:
        super().__init__(shown, dimension)
        self._connections = connections
        self._mark = mark
        self._indexed_from = indexed_from
        # One table for each space: in a graph of several, a search that sees one of them would miss most.
        self._name = f"space_{blake2b(mark.encode(), digest_size=12).hexdigest()}"
        self._table = f"{_SCHEMA}.{self._name}"
        # The graph takes half the room, and what it finds is compared exactly.
        self._half = f"(vector::halfvec({dimension}))"

    @property
    def kind(self) -> str:
        """What people call it, with how it searches."""
        with self._connected() as connection:
            return "pgvector HNSW" if self._is_indexed(connection) else "pgvector, every vector compared"

    def state(self) -> EngineState | None:
        """Return what the table holds."""
        with self._connected() as connection:
            return self._state(connection)

    def begin(self, state: EngineState) -> None:
        """Make an empty table, in the place of the one that may be there."""
        with self._connected() as connection:
            with self._installing():
                connection.execute(_MAKE)
            connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            columns = f"key bigint PRIMARY KEY, vector vector({self._dimension}) NOT NULL"
            with self._installing():
                connection.execute(f"CREATE TABLE {self._table}({columns})")
            self._keep(connection, replace(state, count=0))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Take changes over in one transaction, with the state they lead to."""
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
        """Return the nearest; among very many allowed ones it cannot tell."""
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
            found = connection.execute(sql, values).fetchall()
        return np.array([key for (key,) in found], np.int64)

    def drop(self) -> None:
        """Remove the table and the state."""
        with self._connected() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            if self._is_made(connection):
                connection.execute(f"DELETE FROM {_SCHEMA}.engines WHERE mark = %s", [self._mark])  # noqa: S608 - our schema

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _build_graph(self) -> None:
        """Build the graph once there are enough vectors. Searches compare every vector until it is built."""
        with self._connected() as connection:
            state = self._state(connection)
            if state is None or state.count < self._indexed_from or self._is_indexed(connection):
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
        """Tell whether there is a graph, and set how broadly it is searched: the more broadly, the more it holds."""
        times = f"greatest(1, power(greatest(reltuples, 0) / {_BREADTH_IS_FOR}, {_BREADTH_GROWS}))"
        breadth = f"least({_MOST_BREADTH}, {_BREADTH} * {times})::integer::text"
        sql = f"SELECT set_config('hnsw.ef_search', {breadth}, true) FROM pg_class WHERE oid = to_regclass(%s)"  # noqa: S608 - our own numbers
        return connection.execute(sql, [f"{self._table}_graph"]).fetchone() is not None

    @contextmanager
    def _installing(self) -> Iterator[None]:
        """Say what has to be done where the server has no pgvector."""
        try:
            yield
        except (errors.InsufficientPrivilege, errors.UndefinedFile, errors.FeatureNotSupported) as error:
            raise Unavailable(f"{self._shown} cannot store vectors: {_line(error)}.", hint=_INSTALL) from error
        except errors.UndefinedObject as error:
            raise Unavailable(f"{self._shown} has no type `halfvec`.", hint=_INSTALL) from error

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        """Hold a connection in a transaction."""
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
            raise Unavailable(
                f"{self._shown} refused the request: {_line(error)}.",
                hint="Check the server's log and your permissions.",
            ) from error


def open_pgvector(address: EngineAddress, mark: str, dimension: int) -> PgvectorEngine:
    """Open the engine at an address. Nothing is asked of the server yet. Raises `InvalidInput`."""
    _check_dimension(dimension)
    given = address.address
    url = Address("postgresql", given.place, given.user, given.password, given.options).url
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InvalidInput(f"{address} is not a Postgres address.", hint="Write pgvector://HOST/DATABASE.") from None
    settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS)
    return PgvectorEngine(SpareConnections(url, settings), str(address), mark, dimension)


def engine_over_postgres(connection: object, _database: str | None) -> OpenEngine:
    """Return what opens engines over a pool of Postgres connections that somebody gives, and leaves it open.

    Raises `InvalidInput` for what is no such pool.
    """
    if not isinstance(connection, ConnectionPool):
        raise InvalidInput(
            f"connection: {type(connection).__name__} is not a thread-safe pool of Postgres connections.",
            hint="Give a psycopg_pool.ConnectionPool, or set memory.postgres.url.",
        )

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


# Connections of a pool that the host program opened, for an engine: used, and left as they were.


_LENT_SECONDS = 20.0


class LentConnections:
    """`pgvector_engine.EngineConnections` over a pool that stays open. `settings` hold in each transaction of ours."""

    def __init__(self, pool: "ConnectionPool[Any]", settings: tuple[tuple[str, str], ...]) -> None:
        self._pool = pool
        self._settings = settings

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Hold a connection in a transaction, which is committed at the end, or rolled back where an error came."""
        with self._pool.connection(_LENT_SECONDS) as connection:
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


# Connections of an engine to its server: one for each thread that uses it now, and a few to spare.


_SPARE = 4
_IDLE_SECONDS = 5


class SpareConnections:
    """Safe to use from many threads. A connection is made when none is spare; `settings` are its server's options."""

    def __init__(self, url: str, settings: str) -> None:
        self._url = url
        self._settings = settings
        self._lock = threading.Lock()
        self._spare: list[psycopg.Connection] = []
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Hold a connection in a transaction, which is committed at the end, or rolled back where an error came."""
        connection = self._taken()
        try:
            with connection.transaction():
                yield connection
        finally:
            self._put_back(connection)

    def close(self) -> None:
        """Close what is spare, and what is put back from now on. Doing it twice is harmless."""
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
