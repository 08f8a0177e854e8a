"""An engine in a graph database that speaks Bolt: the graph for people, and vectors, searched there or here."""

from dataclasses import replace

from neo4j import Driver, ManagedTransaction

from treering.core.errors import Corrupt, InvalidInput
from treering.edges.engines.backends import OpenEngine
from treering.edges.engines.dimensions import check_dimension
from treering.edges.engines.engine_address import EngineAddress
from treering.edges.engines.local_table import LocalTable
from treering.edges.engines.neo4j_graph import SpaceGraph, define_keys
from treering.edges.engines.neo4j_options import GRAPH_LABELS, STATE_LABEL, Neo4jOptions
from treering.edges.engines.neo4j_server import Neo4jServer, Row, rows_of
from treering.edges.engines.neo4j_vectors import REBUILD, VectorNodes
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.ports.vectors import Vector

_DELETED_AT_ONCE = 2_000
_STATE = (
    f"MATCH (s:{STATE_LABEL} {{key: $key}}) "
    "RETURN s.mark AS mark, s.moment AS moment, s.vectors AS count, s.loaded AS loaded"
)
_KEEP_STATE = f"MERGE (s:{STATE_LABEL} {{key: $key}}) SET s = $told"
_FORGET_STATE = f"MATCH (s:{STATE_LABEL} {{key: $key}}) DELETE s"
_DELETE = (
    "MATCH (n:{label}) WHERE n.{key} STARTS WITH $prefix WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS gone"
)


class Neo4jEngine:
    """`ports.vector_engine.VectorEngine` over one database. What changes, changes in one transaction with the state.

    The vectors lie in nodes apart from the graph that people look at. Where the server has a vector index, it searches.
    Where it has none, a table of the vectors in this process is searched exactly.
    """

    def __init__(self, server: Neo4jServer, mark: str, options: Neo4jOptions, dimension: int) -> None:
        self._server = server
        self._graph = SpaceGraph(mark, options.space or mark, options.relations, options.batch)
        self._dimension = dimension
        self._nodes = VectorNodes(server, self._graph, options, dimension)
        self._here = LocalTable(dimension, self.state, self._nodes.batches)

    @property
    def kind(self) -> str:
        """What people call it."""
        return "Neo4j vector index" if self._nodes.has_index() else "Neo4j, searched here"

    def state(self) -> EngineState | None:
        """Return what the server keeps."""
        found = self._server.rows(_STATE, key=self._graph.mark)
        return self._state_of(found[0]) if found else None

    def begin(self, state: EngineState) -> None:
        """Forget everything, and begin with a state of no vectors."""
        self._clear()
        define_keys(self._server)
        self._nodes.define()
        self._server.write(lambda transaction: self._keep(transaction, replace(state, count=0)))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Take changes over in one transaction, with the state they lead to."""
        for vector in changes.vectors.values():
            check_dimension(vector, self._dimension)

        def taken_over(transaction: ManagedTransaction) -> None:
            found = rows_of(transaction, _STATE, key=self._graph.mark)
            count = self._state_of(found[0]).count if found else 0
            count += self._nodes.put(transaction, changes)
            self._graph.replace(transaction, changes.keys, changes.described)
            self._nodes.relate(transaction, (one.object_id for one in changes.described.values()))
            self._keep(transaction, replace(state, count=count))

        self._server.write(taken_over)

    def flush(self) -> None:
        """Do nothing: the server has everything."""

    def is_worth_writing(self, waiting: int, count: int) -> bool:  # noqa: ARG002 - the port's
        """Tell that every change is."""
        return waiting > 0

    def sight(self) -> str | None:
        """Return the moment that searches answer for: now, or when the vectors were read."""
        if not self._nodes.has_index():
            return self._here.sight()
        state = self.state()
        return state.moment if state and state.loaded is None else None

    def refresh(self) -> None:
        """Let vectors be read again, where they are searched here and the server has others."""
        self._here.refresh()

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest. A vector index answers for all of them only: it knows no filter."""
        check_dimension(vector, self._dimension)
        if not self._nodes.has_index():
            return self._here.search(vector, limit, allowed)
        return None if allowed is not None else self._nodes.nearest(vector, limit)

    def drop(self) -> None:
        """Remove everything of the space: nodes, and the index and constraint that are for its vectors alone."""
        self._clear()
        self._nodes.undefine()

    def close(self) -> None:
        """Close the connections."""
        self._here.forget()
        self._server.close()

    def _clear(self) -> None:
        """Remove all nodes of the space, its state first: what is left where this ends half-way is nobody's."""
        self._server.write(lambda transaction: rows_of(transaction, _FORGET_STATE, key=self._graph.mark))
        self._delete(self._nodes.label, "treering_key", self._nodes.prefix)
        for label in GRAPH_LABELS:
            self._delete(label, "key", self._graph.prefix())
        self._here.forget()
        self._nodes.ask_again()

    def _delete(self, label: str, key: str, prefix: str) -> None:
        query, asked = _DELETE.format(label=label, key=key), {"limit": _DELETED_AT_ONCE, "prefix": prefix}
        while self._server.write(lambda transaction: rows_of(transaction, query, **asked))[0]["gone"]:
            pass

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

    def _state_of(self, row: Row) -> EngineState:
        match row:
            case {"mark": str(mark), "moment": str(moment), "count": int(count), "loaded": int() | None as loaded}:
                return EngineState(mark, moment, count, loaded)
        raise Corrupt(
            f"What {self._server.shown} says of its own state is damaged: it is not what was written.", hint=REBUILD
        )


def open_neo4j(address: EngineAddress, mark: str, dimension: int) -> Neo4jEngine:
    """Open the engine at an address. Nothing is asked of the server yet. Raises `InvalidInput`."""
    options = Neo4jOptions.of(address)
    return Neo4jEngine(Neo4jServer.at(address, pool=options.pool), mark, options, dimension)


def engine_over_neo4j(connection: object, database: str | None) -> OpenEngine:
    """Return what opens engines over a driver of Neo4j that somebody gives, and leaves it open.

    Raises `InvalidInput` for what is no such driver.
    """
    if not isinstance(connection, Driver):
        raise InvalidInput(
            f"connection: {type(connection).__name__} is not a driver of Neo4j that can be used from threads.",
            hint="Give a neo4j.Driver, as GraphDatabase.driver makes it, or set memory.neo4j.url.",
        )

    def opened(address: EngineAddress, mark: str, dimension: int) -> Neo4jEngine:
        server = Neo4jServer(connection, database, str(address), lent=True)
        return Neo4jEngine(server, mark, Neo4jOptions.of(address), dimension)

    return opened
