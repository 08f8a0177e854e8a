"""Personalized PageRank by forward push from the seeds, which reads only the nodes that they reach."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treering.ports.runtime import check_interrupt
from treering.ports.search import Edges, Nodes
from treering.retrieval import limits
from treering.retrieval.tuning import TUNING

Mass = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Walk:
    """The mass of each reached node. `nodes` are sorted; `mass` sums to about 1."""

    nodes: Nodes
    mass: Mass

    def of(self, nodes: Nodes) -> Mass:
        """Return the mass of nodes, 0 for those not reached."""
        if not len(self.nodes):
            return np.zeros(len(nodes))
        at = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        return np.where(self.nodes[at] == nodes, self.mass[at], 0.0)


class Ways(Protocol):
    """The graph operations of a walk. Results are in the order of the given nodes."""

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of nodes."""
        ...

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the number of edges out of each node."""
        ...


def walk(
    seeds: Nodes,
    weights: Mass,
    ways: Ways,
    tie_weights: Mass,
    *,
    damping: float = TUNING.graph.damping,
    epsilon: float = limits.MIN_UNDECIDED_MASS,
    rounds: int = limits.WALK_ROUNDS,
) -> Walk:
    """Compute the mass that a random walk leaves on nodes if it restarts at the seeds, in proportion to `weights`.

    A node distributes mass over its edges in proportion to `tie_weights[tie]`. In every round, each node with more than
    `epsilon` of undecided mass per edge settles `1 - damping` of it and distributes the rest (forward push: Andersen,
    Chung and Lang, "Local Graph Partitioning using PageRank Vectors", FOCS 2006, section 3). So the work is bounded by
    the mass and not by the size of the graph, and a hub is only expanded if much mass has gathered there. With
    `epsilon` 0 this is power iteration for `rounds` steps. Undecided mass at the end, and all mass of nodes without
    edges, stays where it is.
    """
    reached = _ReachedGraph()
    places = reached.place(seeds)
    total = float(weights.sum())
    reached.undecided += np.bincount(places, weights / total if total > 0 else weights, len(reached.undecided))
    for _ in range(rounds):
        check_interrupt()
        active = reached.active(epsilon, ways)
        if not len(active):
            break
        reached.explore(active, ways, tie_weights)
        reached.push(active, damping)
    order = np.argsort(reached.nodes)
    return Walk(reached.nodes[order], (reached.settled + reached.undecided)[order])


class _ReachedGraph:
    """The part of the graph reached so far. Nodes are in order of discovery; edges refer to their positions."""

    def __init__(self) -> None:
        self._nodes = [_NO_NODES]
        self._count = 0
        self._table = _Table()
        self.settled = self.undecided = _NO_MASS
        self._explored = np.zeros(0, np.bool_)
        self._tied = np.zeros(0, np.bool_)
        """A mask of the explored nodes that have edges."""
        self._degrees = _NO_NODES
        """The number of edges of each node, -1 if unknown."""
        self._edges: list[tuple[Nodes, Nodes, Mass]] = []

    @property
    def nodes(self) -> Nodes:
        """All nodes, in order of discovery."""
        if len(self._nodes) > 1:
            self._nodes = [np.concatenate(self._nodes)]
        return self._nodes[0]

    def place(self, numbers: Nodes) -> Nodes:
        """Return the positions of nodes, and add new ones."""
        slots = self._table.slots(numbers)
        places = self._table.places
        unknown = places[slots] == 0
        new = slots[unknown]
        if len(new):
            # Removes duplicates without sorting: only the mark of the last of equal numbers remains.
            marks = np.arange(1, len(new) + 1, dtype=np.int32)
            places[new] = marks
            last = places[new] == marks
            new = new[last]
            places[new] = np.arange(self._count + 1, self._count + len(new) + 1, dtype=np.int32)
            self._add(numbers[unknown][last])
        return places[slots].astype(np.int64) - 1

    def active(self, epsilon: float, ways: Ways) -> Nodes:
        """Return the positions of the nodes with more than `epsilon` of undecided mass per edge."""
        most = np.flatnonzero(self.undecided > epsilon)
        unknown = most[self._degrees[most] < 0]
        if len(unknown):
            self._degrees[unknown] = ways.degrees(self.nodes[unknown])
        places: Nodes = most[self.undecided[most] > epsilon * self._degrees[most]]
        return places

    def explore(self, active: Nodes, ways: Ways, tie_weights: Mass) -> None:
        """Read the edges of active nodes that were not read before."""
        new = active[~self._explored[active]]
        if not len(new):
            return
        self._explored[new] = True
        edges = ways.edges(self.nodes[new])
        weights = tie_weights[edges.tie]
        totals = np.bincount(edges.source, weights, len(new))
        if not np.all(weights > 0):
            edges = Edges(edges.source[weights > 0], edges.target[weights > 0], edges.tie[weights > 0])
            weights = weights[weights > 0]
        sources = new[edges.source]
        self._tied[sources] = True
        self._edges.append((sources, self.place(edges.target), weights / totals[edges.source]))

    def push(self, active: Nodes, damping: float) -> None:
        """Settle a share of the mass of active nodes, and distribute the rest."""
        moving = np.zeros(self._count)
        moving[active] = self.undecided[active]
        gained = np.zeros(self._count)
        for sources, targets, shares in self._edges:
            gained += np.bincount(targets, damping * moving[sources] * shares, self._count)
        self.settled += moving * np.where(self._tied, 1 - damping, 1.0)
        self.undecided += gained - moving

    def _add(self, numbers: Nodes) -> None:
        self._nodes.append(numbers)
        self._count += len(numbers)
        self.settled = np.concatenate([self.settled, np.zeros(len(numbers))])
        self.undecided = np.concatenate([self.undecided, np.zeros(len(numbers))])
        unknown = np.zeros(len(numbers), np.bool_)
        self._explored = np.concatenate([self._explored, unknown])
        self._tied = np.concatenate([self._tied, unknown])
        self._degrees = np.concatenate([self._degrees, np.full(len(numbers), -1)])


class _Table:
    """The positions of nodes: a hash table with open addressing.

    Slots are chosen by Fibonacci hashing (Knuth, "The Art of Computer Programming" 3, section 6.4): consecutive
    numbers, which most stores assign, rarely collide.
    """

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._numbers = np.full(1 << self._bits, _FREE)
        self._used = 0
        """An upper bound of the used slots."""
        self.places = np.zeros(1 << self._bits, np.int32)
        """By slot: the position of a node, counted from 1; 0 if it has none yet."""

    def slots(self, numbers: Nodes) -> Nodes:
        """Return the slots of nodes, and assign new ones. Slots are valid until the next call."""
        self._make_room(len(numbers))
        return self._take(numbers)

    def _take(self, numbers: Nodes) -> Nodes:
        mixed = numbers.astype(np.uint64) * _GOLDEN
        slots = (mixed >> np.uint64(64 - self._bits)).astype(np.int64)
        taken = slots.copy()
        waiting = np.arange(len(numbers))
        while len(waiting):
            wanted = numbers[waiting]
            free = self._numbers[slots] == _FREE
            self._numbers[slots[free]] = wanted[free]
            matches = self._numbers[slots] == wanted
            taken[waiting[matches]] = slots[matches]
            waiting, slots = waiting[~matches], (slots[~matches] + 1) & (len(self._numbers) - 1)
        return taken

    def _make_room(self, more: int) -> None:
        """Grow so that half of the slots stay free even if all `more` nodes are new."""
        self._used += more
        if 2 * self._used <= len(self._numbers):
            return
        used = self._numbers != _FREE
        numbers, places = self._numbers[used], self.places[used]
        self._used = len(numbers) + more
        if 2 * self._used > len(self._numbers):
            self._bits = (2 * self._used - 1).bit_length()
            self._numbers = np.full(1 << self._bits, _FREE)
            self.places = np.zeros(1 << self._bits, np.int32)
            self.places[self._take(numbers)] = places


_NO_NODES: Nodes = np.zeros(0, np.int64)
_NO_MASS: Mass = np.zeros(0)
_FREE = np.int64(-1)
_FIRST_BITS = 15
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio
