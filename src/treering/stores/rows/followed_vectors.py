"""The table of vectors in memory, which follows the passage log."""

import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice
from typing import Protocol

import numpy as np

from treering.core.filters import EVERYTHING
from treering.ports.passages import Reach
from treering.ports.search import Near, NearRequest, Scored, Vector
from treering.retrieval.index.tables import Keys, PackedTable, Stored, VectorTable
from treering.stores.rows.followed_table import FollowedTable, SavedTable
from treering.stores.rows.passage_log import PassageLog
from treering.stores.rows.reach import PassingCache, Scopes
from treering.stores.rows.stored_vectors import cosine

_BATCH = 2_048  # rows read at a time; they fit into the CPU cache


class VectorRows(PassageLog, Protocol):
    """The stored vectors of one model in the snapshot of a transaction."""

    def state(self) -> Hashable:
        """Return a value that changes with every write."""
        ...

    def shown_passages(self) -> tuple[Keys, Keys, Keys]:
        """Return the keys of all current passages, with the numbers of their scopes and texts."""
        ...

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """Return all vectors, with the numbers of their texts."""
        ...

    def searched(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and vector of the passages that are current and have a vector."""
        ...

    def vectors_of(self, keys: Sequence[int]) -> Iterable[tuple[int, bytes]]:
        """Return the vectors of passages, current or not. Passages without a vector are left out."""
        ...

    def passing(self, reach: Reach, scopes: Scopes) -> Keys:
        """Return the keys of the current passages in reach."""
        ...

    def of_history(self, reach: Reach, scopes: Scopes) -> Iterable[tuple[int, bytes]]:
        """Return the vectors of passages in reach that are not current; all of them for a moment in the past."""
        ...


class FollowedVectors(FollowedTable[VectorRows]):
    """A table of vectors that follows the passage log. Thread-safe."""

    def __init__(self, dimension: int, passing: PassingCache, saved: SavedTable[VectorRows] | None = None) -> None:
        super().__init__(saved)
        self._dimension = dimension
        self._lock = threading.Lock()
        self._table = VectorTable(dimension)
        self._scopes = np.zeros(0, np.int32)
        """The number of each passage's scope by key; 0 for keys without a vector."""
        self._passing = passing

    def near(self, rows: VectorRows, request: NearRequest, scopes: Scopes) -> Near:
        """Answer one request. Passages that are not current are read from the database and compared exactly."""
        nearest: set[int] = set()
        for vector, limit in zip(request.vectors, request.limits, strict=True):
            if limit:
                nearest.update(hit.key for hit in self._rank(rows, vector, request.reach, scopes, limit))
        keys = sorted(nearest.union(request.keys))
        return Near(frozenset(nearest), self._cosines(rows, request.vectors, keys))

    def _rank(self, rows: VectorRows, vector: Vector, reach: Reach, scopes: Scopes, limit: int) -> list[Scored]:
        hits = [] if reach.at is not None else self._search(rows, vector, reach, scopes, limit)
        if reach.at is not None or reach.withdrawn:
            hits += [Scored(key, cosine(stored, vector)) for key, stored in rows.of_history(reach, scopes)]
        return nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.key))

    def _search(self, rows: VectorRows, vector: Vector, reach: Reach, scopes: Scopes, limit: int) -> list[Scored]:
        filtered = self._filtered(rows, reach, scopes) if reach.where != EVERYTHING else None
        with self._lock:
            self._follow(rows)
            allowed = filtered if filtered is not None else self._in_scope(scopes)
            keys, scores = self._table.search(vector, limit=limit, allowed=allowed)
        return [Scored(int(key), float(score)) for key, score in zip(keys, scores, strict=True)]

    def _cosines(
        self, rows: VectorRows, vectors: Sequence[Vector], keys: Sequence[int]
    ) -> tuple[Mapping[int, float], ...]:
        """Return for each vector its cosines with the passages that have a vector."""
        if not vectors:
            return ()
        wanted = np.array(keys, np.int64)
        with self._lock:
            self._follow(rows)
            scores = [self._table.scores(vector, wanted) for vector in vectors]
        in_table = ~np.isnan(scores[0])
        others = list(rows.vectors_of(wanted[~in_table].tolist())) if not np.all(in_table) else []
        known = wanted[in_table].tolist()
        return tuple(
            dict(zip(known, of_each[in_table].tolist(), strict=True))
            | {key: cosine(stored, vector) for key, stored in others}
            for vector, of_each in zip(vectors, scores, strict=True)
        )

    def _filtered(self, rows: VectorRows, reach: Reach, scopes: Scopes) -> Keys:
        """Return the keys that pass a filter. The result is cached until the space changes."""
        return self._passing.of(rows.state(), reach, scopes, rows.passing)

    def _in_scope(self, scopes: Scopes) -> Keys | None:
        if scopes is None:
            return None
        seen = np.zeros(max(int(self._scopes.max(initial=0)), *scopes, 0) + 1, np.bool_)
        seen[list(scopes)] = True
        seen[0] = False
        return np.flatnonzero(seen[self._scopes])

    def _size(self) -> int:
        return len(self._table)

    def _packed(self, _: VectorRows) -> PackedTable:
        packed = self._table.packed()
        return replace(packed, arrays={**packed.arrays, "scopes": self._scopes})

    def _unpack(self, packed: PackedTable) -> None:
        scopes = packed.array("scopes", np.int32, None)
        self._table.unpack(packed)
        self._scopes = scopes

    def _load(self, rows: VectorRows) -> None:
        """Fill the table from two scans that are joined here. A join in SQL would read the file in random order."""
        self._table = VectorTable(self._dimension)
        self._scopes = np.zeros(0, np.int32)
        keys, scopes, of_texts = rows.shown_passages()
        order = np.argsort(of_texts, kind="stable")
        keys, scopes, of_texts = keys[order], scopes[order], of_texts[order]
        self._reserve(len(keys), int(keys.max(initial=0)))
        stored_vectors = rows.vectors()
        while batch := list(islice(stored_vectors, _BATCH)):
            texts = np.array([text_id for text_id, _ in batch], np.int64)
            first, last = (np.searchsorted(of_texts, texts, side) for side in ("left", "right"))
            counts = last - first  # of passages with this text
            which = np.repeat(np.arange(len(batch)), counts)
            at = np.arange(len(which)) + np.repeat(first - np.cumsum(counts) + counts, counts)
            vectors = self._matrix([stored for _, stored in batch])
            # If every text has one passage, nothing is copied.
            self._put(keys[at], scopes[at], vectors if np.all(counts == 1) else vectors[which])

    def _reread(self, rows: VectorRows, keys: Sequence[int]) -> None:
        searched = rows.searched(keys)
        gone = np.array(sorted(set(keys) - {key for key, _, _ in searched}), np.int64)
        self._table.discard(gone)
        self._scopes[gone[gone < len(self._scopes)]] = 0
        places = np.array([row[:2] for row in searched], np.int64).reshape(-1, 2)
        self._put(places[:, 0], places[:, 1], self._matrix([stored for _, _, stored in searched]))

    def _reserve(self, rows: int, greatest_key: int) -> None:
        """Reserve memory. Pages that are never written are not allocated."""
        room = greatest_key + 1 + greatest_key // 4
        self._table.reserve(rows + rows // 8, room)
        self._scopes = np.zeros(room, np.int32)

    def _put(self, keys: Keys, scopes: Keys, vectors: Stored) -> None:
        self._table.add_stored(keys, vectors)
        most = int(keys.max(initial=-1))
        if most >= len(self._scopes):
            room = np.zeros(most + 1 + most // 4, np.int32)
            room[: len(self._scopes)] = self._scopes
            self._scopes = room
        self._scopes[keys] = scopes

    def _matrix(self, stored: Sequence[bytes]) -> Stored:
        return np.frombuffer(b"".join(stored), np.int16).reshape(-1, self._dimension)
