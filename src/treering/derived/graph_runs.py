"""Runs of the entity graph: ends of edges sorted by the node they go out of, so that those of a node are found."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from treering.derived.graph_records import TIE_BITS, TIE_MASK, Places, Words32, spans
from treering.ports.graph import Edges, EdgeType

Scopes = npt.NDArray[np.int32]
Ends = tuple[Words32, Words32, npt.NDArray[np.int32]]
"""Ends of edges: the node each goes out of, a reference to where it goes, the row of the passage that vouches."""

_MERGED_AT_ONCE = 250_000  # ends: what they weigh stays in the cache


@dataclass(frozen=True, slots=True)
class EdgeRun:
    """Ends of edges in the order of the node they go out of.

    `nodes` (by number, ascending) have the ends `bounds[i]:bounds[i + 1]`: a reference to where the edge goes
    (with the key of a passage for the number of a node), and the row of the passage that vouches for it.
    """

    nodes: Words32
    bounds: npt.NDArray[np.int32]
    references: Words32
    rows: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        """Tell how many ends it has."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Tell how many bytes it takes."""
        return self.nodes.nbytes + self.bounds.nbytes + self.references.nbytes + self.rows.nbytes

    def between(self, low: int, high: int, scopes: Scopes) -> Ends:
        """Return the ends of nodes from `low` to before `high` whose rows are not gone: nodes, references, rows."""
        first, last = np.searchsorted(self.nodes, [low, high])
        start, end = self.bounds[[first, last]]
        alive = scopes[self.rows[start:end]] > 0
        nodes = np.repeat(self.nodes[first:last], np.diff(self.bounds[first : last + 1]))
        return nodes[alive], self.references[start:end][alive], self.rows[start:end][alive]

    def degrees(self, numbers: Places) -> Places:
        """Count the edges out of nodes by number."""
        known, _, sizes = self._stretches(numbers)
        counts = np.zeros(len(numbers), np.int64)
        counts[known] = sizes
        return counts

    def edges(self, numbers: Places, given: Places, scopes: Scopes, allowed: npt.NDArray[np.bool_]) -> Edges:
        """Return the edges out of nodes by number; `given` are their places in the question."""
        known, starts, sizes = self._stretches(numbers)
        which, at = spans(starts, sizes)
        seen = allowed[scopes[self.rows[at]]]
        references = self.references[at[seen]]
        tie = (references & TIE_MASK).astype(np.uint8)
        target = (references >> TIE_BITS).astype(np.int64) << 1
        target |= _LEADS_TO_NODE[tie]
        return Edges(given[known[which[seen]]], target, tie)

    def _stretches(self, numbers: Places) -> tuple[Places, Places, Places]:
        """Find nodes by number: the places of those that are here, where the ends of each start, how many there are."""
        if not self.size:
            return _NOWHERE, _NOWHERE, _NOWHERE
        # Of the same type as the nodes, else numpy would turn all nodes into the other type first.
        wanted = np.minimum(numbers, _NO_NODE).astype(np.uint32)
        place = np.minimum(np.searchsorted(self.nodes, wanted), len(self.nodes) - 1)
        known = np.flatnonzero(self.nodes[place] == wanted)
        starts = self.bounds[place[known]].astype(np.int64)
        return known, starts, self.bounds[place[known] + 1] - starts


_NO_NODE = 2**32 - 1
_NOWHERE: Places = np.zeros(0, np.int64)
# By tie: whether an edge out of an entity or object leads to another (1) or to a passage (0).
_LEADS_TO_NODE = np.array([tie in (EdgeType.FACT, EdgeType.FORM, EdgeType.LINK) for tie in EdgeType], np.int64)


def run_of(parts: Sequence[Ends]) -> EdgeRun:
    """Sort ends that came in parts."""
    if not parts:
        return EdgeRun(np.zeros(0, np.uint32), np.zeros(1, np.int32), np.zeros(0, np.uint32), np.zeros(0, np.int32))
    sources, references, rows = (np.concatenate(parts_of_one) for parts_of_one in zip(*parts, strict=True))
    at = _in_order(sources)
    sources = sources[at]
    firsts = np.flatnonzero(np.concatenate([[True], sources[1:] != sources[:-1]])) if len(sources) else np.zeros(0, int)
    bounds = np.concatenate([firsts, [len(sources)]]).astype(np.int32)
    return EdgeRun(sources[firsts], bounds, references[at], rows[at])


def _in_order(numbers: Words32) -> Places:
    """Return the places of numbers in ascending order of the numbers."""
    # By the lower half, then by the upper: numpy sorts 16 bits by counting, much faster than it compares 32.
    by_lower = np.argsort(numbers.astype(np.uint16), kind="stable")
    upper = (numbers >> np.uint32(16)).astype(np.uint16)
    return by_lower[np.argsort(upper[by_lower], kind="stable")]


def merged(one: EdgeRun, other: EdgeRun, scopes: Scopes) -> EdgeRun:
    """Put two runs together, without the ends that rows vouched for which are gone."""
    size = one.size + other.size
    references, rows = np.empty(size, np.uint32), np.empty(size, np.int32)
    nodes: list[Words32] = []
    bounds = [np.zeros(1, np.int32)]
    end = 0
    for low, high in pairwise(_cuts(max(one, other, key=lambda run: run.size))):
        part = run_of([run.between(low, high, scopes) for run in (one, other)])
        references[end : end + part.size], rows[end : end + part.size] = part.references, part.rows
        nodes.append(part.nodes)
        bounds.append(part.bounds[1:] + np.int32(end))
        end += part.size
    return EdgeRun(np.concatenate(nodes), np.concatenate(bounds), references[:end], rows[:end])


def _cuts(run: EdgeRun) -> list[int]:
    """Return numbers of nodes between which a run has some number of ends, from below the first to above the last."""
    places = np.searchsorted(run.bounds[:-1], np.arange(_MERGED_AT_ONCE, run.size, _MERGED_AT_ONCE))
    within = run.nodes[places[places < len(run.nodes)]].tolist()
    return [0, *dict.fromkeys(within), _NO_NODE + 1]
