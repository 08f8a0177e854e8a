"""Questions to the graph: answered from a table in memory that follows the file."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, islice

import apsw
import numpy as np
import numpy.typing as npt

from treering.derived.graph_table import GraphTable, Keys
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.graph import names_of, numbers_of
from treering.edges.stores.sqlite.reach import sight
from treering.edges.stores.sqlite.vector_queue import Moment, catch_up
from treering.edges.stores.sqlite.whole_columns import shown_passages
from treering.ports.graph import Edges, Nodes, Statements
from treering.ports.reach import Reach

_BATCH = 4_096
_FEW = 500  # keys in one statement

_TIED = "SELECT g.key, p.scope_id, g.body FROM graph_passages g JOIN passages p ON p.key = g.key WHERE g.key IN "


class SqliteGraph:
    """`ports.graph.Graph` over the ledger's `Database`. Safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._table = GraphTable()
        self._seen: Moment | None = None

    def view(self, reach: Reach) -> "SqliteGraphView":
        """Return the graph as it stands now, for a read at the scope of `reach`."""
        with self._read() as connection:
            scopes = sight(connection, reach).scopes
            with self._lock:
                self._refresh(connection)
                return SqliteGraphView(self._database, self._table, self._lock, scopes)

    @contextmanager
    def _read(self) -> Iterator[apsw.Connection]:
        """Hold a snapshot, and the rows of the graph to what they should be."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            yield connection

    def _refresh(self, connection: apsw.Connection) -> None:
        """Bring the table to the moment of the connection's snapshot; one of an older moment gets the newer table."""
        self._seen = catch_up(connection, self._seen, load=self._load, reread=self._reread)

    def _load(self, connection: apsw.Connection) -> None:
        """Fill the table from two scans, joined here: as a join in SQL it would read every row of passages."""
        self._table = GraphTable()
        shown, scopes_of, _ = shown_passages(connection)
        scopes = np.zeros(int(shown.max(initial=-1)) + 1, np.int32)
        scopes[shown] = scopes_of
        rows = connection.execute("SELECT key, body FROM graph_passages")
        while batch := list(islice(rows, _BATCH)):
            keys = np.array([key for key, _ in batch], np.int64)
            known = np.zeros(len(keys), np.bool_)
            inside = (keys >= 0) & (keys < len(scopes))
            known[inside] = scopes[keys[inside]] > 0
            records = list(compress((body for _, body in batch), known))
            self._table.put(keys[known], scopes[keys[known]], records, of=len(shown))

    def _reread(self, connection: apsw.Connection, changed: Sequence[int]) -> None:
        for start in range(0, len(changed), _FEW):
            keys = changed[start : start + _FEW]
            rows = list(connection.execute(f"{_TIED} ({','.join('?' * len(keys))})", keys))
            self._table.discard(np.array(keys, np.int64))
            places = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2)
            self._table.put(places[:, 0], places[:, 1].astype(np.int32), [body for _, _, body in rows])


class SqliteGraphView:
    """`ports.graph.GraphView`. A passage with key k is node 2k; entities and objects have odd ones.

    The table is shared by all views, each with the lock in hand: what is written while one is used may show in it.
    """

    def __init__(
        self, database: Database, table: GraphTable, lock: threading.Lock, scopes: frozenset[int] | None
    ) -> None:
        self._database = database
        self._table = table
        self._lock = lock
        self._scopes = scopes

    def of_passages(self, keys: Keys) -> Nodes:
        """Return the nodes of passages, by key."""
        return 2 * keys

    def passages_of(self, nodes: Nodes) -> Keys:
        """Return the keys of the passages that nodes stand for, -1 for nodes that stand for none."""
        return np.where(nodes & 1, -1, nodes >> 1)

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of those of the entity keys that are known."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            return {key: 2 * number + 1 for key, number in numbers_of(connection, keys).items()}

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        with rows_of("the graph", hint=REINDEX), self._database.read() as connection:
            found = names_of(connection, [int(node) >> 1 for node in nodes if node & 1])
        return {2 * number + 1: name for number, name in found.items()}

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of some nodes that passages in reach (by scope; filters apart) vouch for."""
        with self._lock:
            return self._table.edges(nodes, self._scopes)

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges that `edges` would give for each node."""
        with self._lock:
            return self._table.degrees(nodes, self._scopes)

    def statements(self, passages: Sequence[int]) -> Statements:
        """Return what passages state, by passage key."""
        with self._lock:
            return self._table.statements(np.array(passages, np.int64))
