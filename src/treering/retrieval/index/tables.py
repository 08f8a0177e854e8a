"""In-memory table of vectors for cosine search, and the form in which tables are saved."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
_SIGNS_BLOCK = 65_536
_SAMPLE = 4_096  # values
_MIN_VALUES = 8 * _SAMPLE  # to be estimated from a sample
_DEVIATIONS = 4  # of a sample's rank, so that the estimate is nearly never too high


def distinct(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return the distinct values in ascending order. Unlike `np.unique`, it does not import masked arrays."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def nth_largest(values: npt.NDArray[Scalar], n: int) -> Scalar:
    """Return the `n`-th largest value.

    Of many values, only those above an estimate from a sample are compared: four to twenty times as fast.
    """
    if len(values) >= _MIN_VALUES:
        sample = values[:: len(values) // _SAMPLE]
        expected = n * len(sample) / len(values)
        rank = int(expected + _DEVIATIONS * (1 + expected**0.5))
        if rank < len(sample) // 2:
            upper = values[values >= np.partition(sample, -rank)[-rank]]
            values = upper if len(upper) >= n else values
    nth: Scalar = np.partition(values, -n)[-n]
    return nth


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
        """Return the rows (of `None`: all) whose signs agree most with the query, including ties."""
        agreements = self._agreements(query)
        if rows is not None:
            agreements = agreements[rows]
        wanted = min(max(self._rescored, 2 * limit, len(agreements) // RESCORED_DIVISOR), len(agreements))
        chosen: Rows = np.flatnonzero(agreements >= nth_largest(agreements, wanted))
        return chosen if rows is None else rows[chosen]

    def _agreements(self, query: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
        """Return, by row, the sum of the magnitudes of the query's components with the same sign as the row's.

        Magnitudes are whole numbers, added up bit by bit from the highest. The sum of 9,000 components fits.
        """
        opposite, magnitudes = ~_sign_bits(query[np.newaxis]), np.abs(query)
        largest = float(magnitudes.max()) or 1.0
        levels = np.rint(magnitudes * ((2**_MAGNITUDE_BITS - 1) / largest)).astype(np.int16)
        bits = [_sign_bits(levels[np.newaxis] & 2**bit) for bit in reversed(range(_MAGNITUDE_BITS))]
        sums = np.zeros(self._count, np.uint16)
        for block in _blocks(self._count, _SIGNS_BLOCK):
            check_interrupt()
            same, of_block = self._signs[:, block] ^ opposite, sums[block]
            for bit in bits:
                of_block *= 2
                of_block += np.sum(np.bitwise_count(same & bit), axis=0, dtype=np.uint16)
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
    near: npt.NDArray[np.bool_] = cosines >= nth_largest(cosines, limit) - _COSINE_SLACK
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
