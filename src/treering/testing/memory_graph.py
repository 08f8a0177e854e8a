"""An entity graph in plain dictionaries: what `ports.graph.Graph` means, written as plainly as possible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from treering.core.scope import ROOT, sees
from treering.derived.ties import Ties
from treering.ports.graph import Edges, EdgeType, Nodes, Statements
from treering.ports.reach import Reach

_OF_OBJECTS = frozenset({EdgeType.PART, EdgeType.LINK})


@dataclass(slots=True)
class MemoryGraph:
    """A `Graph` one fills by hand, for tests of what is built on the port, and for stores that keep it in memory.

    The passage with key k is node `width * k`; the n-th name is node `width * n + 1`. Nobody may count on that.
    """

    width: int = 2
    ties: dict[int, tuple[str, Ties]] = field(default_factory=dict)
    """By passage key: its scope, and what it ties together."""
    entities: dict[str, int] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    """By node: the key of the entity, the id of the object."""
    edges_by_node: dict[int, list[tuple[int, EdgeType, int]]] = field(default_factory=dict)
    """By node: where its edges lead, why, and which passage vouches for each."""
    numbered: int = 0
    """Names that ever had a number: that of one which is gone is given to no other."""

    def put(self, key: int, ties: Ties, scope: str = ROOT) -> None:
        """Tie a passage in. A passage is put once, or again after it was discarded."""
        self.ties[key] = (scope, ties)
        for one, other, tie in self._pairs(key, ties):
            self.edges_by_node.setdefault(one, []).append((other, tie, key))
            self.edges_by_node.setdefault(other, []).append((one, tie, key))

    def discard(self, key: int) -> None:
        """Take a passage out, and the names that no other passage has."""
        _, ties = self.ties.pop(key, (ROOT, Ties((), ())))
        for node in {end for one, other, _ in self._pairs(key, ties) for end in (one, other)}:
            kept = [edge for edge in self.edges_by_node.pop(node) if edge[2] != key]
            if kept:
                self.edges_by_node[node] = kept
            else:
                self._forget(node)

    def view(self, reach: Reach) -> "MemoryGraphView":
        """Return the graph as a read at the scope of `reach` may walk it."""
        return MemoryGraphView(self, reach)

    def _pairs(self, key: int, ties: Ties) -> list[tuple[int, int, EdgeType]]:
        """Return what a passage ties together, by node."""
        own = [(self.width * key, self._number(name, tie), tie) for name, tie in ties.nodes]
        return own + [
            (self._number(pair.one, pair.tie), self._number(pair.other, pair.tie), pair.tie) for pair in ties.pairs
        ]

    def _number(self, name: str, tie: EdgeType) -> int:
        """Return the node of an entity, or of an object that may be called the same."""
        known = self.objects if tie in _OF_OBJECTS else self.entities
        if name not in known:
            known[name] = self.width * self.numbered + 1
            self.names[known[name]] = name
            self.numbered += 1
        return known[name]

    def _forget(self, node: int) -> None:
        name = self.names.pop(node, "")
        for known in (self.entities, self.objects):
            if known.get(name) == node:
                del known[name]


@dataclass(frozen=True, slots=True)
class MemoryGraphView:
    """`ports.graph.GraphView` of a `MemoryGraph`."""

    graph: MemoryGraph
    reach: Reach

    def of_passages(self, keys: npt.NDArray[np.int64]) -> Nodes:
        """Return the nodes of passages, by key."""
        return self.graph.width * keys

    def passages_of(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the keys of the passages that nodes stand for, -1 for nodes that stand for none."""
        return np.where(nodes % self.graph.width == 0, nodes // self.graph.width, -1)

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of those of the entity keys that are known."""
        return {key: self.graph.entities[key] for key in keys if key in self.graph.entities}

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        return {node: self.graph.names[node] for node in nodes if node in self.graph.names}

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of some nodes that passages in reach vouch for."""
        ties = self.graph.ties
        found = [
            (at, target, tie)
            for at, node in enumerate(nodes.tolist())
            for target, tie, owner in self.graph.edges_by_node.get(node, ())
            if sees(self.reach.scope, ties[owner][0], descend=self.reach.descend)
        ]
        table = np.array(found, np.int64).reshape(-1, 3)
        return Edges(table[:, 0], table[:, 1], table[:, 2].astype(np.uint8))

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges that `edges` would give for each node."""
        return np.bincount(self.edges(nodes).source, minlength=len(nodes))

    def statements(self, passages: Sequence[int]) -> Statements:
        """Return what passages state."""
        facts = [
            (at, pair)
            for at, key in enumerate(passages)
            for pair in (self.graph.ties[key][1].pairs if key in self.graph.ties else ())
            if pair.tie == EdgeType.FACT
        ]
        return Statements(
            np.array([at for at, _ in facts], np.int64),
            np.array([self.graph.entities[pair.one] for _, pair in facts], np.int64),
            np.array([self.graph.entities[pair.other] for _, pair in facts], np.int64),
            np.cumsum([0, *(len(pair.words) for _, pair in facts)], dtype=np.int64),
            np.array([word for _, pair in facts for word in pair.words], np.uint16),
        )
