"""An engine over a vector store of the host, which stores texts and answers text queries."""

import asyncio
import inspect
import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from treering.core.errors import Corrupt, InvalidInput, TreeringError, Unavailable
from treering.extensions.encoder.provider_calls import ModelLoop
from treering.extensions.engines.passage_texts import PassageText
from treering.extensions.engines.server_engine import ServerEngine, check_dimension, using_files
from treering.ports.models import MOST_QUERIES, Embedder, has_meaning_to, prose_share_of
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.system.machine import make_folder, replace_file, sync_folder

_METHODS = ("add_documents", "search", "delete_documents")
_LIMITS = ("top_k", "limit", "k")
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document for a host's store, if the host has no type of its own."""

    id: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


class VectorStoreAdapter:
    """Use a vector store of the host to search the memories of a client, which stay in its ledger.

    `store` has `add_documents(documents)`, which returns their ids, `search(query, search_type)` and
    `delete_documents(ids)`, asynchronous or not. If it returns no ids, the documents' own are used. It may contain
    other documents. It is used from the first memory on; with `compare_up_to`, up to that many memories that pass a
    filter are compared exactly, and the store is used for more. `document` creates a document of the host's type from
    `id`, `content` and `metadata`. With `as_chunks`, documents are passed to `add_document_chunks`. `loop`: the event
    loop of the store; default: the adapter's own. Raises `InvalidInput` if the store lacks a method.
    """

    def __init__(
        self,
        store: Any,
        *,
        document: Callable[..., Any] = StoredDocument,
        search_type: Any = "similarity",
        as_chunks: bool = False,
        compare_up_to: int = 0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        adding = "add_document_chunks" if as_chunks else "add_documents"
        missing = [name for name in (adding, *_METHODS[1:]) if not callable(getattr(store, name, None))]
        if missing:
            raise InvalidInput(
                f"{type(store).__name__} has no method {missing[0]!r}.",
                hint=f"A vector store has {adding}, {', '.join(_METHODS[1:])}.",
            )
        if compare_up_to < 0:
            raise InvalidInput(
                f"compare_up_to: {compare_up_to} is below 0.", hint="Omit it, or use 0 to always ask the store."
            )
        self.name: str = type(store).__name__
        self.compare_up_to = compare_up_to
        self._add = getattr(store, adding)
        self._search = store.search
        self._delete = store.delete_documents
        self._document = document
        self._search_type = search_type
        self._limit = next((name for name in _LIMITS if name in inspect.signature(store.search).parameters), None)
        self._loop = loop
        self._own_loop = ModelLoop(nullcontext())

    def add(self, documents: Sequence[StoredDocument]) -> list[str]:
        """Store documents; return the id of each in the store. Raises `Unavailable` on failure.

        A store that returns a wrong number of ids is refused, and its documents are removed.
        """
        made = [self._document(id=one.id, content=one.content, metadata=dict(one.metadata)) for one in documents]
        returned = self._done("add documents", self._add, made)
        if not isinstance(returned, Sequence) or isinstance(returned, str):
            return [one.id for one in documents]
        ids = [str(one) for one in returned]
        if len(set(ids)) != len(documents):
            self.delete(ids)
            raise Unavailable(
                f"{self.name} returned {len(set(ids))} ids for {len(documents)} documents.",
                hint="Make add_documents return one id per document; the ids are used to find and delete documents.",
            )
        return ids

    def search(self, query: str, limit: int) -> list[str]:
        """Return the ids of the documents that the store finds for a text, best first."""
        bounded = {self._limit: limit} if self._limit else {}
        results = self._done("search", self._search, query, self._search_type, **bounded)
        return [_id_of(one) for one in results]

    def delete(self, ids: Sequence[str]) -> None:
        """Delete documents from the store. Raises `Unavailable` on failure."""
        if ids and self._done("delete documents", self._delete, list(ids)) is False:
            raise Unavailable(f"{self.name} did not delete documents.", hint="Check the vector store.")

    def close(self) -> None:
        """End the adapter's own event loop; the store stays open."""
        self._own_loop.close()

    def _done(self, what: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            answer = method(*given, **named)
            return self._awaited(answer) if inspect.isawaitable(answer) else answer
        except TreeringError:
            raise
        except Exception as error:
            # A host's store may raise anything. The space's own vectors answer then, and the reason is reported.
            raise Unavailable(f"{self.name} could not {what}: {error!r}", hint="Check the vector store.") from error

    def _awaited(self, answer: Awaitable[Any]) -> Any:
        bounded = asyncio.wait_for(answer, _SECONDS)
        if self._loop is None:
            return self._own_loop.run(bounded)
        future = asyncio.run_coroutine_threadsafe(bounded, self._loop)
        try:
            return future.result(2 * _SECONDS)
        except TooLate:
            future.cancel()
            raise


def _id_of(result: Any) -> str:
    """Return the id of a search result: a result with a `document`, a document, or an id."""
    document = getattr(result, "document", result)
    if isinstance(document, Mapping):
        return str(document.get("id", ""))
    return str(getattr(document, "id", document))


_HINT = "Run `treering index rebuild` in the program that has the store: it adds all vectors again."


@dataclass(frozen=True, slots=True)
class KeptByHost:
    """The state of an engine over a host's store, and the keys of the stored passages.

    `mark`: the prefix of the ids of its documents. `ids`: other ids returned by the store, by key.
    """

    mark: str
    state: EngineState
    keys: frozenset[int] = frozenset()
    ids: Mapping[int, str] = field(default_factory=dict)

    def stored_id(self, key: int) -> str:
        """Return the id of the document of a passage in the store."""
        return self.ids.get(key) or document_id(self.mark, key)


def document_id(mark: str, key: int) -> str:
    """Return the id for the document of a passage."""
    return f"{mark}-{key}"


class StateFile:
    """Stores a `KeptByHost` durably, or in memory without a path. Thread-safe."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: KeptByHost | None = None
        self._stamp: tuple[int, int] | None = None

    def read(self) -> KeptByHost | None:
        """Return the stored state, written by this or another process. Raises `Corrupt`, `Unavailable`."""
        if self._path is None:
            return self._kept
        with self._lock:
            with using_files(self._path):
                try:
                    status = self._path.stat()
                    if (status.st_mtime_ns, status.st_ino) != self._stamp:
                        self._kept = _read(self._path)
                        self._stamp = status.st_mtime_ns, status.st_ino
                except FileNotFoundError:
                    self._kept = self._stamp = None
            return self._kept

    def read_if_whole(self) -> KeptByHost | None:
        """Return the stored state; `None` also if the file is damaged."""
        try:
            return self.read()
        except Corrupt:
            return None

    def write(self, kept: KeptByHost) -> None:
        """Store a state durably. Raises `Unavailable`."""
        if self._path is None:
            self._kept = kept
            return
        data = {"mark": kept.mark, "state": asdict(kept.state), "keys": sorted(kept.keys)}
        content = json.dumps(data | ({"ids": kept.ids} if kept.ids else {})).encode()
        with using_files(self._path):
            make_folder(self._path.parent)
            replace_file(self._path, content, private=True)
            sync_folder(self._path.parent)

    def remove(self) -> None:
        """Delete the file."""
        self._kept = self._stamp = None
        if self._path is not None:
            with using_files(self._path):
                self._path.unlink(missing_ok=True)


def _read(path: Path) -> KeptByHost:
    try:
        data = json.loads(path.read_bytes())
        ids = {int(key): str(one) for key, one in data.get("ids", {}).items()}
        return KeptByHost(str(data["mark"]), EngineState(**data["state"]), frozenset(map(int, data["keys"])), ids)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Corrupt(f"{path} was modified.", hint=_HINT) from None


_MOST_QUESTIONS = 2 * MOST_QUERIES  # remembered vectors lead to their texts


@dataclass(frozen=True, slots=True)
class HostStore:
    """A host's store, and the file with the state of the engine; `None` for a space in memory."""

    store: VectorStoreAdapter
    file: Path | None = None


class QuestionRecorder:
    """An `Embedder` that remembers the texts of recent query vectors."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._questions: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """The id of the model."""
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        """The dimension of the vectors."""
        return self._embedder.dimension

    @property
    def unrelated_below(self) -> float:
        """The cosine below which a text is unrelated to a question."""
        return self._embedder.unrelated_below

    @property
    def prose_share(self) -> float:
        """The weight of its cosines among paragraphs of prose."""
        return prose_share_of(self._embedder)

    def knows(self, text: str) -> bool:
        """Return whether the model knows most of the words of a text."""
        return has_meaning_to(self._embedder, text)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts."""
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """Embed a question, and remember its text."""
        vector = self._embedder.embed_query(text)
        with self._lock:
            self._questions[vector.tobytes()] = text
            self._questions.move_to_end(vector.tobytes())
            if len(self._questions) > _MOST_QUESTIONS:
                self._questions.popitem(last=False)
        return vector

    def question(self, vector: Vector) -> str | None:
        """Return the text of a recent query vector, or `None`."""
        with self._lock:
            return self._questions.get(vector.tobytes())


class HostEngine(ServerEngine):
    """`ports.vector_engine.VectorEngine` over a host's store. The stored passages are listed in a file.

    `texts` reads the texts of passages, `question` returns the text of a query vector. Each passage is a document,
    whose id is the mark and the key unless the store returns another one.
    """

    def __init__(
        self,
        store: VectorStoreAdapter,
        mark: str,
        dimension: int,
        *,
        file: StateFile,
        texts: Callable[[Sequence[int]], Mapping[int, PassageText]],
        question: Callable[[Vector], str | None],
    ) -> None:
        super().__init__(store.name, dimension)
        self._store = store
        self._mark = mark
        self._file = file
        self._texts = texts
        self._question = question
        self._own: tuple[KeptByHost | None, Mapping[str, int]] = (None, {})
        self._lock = threading.RLock()

    @property
    def kind(self) -> str:
        """The name of the engine for users."""
        return f"{self._store.name} of the host"

    def state(self) -> EngineState | None:
        """Return the state of the stored passages."""
        stored = self._kept()
        return stored.state if stored else None

    def begin(self, state: EngineState) -> None:
        """Delete all stored documents."""
        with self._lock:
            self._forget()
            self._file.write(KeptByHost(self._mark, replace(state, count=0)))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Add the texts of changed passages to the store, and delete earlier ones."""
        self._check(changes)
        with self._lock:
            stored = self._kept() or KeptByHost(self._mark, replace(state, count=0))
            documents = self._documents(tuple(changes.vectors))
            known = stored.keys.intersection(changes.keys)
            after = stored.keys.difference(changes.keys).union(documents)
            ids = {key: one for key, one in stored.ids.items() if key in after and key not in documents}
            if documents:
                # Written first, so that documents left by a crash are known and deleted later.
                self._file.write(replace(stored, keys=stored.keys.union(documents)))
            self._store.delete([stored.stored_id(key) for key in sorted(known)])
            if documents:
                given = zip(documents, self._store.add(list(documents.values())), strict=True)
                ids |= {key: one for key, one in given if one != documents[key].id}
            self._file.write(KeptByHost(self._mark, replace(state, count=len(after)), frozenset(after), ids))

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the passages that the store finds for the text of a query vector.

        Returns `None` if the text is unknown, the store finds too few documents, or only some passages are allowed.
        """
        check_dimension(vector, self._dimension)
        question = self._question(vector)
        if question is None or allowed is not None:
            return None
        stored = self._kept()
        own = self._own_ids(stored)
        keys = [key for one in self._store.search(question, limit) if (key := self._key(one, own)) is not None]
        known = [key for key in dict.fromkeys(keys) if stored and key in stored.keys]
        enough = min(limit, len(stored.keys) if stored else 0)
        return np.array(known[:limit], np.int64) if len(known) >= enough else None

    def drop(self) -> None:
        """Delete all stored documents."""
        with self._lock:
            self._forget()
            self._file.remove()

    def close(self) -> None:
        """Close the adapter; the store stays open."""
        self._store.close()

    def _kept(self) -> KeptByHost | None:
        """Return the stored state of this mark. The documents of another mark are deleted before this one begins."""
        stored = self._file.read()
        return stored if stored and stored.mark == self._mark else None

    def _forget(self) -> None:
        stored = self._file.read_if_whole()
        if stored:
            self._store.delete([stored.stored_id(key) for key in sorted(stored.keys)])

    def _documents(self, keys: Sequence[int]) -> dict[int, StoredDocument]:
        return {
            key: StoredDocument(
                document_id(self._mark, key), passage.text, {"memory_id": passage.object_id, "title": passage.title}
            )
            for key, passage in self._texts(keys).items()
        }

    def _own_ids(self, kept: KeptByHost | None) -> Mapping[str, int]:
        """Return keys by the ids that the store returned."""
        if self._own[0] is not kept:
            self._own = (kept, {one: key for key, one in kept.ids.items()} if kept else {})
        return self._own[1]

    def _key(self, stored_id: str, own: Mapping[str, int]) -> int | None:
        """Return the key of a document of this space; `None` for other documents."""
        if stored_id in own:
            return own[stored_id]
        mark, _, number = stored_id.rpartition("-")
        return int(number) if mark == self._mark and number.isdecimal() else None
