"""An engine in a graph database that speaks Bolt: the graph for users, and the vectors."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from neo4j import Driver, ManagedTransaction

from treering.core.errors import Unavailable
from treering.extensions.engines.engine_address import (
    GRAPH_LABELS,
    STATE_LABEL,
    EngineAddress,
    Neo4jOptions,
    OpenEngine,
)
from treering.extensions.engines.neo4j_graph import Neo4jServer, SpaceGraph, batches, define_keys, rows_of, shown_text
from treering.extensions.engines.server_engine import ServerEngine, check_dimension, invalid_connection
from treering.ports.search import Vector
from treering.ports.vector_engine import DescribedPassage, EngineState, Keys, VectorChanges

_AWAITED_SECONDS = 30
_WIDER = 4
_MOST_ASKED = 10_000  # nodes requested from an index until enough of them belong to this space
_DIGITS = 20  # of a passage in a key, so that keys are sorted like passages
_FIND = (
    "CALL db.index.vector.queryNodes($index, $limit, $vector) YIELD node, score "
    "RETURN node.treering_key AS key, node.passage AS passage"
)


_RELATE = (
    "UNWIND $keys AS key MATCH (o:TreeringObject {{key: key}}){near}-[:{type}]-{far}(other:TreeringObject) "
    "MATCH (a:{label} {{treering_object: key}}) WITH key, other.key AS named, min(a.passage) AS one "
    "MATCH (b:{label} {{treering_object: named}}) WITH key, named, one, min(b.passage) AS two "
    "MATCH (a:{label} {{treering_object: key, passage: one}}) "
    "MATCH (b:{label} {{treering_object: named, passage: two}}) "
    "MERGE (a){near}-[:{type}]-{far}(b)"
)


class VectorNodes:
    """The vector nodes of one space. Their keys begin with the mark of the space.

    A label from the options, and its index, may contain nodes of other spaces and programs. Search results are
    filtered, and more are requested if necessary.
    """

    def __init__(self, server: Neo4jServer, graph: SpaceGraph, options: Neo4jOptions, dimension: int) -> None:
        self._server = server
        self._graph = graph
        self._dimension = dimension
        self._metric = options.metric
        self._batch = options.batch
        self._is_shared = bool(options.label)
        # Labels and properties cannot be parameters. These consist of letters, digits and _.
        self.label: str = options.label or f"TreeringVector_{re.sub(r'[^0-9A-Za-z]', '_', graph.mark)}"
        self._property = options.property
        self._index = options.index or f"{self.label}[{options.property}]"
        self._constraint = f"{self.label}_treering_key"
        self._searches: bool | None = None

    @property
    def prefix(self) -> str:
        """The prefix of their keys."""
        return f"{self._graph.prefix()}vector/"

    def has_index(self) -> bool:
        """Return whether the server can search vectors of this dimension. The answer is cached."""
        if self._searches is None:
            probe = [1.0] + [0.0] * (self._dimension - 1)
            self._searches = self._server.knows(_FIND, index=self._index, limit=1, vector=probe)
        return self._searches

    def ask_again(self) -> None:
        """Clear the cached answer of `has_index`."""
        self._searches = None

    def define(self) -> None:
        """Create the constraint on keys, and the vector index if the server supports it. Raises `Unavailable`."""
        self._server.define(
            f"CREATE CONSTRAINT {self._constraint} IF NOT EXISTS FOR (v:{self.label}) REQUIRE v.treering_key IS UNIQUE"
        )
        if self._is_shared:
            self._server.knows(
                f"CREATE INDEX {self.label}_treering_object IF NOT EXISTS FOR (v:{self.label}) ON (v.treering_object)"
            )
        if self.has_index():
            return
        if not self._is_shared:
            self._server.knows(f"DROP INDEX {_quoted(self._index)} IF EXISTS")  # of another dimension
        made = self._server.knows(self.index_statement)
        if made:
            self._server.rows("CALL db.awaitIndexes($seconds)", seconds=_AWAITED_SECONDS)
        self._searches = None
        if made and self._is_shared and not self.has_index():
            raise Unavailable(
                f"The vector index {self._index!r} of {self._server.shown} cannot be searched with vectors "
                f"of {self._dimension} components: it has another dimension, or is still being built.",
                hint="Use another index name, or drop that index in the database.",
            )

    @property
    def index_statement(self) -> str:
        """The statement that creates the index."""
        settings = f"{{`vector.dimensions`: {self._dimension:d}, `vector.similarity_function`: '{self._metric}'}}"
        return (
            f"CREATE VECTOR INDEX {_quoted(self._index)} IF NOT EXISTS FOR (v:{self.label}) ON (v.{self._property}) "
            f"OPTIONS {{indexConfig: {settings}}}"
        )

    def put(self, transaction: ManagedTransaction, changes: VectorChanges) -> int:
        """Apply changes; return the change of the number of nodes."""
        label, gone = self.label, [key for key in changes.keys if key not in changes.vectors]
        before = 0
        for batch in batches([self._key(key) for key in {*changes.keys, *changes.vectors}], self._batch):
            query = f"UNWIND $keys AS key MATCH (v:{label} {{treering_key: key}}) RETURN count(v) AS nodes"
            before += rows_of(transaction, query, keys=batch)[0]["nodes"]
        for batch in batches([self._key(key) for key in gone], self._batch):
            rows_of(
                transaction, f"UNWIND $keys AS key MATCH (v:{label} {{treering_key: key}}) DETACH DELETE v", keys=batch
            )
        query = (
            f"UNWIND $rows AS row MERGE (v:{label} {{treering_key: row.key}}) "
            f"SET v += row.told, v.{self._property} = row.vector"
        )
        rows = [self._row(key, vector, changes.described) for key, vector in changes.vectors.items()]
        for written in batches(rows, self._batch):
            rows_of(transaction, query, rows=written)
        return len(rows) - before

    def relate(self, transaction: ManagedTransaction, identities: Iterable[str]) -> None:
        """Replace the relations between nodes of objects, if a label was named.

        They are the relations between the objects in the graph. An object with several passages has them at its first
        one.
        """
        relations = self._graph.relations
        if not (self._is_shared and relations):
            return
        keys = sorted({self._graph.object_key(identity) for identity in identities})
        among, types = f"(:{self.label})", "|".join(relations)
        for batch in batches(keys, self._batch):
            forget = f"UNWIND $keys AS key MATCH (:{self.label} {{treering_object: key}})-[r:{types}]->{among} DELETE r"
            rows_of(transaction, forget, keys=batch)
            for relation in relations:
                for near, far in (("", ">"), ("<", "")):
                    rows_of(
                        transaction, _RELATE.format(label=self.label, type=relation, near=near, far=far), keys=batch
                    )

    def nearest(self, vector: Vector, limit: int) -> Keys | None:
        """Return the nearest nodes of this space; `None` if there are too many others among them."""
        requested = max(limit, 1)
        while True:
            rows = self._server.rows(_FIND, index=self._index, limit=requested, vector=vector.tolist())
            own = [row["passage"] for row in rows if str(row["key"]).startswith(self.prefix)]
            if len(own) >= limit or not self._is_shared:
                return np.array(own[:limit], np.int64)
            # The index may be one of other nodes only, so that a few results are not an answer.
            if len(rows) < requested or requested >= _MOST_ASKED:
                return None
            requested = min(_WIDER * requested, _MOST_ASKED)

    def undefine(self) -> None:
        """Drop the index and the constraint, unless they are shared."""
        if not self._is_shared:
            self._server.define(f"DROP CONSTRAINT {self._constraint} IF EXISTS")
            self._server.knows(f"DROP INDEX {_quoted(self._index)} IF EXISTS")

    def _row(self, key: int, vector: Vector, described: Mapping[int, DescribedPassage]) -> Mapping[str, Any]:
        properties: dict[str, Any] = {"passage": key, "space": self._graph.name}
        if key in described:
            properties["object"] = described[key].object_id
            if self._is_shared:
                properties |= {"treering_object": self._graph.object_key(described[key].object_id)}
                properties |= {"title": shown_text(described[key].title), "text": shown_text(described[key].text)}
        return {"key": self._key(key), "told": properties, "vector": vector.tolist()}

    def _key(self, passage: int) -> str:
        return f"{self.prefix}{passage:0{_DIGITS}d}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


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


class Neo4jEngine(ServerEngine):
    """`ports.vector_engine.VectorEngine` over one database. Changes and the state are written in one transaction.

    The vectors are in other nodes than the graph for users. A server with a vector index searches.
    """

    def __init__(self, server: Neo4jServer, mark: str, options: Neo4jOptions, dimension: int) -> None:
        super().__init__(server.shown, dimension)
        self._server = server
        self._graph = SpaceGraph(mark, options.space or mark, options.relations, options.batch)
        self._nodes = VectorNodes(server, self._graph, options, dimension)

    @property
    def kind(self) -> str:
        """The name of the engine for users."""
        return "Neo4j vector index" if self._nodes.has_index() else "Neo4j, searched in the space"

    @property
    def searches(self) -> bool:
        """Whether the server has a vector index."""
        return self._nodes.has_index()

    def state(self) -> EngineState | None:
        """Return the state stored on the server."""
        rows = self._server.rows(_STATE, key=self._graph.mark)
        return self._state_of(rows[0]) if rows else None

    def begin(self, state: EngineState) -> None:
        """Delete everything, and store a state without vectors."""
        self._clear()
        define_keys(self._server)
        self._nodes.define()
        self._server.write(lambda transaction: self._keep(transaction, replace(state, count=0)))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Apply changes and store the new state in one transaction."""
        self._check(changes)

        def taken_over(transaction: ManagedTransaction) -> None:
            rows = rows_of(transaction, _STATE, key=self._graph.mark)
            count = self._state_of(rows[0]).count if rows else 0
            count += self._nodes.put(transaction, changes)
            self._graph.replace(transaction, changes.keys, changes.described)
            self._nodes.relate(transaction, (one.object_id for one in changes.described.values()))
            self._keep(transaction, replace(state, count=count))

        self._server.write(taken_over)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest passages; `None` for a filter, which a vector index does not support."""
        check_dimension(vector, self._dimension)
        return self._nodes.nearest(vector, limit) if allowed is None and self._nodes.has_index() else None

    def drop(self) -> None:
        """Delete the nodes of the space, and the index and constraint that it does not share."""
        self._clear()
        self._nodes.undefine()

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _clear(self) -> None:
        """Delete all nodes of the space, its state first, so that an interruption leaves no valid state."""
        self._server.write(lambda transaction: rows_of(transaction, _FORGET_STATE, key=self._graph.mark))
        self._delete(self._nodes.label, "treering_key", self._nodes.prefix)
        for label in GRAPH_LABELS:
            self._delete(label, "key", self._graph.prefix())
        self._nodes.ask_again()

    def _delete(self, label: str, key: str, prefix: str) -> None:
        query, parameters = _DELETE.format(label=label, key=key), {"limit": _DELETED_AT_ONCE, "prefix": prefix}
        while self._server.write(lambda transaction: rows_of(transaction, query, **parameters))[0]["gone"]:
            pass

    def _keep(self, transaction: ManagedTransaction, state: EngineState) -> None:
        properties = {
            "key": self._graph.mark,
            "space": self._graph.name,
            "mark": state.mark,
            "moment": state.moment,
            "vectors": state.count,
            "loaded": state.loaded,
        }
        rows_of(transaction, _KEEP_STATE, key=self._graph.mark, told=properties)


def open_neo4j(address: EngineAddress, mark: str, dimension: int) -> Neo4jEngine:
    """Open the engine at an address, without connecting. Raises `InvalidInput`."""
    options = Neo4jOptions.of(address)
    return Neo4jEngine(Neo4jServer.at(address, pool=options.pool), mark, options, dimension)


def engine_over_neo4j(connection: object, database: str | None) -> OpenEngine:
    """Return a function that opens engines over a Neo4j driver of the program, which stays open.

    Raises `InvalidInput` for another object.
    """
    if not isinstance(connection, Driver):
        hint = "Give a neo4j.Driver, as returned by GraphDatabase.driver, or set memory.neo4j.url."
        raise invalid_connection(connection, "Neo4j driver", hint)

    def opened(address: EngineAddress, mark: str, dimension: int) -> Neo4jEngine:
        server = Neo4jServer(connection, database, str(address), lent=True)
        return Neo4jEngine(server, mark, Neo4jOptions.of(address), dimension)

    return opened
