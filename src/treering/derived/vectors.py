"""Vectors in memory: exact cosine search over few rows, sign bits and rescoring over many."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from treering.core.errors import InvalidInput

Keys = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float16] | npt.NDArray[np.float32]

MAX_KEY = 2**28
EXACT_ROWS = 20_000
RESCORED = 8_000
RESCORED_SHARE = 25
"""One row in this many is rescored, if that is more than `rescored`: recall falls as rows crowd together."""

# Components are kept as 16-bit fixed point: as exact as half precision for components of a unit vector
# (cosines within 5e-5 of float32), and numpy turns them into floats eight times faster.
_SCALE = np.float32(32_767)
_SLACK = np.float32(1e-5)
_BLOCK = 1024  # rows turned into floats at a time: 1.5 MB at 384 dimensions, which stays in the cache
_BITS_BLOCK = 16_384


class VectorTable:
    """Unit vectors by integer key, searched by cosine. 0.82 MB for each 1,000 vectors of 384 dimensions.

    Keys are row ids: from 0 to 2**28, and better dense, for each possible key up to the greatest takes
    4 bytes. Up to `exact_rows` rows, or rows allowed by a filter, every cosine is computed. Beyond, rows are
    ranked by how many components agree in sign with the query, and cosines are computed for the best
    `rescored` of them (at least one in 25). The answer is a function of the content and the query; the order
    in which vectors were added or discarded does not show.

    Not locked: nobody may search while somebody adds or discards.
    """

    def __init__(
        self, dimension: int, *, exact_rows: int = EXACT_ROWS, rescored: int = RESCORED
    ) -> None:
        self._dimension = dimension
        self._exact_rows = exact_rows
        self._rescored = rescored
        self._count = 0
        self._keys = np.empty(0, np.int64)
        self._matrix = np.empty((0, dimension), np.int16)
        # One line per 64 components, so that a line is read from end to end.
        self._signs = np.empty((-(-dimension // 64), 0), np.uint64)
        # By key: the row, counted from 1; 0 where there is none (a page never written takes no memory).
        self._directory = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        return self._rows_of(np.array([key], np.int64)).size > 0

    def keys(self) -> Keys:
        """Give all keys, in ascending order."""
        return np.sort(self._keys[: self._count])

    def add(self, keys: Keys, vectors: Floats) -> None:
        """Keep `vectors` (`float16|float32[n, dim]`, unit length) under `keys`, replacing those there.

        Where a key is given twice, the last vector counts. Raises `InvalidInput`, and changes nothing, for
        another shape, a key out of range, or a vector that is not of unit length.
        """
        keys, values = self._checked(keys, vectors)
        self._make_rows(keys)
        rows = self._directory[keys] - 1
        self._matrix[rows] = np.rint(values * _SCALE)
        self._signs[:, rows] = _sign_bits(values)

    def discard(self, keys: Keys) -> None:
        """Forget `keys`; one that is not there is no error. The content is overwritten in memory."""
        gone = np.unique(self._rows_of(keys))
        left = self._count - len(gone)
        self._directory[self._keys[gone]] = 0
        # The last rows move into the holes, so that rows stay dense.
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
        """Find the `limit` nearest: their keys and cosines, best first, equal ones by ascending key.

        `query` is `float32[dim]`, unit length. `allowed` restricts the search to these keys, before ranking
        (keys that are not there are ignored). Raises `InvalidInput` for another shape.
        """
        self._check_query(query)
        if limit < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows = np.arange(self._count) if allowed is None else np.unique(self._rows_of(allowed))
        if len(rows) > self._exact_rows:
            rows = self._promising(query, rows, limit)
        finalists = _at_least_nth(rows, self._rough_cosines(query, rows), limit)
        cosines = self._cosines(query, finalists)
        keys = self._keys[finalists]
        order = np.lexsort((keys, -cosines))[:limit]
        return keys[order], cosines[order]

    def scores(self, query: npt.NDArray[np.float32], keys: Keys) -> npt.NDArray[np.float32]:
        """Give the cosine of `query` with each of `keys`, as `search` would; NaN where there is no vector."""
        self._check_query(query)
        scores = np.full(len(keys), np.nan, np.float32)
        known = np.flatnonzero(self._lookup(keys))
        scores[known] = self._cosines(query, self._rows_of(keys[known]))
        return scores

    def _checked(self, keys: Keys, vectors: Floats) -> tuple[Keys, npt.NDArray[np.float32]]:
        if vectors.shape != (len(keys), self._dimension):
            raise InvalidInput(
                f"{len(keys)} keys came with vectors of shape {vectors.shape}.",
                hint=f"Give one vector of dimension {self._dimension} for each key.",
            )
        if len(keys) and (keys.min() < 0 or keys.max() >= MAX_KEY):
            raise InvalidInput("A key is out of range.", hint=f"Give row ids from 0 to {MAX_KEY - 1}.")
        values = vectors.astype(np.float32, copy=False)
        # Written so that a NaN fails too.
        if not np.all(np.abs(np.einsum("ij,ij->i", values, values) - 1) < 0.01):
            raise InvalidInput("A vector is not of unit length.", hint="Divide vectors by their norm.")
        return keys, np.clip(values, -1, 1)

    def _check_query(self, query: npt.NDArray[np.float32]) -> None:
        if query.shape != (self._dimension,):
            raise InvalidInput(
                f"The query has shape {query.shape}, the table dimension {self._dimension}.",
                hint="Embed the query with the model that embedded the table.",
            )

    def _make_rows(self, keys: Keys) -> None:
        if len(keys) == 0:
            return
        self._directory = _grown(self._directory, int(keys.max()) + 1)
        new = np.unique(keys[self._directory[keys] == 0])
        start, end = self._count, self._count + len(new)
        self._keys = _grown(self._keys, end)
        self._matrix = _grown(self._matrix, end)
        self._signs = _grown(self._signs.T, end).T if end > self._signs.shape[1] else self._signs
        self._keys[start:end] = new
        self._directory[new] = np.arange(start + 1, end + 1)
        self._count = end

    def _lookup(self, keys: Keys) -> npt.NDArray[np.int32]:
        inside = (keys >= 0) & (keys < len(self._directory))
        found = np.zeros(len(keys), np.int32)
        found[inside] = self._directory[keys[inside]]
        return found

    def _rows_of(self, keys: Keys) -> Rows:
        found = self._lookup(keys)
        return found[found > 0].astype(np.int64) - 1
