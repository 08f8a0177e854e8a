"""An entity graph in plain dictionaries: what `ports.graph.Graph` means, written as plainly as possible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from treering.core.scope import ROOT, sees
from treering.derived.ties import Ties
from treering.ports.graph import Edges, EdgeType, Nodes, Statements
from treering.ports.reach import Reach


@dataclass(slots=True)
class MemoryGraph:
    """A `Graph` one fills by hand, for tests of what is built on the port."""

    ties: dict[int, tuple[str, Ties]] = field(default_factory=dict)
    """By passage key: its scope, and what it ties together."""
    numbers: dict[str, int] = field(default_factory=dict)
    edges_by_node: dict[int, list[tuple[int, EdgeType, int]]] = field(default_factory=dict)
    """By node: where its edges lead, why, and which passage vouches for each."""

    def put(self, key: int, ties: Ties, scope: str = ROOT) -> None:
        """Tie a passage in. A passage is put once."""
        self.ties[key] = (scope, ties)
        pairs = [(2 * key, self._number(name), tie) for name, tie in ties.nodes]
        pairs += [(self._number(pair.one), self._number(pair.other), pair.tie) for pair in ties.pairs]
        for one, other, tie in pairs:
            self.edges_by_node.setdefault(one, []).append((other, tie, key))
            self.edges_by_node.setdefault(other, []).append((one, tie, key))

    def view(self, reach: Reach) -> "MemoryGraphView":
        """Return the graph as a read at the scope of `reach` may walk it."""
        return MemoryGraphView(self, reach)

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, 2 * len(self.numbers) + 1)


@dataclass(frozen=True, slots=True)
class MemoryGraphView:
    """`ports.graph.GraphView` of a `MemoryGraph`: the passage with key k is node 2k."""

    graph: MemoryGraph
    reach: Reach

    def of_passages(self, keys: npt.NDArray[np.int64]) -> Nodes:
        """Return the nodes of passages, by key."""
        return 2 * keys

    def passages_of(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the keys of the passages that nodes stand for, -1 for nodes that stand for none."""
        return np.where(nodes % 2 == 0, nodes // 2, -1)

    def named(self, keys: Sequence[str]) -> Mapping[str, int]:
        """Return the nodes of those of the entity keys that are known."""
        return {key: self.graph.numbers[key] for key in keys if key in self.graph.numbers}

    def names(self, nodes: Sequence[int]) -> Mapping[int, str]:
        """Return the keys of entities, the ids of objects."""
        known = {number: name for name, number in self.graph.numbers.items()}
        return {node: known[node] for node in nodes if node in known}

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
            np.array([self.graph.numbers[pair.one] for _, pair in facts], np.int64),
            np.array([self.graph.numbers[pair.other] for _, pair in facts], np.int64),
            np.cumsum([0, *(len(pair.words) for _, pair in facts)], dtype=np.int64),
            np.array([word for _, pair in facts for word in pair.words], np.uint16),
        )
