"""An engine in a graph database that speaks Bolt: the graph for people, and vectors, searched there or here."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from neo4j import Driver, ManagedTransaction

from treering.core.errors import Corrupt, InvalidInput
from treering.derived.vectors import Stored, stored_form
from treering.edges.engines.backends import OpenEngine
from treering.edges.engines.dimensions import check_dimension
from treering.edges.engines.engine_address import EngineAddress
from treering.edges.engines.local_table import LocalTable
from treering.edges.engines.neo4j_graph import LABELS, SpaceGraph, define_keys
from treering.edges.engines.neo4j_server import Neo4jServer, Row, rows_of
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.ports.vectors import Vector

_AT_ONCE = 500
_READ_AT_ONCE = _DELETED_AT_ONCE = 2_000
_AWAITED_SECONDS = 30
_REBUILD = "Run `treering index rebuild`: it fills the engine anew from the space, which has all vectors."
_STATE = (
    "MATCH (s:TreeringSpace {key: $key}) "
    "RETURN s.mark AS mark, s.moment AS moment, s.vectors AS count, s.loaded AS loaded"
)
_KEEP_STATE = "MERGE (s:TreeringSpace {key: $key}) SET s = $told"
_FORGET_STATE = "MATCH (s:TreeringSpace {key: $key}) DELETE s"
_DELETE = "MATCH (n:{label}) {where} WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS gone"
_FIND = "CALL db.index.vector.queryNodes($index, $limit, $vector) YIELD node, score RETURN node.passage AS passage"


class Neo4jEngine:
    """`ports.vector_engine.VectorEngine` over one database. What changes, changes in one transaction with the state.

    The vectors lie in nodes of a label of their own, apart from the graph that people look at. Where the server has a
    vector index, it searches. Where it has none, a table of the vectors in this process is searched exactly.
    """

    def __init__(self, server: Neo4jServer, graph: SpaceGraph, dimension: int) -> None:
        self._server = server
        self._graph = graph
        self._dimension = dimension
        # The mark comes from the space, and labels cannot be parameters.
        self._label = f"TreeringVector_{re.sub(r'[^0-9A-Za-z]', '_', graph.mark)}"
        self._index = f"{self._label}[embedding]"
        self._here = LocalTable(dimension, self.state, self._batches)
        self._searches: bool | None = None

    @property
    def kind(self) -> str:
        """What people call it."""
        return "Neo4j vector index" if self._has_index() else "Neo4j, searched here"

    def state(self) -> EngineState | None:
        """Return what the server keeps."""
        found = self._server.rows(_STATE, key=self._graph.mark)
        return self._state_of(found[0]) if found else None

    def begin(self, state: EngineState) -> None:
        """Forget everything, and begin with a state of no vectors."""
        self._clear()
        define_keys(self._server)
        self._define_vectors()
        self._server.write(lambda transaction: self._keep(transaction, replace(state, count=0)))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Take changes over in one transaction, with the state they lead to."""
        for vector in changes.vectors.values():
            check_dimension(vector, self._dimension)

        def taken_over(transaction: ManagedTransaction) -> None:
            self._put(transaction, changes.keys, changes.vectors)
            self._graph.replace(transaction, changes.keys, changes.described)
            [counted] = rows_of(transaction, f"MATCH (v:{self._label}) RETURN count(v) AS vectors")
            self._keep(transaction, replace(state, count=counted["vectors"]))

        self._server.write(taken_over)

    def flush(self) -> None:
        """Do nothing: the server has everything."""

    def is_worth_writing(self, waiting: int, count: int) -> bool:  # noqa: ARG002 - the port's
        """Tell that every change is."""
        return waiting > 0

    def sight(self) -> str | None:
        """Return the moment that searches answer for: now, or when the vectors were read."""
        if not self._has_index():
            return self._here.sight()
        state = self.state()
        return state.moment if state and state.loaded is None else None

    def refresh(self) -> None:
        """Let vectors be read again, where they are searched here and the server has others."""
        self._here.refresh()

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest. A vector index answers for all of them only: it knows no filter."""
        check_dimension(vector, self._dimension)
        if not self._has_index():
            return self._here.search(vector, limit, allowed)
        if allowed is not None:
            return None
        found = self._server.rows(_FIND, index=self._index, limit=max(limit, 1), vector=vector.tolist())
        return np.array([row["passage"] for row in found][:limit], np.int64)

    def drop(self) -> None:
        """Remove everything of the space: nodes, and the index and constraint of its vectors."""
        self._clear()
        self._server.define(f"DROP CONSTRAINT {self._label}_passage IF EXISTS")
        self._server.knows(f"DROP INDEX `{self._index}` IF EXISTS")

    def close(self) -> None:
        """Close the connections."""
        self._here.forget()
        self._server.close()

    def _clear(self) -> None:
        """Remove all nodes of the space, its state first: what is left where this ends half-way is nobody's."""
        self._server.write(lambda transaction: rows_of(transaction, _FORGET_STATE, key=self._graph.mark))
        self._delete(self._label, "")
        for label in LABELS:
            self._delete(label, "WHERE n.key STARTS WITH $prefix", prefix=self._graph.prefix())
        self._here.forget()
        self._searches = None

    def _delete(self, label: str, where: str, **parameters: Any) -> None:
        query = _DELETE.format(label=label, where=where)
        asked = {"limit": _DELETED_AT_ONCE, **parameters}
        while self._server.write(lambda transaction: rows_of(transaction, query, **asked))[0]["gone"]:
            pass

    def _define_vectors(self) -> None:
        """Have the server find vectors by passage, and search them where it can."""
        self._server.define(
            f"CREATE CONSTRAINT {self._label}_passage IF NOT EXISTS FOR (v:{self._label}) REQUIRE v.passage IS UNIQUE"
        )
        if self._has_index():
            return
        self._server.knows(f"DROP INDEX `{self._index}` IF EXISTS")  # one of another dimension
        settings = f"{{`vector.dimensions`: {self._dimension:d}, `vector.similarity_function`: 'cosine'}}"
        made = self._server.knows(
            f"CREATE VECTOR INDEX `{self._index}` IF NOT EXISTS FOR (v:{self._label}) ON (v.embedding) "
            f"OPTIONS {{indexConfig: {settings}}}"
        )
        if made:
            self._server.rows("CALL db.awaitIndexes($seconds)", seconds=_AWAITED_SECONDS)
        self._searches = None

    def _has_index(self) -> bool:
        """Tell whether the server searches vectors of this dimension. It is asked once."""
        if self._searches is None:
            probe = [1.0] + [0.0] * (self._dimension - 1)
            self._searches = self._server.knows(_FIND, index=self._index, limit=1, vector=probe)
        return self._searches

    def _put(self, transaction: ManagedTransaction, keys: Sequence[int], vectors: Mapping[int, Vector]) -> None:
        gone = [key for key in keys if key not in vectors]
        label = self._label
        for start in range(0, len(gone), _AT_ONCE):
            query = f"UNWIND $keys AS key MATCH (v:{label} {{passage: key}}) DELETE v"
            rows_of(transaction, query, keys=gone[start : start + _AT_ONCE])
        rows = [{"passage": key, "embedding": vector.tolist()} for key, vector in vectors.items()]
        for start in range(0, len(rows), _AT_ONCE):
            query = f"UNWIND $rows AS row MERGE (v:{label} {{passage: row.passage}}) SET v.embedding = row.embedding"
            rows_of(transaction, query, rows=rows[start : start + _AT_ONCE])

    def _keep(self, transaction: ManagedTransaction, state: EngineState) -> None:
        told = {
            "key": self._graph.mark,
            "space": self._graph.name,
            "mark": state.mark,
            "moment": state.moment,
            "vectors": state.count,
            "loaded": state.loaded,
        }
        rows_of(transaction, _KEEP_STATE, key=self._graph.mark, told=told)

    def _batches(self) -> Iterator[tuple[list[int], Stored]]:
        """Read all vectors, in the order of their passages."""
        query = (
            f"MATCH (v:{self._label}) WHERE v.passage > $after RETURN v.passage AS passage, v.embedding AS embedding "
            "ORDER BY v.passage LIMIT $limit"
        )
        after = -1
        while rows := self._server.rows(query, after=after, limit=_READ_AT_ONCE):
            keys = [int(row["passage"]) for row in rows]
            yield keys, self._matrix(rows)
            after = keys[-1]

    def _matrix(self, rows: Sequence[Row]) -> Stored:
        try:
            read = np.array([row["embedding"] for row in rows], np.float32)
        except (TypeError, ValueError):
            read = np.empty(0, np.float32)
        if read.shape != (len(rows), self._dimension):
            raise Corrupt(f"{self._server.shown} keeps vectors of another dimension.", hint=_REBUILD)
        return stored_form(read)

    def _state_of(self, row: Row) -> EngineState:
        match row:
            case {"mark": str(mark), "moment": str(moment), "count": int(count), "loaded": int() | None as loaded}:
                return EngineState(mark, moment, count, loaded)
        raise Corrupt(f"What {self._server.shown} says of its state is not what was written.", hint=_REBUILD)


def open_neo4j(address: EngineAddress, mark: str, dimension: int) -> Neo4jEngine:
    """Open the engine at an address. Nothing is asked of the server yet. Raises `InvalidInput`."""
    if address.options.keys() - {"space"}:
        raise InvalidInput(
            f"{address} has an option that the engine does not know.",
            hint="Write ?space=NAME, what the nodes of this space are called, or nothing.",
        )
    return Neo4jEngine(Neo4jServer.at(address), SpaceGraph(mark, address.options.get("space", mark)), dimension)


def engine_over_neo4j(connection: object, database: str | None) -> OpenEngine:
    """Return what opens engines over a driver of Neo4j that somebody gives, and leaves it open.

    Raises `InvalidInput` for what is no such driver.
    """
    if not isinstance(connection, Driver):
        raise InvalidInput(
            f"connection: {type(connection).__name__} is no driver of Neo4j that can be used from threads.",
            hint="Give a neo4j.Driver, as GraphDatabase.driver makes it, or set memory.neo4j.url.",
        )

    def opened(address: EngineAddress, mark: str, dimension: int) -> Neo4jEngine:
        server = Neo4jServer(connection, database, str(address), lent=True)
        return Neo4jEngine(server, SpaceGraph(mark, mark), dimension)

    return opened
