"""The vectors of a space in memory, which follow the vectors in a database."""

import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from typing import Protocol

import numpy as np

from treering.core.errors import InvalidInput
from treering.core.filters import EVERYTHING
from treering.ports.passages import Reach
from treering.ports.search import Near, NearRequest, Scored, Vector
from treering.retrieval.index.tables import Keys, Stored, VectorTable, restored, stored_form
from treering.stores.rows.passage_log import Moment, PassageLog, PassingCache, Scopes, follow_log

_BATCH = 2_048  # rows read at a time: what they weigh stays in the cache


class VectorRows(PassageLog, Protocol):
    """The vectors that one model made, in their stored form, as one transaction sees them."""

    def state(self) -> Hashable:
        """Return what changes whenever anything is written."""
        ...

    def shown_passages(self) -> tuple[Keys, Keys, Keys]:
        """Return the keys of all current passages, and for each the number of its scope and of its text."""
        ...

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """Return all vectors, by the number of their text."""
        ...

    def searched(self, keys: Sequence[int]) -> Sequence[tuple[int, int, bytes]]:
        """Return key, scope and vector of those of the passages that are current and have a vector."""
        ...

    def vectors_of(self, keys: Sequence[int]) -> Iterable[tuple[int, bytes]]:
        """Return the vectors of those of the passages that have one, current or not."""
        ...

    def passing(self, reach: Reach, scopes: Scopes) -> Keys:
        """Return the keys of the current passages in reach that pass its filter."""
        ...

    def of_history(self, reach: Reach, scopes: Scopes) -> Iterable[tuple[int, bytes]]:
        """Return the vectors in reach that are not among those of the current passages.

        All of them, where the reach is of a moment gone by.
        """
        ...


def undamaged_vectors(
    rows: Iterable[tuple[bytes, bytes, bytes | None]], *, model: str, dimension: int
) -> dict[str, Vector]:
    """Return vectors by content hash, from rows of hash, stored form and digest; without those that are damaged."""
    return {
        text_hash.hex(): restored(np.frombuffer(stored, np.int16))
        for text_hash, stored, digest in rows
        if len(stored) == dimension * np.dtype(np.int16).itemsize
        and digest in {None, vector_digest(model, text_hash, stored)}
    }


class FollowedVectors:
    """A table of vectors that is brought up to date by a log. Safe to use from many threads."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._lock = threading.Lock()
        self._table = VectorTable(dimension)
        self._scopes = np.zeros(0, np.int32)
        """By key: the scope of a passage in the table, 0 where there is none."""
        self._seen: Moment | None = None
        self._passing = PassingCache()

    def near(self, rows: VectorRows, request: NearRequest, scopes: Scopes) -> Near:
        """Answer one request. What is not current is read from the database and compared exactly."""
        found: set[int] = set()
        for vector, limit in zip(request.vectors, request.limits, strict=True):
            if limit:
                found.update(hit.key for hit in self._rank(rows, vector, request.reach, scopes, limit))
        keys = sorted(found.union(request.keys))
        return Near(frozenset(found), self._cosines(rows, request.vectors, keys))

    def _rank(self, rows: VectorRows, vector: Vector, reach: Reach, scopes: Scopes, limit: int) -> list[Scored]:
        found = [] if reach.at is not None else self._search(rows, vector, reach, scopes, limit)
        if reach.at is not None or reach.withdrawn:
            found += [Scored(key, _cosine(stored, vector)) for key, stored in rows.of_history(reach, scopes)]
        return nsmallest(limit, found, key=lambda hit: (-hit.score, hit.key))

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
        """Return for each vector the cosines of those of the keys that have one."""
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
            | {key: _cosine(stored, vector) for key, stored in others}
            for vector, of_each in zip(vectors, scores, strict=True)
        )

    def _filtered(self, rows: VectorRows, reach: Reach, scopes: Scopes) -> Keys:
        """Return the keys that pass a filter; the same question about an unchanged space is asked of SQL once."""
        return self._passing.of(rows.state(), reach, scopes, rows.passing)

    def _in_scope(self, scopes: Scopes) -> Keys | None:
        if scopes is None:
            return None
        seen = np.zeros(max(int(self._scopes.max(initial=0)), *scopes, 0) + 1, np.bool_)
        seen[list(scopes)] = True
        seen[0] = False
        return np.flatnonzero(seen[self._scopes])

    def _follow(self, rows: VectorRows) -> None:
        """Bring the table in memory to the moment of the rows."""
        self._seen = follow_log(
            rows, self._seen, load=lambda: self._load(rows), reread=lambda keys: self._reread(rows, keys)
        )

    def _load(self, rows: VectorRows) -> None:
        """Fill the table from two scans, joined here: as a join in SQL it would jump about in the file."""
        self._table = VectorTable(self._dimension)
        self._scopes = np.zeros(0, np.int32)
        keys, scopes, of_texts = rows.shown_passages()
        order = np.argsort(of_texts, kind="stable")
        keys, scopes, of_texts = keys[order], scopes[order], of_texts[order]
        self._reserve(len(keys), int(keys.max(initial=0)))
        kept = rows.vectors()
        while batch := list(islice(kept, _BATCH)):
            texts = np.array([text_id for text_id, _ in batch], np.int64)
            first, last = (np.searchsorted(of_texts, texts, side) for side in ("left", "right"))
            counts = last - first  # passages that have the text
            which = np.repeat(np.arange(len(batch)), counts)
            at = np.arange(len(which)) + np.repeat(first - np.cumsum(counts) + counts, counts)
            vectors = self._matrix([stored for _, stored in batch])
            # Mostly every text has one passage; then nothing is copied.
            self._put(keys[at], scopes[at], vectors if np.all(counts == 1) else vectors[which])

    def _reread(self, rows: VectorRows, keys: Sequence[int]) -> None:
        found = rows.searched(keys)
        gone = np.array(sorted(set(keys) - {key for key, _, _ in found}), np.int64)
        self._table.discard(gone)
        self._scopes[gone[gone < len(self._scopes)]] = 0
        places = np.array([row[:2] for row in found], np.int64).reshape(-1, 2)
        self._put(places[:, 0], places[:, 1], self._matrix([stored for _, _, stored in found]))

    def _reserve(self, rows: int, greatest_key: int) -> None:
        """Make room for what is loaded; memory that is never written is never taken."""
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


def stored_vector(vector: Vector, *, model: str, dimension: int) -> bytes:
    """Return the form in which a vector is kept. Raises `InvalidInput` for another dimension."""
    if vector.shape != (dimension,):
        raise InvalidInput(
            f"A vector of shape {vector.shape} cannot be kept for {model}.",
            hint=f"This index keeps {dimension} components.",
        )
    return stored_form(vector).tobytes()


def _cosine(stored: bytes, vector: Vector) -> float:
    return float(restored(np.frombuffer(stored, np.int16)) @ vector)


# Digests of stored vectors: a vector cannot be made anew without its model, so damage shows by nothing else.


_SIZE = 8
_COMPONENT = 2  # bytes


def vector_digest(model: str, text_hash: bytes, vector: bytes) -> bytes:
    """Return the digest of a vector in its stored form."""
    return blake2b(vector, digest_size=_SIZE, key=blake2b(text_hash, key=model.encode()[-64:]).digest()).digest()


def is_damaged(
    model: str, dimension: int | None, text_hash: bytes | None, vector: object, digest: bytes | None
) -> bool:
    """Tell whether a vector is not what was kept. One without a digest, from an older version, passes."""
    if not isinstance(vector, bytes) or len(vector) != _COMPONENT * (dimension or 0) or text_hash is None:
        return True
    return digest not in {None, vector_digest(model, text_hash, vector)}
