"""Personalized PageRank solved exactly on a whole graph: what walks that look at a part of it are held against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure
from treering.ports.search import Nodes
from treering.retrieval.graph.association import TIE_WEIGHTS
from treering.retrieval.graph.pagerank import Mass, Ways, walk
from treering.retrieval.tuning import TUNING

_TOP = 10
_ROUNDS = 40  # leaves 1e-12 of the mass undecided
_BLOCK = 50_000


@dataclass(frozen=True, slots=True)
class Start:
    """Where a walk begins: nodes and what they weigh."""

    seeds: Nodes
    weights: Mass


@dataclass(frozen=True, slots=True)
class WholeGraph:
    """All edges of a graph, ordered by where they lead. Nodes are named by their place in `nodes`."""

    nodes: Nodes
    source: npt.NDArray[np.int32]
    share: Mass
    """Part of what its source hands on that an edge carries."""
    targets: npt.NDArray[np.int32]
    """Nodes that edges lead to, ascending; those of `targets[i]` begin at `starts[i]`."""
    starts: npt.NDArray[np.int64]
    tied: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, passages: Nodes, ways: Ways) -> "WholeGraph":
        """Read everything that can be reached from passages."""
        nodes, source, target, weight = _explored(passages, ways)
        order = np.argsort(target, kind="stable")
        source, target, weight = source[order], target[order], weight[order]
        totals = np.bincount(source, weight, len(nodes))
        targets, starts = np.unique(target, return_index=True)
        return cls(nodes, source, weight / totals[source], targets, starts, totals > 0)

    def solve(self, start: Start) -> Mass:
        """Return the mass that comes to rest on each node, by power iteration on the whole graph to convergence."""
        undecided = np.zeros(len(self.nodes))
        np.add.at(undecided, np.searchsorted(self.nodes, start.seeds), start.weights / start.weights.sum())
        settled = np.zeros(len(self.nodes))
        for _ in range(_ROUNDS):
            settled += undecided * np.where(self.tied, 1 - TUNING.graph.damping, 1.0)
            moved = np.add.reduceat(undecided[self.source] * self.share, self.starts)
            undecided = np.zeros(len(self.nodes))
            undecided[self.targets] = TUNING.graph.damping * moved
        return settled


def compared(size: int, whole: WholeGraph, ways: Ways, starts: Sequence[Start]) -> list[Figure]:
    """Walk from each start, by push and exactly, and compare the ten best passages and the time."""
    pushed: list[set[int]] = []
    solved: list[set[int]] = []
    pushing = [cost_of(partial(_keep, pushed, partial(_pushed, start, ways))) for start in starts]
    exact = [cost_of(partial(_keep, solved, partial(_solved, start, whole))) for start in starts]
    shared = [one & other for one, other in zip(pushed, solved, strict=True)]
    agreed = sum(len(one) for one in shared) / _TOP / len(starts)
    alike = sum(len(one) == _TOP for one in shared)
    found = (
        f"{alike} of {len(starts)} questions alike in all ten; {len(whole.nodes):,} nodes, {len(whole.source):,} edges"
    )
    return [
        Figure(f"{size:,}: top ten by push, also in the exact top ten", 100 * agreed, "%", None, found),
        _timed(f"{size:,}: PageRank by push", pushing),
        _timed(f"{size:,}: PageRank, exact", exact),
    ]


def _timed(name: str, costs: Sequence[Cost]) -> Figure:
    cost = typical(costs)
    return Figure(name, milliseconds(cost.cpu), "ms CPU", None, wall_note(cost))


def _keep(results: list[set[int]], work: Callable[[], set[int]]) -> None:
    results.append(work())


def _pushed(start: Start, ways: Ways) -> set[int]:
    found = walk(start.seeds, start.weights, ways, TIE_WEIGHTS)
    return _best(found.nodes, found.mass)


def _solved(start: Start, whole: WholeGraph) -> set[int]:
    return _best(whole.nodes, whole.solve(start))


def _best(nodes: Nodes, mass: Mass) -> set[int]:
    passages = nodes % 2 == 0
    nodes, mass = nodes[passages], mass[passages]
    # Passages that lie alike get the same mass but for rounding: the lower key goes first.
    best = np.lexsort((nodes, -np.round(mass, 12)))[:_TOP]
    return set(nodes[best].tolist())


def _explored(
    passages: Nodes, ways: Ways
) -> tuple[Nodes, npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return all nodes, and for all edges the places of both ends and the weight."""
    known, frontier = passages, passages
    sources, targets, weights = [], [], []
    while len(frontier):
        for start in range(0, len(frontier), _BLOCK):
            block = frontier[start : start + _BLOCK]
            edges = ways.edges(block)
            sources.append(block[edges.source].astype(np.int32))
            targets.append(edges.target.astype(np.int32))
            weights.append(TIE_WEIGHTS[edges.tie].astype(np.float32))
        reached = np.unique(np.concatenate(targets))
        frontier = np.setdiff1d(reached, known, assume_unique=True).astype(np.int64)
        known = np.union1d(known, frontier)
    places = np.zeros(int(known[-1]) + 1, np.int32)
    places[known] = np.arange(len(known))
    return known, places[np.concatenate(sources)], places[np.concatenate(targets)], np.concatenate(weights)
