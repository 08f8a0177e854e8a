"""Vectors in a FAISS index with the keys of their rows: flat (exact), or HNSW."""

from collections.abc import Mapping
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt, InvalidInput
from treering.ports.search import Vector
from treering.ports.vector_engine import Keys
from treering.stores.engines.server_engine import check_dimension

FLAT, HNSW = "flat", "hnsw"
KINDS = (FLAT, HNSW)
_LINKS = 16
_BUILD_BREADTH = 64
_SEARCH_BREADTH = 200
_GONE = -1
_MOST_GONE = 5  # one row in so many may be gone before the graph is made anew


class Rows:
    """Vectors by key. Every vector is compared."""

    def __init__(self, dimension: int, index: Any = None, keys: Keys | None = None) -> None:
        self._dimension = dimension
        self._index = self._new() if index is None else index
        self._keys = np.empty(0, np.int64) if keys is None else keys

    def keys(self) -> Keys:
        """Return the keys, by row; a row that is gone has -1."""
        return self._keys

    def put(self, keys: Keys, vectors: npt.NDArray[np.float32]) -> None:
        """Add vectors under keys that are not there."""
        self._index.add(vectors)
        self._keys = np.concatenate([self._keys, keys])

    def remove(self, keys: Keys) -> None:
        """Forget keys; one that is not there is no error. The rows behind them move up."""
        gone = np.flatnonzero(np.isin(self._keys, keys))
        if len(gone):
            self._index.remove_ids(faiss.IDSelectorBatch(gone))
            self._keys = np.delete(self._keys, gone)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the keys of the nearest, best first: exactly so where only some are allowed."""
        return _searched(self._index, self._keys, vector, limit, allowed)

    def packed(self) -> bytes:
        """Return the index as bytes."""
        packed: bytes = faiss.serialize_index(self._index).tobytes()
        return packed

    def _new(self) -> Any:
        return faiss.IndexFlatIP(self._dimension)


class HnswRows(Rows):
    """A graph leads to the nearest. A removed vector is overwritten; its row stays until the graph is made anew."""

    def remove(self, keys: Keys) -> None:
        """Overwrite the vectors of keys with zeros; make the graph anew where too many are."""
        gone = np.flatnonzero(np.isin(self._keys, keys) & (self._keys != _GONE))
        if not len(gone):
            return
        self._vectors()[gone] = 0
        self._keys = self._keys.copy()
        self._keys[gone] = _GONE
        if np.count_nonzero(self._keys == _GONE) * _MOST_GONE > len(self._keys):
            left = self._keys != _GONE
            vectors, kept = self._vectors()[left].copy(), self._keys[left]
            self._index, self._keys = self._new(), np.empty(0, np.int64)
            self.put(kept, vectors)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the keys of the nearest, best first. Where only some are allowed these are compared one by one.

        A graph that is searched through a filter finds about half of the nearest.
        """
        if allowed is not None:
            return _searched(self._storage(), self._keys, vector, limit, allowed)
        gone = int(np.count_nonzero(self._keys == _GONE))
        wide = min(limit + gone, len(self._keys))
        parameters = faiss.SearchParametersHNSW(efSearch=max(_SEARCH_BREADTH, 2 * wide))
        return _found(self._index, self._keys, vector, wide, parameters)[:limit]

    def _new(self) -> Any:
        index = faiss.IndexHNSWFlat(self._dimension, _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_BREADTH
        return index

    def _storage(self) -> Any:
        return faiss.downcast_index(self._index.storage)

    def _vectors(self) -> npt.NDArray[np.float32]:
        storage = self._storage()
        rows: npt.NDArray[np.float32] = faiss.rev_swig_ptr(storage.get_xb(), storage.ntotal * self._dimension)
        return rows.reshape(-1, self._dimension)


def new_rows(kind: str, dimension: int) -> Rows:
    """Return no vectors yet."""
    return HnswRows(dimension) if kind == HNSW else Rows(dimension)


def rows_of(kind: str, dimension: int, index: bytes, keys: bytes) -> Rows:
    """Return the vectors that were packed. The bytes are those that were written: their checksums were compared."""
    read = faiss.deserialize_index(np.frombuffer(index, np.uint8))
    known = np.frombuffer(keys, "<i8").astype(np.int64)
    if read.d != dimension:
        raise InvalidInput(
            f"The engine keeps the vectors of another model, of {read.d} components instead of {dimension}.",
            hint="Leave it to those who use that model, or fill it with yours: `treering index rebuild`.",
        )
    if read.ntotal != len(known):
        raise Corrupt("The files of the engine do not belong together.", hint="Run `treering index rebuild`.")
    return HnswRows(dimension, read, known) if kind == HNSW else Rows(dimension, read, known)


def checked(vectors: Mapping[int, Vector], dimension: int) -> npt.NDArray[np.float32]:
    """Return vectors as rows. Raises `InvalidInput` for another dimension, at which FAISS only asserts."""
    for vector in vectors.values():
        check_dimension(vector, dimension)
    return np.array(list(vectors.values()), np.float32).reshape(-1, dimension)


def _searched(index: Any, keys: Keys, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
    if allowed is None:
        return _found(index, keys, vector, limit, None)
    rows = _rows_allowed(keys, allowed)
    # The selector keeps a pointer to the rows: they have to live as long as the search.
    chosen = faiss.IDSelectorBatch(rows)
    return _found(index, keys, vector, min(limit, len(rows)), faiss.SearchParameters(sel=chosen))


def _rows_allowed(keys: Keys, allowed: Keys) -> Keys:
    """Return the rows of allowed keys, by a table of all keys: several times faster than comparing two lists."""
    passes = np.zeros(int(keys.max(initial=_GONE)) + 2, np.bool_)
    passes[allowed[allowed < len(passes) - 1]] = True
    return np.flatnonzero(passes[keys])  # a row that is gone has the last place, which nothing passes


def _found(index: Any, keys: Keys, vector: Vector, limit: int, parameters: Any) -> Keys:
    if limit < 1 or not index.ntotal:
        return np.empty(0, np.int64)
    _, rows = index.search(vector.astype(np.float32).reshape(1, -1), min(limit, index.ntotal), params=parameters)
    found: Keys = keys[rows[0][rows[0] >= 0]]
    kept: Keys = found[found != _GONE]
    return kept
