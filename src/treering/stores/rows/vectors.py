"""The vectors of a space, stored in a database for one model and searched in memory."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from typing import Generic, Protocol, TypeVar

import numpy as np

from treering.core.canonical import digest
from treering.core.errors import InvalidInput
from treering.core.filters import EVERYTHING
from treering.core.objects import Object
from treering.ports.models import Embedder
from treering.ports.passages import Reach
from treering.ports.search import KeptVectors, Lag, Near, NearRequest, Pending, Scored, Vector
from treering.retrieval.index.tables import Keys, PackedTable, Stored, VectorTable, restored, stored_form
from treering.stores.rows.fold import gists_of
from treering.stores.rows.followed_table import FollowedTable, SavedTable
from treering.stores.rows.packing import REINDEX, rows_of
from treering.stores.rows.passage_log import PassageLog
from treering.stores.rows.reach import PassingCache, Scopes

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


def undamaged_vectors(
    rows: Iterable[tuple[bytes, bytes, bytes | None]], *, model: str, dimension: int
) -> dict[str, Vector]:
    """Return undamaged vectors by content hash. `rows`: the hash, stored form and digest of each."""
    return {
        text_hash.hex(): restored(np.frombuffer(stored, np.int16))
        for text_hash, stored, digest in rows
        if len(stored) == dimension * np.dtype(np.int16).itemsize
        and digest in {None, vector_digest(model, text_hash, stored)}
    }


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
            hits += [Scored(key, _cosine(stored, vector)) for key, stored in rows.of_history(reach, scopes)]
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
            | {key: _cosine(stored, vector) for key, stored in others}
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

    def _packed(self) -> PackedTable:
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


def stored_vector(vector: Vector, *, model: str, dimension: int) -> bytes:
    """Return the stored form of a vector. Raises `InvalidInput` for another dimension."""
    if vector.shape != (dimension,):
        raise InvalidInput(
            f"A vector of shape {vector.shape} cannot be stored for {model}.",
            hint=f"This index has {dimension} components.",
        )
    return stored_form(vector).tobytes()


def _cosine(stored: bytes, vector: Vector) -> float:
    return float(restored(np.frombuffer(stored, np.int16)) @ vector)


_SIZE = 8
_COMPONENT = 2  # bytes


def vector_digest(model: str, text_hash: bytes, vector: bytes) -> bytes:
    """Return the digest of a stored vector. It reveals damage, which nothing else does without the model."""
    return blake2b(vector, digest_size=_SIZE, key=blake2b(text_hash, key=model.encode()[-64:]).digest()).digest()


def is_damaged(
    model: str, dimension: int | None, text_hash: bytes | None, vector: object, digest: bytes | None
) -> bool:
    """Return whether a stored vector is damaged. Vectors of older versions have no digest and are accepted."""
    if not isinstance(vector, bytes) or len(vector) != _COMPONENT * (dimension or 0) or text_hash is None:
        return True
    return digest not in {None, vector_digest(model, text_hash, vector)}


QUICK = "quick:"
"""Prefix of the name of a quick model, which has no queue of its own."""

T = TypeVar("T")


class DatabaseVectors(ABC, Generic[T]):
    """`ports.search.Vectors` over the ledger's database. Thread-safe.

    `read` and `write` open a transaction, `ask` one for a single query. If two processes embed the same text, the
    second vector replaces the first.
    """

    def __init__(
        self,
        model: str,
        dimension: int,
        *,
        read: Callable[[], AbstractContextManager[T]],
        write: Callable[[], AbstractContextManager[T]],
        passing: PassingCache | None = None,
        saved: SavedTable[VectorRows] | None = None,
        ask: Callable[[], AbstractContextManager[T]] | None = None,
    ) -> None:
        self._model = model
        self._dimension = dimension
        self._model_id = 0
        self._hold = read
        self._hold_to_ask = ask or read
        self._hold_to_write = write
        self._followed = FollowedVectors(dimension, passing or PassingCache(), saved)
        self._counted: tuple[Hashable, Lag] | None = None

    @property
    def made_by(self) -> tuple[str, int]:
        """The model that makes the vectors, and their dimension."""
        return self._model, self._dimension

    def recognise(self, transaction: T) -> bool:
        """Look up the model, and return whether the space knows it."""
        self._model_id = self._find_model(transaction) or 0
        return bool(self._model_id)

    def register(self, transaction: T) -> None:
        """Register the model and queue the texts without an embedding. In a write transaction."""
        if not self.recognise(transaction):
            self._model_id = self._add_model(transaction)

    def search(self, requests: Sequence[NearRequest]) -> Sequence[Near]:
        """Answer several requests from one snapshot."""
        with self._read() as transaction:
            rows, scopes = self._rows(transaction), self._scopes_of(transaction, [each.reach for each in requests])
            return [self._followed.near(rows, *each) for each in zip(requests, scopes, strict=True)]

    def lag(self) -> Lag:
        """Return the numbers of waiting and current passages and of queued objects, cached until a write."""
        with self._read(once=True) as transaction:
            self._expect_lag(transaction)
            state, known = self._rows(transaction).state(), self._counted
            if known is None or known[0] != state:
                known = self._counted = (state, self._count(transaction))
            return known[1]

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for an embedding, by priority (`projection.priority_of`), then the newest first."""
        with self._read() as transaction:
            waiting = self._waiting(transaction, limit)
            return texts_to_embed(waiting, self._objects(transaction, objects_of(waiting)))

    def pending_of(self, keys: Sequence[int]) -> Sequence[Pending]:
        """Return the texts of passages that wait for an embedding."""
        with self._read() as transaction:
            waiting = self._waiting_of(transaction, keys)
            return texts_to_embed(waiting, self._objects(transaction, objects_of(waiting)))

    def embed_at_once(self, embedder: Embedder, transaction: T, gists: Mapping[int, str]) -> None:
        """Embed the texts that wait, in the transaction that writes them. `gists`: texts by number."""
        waiting = self._waiting_among(transaction, list(gists)) if gists else []
        if not waiting:
            return
        texts = [gists[text] for text in waiting]
        stored = [
            stored_vector(vector, model=self._model, dimension=self._dimension)
            for vector in embedder.embed_documents(texts)
        ]
        digests = [
            vector_digest(self._model, bytes.fromhex(digest(text)), vector)
            for text, vector in zip(texts, stored, strict=True)
        ]
        self._keep_waiting(transaction, list(zip(waiting, stored, digests, strict=True)))

    def keep_known(self, transaction: T, gists: Mapping[int, str], other: KeptVectors) -> list[int]:
        """Store the vectors that another index has of some texts; return the numbers of these texts.

        Called in the transaction that writes the texts, before they are queued. `gists`: texts by number.
        """
        hashes = {text: digest(gist) for text, gist in gists.items()}
        known = other.known(list(hashes.values()))
        rows = []
        for text, text_hash in hashes.items():
            if text_hash in known:
                stored = stored_vector(known[text_hash], model=self._model, dimension=self._dimension)
                rows.append((text, stored, vector_digest(self._model, bytes.fromhex(text_hash), stored)))
        self._keep(transaction, rows)
        return [text for text, _, _ in rows]

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Store the vectors of texts that passages still have. Raises `InvalidInput` for another dimension."""
        stored = {
            bytes.fromhex(text_hash): stored_vector(vector, model=self._model, dimension=self._dimension)
            for text_hash, vector in vectors.items()
        }
        if stored:
            with rows_of("the index", hint=REINDEX), self._hold_to_write() as transaction:
                self._add(transaction, stored)

    def known(self, text_hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the undamaged vectors of texts, by content hash."""
        with self._read() as transaction:
            rows = self._kept(transaction, list(map(bytes.fromhex, text_hashes)))
        return undamaged_vectors(rows, model=self._model, dimension=self._dimension)

    @contextmanager
    def _read(self, *, once: bool = False) -> Iterator[T]:
        """Open a snapshot, and report damaged rows as `Corrupt`. `once`: for a single query."""
        with rows_of("the index", hint=REINDEX), (self._hold_to_ask if once else self._hold)() as transaction:
            if not self._model_id:  # the first write with a quick embedding registers the model
                self.recognise(transaction)
            yield transaction

    @abstractmethod
    def _find_model(self, transaction: T) -> int | None: ...

    @abstractmethod
    def _add_model(self, transaction: T) -> int:
        """Store the model and queue current texts for it; return its number."""

    @abstractmethod
    def _rows(self, transaction: T) -> VectorRows: ...

    @abstractmethod
    def _scopes_of(self, transaction: T, reaches: Sequence[Reach]) -> Sequence[Scopes]: ...

    def _expect_lag(self, transaction: T) -> None:
        """Send the queries of `_count` together, if the database supports it."""

    @abstractmethod
    def _count(self, transaction: T) -> Lag: ...

    @abstractmethod
    def _waiting(self, transaction: T, limit: int) -> Sequence[tuple[str, str]]:
        """Return content hash and object of waiting texts, in the order in which they are embedded."""

    @abstractmethod
    def _waiting_of(self, transaction: T, keys: Sequence[int]) -> Sequence[tuple[str, str]]:
        """Return content hash and object of the waiting texts of passages."""

    @abstractmethod
    def _waiting_among(self, transaction: T, text_ids: Sequence[int]) -> Sequence[int]:
        """Return the texts that may wait for an embedding."""

    @abstractmethod
    def _keep(self, transaction: T, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Store vectors (number of the text, stored form, digest) of texts that are not queued yet."""

    @abstractmethod
    def _keep_waiting(self, transaction: T, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
        """Store the vectors (number of the text, stored form, digest) of texts that still wait."""

    @abstractmethod
    def _objects(self, transaction: T, object_ids: Sequence[str]) -> Iterable[Object]: ...

    @abstractmethod
    def _add(self, transaction: T, stored: Mapping[bytes, bytes]) -> None:
        """Store vectors by content hash, and remove the texts from the queue."""

    @abstractmethod
    def _kept(self, transaction: T, hashes: Sequence[bytes]) -> Iterable[tuple[bytes, bytes, bytes | None]]:
        """Return content hash, vector and digest of the texts that have a vector."""


def objects_of(waiting: Iterable[tuple[str, str]]) -> list[str]:
    """Return the ids of the objects that contain texts. `waiting`: content hashes and ids."""
    return sorted({object_id for _, object_id in waiting})


def texts_to_embed(waiting: Iterable[tuple[str, str]], objects: Iterable[Object]) -> list[Pending]:
    """Return the texts to embed in the order of `waiting`, which contains content hashes and object ids."""
    texts = gists_of(objects)
    return [Pending(text_hash, texts[text_hash]) for text_hash, _ in waiting if text_hash in texts]
