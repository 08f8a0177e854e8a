"""Personalized PageRank by pushing mass outwards from the seeds: only what they reach is ever looked at."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treering.ports.graph import Edges, Nodes
from treering.ports.interrupt import check_interrupt

Mass = npt.NDArray[np.float64]

DAMPING = 0.5
"""Part of its mass that a node hands on. As in HippoRAG 2 (arXiv 2502.14802); anything from 0.3 to 0.6 does."""

EPSILON = 1e-5
"""Undecided mass per edge below which a node is left alone; the ten best stay the same in 98 of 100 places."""

ROUNDS = 8


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
    damping: float = DAMPING,
    epsilon: float = EPSILON,
    rounds: int = ROUNDS,
) -> Walk:
    """Rank nodes by how much mass a walk leaves on them that restarts at the seeds (in proportion to `weights`).

    An edge weighs `tie_weights[tie]`, and a node shares what it hands on in proportion. In every round each node
    holding more than `epsilon` of undecided mass per edge keeps `1 - damping` of it and hands the rest on (forward
    push: Andersen, Chung and Lang, "Local Graph Partitioning using PageRank Vectors", FOCS 2006, section 3). So the
    work is bounded by the mass and not by the size of the graph, and a node that half of the graph is tied to is
    only looked up when much has gathered there. With `epsilon` 0 this is power iteration, `rounds` steps of it.
    What is undecided at the end stays where it is. A node without edges keeps all it gets.
    """
    ground = _Ground()
    places = ground.place(seeds)
    total = float(weights.sum())
    ground.undecided += np.bincount(places, weights / total if total > 0 else weights, len(ground.undecided))
    for _ in range(rounds):
        check_interrupt()
        active = ground.active(epsilon, ways)
        if not len(active):
            break
        ground.explore(active, ways, tie_weights)
        ground.push(active, damping)
    order = np.argsort(ground.nodes)
    return Walk(ground.nodes[order], (ground.settled + ground.undecided)[order])


class _Ground:
    """The part of the graph reached so far. Nodes stand in order of discovery; edges name them by place."""

    def __init__(self) -> None:
        self._nodes = [_NO_NODES]
        self._count = 0
        # By node number: its place, counted from 1. Memory that is never written to is never really taken.
        self._places = np.zeros(_ROOM, np.int32)
        self.settled = self.undecided = _NO_MASS
        self._explored = np.zeros(0, np.bool_)
        self._degrees = _NO_NODES
        """How many edges a node has, -1 where nobody asked so far."""
        self._edges: list[tuple[Nodes, Nodes, Mass]] = []

    @property
    def nodes(self) -> Nodes:
        """Return all nodes, in order of discovery."""
        if len(self._nodes) > 1:
            self._nodes = [np.concatenate(self._nodes)]
        return self._nodes[0]

    def place(self, numbers: Nodes) -> Nodes:
        """Return the places of nodes; those not known so far are added."""
        self._make_room(int(numbers.max(initial=0)))
        new = numbers[self._places[numbers] == 0]
        if len(new):
            # The last of equal numbers is the one whose mark stays: sorting them out so costs no sorting.
            marks = np.arange(1, len(new) + 1, dtype=np.int32)
            self._places[new] = marks
            new = new[self._places[new] == marks]
            self._places[new] = np.arange(self._count + 1, self._count + len(new) + 1, dtype=np.int32)
            self._add(new)
        return self._places[numbers].astype(np.int64) - 1

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
        source, weights = edges.source[weights > 0], weights[weights > 0]
        self._edges.append(
            (new[source], self.place(edges.target[tie_weights[edges.tie] > 0]), weights / totals[source])
        )

    def push(self, active: Nodes, damping: float) -> None:
        """Let active nodes keep their part of what they hold, and hand on the rest."""
        moving = np.zeros(self._count)
        moving[active] = self.undecided[active]
        gained = np.zeros(self._count)
        tied = np.zeros(self._count, np.bool_)
        for sources, targets, shares in self._edges:
            tied[sources] = True
            gained += np.bincount(targets, damping * moving[sources] * shares, self._count)
        self.settled += moving * np.where(tied, 1 - damping, 1.0)
        self.undecided += gained - moving

    def _add(self, numbers: Nodes) -> None:
        self._nodes.append(numbers)
        self._count += len(numbers)
        self.settled = np.concatenate([self.settled, np.zeros(len(numbers))])
        self.undecided = np.concatenate([self.undecided, np.zeros(len(numbers))])
        self._explored = np.concatenate([self._explored, np.zeros(len(numbers), np.bool_)])
        self._degrees = np.concatenate([self._degrees, np.full(len(numbers), -1)])

    def _make_room(self, number: int) -> None:
        if number >= len(self._places):
            room = np.zeros(2 * number + 2, np.int32)
            room[: len(self._places)] = self._places
            self._places = room


_NO_NODES: Nodes = np.zeros(0, np.int64)
_NO_MASS: Mass = np.zeros(0)
_ROOM = 1 << 18
