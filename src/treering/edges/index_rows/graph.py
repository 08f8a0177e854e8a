"""The graph of a space in memory, which follows the records in a database."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treering.derived.graph_table import GraphTable, Keys
from treering.edges.index_rows.name_table import NameTable, PackedNames
from treering.edges.index_rows.passage_log import Moment, PassageLog, follow_log
from treering.ports.graph import Edges, Nodes, Statements

_BATCH = 4_096


class GraphRows(PassageLog, Protocol):
    """The records of the graph, as one transaction sees them."""

    def shown_passages(self) -> tuple[Keys, Keys, Keys]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        ...

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Return all records, by passage key."""
        ...

    def records_of(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and record of those of the passages that have one."""
        ...


class NamedGraphRows(GraphRows, Protocol):
    """The records of the graph with the names in them."""

    def names_after(self, number: int) -> PackedNames:
        """Return the names whose numbers are greater, in the order of their numbers."""
        ...


Rows = TypeVar("Rows", bound=GraphRows)


class NodeNames(Protocol):
    """The names of nodes, by number."""

    def numbers_of(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the numbers of those of the entity keys that are known."""
        ...

    def names_of(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        ...


class FollowedGraph(Generic[Rows]):
    """A table of the graph that is brought up to date by a log. Safe to use from many threads."""

    def __init__(self, names: NodeNames) -> None:
        self.table = GraphTable()
        self.names = names
        self._lock = threading.Lock()
        self._seen: Moment | None = None

    def view(self, rows: Rows, scopes: frozenset[int] | None) -> "FollowedGraphView":
        """Return the graph at the moment of the rows, for a read that sees some scopes (`None`: all)."""
        with self._lock:
            self._seen = follow_log(
                rows, self._seen, load=lambda: self._load(rows), reread=lambda keys: self._reread(rows, keys)
            )
            return FollowedGraphView(self.table, self._lock, scopes, self.names)

    def _load(self, rows: Rows) -> None:
        """Fill the table from two scans, joined here: as a join in SQL it would read every row of passages."""
        self.table = GraphTable()
        shown, scopes_of, _ = rows.shown_passages()
        scopes = np.zeros(int(shown.max(initial=-1)) + 1, np.int32)
        scopes[shown] = scopes_of
        stored = rows.records()
        while batch := list(islice(stored, _BATCH)):
            keys = np.array([key for key, _ in batch], np.int64)
            known = np.zeros(len(keys), np.bool_)
            inside = (keys >= 0) & (keys < len(scopes))
            known[inside] = scopes[keys[inside]] > 0
            records = [body for (_, body), is_known in zip(batch, known, strict=True) if is_known]
            self.table.put(keys[known], scopes[keys[known]], records, of=len(shown))

    def _reread(self, rows: Rows, changed: Sequence[int]) -> None:
        """Read some passages anew."""
        found = rows.records_of(changed)
        self.table.discard(np.array(changed, np.int64))
        places = np.array([row[:2] for row in found], np.int64).reshape(-1, 2)
        self.table.put(places[:, 0], places[:, 1].astype(np.int32), [body for _, _, body in found])


class NamedGraph(FollowedGraph[NamedGraphRows]):
    """A table of the graph with the names of its nodes beside it: asking a view for names asks no database."""

    def __init__(self) -> None:
        self._known = NameTable()
        super().__init__(self._known)

    def _load(self, rows: NamedGraphRows) -> None:
        super()._load(rows)
        self._known = NameTable()
        self._known.put(rows.names_after(0))
        self.names = self._known

    def _reread(self, rows: NamedGraphRows, changed: Sequence[int]) -> None:
        before = self.table.numbers(np.array(changed, np.int64))
        super()._reread(rows, changed)
        self._known.put(rows.names_after(self._known.last))
        # A name lives as long as a passage holds it.
        self._known.discard(before[self.table.degrees(2 * before + 1) == 0].tolist())


class FollowedGraphView:
    """`ports.graph.GraphView`. A passage with key k is node 2k; entities and objects have odd ones.

    The table is shared by all views, each with the lock in hand: what is written while one is used may show in it.
    """

    def __init__(
        self, table: GraphTable, lock: threading.Lock, scopes: frozenset[int] | None, names: NodeNames
    ) -> None:
        self._table = table
        self._lock = lock
        self._scopes = scopes
        self._names = names

    def of_passages(self, keys: Keys) -> Nodes:
        """Return the nodes of passages, by key."""
        return 2 * keys

    def passages_of(self, nodes: Nodes) -> Keys:
        """Return the keys of the passages that nodes stand for, -1 for nodes that stand for none."""
        return np.where(nodes & 1, -1, nodes >> 1)

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of those of the entity keys that are known."""
        return {key: 2 * number + 1 for key, number in self._names.numbers_of(keys).items()}

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        found = self._names.names_of([int(node) >> 1 for node in nodes if node & 1])
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
