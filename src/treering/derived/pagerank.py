"""Personalized PageRank by pushing mass outwards from the seeds: only what they reach is ever looked at."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.ports.graph import Edges, Nodes

Mass = npt.NDArray[np.float64]

DAMPING = 0.5
"""Part of its mass that a node hands on. As in HippoRAG 2 (arXiv 2502.14802); anything from 0.3 to 0.6 does."""

EPSILON = 1e-6
ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Walk:
    """Where the mass of the seeds came to rest. `nodes` are sorted, `mass` sums to 1 but for what was cut off."""

    nodes: Nodes
    mass: Mass

    def of(self, nodes: Nodes) -> Mass:
        """Give the mass of some nodes, 0 for those never reached."""
        if not len(self.nodes):
            return np.zeros(len(nodes))
        at = np.minimum(np.searchsorted(self.nodes, nodes), len(self.nodes) - 1)
        return np.where(self.nodes[at] == nodes, self.mass[at], 0.0)


def walk(
    seeds: Nodes,
    weights: Mass,
    edges_of: Callable[[Nodes], Edges],
    tie_weights: Mass,
    *,
    damping: float = DAMPING,
    epsilon: float = EPSILON,
    rounds: int = ROUNDS,
) -> Walk:
    """Rank nodes by how much mass a walk leaves on them that restarts at the seeds (in proportion to `weights`).

    `edges_of` gives all edges out of nodes; an edge weighs `tie_weights[tie]`, and a node shares what it hands on
    in proportion. In every round each node holding more than `epsilon` of undecided mass keeps `1 - damping` of it
    and hands the rest on (forward push: Andersen, Chung and Lang, "Local Graph Partitioning using PageRank
    Vectors", FOCS 2006, section 3). With `epsilon` 0 this is power iteration, `rounds` steps of it. What is still
    undecided at the end stays where it is: at most `damping ** rounds` of the whole, where `epsilon` cut nothing.
    A node without edges keeps all it gets.
    """
    ground = _Ground()
    places = ground.place(seeds)
    total = float(weights.sum())
    ground.undecided += np.bincount(places, weights / total if total > 0 else weights, len(ground.nodes))
    for _ in range(rounds):
        active = np.flatnonzero(ground.undecided > epsilon)
        if not len(active):
            break
        ground.explore(active, edges_of, tie_weights)
        ground.push(active, damping)
    order = np.argsort(ground.nodes)
    return Walk(ground.nodes[order], (ground.settled + ground.undecided)[order])


class _Ground:
    """The part of the graph reached so far. Nodes stand in order of discovery; edges name them by place."""

    def __init__(self) -> None:
        self.nodes = _NO_NODES
        self.settled = self.undecided = _NO_MASS
        self._known = self._places = _NO_NODES  # all nodes sorted, and where each stands
        self._explored = np.zeros(0, np.bool_)
        self._sources = self._targets = _NO_NODES
        self._shares = _NO_MASS

    def place(self, numbers: Nodes) -> Nodes:
        """Give the places of nodes; those not known so far are added."""
        distinct, which = np.unique(numbers, return_inverse=True)
        at = np.minimum(np.searchsorted(self._known, distinct), max(len(self._known) - 1, 0))
        known = self._known[at] == distinct if len(self._known) else np.zeros(len(distinct), np.bool_)
        if not known.all():
            self._add(distinct[~known])
            at = np.searchsorted(self._known, distinct)
        places: Nodes = self._places[at][which] if len(distinct) else _NO_NODES
        return places

    def explore(self, active: Nodes, edges_of: Callable[[Nodes], Edges], tie_weights: Mass) -> None:
        """Look up the edges of active nodes that were not looked up before."""
        new = active[~self._explored[active]]
        if not len(new):
            return
        self._explored[new] = True
        edges = edges_of(self.nodes[new])
        weights = tie_weights[edges.tie]
        totals = np.bincount(edges.source, weights, len(new))[edges.source]
        kept = weights > 0
        self._sources = np.concatenate([self._sources, new[edges.source[kept]]])
        self._targets = np.concatenate([self._targets, self.place(edges.target[kept])])
        self._shares = np.concatenate([self._shares, weights[kept] / totals[kept]])

    def push(self, active: Nodes, damping: float) -> None:
        """Let active nodes keep their part of what they hold, and hand on the rest."""
        moving = np.zeros(len(self.nodes))
        moving[active] = self.undecided[active]
        tied = np.zeros(len(self.nodes), np.bool_)
        tied[self._sources] = True
        keeps = np.where(tied, 1 - damping, 1.0)
        self.settled += moving * keeps
        handed = moving[self._sources] * damping * self._shares
        self.undecided += np.bincount(self._targets, handed, len(self.nodes)) - moving

    def _add(self, numbers: Nodes) -> None:
        first = len(self.nodes)
        self.nodes = np.concatenate([self.nodes, numbers])
        room = len(numbers)
        self.settled = np.concatenate([self.settled, np.zeros(room)])
        self.undecided = np.concatenate([self.undecided, np.zeros(room)])
        self._explored = np.concatenate([self._explored, np.zeros(room, np.bool_)])
        known = np.concatenate([self._known, numbers])
        places = np.concatenate([self._places, np.arange(first, first + room)])
        order = np.argsort(known)
        self._known, self._places = known[order], places[order]


_NO_NODES: Nodes = np.zeros(0, np.int64)
_NO_MASS: Mass = np.zeros(0)
