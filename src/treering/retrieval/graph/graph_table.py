"""The entity graph in memory: edges out of many nodes at once, kept in step passage by passage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.errors import InvalidInput
from treering.ports.search import Edges, EdgeType, Nodes, Statements
from treering.retrieval.index.tables import MAX_KEY, PackedTable, Scalar, distinct, unfit
from treering.retrieval.index.ties import (
    TIE_BITS,
    TIE_MASK,
    Places,
    Words32,
    buffer_of,
    checked_layout,
    layout_of,
    lengths_of,
    spans,
    word_totals,
)

# Runs of the entity graph: ends of edges sorted by the node they go out of, so that those of a node are found.


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

    def edges(self, numbers: Places, given: Places, scopes: Scopes, allowed: npt.NDArray[np.bool_] | None) -> Edges:
        """Return the edges out of nodes by number; `given` are their places in the question.

        `allowed` tells which scopes are seen; `None`: of all rows, none of which is gone.
        """
        known, starts, sizes = self._stretches(numbers)
        which, at = spans(starts, sizes)
        if allowed is not None:
            seen = allowed[scopes[self.rows[at]]]
            which, at = which[seen], at[seen]
        references = self.references[at]
        tie = (references & TIE_MASK).astype(np.uint8)
        target = (references >> TIE_BITS).astype(np.int64) << 1
        target |= _LEADS_TO_NODE[tie]
        return Edges(given[known[which]], target, tie)

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
    # Numbers and places in one word each: numpy sorts words of 64 bits several times faster than it sorts places.
    words = sources.astype(np.uint64) << np.uint64(32) | np.arange(len(sources), dtype=np.uint64)
    words.sort()
    sources, at = (words >> np.uint64(32)).astype(np.uint32), (words & np.uint64(_NO_NODE)).astype(np.int64)
    firsts = np.flatnonzero(np.concatenate([[True], sources[1:] != sources[:-1]])) if len(sources) else np.zeros(0, int)
    bounds = np.concatenate([firsts, [len(sources)]]).astype(np.int32)
    return EdgeRun(sources[firsts], bounds, references[at], rows[at])


def merged(runs: Sequence[EdgeRun], scopes: Scopes) -> EdgeRun:
    """Put runs together, without the ends that rows vouched for which are gone."""
    size = sum(run.size for run in runs)
    references, rows = np.empty(size, np.uint32), np.empty(size, np.int32)
    nodes: list[Words32] = []
    bounds = [np.zeros(1, np.int32)]
    end = 0
    for part in merged_parts(runs, scopes):
        references[end : end + part.size], rows[end : end + part.size] = part.references, part.rows
        nodes.append(part.nodes)
        bounds.append(part.bounds[1:] + np.int32(end))
        end += part.size
    return EdgeRun(np.concatenate(nodes), np.concatenate(bounds), references[:end], rows[:end])


def merged_parts(runs: Sequence[EdgeRun], scopes: Scopes) -> Iterator[EdgeRun]:
    """Yield what runs are put together, in parts by ascending nodes; without the ends whose rows are gone."""
    largest = max(runs, key=lambda run: run.size, default=None)
    if largest is not None:
        for low, high in pairwise(_cuts(largest, _MERGED_AT_ONCE // len(runs))):
            yield run_of([run.between(low, high, scopes) for run in runs])


def _cuts(run: EdgeRun, most: int) -> list[int]:
    """Return numbers of nodes between which a run has some number of ends, from below the first to above the last."""
    places = np.searchsorted(run.bounds[:-1], np.arange(most, run.size, most))
    within = run.nodes[places[places < len(run.nodes)]].tolist()
    return [0, *dict.fromkeys(within), _NO_NODE + 1]


Keys = npt.NDArray[np.int64]

FRESH = 512
"""Up to so many ends of edges are sorted anew when something was put; more are merged by the ratio below."""

_RATIO = 4
_LEAST_DEAD = 1_024
_BLOCK = 4_096
_RUN_ROWS = 16_384
"""So many rows make one run when a table is filled: what is sorted then stays in the cache."""
_LARGE = 100_000
_PATIENCE = 64
"""Large runs are merged once edges were asked for so often (about five questions), so that no single one waits."""
_SLACK = 8  # an array that has to grow grows by one part in this many


_OF_ROWS: Mapping[str, type[np.generic]] = {
    "buffer": np.uint32,
    "starts": np.int64,
    "keys": np.int32,
    "scopes": np.int32,
    "directory": np.int32,
}
_OF_RUN: Mapping[str, type[np.generic]] = {
    "nodes": np.uint32,
    "bounds": np.int32,
    "references": np.uint32,
    "rows": np.int32,
}
"""The arrays of a packed table, and their types."""


def _is_run(run: EdgeRun) -> bool:
    fits = len(run.bounds) == len(run.nodes) + 1 and len(run.references) == len(run.rows)
    return fits and int(run.bounds[-1]) == len(run.rows)


class GraphTable:
    """What passages vouch for, by passage key; edges are found from either end.

    About 0.8 KB for a passage of 15 entities and 10 statements. Records lie in one buffer. Beside it stand runs:
    ends of edges sorted by node, each run several times as long as the next, so that a change costs the
    logarithm of what there is and never the whole. What was discarded or replaced stays in the runs, without
    effect, until they are merged. The answer is a function of the content; the order of changes does not show.

    Keys are row ids, as in `VectorTable`: below 2**28, and better dense. Scopes are positive numbers.
    Not locked: nobody may ask while somebody puts or discards.
    """

    def __init__(self) -> None:
        self._rows = _Rows()
        self._runs: list[EdgeRun] = []
        self._sorted = 0
        """So many rows have their ends in runs."""
        self._asked = 0
        """How often edges were asked for."""

    def __len__(self) -> int:
        return self._rows.live

    @property
    def nbytes(self) -> int:
        """Tell how many bytes the table takes."""
        return self._rows.nbytes + sum(run.nbytes for run in self._runs)

    def put(self, keys: Keys, scopes: Scopes, records: Sequence[bytes], *, of: int = 0) -> None:
        """Keep records (see `graph_records`) under keys, in place of what was there.

        `of` tells how many there will be in the end, so that room for all of them is made at once. Where a key is
        given twice, the last record counts. Raises `Corrupt` for a damaged record and `InvalidInput` for a key or
        scope out of range, and changes nothing then.
        """
        if len(keys) and (keys.min() < 0 or keys.max() >= MAX_KEY or scopes.min() < 1):
            raise InvalidInput(
                "A key or a scope is out of range.",
                hint=f"Use row ids from 0 to {MAX_KEY - 1}, and scopes from 1.",
            )
        buffer, lengths = buffer_of(records), lengths_of(records)
        layout = checked_layout(buffer, lengths)
        self.discard(keys)
        if of > len(keys) > 0 and not self._rows.count:
            self._rows.reserve(of, len(buffer) * of // len(keys))
        self._rows.append(keys, scopes, buffer, layout.starts, lengths // 4)

    def discard(self, keys: Keys) -> None:
        """Forget keys; one that is not there is no error. What was stated is overwritten in memory."""
        self._rows.discard(keys)
        if self._rows.dead > max(_LEAST_DEAD, self._rows.live):
            self._rows = self._rows.without_dead()
            self._runs, self._sorted = [], 0

    def edges(self, nodes: Nodes, scopes: Iterable[int] | None = None) -> Edges:
        """Return all edges out of nodes that passages of these scopes (`None`: of all) vouch for."""
        allowed = None if scopes is None and not self._rows.dead else self._rows.allowed(scopes)
        self._sort()
        odd = (nodes & 1).astype(np.bool_)
        entities, passages = np.flatnonzero(odd), np.flatnonzero(~odd)
        found = [run.edges(nodes[entities] >> 1, entities, self._rows.scopes, allowed) for run in self._runs]
        found.append(self._rows.edges(nodes[passages] >> 1, passages, allowed))
        return Edges(
            np.concatenate([edges.source for edges in found]),
            np.concatenate([edges.target for edges in found]),
            np.concatenate([edges.tie for edges in found]),
        )

    def degrees(self, nodes: Nodes, scopes: Iterable[int] | None = None) -> Places:
        """Count the edges that `edges` would give for each node."""
        self._sort()
        if scopes is not None or self._rows.dead:
            found = self.edges(nodes, scopes)
            return np.bincount(found.source, minlength=len(nodes))
        odd = (nodes & 1).astype(np.bool_)
        counts = np.zeros(len(nodes), np.int64)
        for run in self._runs:
            counts[odd] += run.degrees(nodes[odd] >> 1)
        counts[~odd] = self._rows.degrees(nodes[~odd] >> 1)
        return counts

    def statements(self, keys: Keys) -> Statements:
        """Return what passages state, in the order of the keys; nothing for those that are not there."""
        return self._rows.statements(keys)

    def numbers(self, keys: Keys) -> Places:
        """Return the numbers of the entities and objects that some passages tie together, each once."""
        return self._rows.numbers(keys)

    def packed(self) -> PackedTable:
        """Return the whole table as arrays, all ends in one run that comes in parts."""
        self._sort()
        rows = self._rows
        numbers = {"count": rows.count, "live": rows.live, "used": rows.used}
        most = sum(run.size for run in self._runs) + 1
        return PackedTable(numbers, {name: getattr(rows, name) for name in _OF_ROWS}, most, self._ends())

    def unpack(self, packed: PackedTable) -> None:
        """Become the table that `packed` gave, over its arrays. Raises `Corrupt` where they do not fit together."""
        run = EdgeRun(*(packed.array(name, kind, None) for name, kind in _OF_RUN.items()))
        arrays = {name: packed.array(name, kind, None) for name, kind in _OF_ROWS.items()}
        count = packed.number("count", most=min(len(arrays[name]) for name in ("starts", "keys", "scopes")))
        used = packed.number("used", most=len(arrays["buffer"]))
        if not _is_run(run):
            raise unfit()
        self._rows = _Rows(count, packed.number("live", most=count), used, **arrays)
        self._runs, self._sorted = [run], count

    def _ends(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        """Yield all ends in one run, part by part."""
        size = 0
        yield {"bounds": np.zeros(1, np.int32)}
        for part in merged_parts(self._runs, self._rows.scopes):
            bounds = part.bounds[1:] + np.int32(size)
            yield {"nodes": part.nodes, "bounds": bounds, "references": part.references, "rows": part.rows}
            size += part.size

    def _sort(self) -> None:
        """Sort the ends of rows that came since, and merge runs; of large ones two at a time, and not at once."""
        if self._sorted < self._rows.count:
            self._runs += self._rows.runs(self._sorted)
            self._sorted = self._rows.count
        self._asked += 1
        while (at := self._crowded()) is not None:
            one, other = self._runs[at : at + 2]
            large = one.size > _LARGE
            if large and self._asked <= _PATIENCE:
                break
            self._runs[at : at + 2] = [merged((one, other), self._rows.scopes)]
            if large:
                break

    def _crowded(self) -> int | None:
        """Return the place of the smallest two runs that have to be merged, for the first is not much the longer."""
        sizes = [run.size for run in self._runs]
        pairs = [at for at, (one, other) in enumerate(pairwise(sizes)) if one <= max(FRESH, _RATIO * other)]
        return min(pairs, key=lambda at: sizes[at] + sizes[at + 1], default=None)


@dataclass(slots=True)
class _Rows:
    """Records in the order in which they came. A row that was discarded keeps its place, with scope 0."""

    count: int = 0
    live: int = 0
    used: int = 0
    """So much of the buffer is in use."""
    buffer: Words32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    starts: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    keys: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    scopes: Scopes = field(default_factory=lambda: np.zeros(0, np.int32))
    directory: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """By key: the row, counted from 1; 0 where there is none."""

    @property
    def dead(self) -> int:
        return self.count - self.live

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self.buffer, self.starts, self.keys, self.scopes, self.directory))

    def reserve(self, rows: int, used: int) -> None:
        """Make room for so many rows, and about so much of the buffer; memory that is never written is never taken."""
        self.buffer = _grown(self.buffer, used + used // _SLACK)
        self.starts, self.keys, self.scopes = (
            _grown(self.starts, rows),
            _grown(self.keys, rows),
            _grown(self.scopes, rows),
        )

    def append(self, keys: Keys, scopes: Scopes, buffer: Words32, starts: Places, sizes: Places) -> None:
        """Add rows for keys that have none."""
        if not len(keys):
            return
        unique, last = np.unique(keys[::-1], return_index=True)
        if len(unique) < len(keys):
            chosen = np.sort(len(keys) - 1 - last)
            _, at = spans(starts[chosen], sizes[chosen])
            keys, scopes, sizes, buffer = keys[chosen], scopes[chosen], sizes[chosen], buffer[at]
        end, used = self.count + len(keys), self.used + len(buffer)
        self.buffer = _grown(self.buffer, used)
        self.starts, self.keys, self.scopes = (
            _grown(self.starts, end),
            _grown(self.keys, end),
            _grown(self.scopes, end),
        )
        self.directory = _grown(self.directory, int(keys.max()) + 1)
        self.buffer[self.used : used] = buffer
        self.starts[self.count : end] = self.used + np.cumsum(sizes) - sizes
        self.keys[self.count : end] = keys
        self.scopes[self.count : end] = scopes
        self.directory[keys] = np.arange(self.count + 1, end + 1)
        self.count, self.used, self.live = end, used, self.live + len(keys)

    def discard(self, keys: Keys) -> None:
        """Empty the rows of keys."""
        rows = distinct(self.found(keys)[1])
        starts = self.starts[rows]
        _, at = spans(starts, self._ends(rows) - starts)
        self.buffer[at] = 0
        self.scopes[rows] = 0
        self.directory[self.keys[rows]] = 0
        self.live -= len(rows)

    def without_dead(self) -> "_Rows":
        """Return the same rows without those that were emptied."""
        others, alive = _Rows(), np.flatnonzero(self.scopes[: self.count])
        for start in range(0, len(alive), _BLOCK):
            rows = alive[start : start + _BLOCK]
            sizes = self._ends(rows) - self.starts[rows]
            _, at = spans(self.starts[rows], sizes)
            keys = self.keys[rows].astype(np.int64)
            others.append(keys, self.scopes[rows], self.buffer[at], np.cumsum(sizes) - sizes, sizes)
        return others

    def allowed(self, scopes: Iterable[int] | None) -> npt.NDArray[np.bool_]:
        """Tell for each scope whether its passages are seen; nothing of scope 0 ever is."""
        allowed = np.zeros(int(self.scopes[: self.count].max(initial=0)) + 1, np.bool_)
        if scopes is None:
            allowed[1:] = True
        else:
            allowed[[scope for scope in scopes if 0 < scope < len(allowed)]] = True
        return allowed

    def degrees(self, keys: Keys) -> Places:
        """Count the edges out of passages."""
        asked, rows = self.found(keys)
        counts = np.zeros(len(keys), np.int64)
        counts[asked] = layout_of(self.buffer, self.starts[rows]).nodes
        return counts

    def edges(self, keys: Keys, given: Places, allowed: npt.NDArray[np.bool_] | None) -> Edges:
        """Return the edges out of passages; `given` are their places in the question."""
        asked, rows = self.found(keys)
        if allowed is not None:
            seen = allowed[self.scopes[rows]]
            asked, rows = asked[seen], rows[seen]
        layout = layout_of(self.buffer, self.starts[rows])
        which, at = spans(layout.node_places, layout.nodes)
        references = self.buffer[at]
        target = (references >> TIE_BITS).astype(np.int64) << 1 | 1
        return Edges(given[asked[which]], target, (references & TIE_MASK).astype(np.uint8))

    def statements(self, keys: Keys) -> Statements:
        """Return what passages state."""
        asked, rows = self.found(keys)
        layout = layout_of(self.buffer, self.starts[rows])
        which, at = spans(layout.fact_places, layout.facts, 2)
        short = self.buffer.view(np.uint16)
        _, counted = spans(2 * layout.word_places, layout.facts)
        _, said = spans(2 * layout.word_places + layout.facts, word_totals(self.buffer, layout))
        return Statements(
            passage=asked[which],
            subject=self.buffer[at].astype(np.int64) << 1 | 1,
            object=self.buffer[at + 1].astype(np.int64) << 1 | 1,
            bounds=np.concatenate([[0], np.cumsum(short[counted], dtype=np.int64)]),
            words=short[said],
        )

    def numbers(self, keys: Keys) -> Places:
        """Return the numbers that the rows of keys hold, each once."""
        return distinct(self._block_ends(self.found(keys)[1])[0]).astype(np.int64)

    def runs(self, first: int) -> list[EdgeRun]:
        """Sort the ends of all edges out of entities and objects that rows from `first` on vouch for."""
        alive = np.flatnonzero(self.scopes[first : self.count]) + first
        return [self._run(alive[start : start + _RUN_ROWS]) for start in range(0, max(1, len(alive)), _RUN_ROWS)]

    def _run(self, rows: Places) -> EdgeRun:
        return run_of([self._block_ends(rows[start : start + _BLOCK]) for start in range(0, len(rows), _BLOCK)])

    def found(self, keys: Keys) -> tuple[Places, Places]:
        """Find the rows of keys: which of the keys have one, and the rows."""
        inside = np.flatnonzero((keys >= 0) & (keys < len(self.directory)))
        rows = self.directory[keys[inside]]
        known = np.flatnonzero(rows)
        return inside[known], rows[known].astype(np.int64) - 1

    def _ends(self, rows: Places) -> Places:
        """Tell where in the buffer rows end."""
        following = np.minimum(rows + 1, self.count - 1)
        return np.where(rows + 1 < self.count, self.starts[following], self.used)

    def _block_ends(self, rows: Places) -> Ends:
        layout = layout_of(self.buffer, self.starts[rows])
        mentioning, at = spans(layout.node_places, layout.nodes)
        mentions = self.buffer[at]
        stating, at = spans(layout.fact_places, layout.facts, 2)
        subjects, objects = self.buffer[at], self.buffer[at + 1]
        pairing, at = spans(layout.pair_places, layout.pairs, 2)
        ones, others = self.buffer[at], self.buffer[at + 1]
        ties, keys = others & TIE_MASK, self.keys[rows].astype(np.uint32)
        return (
            np.concatenate([mentions >> TIE_BITS, subjects, objects, ones, others >> TIE_BITS]),
            np.concatenate(
                [
                    keys[mentioning] << TIE_BITS | (mentions & TIE_MASK),
                    objects << TIE_BITS | np.uint32(EdgeType.FACT),
                    subjects << TIE_BITS | np.uint32(EdgeType.FACT),
                    others,
                    ones << TIE_BITS | ties,
                ]
            ),
            rows[np.concatenate([mentioning, stating, stating, pairing, pairing])].astype(np.int32),
        )


def _grown(array: npt.NDArray[Scalar], size: int) -> npt.NDArray[Scalar]:
    """Return an array, or a longer one with its content, that has room for `size`."""
    if size <= len(array):
        return array
    larger = np.zeros(max(size, len(array) + len(array) // _SLACK), array.dtype)
    larger[: len(array)] = array
    return larger
