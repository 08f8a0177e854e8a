"""In-memory tables: vectors for cosine search, and postings of words for BM25."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt, InvalidInput
from treering.ports.runtime import check_interrupt

Scalar = TypeVar("Scalar", bound=np.generic)

Keys = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float16] | npt.NDArray[np.float32]
Stored = npt.NDArray[np.int16]

MAX_KEY = 2**28
EXACT_ROWS = 20_000
RESCORED = 8_000
RESCORED_DIVISOR = 40
"""In a table of more than 40 times `RESCORED` rows, cosines are computed for one row of this many.

Of 1.39 million passages of code, 8,000 rows contain 92 % of the ten nearest and 81 % of the hundred nearest, one in 40
contains 98.5 and 95 %, for 2.5 ms more (`benchmarks scale`).
"""
_MAGNITUDE_BITS = 3
"""Bits of the magnitudes of a query's components, with which rows are ranked by the signs of their components.

With signs alone, the best 8,000 rows contain 85 % of the ten nearest of 137,000 passages of code and 96 % of 200,000 of
prose; with 2 bits 98.1 and 99.6 %, with 3 bits 99.6 and 99.7 %, with 4 bits 99.9 and 99.6 % (`benchmarks scale`).
"""

# Components are stored as 16-bit fixed point: as exact as half precision for a unit vector (cosines within 5e-5 of
# float32), and numpy converts them to floats seven times faster. The scale allows vectors slightly longer than 1.
_SCALE = np.float32(32_000)
_LENGTH_SLACK = 0.01
_COSINE_SLACK = np.float32(1e-5)
_BLOCK = 512  # rows converted at a time: 0.8 MB at 384 dimensions, which fits into the cache
_SIGNS_BLOCK = 16_384


def distinct(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return the distinct values in ascending order. Unlike `np.unique`, it does not import masked arrays."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def stored_form(vectors: Floats) -> Stored:
    """Convert unit vectors to their stored form: 16-bit fixed point of the same shape."""
    rounded: Stored = np.rint(vectors.astype(np.float32) * _SCALE).astype(np.int16)
    return rounded


def restored(stored: Stored) -> npt.NDArray[np.float32]:
    """Convert vectors back from `stored_form`."""
    return stored.astype(np.float32) / _SCALE


@dataclass(frozen=True, slots=True)
class PackedTable:
    """A table as named numbers and arrays. The arrays are not copied."""

    numbers: Mapping[str, int]
    arrays: Mapping[str, npt.NDArray[Any]]
    most: int = 0
    """The maximal number of elements of an array that comes in parts."""
    parts: Iterable[Mapping[str, npt.NDArray[Any]]] = ()
    """Further arrays in parts, because joined they would take as much memory again."""

    def array(self, name: str, kind: type[np.generic], *shape: int | None) -> npt.NDArray[Any]:
        """Return an array. Raises `Corrupt` if it does not have this type and shape (`None`: any length)."""
        array = self.arrays.get(name)
        if (
            array is None
            or array.dtype != kind
            or array.ndim != len(shape)
            or any(expected not in {None, actual} for expected, actual in zip(shape, array.shape, strict=True))
        ):
            raise unfit()
        return array

    def number(self, name: str, *, most: int) -> int:
        """Return a number. Raises `Corrupt` if it is missing, or not between 0 and `most`."""
        number = self.numbers.get(name)
        if not isinstance(number, int) or not 0 <= number <= most:
            raise unfit()
        return number


def unfit() -> Corrupt:
    """Return the error for a serialized table with inconsistent arrays."""
    return Corrupt("A packed table does not fit together.", hint="Delete it; it is rebuilt from the space.")


class VectorTable:
    """Unit vectors by integer key, searched by cosine; 0.86 MB per 1,000 vectors of 384 dimensions.

    Keys are row ids from 0 to 2**28, preferably dense, because every possible key up to the greatest takes 4 bytes. Up
    to `exact_rows` rows, or rows allowed by a filter, every cosine is computed. In larger tables, rows are ranked by
    the components of the query whose sign they have, weighted by magnitude, and cosines are computed for the best
    `rescored` of them, or one in `RESCORED_DIVISOR` if that is more. Results depend only on the content and the query,
    not on the order of changes.

    Not thread-safe: the caller must not search during `add` or `discard`.
    """

    def __init__(self, dimension: int, *, exact_rows: int = EXACT_ROWS, rescored: int = RESCORED) -> None:
        self._dimension = dimension
        self._exact_rows = exact_rows
        self._rescored = rescored
        self._count = 0
        self._keys = np.empty(0, np.int64)
        self._matrix = np.empty((0, dimension), np.int16)
        # One line per 64 components, so that lines are read sequentially.
        self._signs = np.empty((-(-dimension // 64), 0), np.uint64)
        # By key: the row, counted from 1; 0 if there is none. Pages that are never written take no memory.
        self._directory = np.zeros(0, np.int32)
        self._allowed: tuple[Keys, Rows | None] | None = None
        """The allowed keys of the last search with their rows, because filters repeat."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        return self._rows_of(np.array([key], np.int64)).size > 0

    def packed(self) -> PackedTable:
        """Return the whole table as arrays."""
        arrays: dict[str, npt.NDArray[Any]] = {"keys": self._keys, "matrix": self._matrix, "signs": self._signs}
        return PackedTable({"count": self._count}, {**arrays, "directory": self._directory})

    def unpack(self, packed: PackedTable) -> None:
        """Load a table from `packed`, without copying its arrays. Raises `Corrupt` if they are inconsistent."""
        keys = packed.array("keys", np.int64, None)
        matrix = packed.array("matrix", np.int16, None, self._dimension)
        signs = packed.array("signs", np.uint64, len(self._signs), None)
        directory = packed.array("directory", np.int32, None)
        self._count = packed.number("count", most=min(len(keys), len(matrix), signs.shape[1]))
        self._keys, self._matrix, self._signs, self._directory = keys, matrix, signs, directory
        self._allowed = None

    def keys(self) -> Keys:
        """Return all keys, in ascending order."""
        return np.sort(self._keys[: self._count])

    def reserve(self, rows: int, greatest_key: int) -> None:
        """Allocate space for a number of rows and for keys up to the greatest."""
        self._directory = _grown(self._directory, greatest_key + 1)
        self._keys = _grown(self._keys, rows)
        self._matrix = _grown(self._matrix, rows)
        self._signs = _grown(self._signs, rows, axis=1)

    def add(self, keys: Keys, vectors: Floats) -> None:
        """Store `vectors` (`float16|float32[n, dim]`, unit length) under `keys`, replacing existing ones.

        Of a repeated key the last vector counts. Raises `InvalidInput` without changing anything for another shape, a
        key out of range, or a vector that does not have unit length.
        """
        self._check_places(keys, vectors.shape)
        if not all(_are_unit(vectors[block]) for block in _blocks(len(keys), _BLOCK)):
            raise InvalidInput("A vector is not of unit length.", hint="Divide each vector by its norm.")
        self.add_stored(keys, stored_form(vectors))

    def add_stored(self, keys: Keys, stored: Stored) -> None:
        """Store vectors in `stored_form` (`int16[n, dim]`) under `keys`, like `add`, without checking their length."""
        self._check_places(keys, stored.shape)
        given: Rows | None = None
        if np.any(keys[1:] <= keys[:-1]):
            keys, last = np.unique(keys[::-1], return_index=True)
            given = len(stored) - 1 - last
        self._allowed = None
        self._make_rows(keys)
        rows = self._rows_of(keys)
        for block in _blocks(len(rows), _BLOCK):
            values = stored[block] if given is None else stored[given[block]]
            at = _in_line(rows[block])
            self._matrix[at] = values
            self._signs[:, at] = _sign_bits(values)

    def discard(self, keys: Keys) -> None:
        """Remove `keys`; missing ones are ignored. Their content is overwritten in memory."""
        self._allowed = None
        gone = self._in_order(self._rows_of(keys))
        left = self._count - len(gone)
        self._directory[self._keys[gone]] = 0
        # The last rows fill the holes, so that rows stay dense.
        holes = gone[gone < left]
        movers = np.setdiff1d(np.arange(left, self._count), gone, assume_unique=True)
        self._matrix[holes] = self._matrix[movers]
        self._signs[:, holes] = self._signs[:, movers]
        self._keys[holes] = self._keys[movers]
        self._directory[self._keys[holes]] = holes + 1
        self._matrix[left : self._count] = 0
        self._signs[:, left : self._count] = 0
        self._count = left

    def search(
        self, query: npt.NDArray[np.float32], *, limit: int, allowed: Keys | None = None
    ) -> tuple[Keys, npt.NDArray[np.float32]]:
        """Return the keys and cosines of the `limit` nearest, best first, ties by ascending key.

        `query` is `float32[dim]`, unit length. `allowed` restricts the search to these keys before ranking; missing
        keys are ignored, and the caller must not change the array later. Raises `InvalidInput` for another shape.
        """
        self._check_query(query)
        if limit < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows = None if allowed is None else self._rows_allowed(allowed)
        if (self._count if rows is None else len(rows)) > self._exact_rows:
            rows = self._promising(query, rows, limit)
        elif rows is None:
            rows = np.arange(self._count)
        finalists = _at_least_nth(rows, self._rough_cosines(query, rows), limit)
        cosines = self._cosines(query, finalists)
        keys = self._keys[finalists]
        order = np.lexsort((keys, -cosines))[:limit]
        return keys[order], cosines[order]

    def scores(self, query: npt.NDArray[np.float32], keys: Keys) -> npt.NDArray[np.float32]:
        """Return the cosine of `query` with each of `keys`, as in `search`; NaN for keys without a vector."""
        self._check_query(query)
        scores = np.full(len(keys), np.nan, np.float32)
        known = np.flatnonzero(self._lookup(keys))
        scores[known] = self._cosines(query, self._rows_of(keys[known]))
        return scores

    def _check_places(self, keys: Keys, shape: tuple[int, ...]) -> None:
        if shape != (len(keys), self._dimension):
            raise InvalidInput(
                f"{len(keys)} keys came with vectors of shape {shape}.",
                hint=f"Give one vector of dimension {self._dimension} per key.",
            )
        if len(keys) and (keys.min() < 0 or keys.max() >= MAX_KEY):
            raise InvalidInput("A key is out of range.", hint=f"Use row ids from 0 to {MAX_KEY - 1}.")

    def _check_query(self, query: npt.NDArray[np.float32]) -> None:
        if query.shape != (self._dimension,):
            raise InvalidInput(
                f"The query has shape {query.shape}, but the table has dimension {self._dimension}.",
                hint="Embed the query with the same model as the table.",
            )

    def _make_rows(self, keys: Keys) -> None:
        if len(keys) == 0:
            return
        self._directory = _grown(self._directory, int(keys.max()) + 1)
        new = distinct(keys[self._directory[keys] == 0])
        start, end = self._count, self._count + len(new)
        self._keys = _grown(self._keys, end)
        self._matrix = _grown(self._matrix, end)
        self._signs = _grown(self._signs, end, axis=1)
        self._keys[start:end] = new
        self._directory[new] = np.arange(start + 1, end + 1)
        self._count = end

    def _lookup(self, keys: Keys) -> npt.NDArray[np.int32]:
        inside = (keys >= 0) & (keys < len(self._directory))
        places = np.zeros(len(keys), np.int32)
        places[inside] = self._directory[keys[inside]]
        return places

    def _rows_of(self, keys: Keys) -> Rows:
        places = self._lookup(keys)
        rows: Rows = places[places > 0].astype(np.int64) - 1
        return rows

    def _rows_allowed(self, allowed: Keys) -> Rows | None:
        """Return the rows of some keys, in order; `None` if they are all rows."""
        known = self._allowed
        if known is None or known[0] is not allowed:
            rows = self._in_order(self._rows_of(allowed))
            known = self._allowed = (allowed, None if len(rows) == self._count else rows)
        return known[1]

    def _in_order(self, rows: Rows) -> Rows:
        """Return the distinct `rows`, sorted; for many rows a mask is much cheaper than `np.unique`."""
        mask = np.zeros(self._count, np.bool_)
        mask[rows] = True
        in_order: Rows = np.flatnonzero(mask)
        return in_order

    def _promising(self, query: npt.NDArray[np.float32], rows: Rows | None, limit: int) -> Rows:
        """Return the rows (of `None`: all) whose signs disagree least with the query, including ties."""
        disagreements = self._disagreements(query)
        if rows is not None:
            disagreements = disagreements[rows]
        wanted = min(max(self._rescored, 2 * limit, len(disagreements) // RESCORED_DIVISOR), len(disagreements))
        chosen: Rows = np.flatnonzero(disagreements <= np.partition(disagreements, wanted - 1)[wanted - 1])
        return chosen if rows is None else rows[chosen]

    def _disagreements(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
        """Return, by row, the sum of the magnitudes of the query's components with another sign than the row has.

        Magnitudes are whole numbers, added up bit by bit from the highest. The sum of 9,000 components fits.
        """
        wanted, magnitudes = _sign_bits(query[np.newaxis]), np.abs(query)
        largest = float(magnitudes.max()) or 1.0
        levels = np.rint(magnitudes * ((2**_MAGNITUDE_BITS - 1) / largest)).astype(np.int16)
        bits = [_sign_bits(levels[np.newaxis] & 2**bit) for bit in reversed(range(_MAGNITUDE_BITS))]
        sums = np.zeros(self._count, np.uint16)
        for block in _blocks(self._count, _SIGNS_BLOCK):
            check_interrupt()
            differing, of_block = self._signs[:, block] ^ wanted, sums[block]
            for bit in bits:
                of_block *= 2
                of_block += np.sum(np.bitwise_count(differing & bit), axis=0, dtype=np.uint16)
        return sums

    def _rough_cosines(self, query: npt.NDArray[np.float32], rows: Rows) -> npt.NDArray[np.float32]:
        """Compute cosines fast; their last bits depend on the position of a row in the table."""
        cosines = np.empty(len(rows), np.float32)
        scaled = query / _SCALE
        for block in _blocks(len(rows), _BLOCK):
            np.dot(self._floats(rows[block]), scaled, out=cosines[block])
        return cosines

    def _cosines(self, query: npt.NDArray[np.float32], rows: Rows) -> npt.NDArray[np.float32]:
        """Compute cosines so that equal vectors have equal cosines, independent of their position."""
        cosines = np.empty(len(rows), np.float32)
        for block in _blocks(len(rows), _BLOCK):
            np.sum(self._floats(rows[block]) * query, axis=1, out=cosines[block])
        return cosines / _SCALE

    def _floats(self, rows: Rows) -> npt.NDArray[np.float32]:
        # Contiguous rows, as in a search without a filter, are not copied.
        at = _in_line(rows)
        stored = self._matrix[at] if isinstance(at, slice) else self._matrix.take(rows, axis=0)
        return stored.astype(np.float32)


def _at_least_nth(rows: Rows, cosines: npt.NDArray[np.float32], limit: int) -> Rows:
    """Return the rows that may be among the `limit` best by exact cosines."""
    if len(rows) <= limit:
        return rows
    nth = np.partition(cosines, len(rows) - limit)[len(rows) - limit]
    near: npt.NDArray[np.bool_] = cosines >= nth - _COSINE_SLACK
    return rows[near]


def _in_line(rows: Rows) -> slice | Rows:
    """Return rows as a slice if they are contiguous; at least one row is needed."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 and bool(np.all(np.diff(rows) == 1)) else rows


def _are_unit(vectors: Floats) -> bool:
    squares = np.square(vectors, dtype=np.float32).sum(axis=1)
    # Not `any(… >= …)`, because NaN must fail too.
    return bool(np.all(np.abs(squares - 1) < _LENGTH_SLACK))


def _sign_bits(values: Stored | npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Pack the signs of components, 1 for positive: `uint64[ceil(dim / 64), n]` from `[n, dim]`."""
    positive, padding = values > 0, -values.shape[1] % 64
    packed = np.packbits(np.pad(positive, ((0, 0), (0, padding))) if padding else positive, axis=1)
    return packed.view(np.uint64).T


def _blocks(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


def _grown(array: npt.NDArray[Scalar], size: int, axis: int = 0) -> npt.NDArray[Scalar]:
    """Return `array`, or a copy of at least twice the length if it has no space for `size`."""
    if size <= array.shape[axis]:
        return array
    shape = list(array.shape)
    shape[axis] = max(size, 2 * shape[axis])
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(length) for length in array.shape)] = array
    return larger


Scores = npt.NDArray[np.float64]

MAX_CHANGES = 100_000
"""Changed passages since the cache of postings was empty; after that, it is cleared."""
MIN_POSTINGS = 2_000_000
"""Postings in the cache of recently used terms in a small space: 16 MB."""

POSTINGS_PER_PASSAGE = 12
"""Postings in this cache for each passage of a larger space: enough for the common words of questions.

At 500,000 passages a search takes 32 ms instead of 39 with 2 million (`benchmarks scale`).
"""

MAX_WEIGHT = 2
"""The greatest weight of a column."""

K1 = 1.2
B = 0.75
_LEAST_IDF = 1e-6  # as in FTS5, the weight of a word in most passages, instead of a negative one


def bm25(texts: Sequence[Counter[str]]) -> dict[str, list[tuple[int, float]]]:
    """Return for each word the texts with it, by their place, and its weight in each (Robertson and Zaragoza 2009)."""
    usual = sum(text.total() for text in texts) / max(1, len(texts))
    found: dict[str, list[tuple[int, float]]] = {}
    for place, text in enumerate(texts):
        norm = K1 * (1 - B + B * text.total() / usual) if usual else K1
        for word, times in text.items():
            found.setdefault(word, []).append((place, times * (K1 + 1) / (times + norm)))
    rarity = {word: log(1 + (len(texts) - len(held) + 0.5) / (len(held) + 0.5)) for word, held in found.items()}
    return {word: [(place, weight * rarity[word]) for place, weight in held] for word, held in found.items()}


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages with a term, by ascending key, and its number of occurrences in each, weighted by column."""

    keys: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]

    def renewed(self, changed: npt.NDArray[np.int32], first: int, added: Mapping[int, float]) -> "Postings":
        """Return the postings without changed passages, and with `added` instead of all passages from a key on."""
        keys = self.keys[: np.searchsorted(self.keys, first)]
        places = np.searchsorted(keys, changed)
        removed = places[keys.take(places, mode="clip") == changed] if len(keys) else places[:0]
        if len(keys) == len(self.keys) and not (len(removed) or added):
            return self
        new = np.array(sorted(added), np.int32)
        counts = np.array([added[key] for key in new.tolist()], np.float32)
        return Postings(
            np.concatenate([np.delete(keys, removed), new]),
            np.concatenate([np.delete(self.counts[: len(keys)], removed), counts]),
        )


@dataclass(frozen=True, slots=True)
class PostingLists:
    """The postings of several terms, joined."""

    bounds: Mapping[str, tuple[int, int]]
    """By term, the first position in the arrays, and the position after the last."""
    keys: npt.NDArray[np.int32]
    doubled: npt.NDArray[Any]
    """Twice the numbers of occurrences, which are whole numbers, because weights of columns are multiples of a half."""

    def find(self, term: str) -> Postings:
        """Return the postings of a term."""
        part = slice(*self.bounds[term])
        return Postings(self.keys[part], self.doubled[part] * np.float32(0.5))


_NO_LISTS = PostingLists({}, np.zeros(0, np.int32), np.zeros(0, np.int16))


@dataclass(frozen=True, slots=True)
class WeighedPostings:
    """Distinct passages with a score for each."""

    keys: npt.NDArray[np.int32]
    scores: Scores


class WordTable:
    """The lengths of passages and cached postings of one snapshot, ranked by BM25 like the `bm25()` of FTS5.

    It takes about 12 bytes per possible key up to the greatest, and 8 bytes per cached posting. Postings of frequent
    terms may be in a mapped file instead. Not thread-safe: the caller must not search during changes.
    """

    def __init__(self, *, most_postings: int = 0) -> None:
        self._most = most_postings
        self._cached = 0
        self.rows = 0
        """The number of passages."""
        self._total = 0
        self._postings: OrderedDict[str, tuple[Postings, int]] = OrderedDict()
        """By term, with the number of changes that they include."""
        self._saved = _NO_LISTS
        """Postings that include no changes."""
        self._changed: list[int] = []
        """The passages that were added or removed."""
        self._lengths = np.zeros(0, np.int32)
        self._norms: Scores | None = None
        """By key, the BM25 length norm of the passage; computed when needed."""

    def begin(self, keys: Keys, lengths: Keys, *, rows: int, total: int) -> None:
        """Start over with the lengths (in terms) of all passages, their number, and their total length."""
        self._lengths = np.zeros(int(keys.max(initial=-1)) + 1, np.int32)
        self._lengths[keys] = lengths
        self.rows, self._total, self._norms = rows, total, None
        self.forget()

    def packed(self, frequent: Mapping[str, int], read: Callable[[str], Postings]) -> PackedTable:
        """Return the table with the postings of frequent terms, which are given with their numbers of passages.

        `read` returns the current postings of a term.
        """
        widest = 2 * MAX_WEIGHT * int(self._lengths.max(initial=0))
        kind = np.int16 if widest <= np.iinfo(np.int16).max else np.int32

        def parts() -> Iterator[Mapping[str, npt.NDArray[Any]]]:
            yield {"keys": _NO_LISTS.keys, "doubled": np.zeros(0, kind)}
            for term in frequent:
                postings = read(term)
                yield {"keys": postings.keys, "doubled": (2 * postings.counts).astype(kind)}

        bounds = np.cumsum([0, *frequent.values()], dtype=np.int64)
        terms = np.frombuffer("\n".join(frequent).encode("utf-32-le"), np.uint32)
        arrays: dict[str, npt.NDArray[Any]] = {"lengths": self._lengths, "bounds": bounds, "terms": terms}
        numbers = {"rows": self.rows, "total": self._total, "bytes": np.dtype(kind).itemsize}
        return PackedTable(numbers, arrays, int(bounds[-1]), parts())

    def unpack(self, packed: PackedTable) -> None:
        """Load a table from `packed`, without copying its arrays. Raises `Corrupt` if they are inconsistent."""
        lengths, bounds = packed.array("lengths", np.int32, None), packed.array("bounds", np.int64, None)
        keys = packed.array("keys", np.int32, None)
        kind = np.int16 if packed.number("bytes", most=4) == np.dtype(np.int16).itemsize else np.int32
        doubled = packed.array("doubled", kind, len(keys))
        try:
            joined = packed.array("terms", np.uint32, None).tobytes().decode("utf-32-le")
        except UnicodeDecodeError as error:
            raise unfit() from error
        terms = joined.split("\n") if joined else []
        ends = [0, *bounds.tolist(), len(keys)]
        if len(bounds) != len(terms) + 1 or any(one > other for one, other in pairwise(ends)):
            raise unfit()
        self.rows, self._total = packed.number("rows", most=MAX_KEY), packed.number("total", most=2**62)
        self._lengths, self._norms = lengths, None
        self.forget()
        self._saved = PostingLists(dict(zip(terms, pairwise(bounds.tolist()), strict=True)), keys, doubled)

    def forget(self) -> None:
        """Forget all postings."""
        self._postings.clear()
        self._saved = _NO_LISTS
        self._changed, self._cached = [], 0

    def detach(self) -> None:
        """Forget all postings, and copy the lengths, so that a mapped file is not used any more."""
        self.forget()
        self._lengths = self._lengths.copy()

    def renew(self, changed: Sequence[int], keys: Keys, lengths: Keys, *, rows: int, total: int) -> None:
        """Update to a later snapshot: replace the lengths of `changed` passages by those of `keys`.

        If passages were removed, the cache is cleared, so that their words are not in memory any more.
        """
        greatest = max((*changed, int(keys.max(initial=-1))), default=-1)
        if greatest >= len(self._lengths):
            self._lengths = np.concatenate(
                [self._lengths, np.zeros(greatest + 1 + greatest // 8 - len(self._lengths), np.int32)]
            )
        altered = self._altered(changed, keys)
        self._lengths[list(changed)] = 0
        self._lengths[keys] = lengths
        self.rows, self._total, self._norms = rows, total, None
        if len(self._changed) > MAX_CHANGES:
            self.forget()
        elif not set(changed) <= set(keys.tolist()):
            self._postings.clear()
            self._cached = 0
        self._changed += altered.tolist()

    def _altered(self, changed: Sequence[int], keys: Keys) -> Keys:
        """Return the changed passages that were added or removed. The words of a passage never change.

        A passage may have the key of an erased one only if there is no greater key from before.
        """
        altered = np.array(changed, np.int64)
        before = self._lengths > 0
        were = before[altered]
        before[altered] = False
        greatest = len(before) - int(np.argmax(before[::-1])) - 1 if before.any() else -1
        same = were & np.isin(altered, keys) & (altered < greatest)
        unchanged: Keys = altered[~same]
        return unchanged

    def held(self, terms: Iterable[str]) -> set[str]:
        """Return the terms with cached or saved postings."""
        return {term for term in terms if term in self._postings or term in self._saved.bounds}

    def having(self, term: str) -> int | None:
        """Return the number of passages in the cached or saved postings of a term."""
        if term in self._postings:
            return len(self._postings[term][0].keys)
        start, end = self._saved.bounds.get(term, (-1, -1))
        return end - start if end >= 0 else None

    def find(self, term: str) -> Postings | None:
        """Return the cached or saved postings of a term."""
        if term in self._postings:
            self._postings.move_to_end(term)
            return self._postings[term][0]
        return self._saved.find(term) if term in self._saved.bounds else None

    def renewed(self, term: str, look_up: Callable[[int], Mapping[int, float]]) -> Postings | None:
        """Return the current postings of a term; `None` if they are neither cached nor saved.

        `look_up` returns the occurrences of the term in all passages with it from a key on.
        """
        postings = self.find(term)
        start = self._postings[term][1] if term in self._postings else 0
        if postings is None or start == len(self._changed):
            return postings
        changed = distinct(np.array(self._changed[start:], np.int32))
        added = changed[self._lengths[changed] > 0]
        first = int(added[0]) if len(added) else len(self._lengths)
        postings = postings.renewed(changed, first, look_up(first) if len(added) else {})
        self.keep(term, postings)
        return postings

    def keep(self, term: str, postings: Postings) -> None:
        """Cache the current postings of a term; evict the least recently used terms if there are too many."""
        self._cached += len(postings.keys) - (len(self._postings[term][0].keys) if term in self._postings else 0)
        self._postings[term] = (postings, len(self._changed))
        self._postings.move_to_end(term)
        most = self._most or max(MIN_POSTINGS, POSTINGS_PER_PASSAGE * self.rows)
        while self._cached > most and len(self._postings) > 1:
            _, (evicted, _) = self._postings.popitem(last=False)
            self._cached -= len(evicted.keys)

    def rank(self, terms: Sequence[Postings], limit: int) -> tuple[Keys, Scores]:
        """Return the best passages with any of the terms, and their scores; ties by ascending key."""
        return best(self.scores(terms), limit)

    def scores(self, terms: Sequence[Postings | WeighedPostings]) -> Scores:
        """Return the score of every passage by key, 0 without any of the terms; a repeated term counts twice."""
        scores = np.zeros(len(self._lengths))
        for each in terms:
            keys = each.keys.astype(np.int64)  # takes half the time, because numpy would convert them at each use
            scores[keys] += each.scores if isinstance(each, WeighedPostings) else self._weighed(each, keys)
        return scores

    def _weighed(self, postings: Postings, keys: Keys) -> Scores:
        if self._norms is None:
            self._norms = K1 * (1 - B + B * self._lengths.astype(np.float64) / (self._usual or 1.0))
        counts = postings.counts.astype(np.float64)
        weighed: Scores = self._idf(len(counts)) * ((counts * (K1 + 1)) / (counts + self._norms.take(keys)))
        return weighed

    def scores_of_others(self, lengths: Scores, found: Sequence[Postings], having: Sequence[int]) -> Scores:
        """Return the scores of passages that are not in the table, with the term frequencies of the table.

        `lengths` are in terms, by key. `found` are the postings of each term among them, and `having` is the number of
        passages of the table with the term.
        """
        usual = self._usual or (lengths[lengths > 0].mean() if lengths.any() else 1.0)
        scores = np.zeros(len(lengths))
        for each, frequency in zip(found, having, strict=True):
            counts = each.counts.astype(np.float64)
            norms = K1 * (1 - B + B * lengths[each.keys] / usual)
            scores[each.keys] += self._idf(frequency) * counts * (K1 + 1) / (counts + norms)
        return scores

    @property
    def _usual(self) -> float:
        """The mean length of a passage."""
        return self._total / max(1, self.rows)

    def _idf(self, having: int) -> float:
        rarity = log((self.rows - having + 0.5) / (having + 0.5))
        return rarity if rarity > 0 else _LEAST_IDF


def only(scores: Scores, keys: Keys) -> Scores:
    """Return the scores of some passages, and 0 for all others."""
    selected = np.zeros(len(scores))
    selected[keys] = scores[keys]
    return selected


def best(scores: Scores, limit: int, *, among: npt.NDArray[np.int32] | Keys | None = None) -> tuple[Keys, Scores]:
    """Return the best passages (`among`: of these) and their scores; ties by ascending key."""
    # Comparing first is ten times as fast as looking for numbers other than 0.
    keys = np.flatnonzero(scores > 0) if among is None else among[scores[among] > 0].astype(np.int64, copy=False)
    if len(keys) > limit:
        values = scores[keys]
        keys = keys[values >= np.partition(values, len(keys) - limit)[len(keys) - limit]]
    order = np.lexsort((keys, -scores[keys]))[:limit]
    return keys[order], scores[keys[order]]
