"""Personalized PageRank by pushing mass outwards from the seeds: only what they reach is ever looked at."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treering.ports.runtime import check_interrupt
from treering.ports.search import Edges, Nodes
from treering.retrieval.tuning import TUNING

Mass = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Walk:
    """Where the mass of the seeds came to rest. `nodes` are sorted, `mass` sums to 1 but for what was cut off."""

    nodes: Nodes
    mass: Mass

    def of(self, nodes: Nodes) -> Mass:
        """Return the mass of some nodes, 0 for those never reached."""
        if not len(self.nodes):
            return np.zeros(len(nodes))
        at = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        return np.where(self.nodes[at] == nodes, self.mass[at], 0.0)


class Ways(Protocol):
    """What a walk asks of a graph. All answers are for the nodes asked for, in their order."""

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of nodes."""
        ...

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Count the edges that `edges` would give for each node."""
        ...


def walk(
    seeds: Nodes,
    weights: Mass,
    ways: Ways,
    tie_weights: Mass,
    *,
    damping: float = TUNING.graph.damping,
    epsilon: float = TUNING.graph.epsilon,
    rounds: int = TUNING.graph.rounds,
) -> Walk:
    """Rank nodes by how much mass a walk leaves on them that restarts at the seeds (in proportion to `weights`).

    An edge weighs `tie_weights[tie]`, and a node shares what it hands on in proportion. In every round each node
    holding more than `epsilon` of undecided mass per edge keeps `1 - damping` of it and hands the rest on (forward
    push: Andersen, Chung and Lang, "Local Graph Partitioning using PageRank Vectors", FOCS 2006, section 3). So the
    work is bounded by the mass and not by the size of the graph, and a node that half of the graph is tied to is
    only looked up when much has gathered there. With `epsilon` 0 this is power iteration, `rounds` steps of it.
    What is undecided at the end stays where it is. A node without edges keeps all it gets.
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
    """The part of the graph reached so far. Nodes stand in order of discovery; edges name them by place."""

    def __init__(self) -> None:
        self._nodes = [_NO_NODES]
        self._count = 0
        self._table = _Table()
        self.settled = self.undecided = _NO_MASS
        self._explored = np.zeros(0, np.bool_)
        self._tied = np.zeros(0, np.bool_)
        """Which nodes have edges, of those explored."""
        self._degrees = _NO_NODES
        """How many edges a node has, -1 where it is not known yet."""
        self._edges: list[tuple[Nodes, Nodes, Mass]] = []

    @property
    def nodes(self) -> Nodes:
        """Return all nodes, in order of discovery."""
        if len(self._nodes) > 1:
            self._nodes = [np.concatenate(self._nodes)]
        return self._nodes[0]

    def place(self, numbers: Nodes) -> Nodes:
        """Return the places of nodes; those not known so far are added."""
        slots = self._table.slots(numbers)
        places = self._table.places
        unknown = places[slots] == 0
        new = slots[unknown]
        if len(new):
            # The last of equal numbers is the one whose mark stays: sorting them out so costs no sorting.
            marks = np.arange(1, len(new) + 1, dtype=np.int32)
            places[new] = marks
            last = places[new] == marks
            new = new[last]
            places[new] = np.arange(self._count + 1, self._count + len(new) + 1, dtype=np.int32)
            self._add(numbers[unknown][last])
        return places[slots].astype(np.int64) - 1

    def active(self, epsilon: float, ways: Ways) -> Nodes:
        """Return the places of the nodes that hold more than `epsilon` of undecided mass per edge."""
        most = np.flatnonzero(self.undecided > epsilon)
        unknown = most[self._degrees[most] < 0]
        if len(unknown):
            self._degrees[unknown] = ways.degrees(self.nodes[unknown])
        places: Nodes = most[self.undecided[most] > epsilon * self._degrees[most]]
        return places

    def explore(self, active: Nodes, ways: Ways, tie_weights: Mass) -> None:
        """Look up the edges of active nodes that were not looked up before."""
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
        """Let active nodes keep their part of what they hold, and hand on the rest."""
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
    """Where the places of nodes stand: a hash table with open addressing, so that any numbers need the same room.

    A number's slot is a multiple of the golden ratio (Knuth, "The Art of Computer Programming" 3, section 6.4):
    numbers that follow each other, as most stores give them, hardly ever meet in one.
    """

    def __init__(self) -> None:
        self._bits = _FIRST_BITS
        self._numbers = np.full(1 << self._bits, _FREE)
        self._used = 0
        """How many slots are taken, at most."""
        self.places = np.zeros(1 << self._bits, np.int32)
        """By slot: the place of a node, counted from 1; 0 where it has none so far."""

    def slots(self, numbers: Nodes) -> Nodes:
        """Return the slots of nodes. Those that had none get one; slots hold until the next call."""
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
            there = self._numbers[slots] == wanted
            taken[waiting[there]] = slots[there]
            waiting, slots = waiting[~there], (slots[~there] + 1) & (len(self._numbers) - 1)
        return taken

    def _make_room(self, more: int) -> None:
        """Keep half of the slots free, also if all of `more` nodes are new."""
        self._used += more
        if 2 * self._used <= len(self._numbers):
            return
        held = self._numbers != _FREE
        numbers, places = self._numbers[held], self.places[held]
        self._used = len(numbers) + more
        if 2 * self._used > len(self._numbers):
            self._bits = (2 * self._used - 1).bit_length()
            self._numbers = np.full(1 << self._bits, _FREE)
            self.places = np.zeros(1 << self._bits, np.int32)
            self.places[self._take(numbers)] = places


_NO_NODES: Nodes = np.zeros(0, np.int64)
_NO_MASS: Mass = np.zeros(0)
_FREE = np.int64(-1)
_FIRST_BITS = 12
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio
