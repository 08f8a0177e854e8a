"""What engines over servers have in common; and exact search in this process, where a server cannot search vectors."""

import json
import threading
from collections.abc import Callable, Collection, Iterable

import numpy as np

from treering.core.errors import Corrupt, InvalidInput
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges, VectorEngine
from treering.retrieval.index.tables import Stored, VectorTable

REBUILD = "Run `treering index rebuild`: it refills the engine from the space, which has all vectors."


class ServerEngine(VectorEngine):
    """A `VectorEngine` whose server keeps each change as soon as it is told, and answers for what it has.

    `shown`: the address of the server, for errors.
    """

    def __init__(self, shown: str, dimension: int) -> None:
        self._shown = shown
        self._dimension = dimension

    def flush(self) -> None:
        """Do nothing: the server has everything."""

    def is_worth_writing(self, waiting: int, count: int) -> bool:  # noqa: ARG002 - the port's
        """Tell that every change is."""
        return waiting > 0

    def sight(self) -> str | None:
        """Return the moment that searches answer for: that of the last change."""
        state = self.state()
        return state.moment if state and state.loaded is None else None

    def refresh(self) -> None:
        """Do nothing: the server is asked each time."""

    def _check(self, changes: VectorChanges) -> None:
        for vector in changes.vectors.values():
            check_dimension(vector, self._dimension)

    def _state_of(self, told: object) -> EngineState:
        """Read a state as the server keeps it. Raises `Corrupt`."""
        match told:
            case {"mark": str(mark), "moment": str(moment), "count": int(count), "loaded": int() | None as loaded}:
                return EngineState(mark, moment, count, loaded)
        raise Corrupt(f"The state stored in {self._shown} is damaged.", hint=REBUILD)

    def _state_in(self, content: str | bytes) -> EngineState:
        """Read a state from JSON. Raises `Corrupt`."""
        try:
            told = json.loads(content)
        except ValueError:
            told = None
        return self._state_of(told)

    def _matrix(self, rows: Collection[bytes]) -> Stored:
        """Return vectors in their stored form as rows. Raises `Corrupt` for those of another dimension."""
        joined = b"".join(rows)
        if len(joined) != 2 * self._dimension * len(rows):
            raise Corrupt(f"{self._shown} contains vectors of another dimension.", hint=REBUILD)
        return np.frombuffer(joined, "<i2").astype(np.int16).reshape(-1, self._dimension)


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
            f"A vector of shape {vector.shape} cannot be compared.", hint=f"This index has {dimension} components."
        )
