"""What changed since the moment that an engine's searches answer for: kept in memory, and searched exactly."""

import threading
from collections.abc import Sequence

import numpy as np

from treering.derived.vectors import VectorTable, stored_form
from treering.ports.vector_engine import Keys, VectorChanges, VectorFeed
from treering.ports.vectors import Vector

_BATCH = 2_000
MOST_CHANGED = 20_000
"""Passages that a tail may hold. Beyond, the built-in vectors are no dearer."""


class EngineTail:
    """The passages whose vectors came or went since a moment. Safe to use from many threads."""

    def __init__(self, feed: VectorFeed, dimension: int, *, most: int = MOST_CHANGED) -> None:
        self._feed = feed
        self._dimension = dimension
        self._most = most
        self._lock = threading.Lock()
        self._begin = ""
        self._reached = ""
        self._changed: set[int] = set()
        self._table = VectorTable(dimension)

    def follow(self, moment: str) -> bool:
        """Hold what changed since a moment; tell whether that was to be had, and is not too much."""
        with self._lock:
            if self._begin != moment:
                self._start(moment)
            while (changes := self._feed.since(self._reached, _BATCH)) is not None:
                self._take(changes)
                if not changes.left or len(self._changed) > self._most:
                    return len(self._changed) <= self._most
            self._begin = ""
            return False

    def __len__(self) -> int:
        return len(self._changed)

    def merged(self, engine: Keys, vector: Vector, limit: int, allowed: Keys | None) -> list[int]:
        """Put what an engine found together with the nearest of those that changed since."""
        kept = self.unchanged(engine)
        with self._lock:
            nearest, _ = self._table.search(vector, limit=limit, allowed=allowed)
        return [*kept, *nearest.tolist()]

    def unchanged(self, keys: Keys) -> list[int]:
        """Return those of some passages that did not change since."""
        with self._lock:
            return [key for key in keys.tolist() if key not in self._changed]

    def _start(self, moment: str) -> None:
        self._begin = self._reached = moment
        self._changed = set()
        self._table = VectorTable(self._dimension)

    def _take(self, changes: VectorChanges) -> None:
        self._reached = changes.moment
        if not changes.keys:
            return
        self._changed.update(changes.keys)
        gone = [key for key in changes.keys if key not in changes.vectors]
        self._table.discard(np.array(gone, np.int64))
        if changes.vectors:
            keys = np.array(list(changes.vectors), np.int64)
            self._table.add_stored(keys, stored_form(np.stack(list(changes.vectors.values()))))


def nearest(vectors: dict[int, Vector], vector: Vector, keys: Sequence[int], limit: int) -> list[int]:
    """Return the passages nearest to a vector, of those that have one: best first, equal ones by ascending key."""
    known = [key for key in dict.fromkeys(keys) if key in vectors]
    return sorted(known, key=lambda key: (-float(vectors[key] @ vector), key))[:limit]
