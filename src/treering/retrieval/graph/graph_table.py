"""The entity graph in memory: batched edge lookups, and incremental updates by passage."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.errors import InvalidInput
from treering.ports.search import Edges, EdgeType, Nodes
from treering.retrieval.index.tables import MAX_KEY, PackedTable, Scalar, distinct, unfit
from treering.retrieval.index.ties import (
    TIE_BITS,
    TIE_MASK,
    Layout,
    Places,
    Words32,
    buffer_of,
    checked_layout,
    layout_of,
    lengths_of,
    spans,
)

Scopes = npt.NDArray[np.int32]
Ends = tuple[Words32, Words32, npt.NDArray[np.int32]]
"""Ends of edges: the source node, a reference to the target, and the row of the passage of the edge."""

_MERGED_AT_ONCE = 250_000  # ends, which fit into the cache


@dataclass(frozen=True, slots=True)
class EdgeRun:
    """Ends of edges sorted by their source node.

    The node at `i` in `nodes` (ascending numbers) has the ends `bounds[i]:bounds[i + 1]`: a reference to the target,
    which contains the key of a passage or the number of a node, and the row of the passage of the edge.
    """

    nodes: Words32
    bounds: npt.NDArray[np.int32]
    references: Words32
    rows: npt.NDArray[np.int32]

    @property
    def size(self) -> int:
        """The number of ends."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.nodes.nbytes + self.bounds.nbytes + self.references.nbytes + self.rows.nbytes

    def between(self, low: int, high: int, scopes: Scopes) -> Ends:
        """Return the ends of nodes from `low` to before `high` in live rows: nodes, references, rows."""
        first, last = np.searchsorted(self.nodes, [low, high])
        start, end = self.bounds[[first, last]]
        alive = scopes[self.rows[start:end]] > 0
        nodes = np.repeat(self.nodes[first:last], np.diff(self.bounds[first : last + 1]))
        return nodes[alive], self.references[start:end][alive], self.rows[start:end][alive]

    def degrees(self, numbers: Places, scopes: Scopes, allowed: npt.NDArray[np.bool_] | None) -> Places:
        """Count the edges out of nodes by number; `allowed` as in `edges`, but `None` also counts ends in dead rows."""
        known, starts, sizes = self._stretches(numbers)
        counts = np.zeros(len(numbers), np.int64)
        if allowed is not None and len(known):
            _, at = spans(starts, sizes)
            sizes = np.add.reduceat(allowed[scopes[self.rows[at]]], np.cumsum(sizes) - sizes, dtype=np.int64)
        counts[known] = sizes
        return counts

    def edges(self, numbers: Places, given: Places, scopes: Scopes, allowed: npt.NDArray[np.bool_] | None) -> Edges:
        """Return the edges out of nodes by number; `given` are their positions in the request.

        `allowed` is a mask of visible scopes; `None`: all rows are live and visible.
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
        """Find nodes by number: return the positions of those that exist, and the start and number of their ends."""
        if not self.size:
            return _NOWHERE, _NOWHERE, _NOWHERE
        wanted = _as_stored(numbers)
        place = np.minimum(np.searchsorted(self.nodes, wanted), len(self.nodes) - 1)
        known = np.flatnonzero(self.nodes[place] == wanted)
        starts = self.bounds[place[known]].astype(np.int64)
        return known, starts, self.bounds[place[known] + 1] - starts


_NO_NODE = 2**32 - 1
_NOWHERE: Places = np.zeros(0, np.int64)
# By tie: 1 if an edge out of an entity or object leads to another one, 0 if it leads to a passage.
_LEADS_TO_NODE = np.array([tie in (EdgeType.FACT, EdgeType.FORM, EdgeType.LINK) for tie in EdgeType], np.int64)


def _as_stored(numbers: Places) -> Words32:
    """Return numbers of nodes in the type of stored ones, because numpy would otherwise convert all of these."""
    return np.minimum(numbers, _NO_NODE).astype(np.uint32)


def run_of(parts: Sequence[Ends]) -> EdgeRun:
    """Sort ends given in parts."""
    if not parts:
        return EdgeRun(np.zeros(0, np.uint32), np.zeros(1, np.int32), np.zeros(0, np.uint32), np.zeros(0, np.int32))
    sources, references, rows = (np.concatenate(parts_of_one) for parts_of_one in zip(*parts, strict=True))
    # Numbers and positions combined: numpy sorts 64-bit words several times faster than it computes an order.
    words = sources.astype(np.uint64) << np.uint64(32) | np.arange(len(sources), dtype=np.uint64)
    words.sort()
    sources, at = (words >> np.uint64(32)).astype(np.uint32), (words & np.uint64(_NO_NODE)).astype(np.int64)
    firsts = np.flatnonzero(np.concatenate([[True], sources[1:] != sources[:-1]])) if len(sources) else np.zeros(0, int)
    bounds = np.concatenate([firsts, [len(sources)]]).astype(np.int32)
    return EdgeRun(sources[firsts], bounds, references[at], rows[at])


def merged(runs: Sequence[EdgeRun], scopes: Scopes) -> EdgeRun:
    """Merge runs, without the ends in dead rows."""
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
    """Yield merged runs in parts by ascending nodes, without the ends in dead rows."""
    largest = max(runs, key=lambda run: run.size, default=None)
    if largest is not None:
        for low, high in pairwise(_cuts(largest, _MERGED_AT_ONCE // len(runs))):
            yield run_of([run.between(low, high, scopes) for run in runs])


def _cuts(run: EdgeRun, most: int) -> list[int]:
    """Return node numbers that divide a run into parts of about `most` ends, from below the first to above the last."""
    places = np.searchsorted(run.bounds[:-1], np.arange(most, run.size, most))
    within = run.nodes[places[places < len(run.nodes)]].tolist()
    return [0, *dict.fromkeys(within), _NO_NODE + 1]


Keys = npt.NDArray[np.int64]

FRESH = 512
"""Ends in a run that is always merged with the next; larger runs are merged by the ratio below."""

_RATIO = 4
_LEAST_DEAD = 1_024
_BLOCK = 4_096
_RUN_ROWS = 16_384
"""Rows per run when a table is filled, so that sorting fits into the cache."""
_LARGE = 100_000
_PATIENCE = 64
"""Requests (about five questions) after which large runs are merged, so that the first question does not wait."""
_SLACK = 8  # arrays grow by one part in this many


_OF_ROWS: Mapping[str, type[np.generic]] = {"keys": np.int32, "scopes": np.int32, "directory": np.int32}
_OF_RUN: Mapping[str, type[np.generic]] = {
    "nodes": np.uint32,
    "bounds": np.int32,
    "references": np.uint32,
    "rows": np.int32,
}
"""The arrays of a serialized table, and their types."""


def _is_run(run: EdgeRun) -> bool:
    fits = len(run.bounds) == len(run.nodes) + 1 and len(run.references) == len(run.rows)
    return fits and int(run.bounds[-1]) == len(run.rows)


class GraphTable:
    """The records of passages in the graph, by passage key; edges are found from either end.

    A passage with 15 entities and 10 statements takes about 0.5 KB. The words of statements are not in the table: a
    search reads them from the records of a few passages (`ties.statements_in`). The ends of edges are stored in sorted
    runs, each several times as long as the next, so that a change takes logarithmic time. Removed records stay in the
    runs, without effect, until these are merged. Results depend only on the content, not on the order of changes.

    Keys are row ids, as in `VectorTable`: below 2**28, preferably dense. Scopes are positive numbers. Not thread-safe:
    the caller must not read during `put` or `discard`.
    """

    def __init__(self) -> None:
        self._rows = _Rows()
        self._runs: list[EdgeRun] = []
        self._sorted = 0
        """The number of rows whose ends are in runs."""
        self._dead = _DeadEnds()
        """The ends in runs of removed records."""
        self._requests = 0
        """The number of requests for edges."""

    def __len__(self) -> int:
        return self._rows.live

    @property
    def nbytes(self) -> int:
        """The size of the table in bytes."""
        return self._rows.nbytes + sum(run.nbytes for run in self._runs)

    def put(self, keys: Keys, scopes: Scopes, records: Sequence[bytes], *, of: int = 0) -> None:
        """Store records (see `pack_ties`) under keys, replacing existing ones.

        `of` is the expected total number of records, used to allocate space. The last record of a repeated key wins.
        Raises `Corrupt` for a damaged record and `InvalidInput` for a key or scope out of range, without changing
        anything.
        """
        if len(keys) and (keys.min() < 0 or keys.max() >= MAX_KEY or scopes.min() < 1):
            raise InvalidInput(
                "A key or a scope is out of range.",
                hint=f"Use row ids from 0 to {MAX_KEY - 1}, and scopes from 1.",
            )
        buffer, lengths = buffer_of(records), lengths_of(records)
        layout = checked_layout(buffer, lengths)
        self.discard(keys)
        unique, last = np.unique(keys[::-1], return_index=True)
        if len(unique) < len(keys):
            chosen = np.sort(len(keys) - 1 - last)
            keys, scopes, layout = keys[chosen], scopes[chosen], layout_of(buffer, layout.starts[chosen])
        self._rows.append(keys, scopes, _tied(layout, buffer), _pairs(layout, buffer))
        if 0 < len(keys) == self._rows.count < of:
            self._rows.reserve(of)

    def discard(self, keys: Keys) -> None:
        """Remove keys; missing ones are ignored. Their content is overwritten in memory."""
        self._dead = self._dead.with_ends(*self._rows.discard(keys, sorted_rows=self._sorted))
        if self._rows.dead > max(_LEAST_DEAD, self._rows.live):
            self._rows = self._rows.without_dead()
            self._runs, self._sorted, self._dead = [], 0, _DeadEnds()

    def edges(self, nodes: Nodes, scopes: Iterable[int] | None = None) -> Edges:
        """Return all edges out of nodes, from passages in these scopes (`None`: all)."""
        allowed = None if scopes is None and not self._rows.dead else self._rows.allowed(scopes)
        self._sort()
        odd = (nodes & 1).astype(np.bool_)
        entities, passages = np.flatnonzero(odd), np.flatnonzero(~odd)
        parts = [run.edges(nodes[entities] >> 1, entities, self._rows.scopes, allowed) for run in self._runs]
        parts.append(self._rows.edges(nodes[passages] >> 1, passages, allowed))
        return Edges(
            np.concatenate([edges.source for edges in parts]),
            np.concatenate([edges.target for edges in parts]),
            np.concatenate([edges.tie for edges in parts]),
        )

    def degrees(self, nodes: Nodes, scopes: Iterable[int] | None = None) -> Places:
        """Return the number of edges out of each node."""
        self._sort()
        allowed = None if scopes is None else self._rows.allowed(scopes)
        odd = (nodes & 1).astype(np.bool_)
        numbers = nodes[odd] >> 1
        counts = np.zeros(len(nodes), np.int64)
        for run in self._runs:
            counts[odd] += run.degrees(numbers, self._rows.scopes, allowed)
        if allowed is None and len(self._dead.nodes):
            counts[odd] -= self._dead.degrees(numbers)
        counts[~odd] = self._rows.degrees(nodes[~odd] >> 1, allowed)
        return counts

    def packed(self) -> PackedTable:
        """Return the whole table as arrays, with all ends in one run, in parts."""
        self._sort()
        rows = self._rows
        arrays = {name: getattr(rows, name) for name in _OF_ROWS}
        for name, lists in (("tied", rows.tied), ("pairs", rows.pairs)):
            arrays |= {name: lists.words, f"{name}_bounds": lists.bounds}
        most = sum(run.size for run in self._runs) + 1
        return PackedTable({"count": rows.count, "live": rows.live}, arrays, most, self._ends())

    def unpack(self, packed: PackedTable) -> None:
        """Load a table from `packed`, without copying its arrays. Raises `Corrupt` if they are inconsistent."""
        run = EdgeRun(*(packed.array(name, kind, None) for name, kind in _OF_RUN.items()))
        arrays = {name: packed.array(name, kind, None) for name, kind in _OF_ROWS.items()}
        tied, pairs = (
            _Lists(packed.array(f"{name}_bounds", np.int64, None), packed.array(name, np.uint32, None))
            for name in ("tied", "pairs")
        )
        lengths = (len(arrays["keys"]), len(arrays["scopes"]), len(tied.bounds) - 1, len(pairs.bounds) - 1)
        count = packed.number("count", most=min(lengths))
        if not _is_run(run) or any(one.bounds[count] > len(one.words) for one in (tied, pairs)):
            raise unfit()
        self._rows = _Rows(count, packed.number("live", most=count), tied, pairs, **arrays)
        self._runs, self._sorted, self._dead = [run], count, _DeadEnds()

    def _ends(self) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        """Yield all ends as one run, part by part."""
        size = 0
        yield {"bounds": np.zeros(1, np.int32)}
        for part in merged_parts(self._runs, self._rows.scopes):
            bounds = part.bounds[1:] + np.int32(size)
            yield {"nodes": part.nodes, "bounds": bounds, "references": part.references, "rows": part.rows}
            size += part.size

    def _sort(self) -> None:
        """Sort the ends of new rows, and merge runs; at most two large ones, and not immediately."""
        if self._sorted < self._rows.count:
            self._runs += self._rows.runs(self._sorted)
            self._sorted = self._rows.count
        self._requests += 1
        while (at := self._crowded()) is not None:
            one, other = self._runs[at : at + 2]
            large = one.size > _LARGE
            if large and self._requests <= _PATIENCE:
                break
            self._runs[at : at + 2] = [merged((one, other), self._rows.scopes)]
            self._dead = self._dead.outside(one, other)
            if large:
                break

    def _crowded(self) -> int | None:
        """Return the position of the smallest two runs to merge, of which the first is not much longer."""
        sizes = [run.size for run in self._runs]
        pairs = [at for at, (one, other) in enumerate(pairwise(sizes)) if one <= max(FRESH, _RATIO * other)]
        return min(pairs, key=lambda at: sizes[at] + sizes[at + 1], default=None)


@dataclass(frozen=True, slots=True)
class _DeadEnds:
    """Ends of removed records that runs still contain: their source nodes, in ascending order, and their rows."""

    nodes: Words32 = field(default_factory=lambda: np.zeros(0, np.uint32))
    rows: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def with_ends(self, nodes: Words32, rows: npt.NDArray[np.int32]) -> "_DeadEnds":
        """Add ends."""
        if not len(nodes):
            return self
        order = np.argsort(nodes, kind="stable")
        places = np.searchsorted(self.nodes, nodes[order])
        return _DeadEnds(np.insert(self.nodes, places, nodes[order]), np.insert(self.rows, places, rows[order]))

    def outside(self, one: EdgeRun, other: EdgeRun) -> "_DeadEnds":
        """Remove the ends in two neighboring runs, which contain all rows between their first and last."""
        if not len(self.nodes) or not one.size + other.size:
            return self
        rows = np.concatenate([one.rows, other.rows])
        left = (self.rows < rows.min()) | (self.rows > rows.max())
        return _DeadEnds(self.nodes[left], self.rows[left])

    def degrees(self, numbers: Places) -> Places:
        """Count the ends out of nodes by number."""
        wanted = _as_stored(numbers)
        counts: Places = np.searchsorted(self.nodes, wanted, "right") - np.searchsorted(self.nodes, wanted)
        return counts


_List = tuple[Places, Words32]
"""The sizes of the lists of some rows, and their words."""


def _tied(layout: Layout, buffer: Words32) -> _List:
    """Return the references to the nodes of passages."""
    _, at = spans(layout.node_places, layout.nodes)
    return layout.nodes, buffer[at]


def _pairs(layout: Layout, buffer: Words32) -> _List:
    """Return facts and other pairs of nodes alike: a number, and a reference to the other node."""
    sizes = 2 * (layout.facts + layout.pairs)
    _, objects = spans(layout.fact_places + 1, layout.facts, 2)
    alike = buffer.copy()
    alike[objects] = buffer[objects] << TIE_BITS | np.uint32(EdgeType.FACT)
    _, at = spans(layout.fact_places, sizes)
    return sizes, alike[at]


@dataclass(slots=True)
class _Lists:
    """A list of words for each row, one after the other."""

    bounds: Places = field(default_factory=lambda: np.zeros(1, np.int64))
    words: Words32 = field(default_factory=lambda: np.zeros(0, np.uint32))

    @property
    def nbytes(self) -> int:
        return self.bounds.nbytes + self.words.nbytes

    def reserve(self, count: int, rows: int) -> None:
        """Allocate space for a number of rows. Their lists are expected to be as long as in the first `count` rows."""
        words = int(self.bounds[count]) * rows // count
        self.bounds, self.words = _grown(self.bounds, rows + 1), _grown(self.words, words + words // _SLACK)

    def append(self, count: int, more: _List) -> None:
        """Add lists behind the first `count` rows."""
        sizes, words = more
        start, rows = int(self.bounds[count]), count + len(sizes)
        self.bounds, self.words = _grown(self.bounds, rows + 1), _grown(self.words, start + len(words))
        self.bounds[count + 1 : rows + 1] = start + np.cumsum(sizes)
        self.words[start : start + len(words)] = words

    def sizes(self, rows: Places) -> Places:
        return self.bounds[rows + 1] - self.bounds[rows]

    def places(self, rows: Places) -> tuple[Places, Places]:
        """Return which of the rows has each word, and the position of the word."""
        return spans(self.bounds[rows], self.sizes(rows))


@dataclass(slots=True)
class _Rows:
    """Records in order of insertion. A discarded row keeps its position, with scope 0."""

    count: int = 0
    live: int = 0
    tied: _Lists = field(default_factory=_Lists)
    """References to the nodes that a passage is tied to."""
    pairs: _Lists = field(default_factory=_Lists)
    """Pairs of nodes that a passage ties: the number of one, and a reference to the other."""
    keys: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    scopes: Scopes = field(default_factory=lambda: np.zeros(0, np.int32))
    directory: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """By key: the row, counted from 1; 0 if there is none."""

    @property
    def dead(self) -> int:
        return self.count - self.live

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in (self.tied, self.pairs, self.keys, self.scopes, self.directory))

    def reserve(self, rows: int) -> None:
        """Allocate space for a number of rows, similar to the present ones."""
        self.tied.reserve(self.count, rows)
        self.pairs.reserve(self.count, rows)
        self.keys, self.scopes = _grown(self.keys, rows), _grown(self.scopes, rows)

    def append(self, keys: Keys, scopes: Scopes, tied: _List, pairs: _List) -> None:
        """Add rows for new keys."""
        if not len(keys):
            return
        end = self.count + len(keys)
        self.tied.append(self.count, tied)
        self.pairs.append(self.count, pairs)
        self.keys, self.scopes = _grown(self.keys, end), _grown(self.scopes, end)
        self.directory = _grown(self.directory, int(keys.max()) + 1)
        self.keys[self.count : end] = keys
        self.scopes[self.count : end] = scopes
        self.directory[keys] = np.arange(self.count + 1, end + 1)
        self.count, self.live = end, self.live + len(keys)

    def discard(self, keys: Keys, *, sorted_rows: int) -> tuple[Words32, npt.NDArray[np.int32]]:
        """Clear the rows of keys; return the source nodes and rows of their ends in the first `sorted_rows` rows."""
        rows = distinct(self.find(keys)[1])
        nodes, _, end_rows = self._block_ends(rows[rows < sorted_rows])
        for lists in (self.tied, self.pairs):
            lists.words[lists.places(rows)[1]] = 0
        self.scopes[rows] = 0
        self.directory[self.keys[rows]] = 0
        self.live -= len(rows)
        return nodes, end_rows

    def without_dead(self) -> "_Rows":
        """Return a copy without the cleared rows."""
        others, alive = _Rows(), np.flatnonzero(self.scopes[: self.count])
        for start in range(0, len(alive), _BLOCK):
            rows = alive[start : start + _BLOCK]
            tied, pairs = ((lists.sizes(rows), lists.words[lists.places(rows)[1]]) for lists in (self.tied, self.pairs))
            others.append(self.keys[rows].astype(np.int64), self.scopes[rows], tied, pairs)
        return others

    def allowed(self, scopes: Iterable[int] | None) -> npt.NDArray[np.bool_]:
        """Return a mask of the visible scopes; scope 0 is never visible."""
        allowed = np.zeros(int(self.scopes[: self.count].max(initial=0)) + 1, np.bool_)
        if scopes is None:
            allowed[1:] = True
        else:
            allowed[[scope for scope in scopes if 0 < scope < len(allowed)]] = True
        return allowed

    def degrees(self, keys: Keys, allowed: npt.NDArray[np.bool_] | None) -> Places:
        """Count the edges out of passages; `allowed` is a mask of visible scopes."""
        known, rows = self._visible(keys, allowed)
        counts = np.zeros(len(keys), np.int64)
        counts[known] = self.tied.sizes(rows)
        return counts

    def edges(self, keys: Keys, given: Places, allowed: npt.NDArray[np.bool_] | None) -> Edges:
        """Return the edges out of passages; `given` are their positions in the request."""
        known, rows = self._visible(keys, allowed)
        which, at = self.tied.places(rows)
        references = self.tied.words[at]
        target = (references >> TIE_BITS).astype(np.int64) << 1 | 1
        return Edges(given[known[which]], target, (references & TIE_MASK).astype(np.uint8))

    def runs(self, first: int) -> list[EdgeRun]:
        """Sort the ends of all edges out of entities and objects in the rows from `first` on."""
        alive = np.flatnonzero(self.scopes[first : self.count]) + first
        return [self._run(alive[start : start + _RUN_ROWS]) for start in range(0, max(1, len(alive)), _RUN_ROWS)]

    def _run(self, rows: Places) -> EdgeRun:
        return run_of([self._block_ends(rows[start : start + _BLOCK]) for start in range(0, len(rows), _BLOCK)])

    def find(self, keys: Keys) -> tuple[Places, Places]:
        """Find the rows of keys: return the positions of the keys that exist, and their rows."""
        inside = np.flatnonzero((keys >= 0) & (keys < len(self.directory)))
        rows = self.directory[keys[inside]]
        known = np.flatnonzero(rows)
        return inside[known], rows[known].astype(np.int64) - 1

    def _visible(self, keys: Keys, allowed: npt.NDArray[np.bool_] | None) -> tuple[Places, Places]:
        """Find the rows of keys as `find` does, in the visible scopes."""
        known, rows = self.find(keys)
        seen = slice(None) if allowed is None else allowed[self.scopes[rows]]
        return known[seen], rows[seen]

    def _block_ends(self, rows: Places) -> Ends:
        mentioning, at = self.tied.places(rows)
        mentions = self.tied.words[at]
        pairing, at = self.pairs.places(rows)
        pairing, ones, others = pairing[::2], self.pairs.words[at[::2]], self.pairs.words[at[1::2]]
        ties, keys = others & TIE_MASK, self.keys[rows].astype(np.uint32)
        return (
            np.concatenate([mentions >> TIE_BITS, ones, others >> TIE_BITS]),
            np.concatenate(
                [keys[mentioning] << TIE_BITS | (mentions & TIE_MASK), others, ones << TIE_BITS | ties],
            ),
            rows[np.concatenate([mentioning, pairing, pairing])].astype(np.int32),
        )


def _grown(array: npt.NDArray[Scalar], size: int) -> npt.NDArray[Scalar]:
    """Return an array, or a longer copy if it has no space for `size`."""
    if size <= len(array):
        return array
    larger = np.zeros(max(size, len(array) + len(array) // _SLACK), array.dtype)
    larger[: len(array)] = array
    return larger
