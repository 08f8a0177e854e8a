"""A space's passages, objects and entities as a graph for users' own tools.

    (:TreeringPassage)-[:PART_OF]->(:TreeringObject)-[:REFERS_TO {field}]->(:TreeringObject)
    (:TreeringObject)-[:FOLLOWS|REFERENCES|SIMILAR_TO|CAUSED_BY|PART_OF|…]->(:TreeringObject)
    (:TreeringPassage)-[:MENTIONS|TITLED]->(:TreeringEntity)-[:RELATED {passage}]->(:TreeringEntity)

Nodes are merged by `key`, which begins with the mark of the space. `space` is the name of the space for users.
An entity exists as long as a passage mentions it; an object as long as it has a passage or another one refers to it.
Links between objects are shown if configured. They are replaced with the passages of an object.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

import neo4j
from neo4j import ManagedTransaction
from neo4j.exceptions import ClientError, DriverError, Neo4jError

from treering.extensions.engines.engine_address import GRAPH_LABELS, LINK_TYPES, STATE_LABEL, EngineAddress
from treering.extensions.engines.server_engine import invalid_address, refused, unreachable
from treering.ports.vector_engine import DescribedPassage

_SECONDS = 5.0
_SECURITY = "Neo.ClientError.Security"
Row = dict[str, Any]
Done = TypeVar("Done")


class Neo4jServer:
    """One database of a server. Connects on the first call. Every call may raise `Unavailable`.

    A `lent` driver stays open.
    """

    def __init__(self, driver: neo4j.Driver, database: str | None, shown: str, *, lent: bool = False) -> None:
        self.shown = shown
        self._driver = driver
        self._database = database
        self._lent = lent

    @classmethod
    def at(cls, address: EngineAddress, *, pool: int) -> "Neo4jServer":
        """Return the database at an address. `pool`: maximal number of connections. Raises `InvalidInput`."""
        given = address.address
        host, _, database = given.place.partition("/")
        try:
            driver = neo4j.GraphDatabase.driver(
                f"{given.scheme}://{_checked(host)}",
                auth=(given.user, given.password) if given.user or given.password else None,
                connection_timeout=_SECONDS,
                max_connection_pool_size=pool,
                connection_acquisition_timeout=2 * _SECONDS,
                max_transaction_retry_time=0,  # meanwhile, the space's own vectors answer
                notifications_min_severity="OFF",  # warnings about missing labels would be logged
                telemetry_disabled=True,
            )
        except (ValueError, DriverError):
            raise invalid_address(address, "Neo4j", "neo4j://HOST:PORT/DATABASE") from None
        return cls(driver, database or None, str(address))

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        """Return the rows of one query."""
        with self._session() as session:
            return session.execute_read(lambda transaction: rows_of(transaction, query, **parameters))

    def write(self, work: Callable[[neo4j.ManagedTransaction], Done]) -> Done:
        """Run a function in one write transaction and return its result."""
        with self._session() as session:
            return session.execute_write(work)

    def define(self, statement: str) -> None:
        """Run a statement about indexes or constraints in its own transaction."""
        self.write(lambda transaction: rows_of(transaction, statement))

    def knows(self, statement: str, /, **parameters: Any) -> bool:
        """Return whether the server can run a statement. Missing permissions raise an error."""
        with self._session() as session:
            try:
                session.execute_write(lambda transaction: rows_of(transaction, statement, **parameters))
            except ClientError as error:
                if (error.code or "").startswith(_SECURITY):
                    raise
                return False
            return True

    def close(self) -> None:
        """Close the driver, unless it is lent."""
        if not self._lent:
            self._driver.close()

    @contextmanager
    def _session(self) -> Iterator[neo4j.Session]:
        try:
            with self._driver.session(database=self._database) as session:
                yield session
        except Neo4jError as error:
            raise refused(self.shown, error.code) from error
        except (DriverError, OSError) as error:
            raise unreachable(self.shown, error) from error


def rows_of(transaction: neo4j.ManagedTransaction, query: str, /, **parameters: Any) -> list[Row]:
    """Return the rows of one query in a transaction."""
    return transaction.run(query, parameters).data()


def _checked(host: str) -> str:
    """Return a host with its port if it is valid. Raises `ValueError` earlier than the driver would."""
    host.encode("idna")
    if not host or set(host) & {",", "%"}:
        raise ValueError(host)
    return host


_DIGEST = 16
_OF_OBJECT = ("type", "kind", "scope", "origin", "title")
_OF_PASSAGE = (*_OF_OBJECT, "part", "role", "heading")
_REFERRING = "|".join(("REFERS_TO", *LINK_TYPES))
_Item = TypeVar("_Item")

_TOUCHED = (
    "UNWIND $keys AS key MATCH (p:TreeringPassage {key: key}) "
    "OPTIONAL MATCH (p)-[:MENTIONS|TITLED]->(e:TreeringEntity) OPTIONAL MATCH (p)-[:PART_OF]->(o:TreeringObject) "
    "RETURN DISTINCT e.key AS entity, o.key AS object"
)
_UNSTATE = (
    "UNWIND $rows AS row MATCH (:TreeringPassage {key: row.key})-[:MENTIONS|TITLED]->(:TreeringEntity)"
    "-[fact:RELATED {passage: row.passage}]->(:TreeringEntity) DELETE fact"
)
_REMOVE = "UNWIND $keys AS key MATCH (p:TreeringPassage {key: key}) DETACH DELETE p"
_PUT_OBJECTS = "UNWIND $rows AS row MERGE (o:TreeringObject {key: row.key}) SET o = row.told"
_PUT_PASSAGES = (
    "UNWIND $rows AS row MATCH (o:TreeringObject {key: row.object}) MERGE (p:TreeringPassage {key: row.key}) "
    "SET p = row.told MERGE (p)-[:PART_OF]->(o)"
)
_PUT_ENTITIES = "UNWIND $rows AS row MERGE (e:TreeringEntity {key: row.key}) SET e.space = row.space, e.name = row.name"
_TIE = (
    "UNWIND $rows AS row MATCH (p:TreeringPassage {key: row.key}) MATCH (e:TreeringEntity {key: row.entity}) "
    "MERGE (p)-[:%s]->(e)"
)
_MENTION = _TIE % "MENTIONS"
_TITLE = _TIE % "TITLED"
_STATE = (
    "UNWIND $rows AS row MATCH (s:TreeringEntity {key: row.subject}) MATCH (o:TreeringEntity {key: row.object}) "
    "MERGE (s)-[:RELATED {passage: row.passage}]->(o)"
)
_REFERRED = (
    f"UNWIND $keys AS key MATCH (:TreeringObject {{key: key}})-[:{_REFERRING}]->(o) RETURN DISTINCT o.key AS object"
)
_UNREFER = f"UNWIND $keys AS key MATCH (:TreeringObject {{key: key}})-[reference:{_REFERRING}]->() DELETE reference"
_PUT_NAMED = (
    "UNWIND $rows AS row MERGE (o:TreeringObject {key: row.key}) ON CREATE SET o.space = row.space, o.id = row.id"
)
_REFER = (
    "UNWIND $rows AS row MATCH (o:TreeringObject {key: row.key}) MATCH (other:TreeringObject {key: row.other}) "
    "MERGE (o)-[:REFERS_TO {field: row.field}]->(other)"
)
_RELATE = (
    "UNWIND $rows AS row MATCH (o:TreeringObject {key: row.key}) MATCH (other:TreeringObject {key: row.other}) "
    "MERGE (o)-[:%s]->(other)"
)
_FORGET_ENTITIES = (
    "UNWIND $keys AS key MATCH (e:TreeringEntity {key: key}) WHERE NOT (e)<-[:MENTIONS|TITLED]-() DETACH DELETE e"
)
_EMPTY_OBJECTS = (
    "UNWIND $keys AS key MATCH (o:TreeringObject {key: key}) WHERE NOT (o)<-[:PART_OF]-(:TreeringPassage) "
    "SET o = {key: o.key, space: o.space, id: o.id} RETURN o.key AS object"
)
_FORGET_OBJECTS = "UNWIND $keys AS key MATCH (o:TreeringObject {key: key}) WHERE NOT (o)--() DELETE o"


@dataclass(frozen=True, slots=True)
class SpaceGraph:
    """The part of a graph that belongs to one space. `mark`: the prefix of its keys; `name`: its name for users.

    `relations`: the types of links to show. `batch`: rows per statement.
    """

    mark: str
    name: str
    relations: tuple[str, ...] = ()
    batch: int = 500

    def replace(
        self, transaction: ManagedTransaction, keys: Sequence[int], described: Mapping[int, DescribedPassage]
    ) -> None:
        """Remove passages, and add the described ones; delete nodes that are no longer connected."""
        entities, objects = self._take_out(transaction, keys)
        self._put_in(transaction, described)
        objects |= self._refer(transaction, described.values())
        for batch in self._batches(sorted(entities)):
            rows_of(transaction, _FORGET_ENTITIES, keys=batch)
        self._forget_objects(transaction, objects)

    def prefix(self) -> str:
        """Return the prefix of the keys of its nodes."""
        return f"{self.mark}/"

    def _take_out(self, transaction: ManagedTransaction, keys: Sequence[int]) -> tuple[set[str], set[str]]:
        """Remove passages and their statements; return the keys of connected entities and objects."""
        entities, objects = set[str](), set[str]()
        for batch in self._batches(keys):
            named = [self._passage(key) for key in batch]
            for row in rows_of(transaction, _TOUCHED, keys=named):
                entities.add(row["entity"])
                objects.add(row["object"])
            stated = [{"key": name, "passage": key} for name, key in zip(named, batch, strict=True)]
            rows_of(transaction, _UNSTATE, rows=stated)
            rows_of(transaction, _REMOVE, keys=named)
        return {key for key in entities if key}, {key for key in objects if key}

    def _put_in(self, transaction: ManagedTransaction, described: Mapping[int, DescribedPassage]) -> None:
        objects = {one.object_id: self._object_row(one) for one in described.values()}
        self._write(transaction, _PUT_OBJECTS, objects.values())
        self._write(transaction, _PUT_PASSAGES, (self._passage_row(key, one) for key, one in described.items()))
        mentions = {key: _mentioned(one) for key, one in described.items()}
        titles = {key: one.titles for key, one in described.items()}
        names = {name for part in (mentions, titles) for each in part.values() for name in each}
        self._write(transaction, _PUT_ENTITIES, map(self._entity_row, sorted(names)))
        for query, ties in ((_MENTION, mentions), (_TITLE, titles)):
            rows = ((key, name) for key, each in ties.items() for name in each)
            self._write(
                transaction, query, ({"key": self._passage(key), "entity": self._entity(name)} for key, name in rows)
            )
        stated = ((key, *ends) for key, one in described.items() for ends in one.statements)
        self._write(
            transaction,
            _STATE,
            (
                {"subject": self._entity(subject), "object": self._entity(other), "passage": key}
                for key, subject, other in stated
            ),
        )

    def _refer(self, transaction: ManagedTransaction, described: Iterable[DescribedPassage]) -> set[str]:
        """Replace the references of objects; return the keys of earlier targets."""
        shown = {one.object_id: one for one in described}
        before = set[str]()
        for batch in self._batches([self.object_key(identity) for identity in shown]):
            before |= {row["object"] for row in rows_of(transaction, _REFERRED, keys=batch)}
            rows_of(transaction, _UNREFER, keys=batch)
        references = [(one.object_id, field, other) for one in shown.values() for field, other in one.references]
        links = [(one.object_id, *link) for one in shown.values() for link in self._links(one)]
        named = sorted({other for _, _, other in (*references, *links)})
        rows = ({"key": self.object_key(other), "space": self.name, "id": shown_text(other)} for other in named)
        self._write(transaction, _PUT_NAMED, rows)
        self._write(transaction, _REFER, map(self._tie_row, references))
        for relation in self.relations:
            self._write(transaction, _RELATE % relation, (self._tie_row(one) for one in links if one[1] == relation))
        return before

    def _forget_objects(self, transaction: ManagedTransaction, keys: set[str]) -> None:
        """Delete objects without passages; retain the id if others refer to them."""
        left = set(keys)
        for batch in self._batches(sorted(keys)):
            empty = [row["object"] for row in rows_of(transaction, _EMPTY_OBJECTS, keys=batch)]
            left |= {row["object"] for row in rows_of(transaction, _REFERRED, keys=empty)}
            rows_of(transaction, _UNREFER, keys=empty)
        for batch in self._batches(sorted(left)):
            rows_of(transaction, _FORGET_OBJECTS, keys=batch)

    def _links(self, one: DescribedPassage) -> list[tuple[str, str]]:
        """Return the visible links of an object: the type of the relationship, and the other object."""
        return [(name.upper(), other) for name, other in one.links if name.upper() in self.relations]

    def _tie_row(self, tie: tuple[str, str, str]) -> Mapping[str, Any]:
        identity, name, other = tie
        return {"key": self.object_key(identity), "field": name, "other": self.object_key(other)}

    def _write(self, transaction: ManagedTransaction, query: str, rows: Iterable[Mapping[str, Any]]) -> None:
        for batch in self._batches(list(rows)):
            rows_of(transaction, query, rows=batch)

    def _batches(self, items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
        return batches(items, self.batch)

    def _passage_row(self, key: int, one: DescribedPassage) -> Mapping[str, Any]:
        properties = {name: shown_text(value) for name in _OF_PASSAGE if (value := getattr(one, name))}
        named = {"key": self._passage(key), "space": self.name, "passage": key, "object": shown_text(one.object_id)}
        return {"key": named["key"], "object": self.object_key(one.object_id), "told": properties | named}

    def _object_row(self, one: DescribedPassage) -> Mapping[str, Any]:
        properties = {name: shown_text(value) for name in _OF_OBJECT if (value := getattr(one, name))}
        named = {"key": self.object_key(one.object_id), "space": self.name, "id": shown_text(one.object_id)}
        return {"key": named["key"], "told": properties | named}

    def _entity_row(self, name: str) -> Mapping[str, Any]:
        return {"key": self._entity(name), "space": self.name, "name": shown_text(name)}

    def _passage(self, key: int) -> str:
        return f"{self.mark}/passage/{key}"

    def object_key(self, identity: str) -> str:
        """Return the key of the node of an object."""
        return f"{self.mark}/object/{shown_text(identity)}"

    def _entity(self, name: str) -> str:
        # A digest, because names may be longer than an index entry.
        digest = blake2b(name.encode(errors="surrogatepass"), digest_size=_DIGEST)
        return f"{self.mark}/entity/{digest.hexdigest()}"


def define_keys(server: Neo4jServer) -> None:
    """Create unique constraints on keys, which are also indexes."""
    for label in (*GRAPH_LABELS, STATE_LABEL):
        server.define(f"CREATE CONSTRAINT {label}_key IF NOT EXISTS FOR (n:{label}) REQUIRE n.key IS UNIQUE")


def _mentioned(one: DescribedPassage) -> list[str]:
    """Return the entities that a passage mentions, including those in its statements."""
    ends = (end for pair in one.statements for end in pair)
    return list(dict.fromkeys((*one.mentions, *ends)))


def shown_text(text: str) -> str:
    """Return a text without surrogates, which text from a file may contain and UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()


def batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Return items in batches of a size. The last one may be smaller."""
    return (items[start : start + size] for start in range(0, len(items), size))
