"""The graph in the ledger's database: one record per current passage, and the number of passages per name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

import apsw

from treering.ports.passages import Reach
from treering.ports.search import EdgeType
from treering.retrieval.index.ties import HEADER, NumberedTies, Ties, pack_ties, reference, unpack_ties
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.fold import Part
from treering.stores.rows.graph import (
    FollowedGraph,
    FollowedGraphView,
    GraphReads,
    content_hashes,
    entity_name,
    graph_faults,
    names_in,
    numbered,
    object_name,
    plain_name,
    stored_name,
    ties_kept,
)
from treering.stores.rows.upkeep import SHOWN
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.kept_tables import SqliteSavedTable
from treering.stores.sqlite.index.passage_log import SqliteLog
from treering.stores.sqlite.reading import in_batches, read_state
from treering.stores.sqlite.sight import sight

_RECORDS = "SELECT key, body FROM graph_passages"
_SOME_NAMES = "SELECT id, name FROM graph_nodes WHERE id IN (?*)"
_OF_OBJECTS = (
    "SELECT p.object_id, p.part, g.body FROM passages p JOIN graph_passages g ON g.key = p.key "
    "WHERE p.object_id IN (?*) AND p.live = 1 AND p.until_seq IS NULL"
)
_OWN = 4 * HEADER + 1  # position in a record of the reference to the passage's own object, counted from 1


def settle_ties(connection: apsw.Connection, ties: Mapping[int, Ties | None]) -> None:
    """Replace the ties of passages in the graph; `None` removes a passage."""
    with rows_of("the graph", hint=REINDEX):
        _settle(connection, list(ties), {key: each for key, each in ties.items() if each})


def numbers_of(connection: apsw.Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of entity keys. Unknown keys are left out."""
    names = {stored_name(entity_name(key)): key for key in keys}
    return {names[name]: number for name, number in _known(connection, list(names)).items()}


def name_code(name: bytes) -> int:
    """Return the number by which a name is looked up: 31 bits, which SQLite stores in 4 bytes.

    Several names may have the same number. An index of the names themselves would store each of them twice.
    """
    return crc32(name) >> 1


def names_of(connection: apsw.Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Return the keys of entities and the ids of objects."""
    rows = in_batches(connection, _SOME_NAMES, numbers)
    return {number: plain_name(name) for number, name in rows}


def records_of(connection: apsw.Connection, object_ids: Sequence[str]) -> int:
    """Count the records of objects, by the content of the records. Reads all records."""
    own = [stored_name(object_name(identity)) for identity in object_ids]
    nodes = _known(connection, own).values()
    first = [reference(number, EdgeType.PART).to_bytes(4, "little") for number in nodes]
    sql = f"SELECT key, body FROM graph_passages WHERE substr(body, {_OWN}, 4) IN (?*)"  # noqa: S608 - a constant
    return sum(1 for _ in in_batches(connection, sql, first))


def kept_ties(connection: apsw.Connection, parts: Sequence[Part]) -> dict[Part, Ties]:
    """Return the ties of current passages. Passages without a valid record are left out."""
    rows = in_batches(connection, _OF_OBJECTS, sorted({identity for identity, _ in parts}))
    wanted = set(parts)
    records = {(identity, part): body for identity, part, body in rows if (identity, part) in wanted}
    return ties_kept(records, lambda ids: dict(in_batches(connection, _SOME_NAMES, ids)))


def graph_contents(connection: apsw.Connection) -> dict[int, int]:
    """Return a hash of the ties of each passage by name. The hash of a damaged record equals no other one."""
    return content_hashes(connection.execute(_RECORDS), dict(connection.execute("SELECT id, name FROM graph_nodes")))


def graph_damage(connection: apsw.Connection) -> Iterator[str]:
    """Describe damaged records and wrong numbers of passages per name."""
    counted = dict(connection.execute("SELECT id, passages FROM graph_nodes"))
    return graph_faults(connection.execute(_RECORDS), counted)


def _settle(connection: apsw.Connection, keys: Sequence[int], wanted: Mapping[int, Ties]) -> None:
    released = Counter(number for old in _held(connection, keys) for number in old.numbers())
    held = Counter(name for ties in wanted.values() for name in sorted(names_in(ties)))
    # Add first, so that a name that moves from one passage to another keeps its number.
    numbers = _hold(connection, held)
    gone = ((key,) for key in keys if key not in wanted)
    connection.executemany("DELETE FROM graph_passages WHERE key = ?", gone)
    records = ((key, pack_ties(numbered(ties, numbers))) for key, ties in wanted.items())
    connection.executemany("INSERT OR REPLACE INTO graph_passages(key, body) VALUES(?, ?)", records)
    less = ((count, number) for number, count in released.items())
    connection.executemany("UPDATE graph_nodes SET passages = passages - ? WHERE id = ?", less)
    unused = ((number,) for number in released)
    connection.executemany("DELETE FROM graph_nodes WHERE id = ? AND passages <= 0", unused)


def _hold(connection: apsw.Connection, held: Mapping[str, int]) -> dict[str, int]:
    """Add to the number of passages of each name; return the numbers of the names. New names get the next numbers."""
    stored = {stored_name(name): name for name in held}
    known = {stored[name]: number for name, number in _known(connection, list(stored)).items()}
    more = ((held[name], number) for name, number in known.items())
    connection.executemany("UPDATE graph_nodes SET passages = passages + ? WHERE id = ?", more)
    # The sequence of the table instead of its last row, because numbers of deleted names are never used again.
    row = next(connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'graph_nodes'"), (0,))
    new = {name: number for number, name in enumerate((name for name in held if name not in known), start=row[0] + 1)}
    rows = ((new[name], body, name_code(body), held[name]) for body, name in stored.items() if name in new)
    connection.executemany("INSERT INTO graph_nodes(id, name, code, passages) VALUES(?, ?, ?, ?)", rows)
    return known | new


def _known(connection: apsw.Connection, names: Sequence[bytes]) -> dict[bytes, int]:
    """Return the numbers of names. Unknown names are left out."""
    wanted = frozenset(names)
    sql = "SELECT id, name FROM graph_nodes WHERE code IN (?*)"
    rows = in_batches(connection, sql, sorted({name_code(name) for name in names}))
    return {name: number for number, name in rows if name in wanted}


def _held(connection: apsw.Connection, keys: Sequence[int]) -> Iterator[NumberedTies]:
    """Read the current records of passages."""
    rows = in_batches(connection, "SELECT key, body FROM graph_passages WHERE key IN (?*)", keys)
    return (unpack_ties(body) for _, body in rows)


_TIED = "SELECT g.key, p.scope_id, g.body FROM graph_passages g JOIN passages p ON p.key = g.key WHERE g.key IN (?*)"


class SqliteGraph:
    """`ports.search.Graph` over the ledger's `Database`. Thread-safe."""

    def __init__(self, database: Database, *, saves_at_once: bool = True) -> None:
        self._database = database
        reads = GraphReads(database.read, numbers_of, names_of, SqliteGraphRows)
        saved = SqliteSavedTable(database, "graph", at_once=saves_at_once)
        self._followed = FollowedGraph[SqliteGraphRows](reads, saved)

    def is_due(self) -> bool:
        """Return whether the saved table is missing, or much has changed since."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return self._followed.is_due(SqliteGraphRows(connection), read_state(connection, SHOWN))

    def prepare(self) -> None:
        """Save the table for all processes."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            self._followed.prepare(SqliteGraphRows(connection))

    def view(self, reach: Reach) -> FollowedGraphView:
        """Return the current graph for a read at the scope of `reach`."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return self._followed.view(SqliteGraphRows(connection), sight(connection, reach).scopes)


class SqliteGraphRows(SqliteLog):
    """`rows.graph.GraphRows` over a connection in a transaction."""

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        return self.connection.execute("SELECT key, body FROM graph_passages")

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of passages. Passages without a record are left out."""
        return list(in_batches(self.connection, _TIED, keys))
