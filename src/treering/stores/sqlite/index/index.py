"""Search in the ledger's own database: what was written is found as soon as it is written."""

from collections.abc import Iterator, Mapping, Sequence

import apsw

from treering.ports.models import Extractor
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.retrieval.index.ties import DIALOGUE_KINDS
from treering.stores.rows.graph import FollowedGraph, FollowedGraphView
from treering.stores.rows.packing import REINDEX, rows_of
from treering.stores.rows.passage_log import PassingCache
from treering.stores.rows.upkeep import MOST_AT_ONCE, STEP_SECONDS, FollowingIndex, IndexUpkeep
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.graph import names_of, numbers_of
from treering.stores.sqlite.index.reach import sight
from treering.stores.sqlite.index.replay import SqliteReplay
from treering.stores.sqlite.index.tables import Integers, in_batches, shown_passages
from treering.stores.sqlite.index.text import SqliteTextSearch, on_days, passages_named
from treering.stores.sqlite.index.vectors import SqliteLog, SqliteVectors


class SqliteIndex(FollowingIndex[apsw.Connection]):
    """`ports.index.Index` over the ledger's `Database`, and the `Follower` that keeps it in step."""

    def __init__(
        self,
        database: Database,
        *,
        model_id: str,
        dimension: int,
        extractor: Extractor | None = None,
        most_at_once: int = MOST_AT_ONCE,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        passing = PassingCache()
        self.vectors = SqliteVectors(database, passing, model_id, dimension)
        super().__init__(self.vectors, extractor, most_at_once)
        self.passages = SqlitePassages(database)
        self.text = SqliteTextSearch(database, passing)
        self.graph = SqliteGraph(database)
        self.upkeep = IndexUpkeep(
            self.replay,
            read=database.read,
            write=database.write,
            read_whole=database.read_fresh,
            step_seconds=step_seconds,
        )

    def replay(self, connection: apsw.Connection) -> SqliteReplay:
        """Return what makes passages from histories over a connection."""
        return SqliteReplay(connection, self._extractor)


# Questions to the graph: answered from a table in memory that follows the file.


_TIED = "SELECT g.key, p.scope_id, g.body FROM graph_passages g JOIN passages p ON p.key = g.key WHERE g.key IN (?*)"


class SqliteGraph:
    """`ports.search.Graph` over the ledger's `Database`. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followed = FollowedGraph[SqliteGraphRows](SqliteNames(database))

    def view(self, reach: Reach) -> FollowedGraphView:
        """Return the graph as it stands now, for a read at the scope of `reach`."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return self._followed.view(SqliteGraphRows(connection), sight(connection, reach).scopes)


class SqliteNames:
    """`rows.graph.NodeNames`, read from the file when they are asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def numbers_of(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the numbers of those of the entity keys that are known."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return numbers_of(connection, keys)

    def names_of(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return names_of(connection, numbers)


class SqliteGraphRows(SqliteLog):
    """`rows.graph.GraphRows` over a connection inside a transaction."""

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        return shown_passages(self.connection)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        return self.connection.execute("SELECT key, body FROM graph_passages")

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of those of the passages that have one."""
        return list(in_batches(self.connection, _TIED, keys))


# Reading passages by key: what a hit needs of them, who may see them, what stands beside them.


_HEADS = (
    "SELECT key, object_id, part, type, kind, scope, role, title, heading, coalesce(origin, ''), "
    "place_role "
    "FROM passages p JOIN passage_scopes s ON s.id = p.scope_id WHERE p.key IN (?*)"
)
# Beside a turn stands what has the next or the last position in the same object, of the same time.
_BESIDE = (
    "SELECT p.key, n.key FROM passages p JOIN passages n ON n.object_id = p.object_id "
    "AND n.position IN (p.position - 1, p.position + 1) AND n.until_seq IS p.until_seq "
    "WHERE p.key IN (?*) ORDER BY n.position"
)


class SqlitePassages:
    """`ports.passages.Passages` over the ledger's `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Read passages for several requests, all of one moment."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            return [_found(connection, request) for request in requests]

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            seen = sight(connection, reach).condition()
            sql = f"SELECT count(*) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
            return int(next(connection.execute(sql, seen.bindings))[0])


def _found(connection: apsw.Connection, request: PassageRequest) -> PassagesFound:
    heads = _heads(connection, request.keys)
    beside = _beside(connection, heads) if request.beside else {}
    new = dict.fromkeys(key for keys in beside.values() for key in keys if key not in heads)
    named = passages_named(connection, request.named, request.reach)
    more = dict.fromkeys((*new, *(key for keys in named.values() for key in keys if key not in heads)))
    heads |= _heads(connection, list(more))
    visible = _visible(connection, request.keys, request.reach) if request.reach else frozenset()
    return PassagesFound(heads, visible, beside, on_days(connection, request.days, list(heads)), named)


def _heads(connection: apsw.Connection, keys: Sequence[int]) -> dict[int, PassageHead]:
    return {row[0]: PassageHead(*row) for row in in_batches(connection, _HEADS, keys)}


def _beside(connection: apsw.Connection, heads: Mapping[int, PassageHead]) -> dict[int, list[int]]:
    turns = [key for key, head in heads.items() if head.kind in DIALOGUE_KINDS]
    found: dict[int, list[int]] = {}
    for key, other in in_batches(connection, _BESIDE, turns):
        found.setdefault(key, []).append(other)
    return found


def _visible(connection: apsw.Connection, keys: Sequence[int], reach: Reach) -> frozenset[int]:
    seen = sight(connection, reach).condition()
    sql = f"SELECT p.key FROM passages p WHERE {seen.sql} AND p.key IN (?*)"  # noqa: S608 - only our own SQL
    return frozenset(key for (key,) in in_batches(connection, sql, keys, before=seen.bindings))
