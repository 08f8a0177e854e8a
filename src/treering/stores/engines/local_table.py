"""Exact search in this process over vectors that a server keeps, for servers that cannot search vectors."""

import threading
from collections.abc import Callable, Iterable

import numpy as np

from treering.core.errors import InvalidInput
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys
from treering.retrieval.index.tables import Stored, VectorTable

ReadBatches = Callable[[], Iterable[tuple[list[int], Stored]]]
"""Reads all vectors that the server keeps, some at a time, by key. A key may come twice."""


class LocalTable:
    """A table of all vectors that a server keeps. It answers for the moment at which it was read.

    `state` asks the server for its state. Safe to use from many threads.
    """

    def __init__(self, dimension: int, state: Callable[[], EngineState | None], batches: ReadBatches) -> None:
        self._dimension = dimension
        self._state = state
        self._batches = batches
        self._lock = threading.RLock()
        self._read: tuple[str, VectorTable] | None = None

    def sight(self) -> str | None:
        """Return the moment that searches answer for. Vectors that the server still takes over are not read."""
        with self._lock:
            if self._read is None:
                state = self._state()
                if state is None or state.loaded is not None:
                    return None
                self._load(state.moment)
            return self._read[0] if self._read else None

    def refresh(self) -> None:
        """Let vectors be read again where the server has reached another moment."""
        state = self._state()
        with self._lock:
            if self._read and (state is None or state.moment != self._read[0]):
                self._read = None

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the nearest, compared one by one."""
        with self._lock:
            if self._read is None:
                state = self._state()
                self._load(state.moment if state else "")
            assert self._read is not None  # noqa: S101 - it was read
            keys, _ = self._read[1].search(vector, limit=limit, allowed=allowed)
            return keys

    def forget(self) -> None:
        """Forget what was read."""
        with self._lock:
            self._read = None

    def _load(self, moment: str) -> None:
        """Read all vectors. What is written meanwhile is in the feed behind the moment."""
        table = VectorTable(self._dimension, exact_rows=2**31)
        for keys, stored in self._batches():
            table.add_stored(np.array(keys, np.int64), stored)
        self._read = (moment, table)


# The dimension of vectors, checked in front of libraries that would not say what is wrong.


def check_dimension(vector: Vector, dimension: int) -> None:
    """Raise `InvalidInput` for a vector of another shape."""
    if vector.shape != (dimension,):
        raise InvalidInput(
            f"A vector of shape {vector.shape} cannot be compared.", hint=f"This index keeps {dimension} components."
        )
