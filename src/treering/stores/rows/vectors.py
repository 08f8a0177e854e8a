"""The vectors of a space, stored in a database for one model and searched in memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Generic, TypeVar

from treering.core.canonical import digest
from treering.core.objects import Object
from treering.ports.models import Embedder
from treering.ports.passages import Reach
from treering.ports.search import KeptVectors, Lag, Near, NearRequest, Pending, Vector
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.fold import gists_of
from treering.stores.rows.followed_table import SavedTable
from treering.stores.rows.followed_vectors import FollowedVectors, VectorRows
from treering.stores.rows.reach import PassingCache, Scopes
from treering.stores.rows.stored_vectors import stored_vector, stored_vectors, undamaged_vectors, vector_digest

QUICK = "quick:"
"""Prefix of the name of a quick model, which has no queue of its own."""


T = TypeVar("T")

PackedVector = tuple[int, bytes, bytes]
"""The number of a text, the stored form of its vector, and the digest of both."""


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
            return texts_to_embed(waiting, partial(self._objects, transaction))

    def pending_of(self, keys: Sequence[int]) -> Sequence[Pending]:
        """Return the texts of passages that wait for an embedding."""
        with self._read() as transaction:
            waiting = self._waiting_of(transaction, keys)
            return texts_to_embed(waiting, partial(self._objects, transaction))

    def embed_at_once(self, embedder: Embedder, transaction: T, gists: Mapping[int, str]) -> None:
        """Embed the texts that wait, in the transaction that writes them. `gists`: texts by number."""
        waiting = self._waiting_among(transaction, list(gists)) if gists else []
        if not waiting:
            return
        texts = [gists[text] for text in waiting]
        stored = stored_vectors(embedder.embed_documents(texts), model=self._model, dimension=self._dimension)
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
        texts = [text for text, text_hash in hashes.items() if text_hash in known]
        self._keep(transaction, [(text, *self._packed(hashes[text], known[hashes[text]])) for text in texts])
        return texts

    def add(self, vectors: Mapping[str, Vector]) -> None:
        """Store the vectors of texts that passages still have. Raises `InvalidInput` for another dimension."""
        packed = {text_hash: self._packed(text_hash, vector) for text_hash, vector in vectors.items()}
        if packed:
            with rows_of("the index", hint=REINDEX), self._hold_to_write() as transaction:
                # A missing text was erased or rewritten while it was being embedded.
                texts = self._texts_with(transaction, list(map(bytes.fromhex, packed)))
                self._add(transaction, [(text, *packed[text_hash.hex()]) for text, text_hash in texts.items()])

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

    def _packed(self, text_hash: str, vector: Vector) -> tuple[bytes, bytes]:
        """Return the stored form of a vector and the digest that binds it to its text."""
        stored = stored_vector(vector, model=self._model, dimension=self._dimension)
        return stored, vector_digest(self._model, bytes.fromhex(text_hash), stored)

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
    def _texts_with(self, transaction: T, hashes: Sequence[bytes]) -> Mapping[int, bytes]:
        """Return the content hashes of the texts that exist, by number."""

    @abstractmethod
    def _keep(self, transaction: T, rows: Sequence[PackedVector]) -> None:
        """Store the vectors of texts that are not queued yet."""

    @abstractmethod
    def _keep_waiting(self, transaction: T, rows: Sequence[PackedVector]) -> None:
        """Store the vectors of texts that still wait."""

    @abstractmethod
    def _objects(self, transaction: T, object_ids: Sequence[str]) -> Iterable[Object]: ...

    @abstractmethod
    def _add(self, transaction: T, rows: Sequence[PackedVector]) -> None:
        """Store vectors, and remove the texts from the queue."""

    @abstractmethod
    def _kept(self, transaction: T, hashes: Sequence[bytes]) -> Iterable[tuple[bytes, bytes, bytes | None]]:
        """Return content hash, vector and digest of the texts that have a vector."""


def texts_to_embed(waiting: Sequence[tuple[str, str]], read: Callable[[list[str]], Iterable[Object]]) -> list[Pending]:
    """Return the texts to embed in the order of `waiting`, which contains content hashes and object ids."""
    texts = gists_of(read(sorted({object_id for _, object_id in waiting})))
    return [Pending(text_hash, texts[text_hash]) for text_hash, _ in waiting if text_hash in texts]
