"""An engine over a vector store of the host: it is told texts, and asked with the text of a question."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from treering.derived.passage_texts import PassageText
from treering.edges.engines.dimensions import check_dimension
from treering.edges.engines.host_files import KeptByHost, StateFile, document_id
from treering.edges.engines.host_store import StoredDocument, VectorStoreAdapter
from treering.ports.embedder import Embedder
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.ports.vectors import Vector

_HEARD = 256


@dataclass(frozen=True, slots=True)
class HostStore:
    """A store of the host, and the file in which is kept what it was handed; `None` for a space in memory."""

    store: VectorStoreAdapter
    file: Path | None = None


class HearingEmbedder:
    """An `Embedder` that can say which question a vector was made of, for the last questions."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._heard: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """Name the model."""
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return self._embedder.dimension

    @property
    def unrelated_below(self) -> float:
        """The cosine below which a text says nothing about a question."""
        return self._embedder.unrelated_below

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts."""
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """Embed what somebody asks, and remember the text."""
        vector = self._embedder.embed_query(text)
        with self._lock:
            self._heard[vector.tobytes()] = text
            if len(self._heard) > _HEARD:
                self._heard.popitem(last=False)
        return vector

    def question(self, vector: Vector) -> str | None:
        """Return the question that a vector was made of, if it was asked lately."""
        with self._lock:
            return self._heard.get(vector.tobytes())


class HostEngine:
    """`ports.vector_engine.VectorEngine` over a host's store. It proposes; which passages those are is kept in a file.

    `texts` reads the texts of passages, `question` gives the text that a vector was made of. A document of the store is
    a passage: its id is the mark and the key, unless the store gives it another one.
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
        self._store = store
        self._mark = mark
        self._dimension = dimension
        self._file = file
        self._texts = texts
        self._question = question
        self._own: tuple[KeptByHost | None, Mapping[str, int]] = (None, {})
        self._lock = threading.RLock()

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"{self._store.name} of the host"

    def state(self) -> EngineState | None:
        """Return what was handed to the store."""
        kept = self._kept()
        return kept.state if kept else None

    def begin(self, state: EngineState) -> None:
        """Have the store forget what it was handed."""
        with self._lock:
            self._forget()
            self._file.write(KeptByHost(self._mark, replace(state, count=0)))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Hand texts to the store, and have it forget those that are gone."""
        for vector in changes.vectors.values():
            check_dimension(vector, self._dimension)
        with self._lock:
            kept = self._kept() or KeptByHost(self._mark, replace(state, count=0))
            documents = self._documents(tuple(changes.vectors))
            known = kept.keys.intersection(changes.keys)
            after = kept.keys.difference(changes.keys).union(documents)
            ids = {key: one for key, one in kept.ids.items() if key in after and key not in documents}
            if documents:
                # Told before it is done: what a crash leaves in the store is known, and forgotten later.
                self._file.write(replace(kept, keys=kept.keys.union(documents)))
            self._store.delete([kept.stored_id(key) for key in sorted(known)])
            if documents:
                given = zip(documents, self._store.add(list(documents.values())), strict=True)
                ids |= {key: one for key, one in given if one != documents[key].id}
            self._file.write(KeptByHost(self._mark, replace(state, count=len(after)), frozenset(after), ids))

    def flush(self) -> None:
        """Do nothing: the store has everything."""

    def is_worth_writing(self, waiting: int, count: int) -> bool:  # noqa: ARG002 - the port's
        """Tell that every change is."""
        return waiting > 0

    def sight(self) -> str | None:
        """Return the moment that searches answer for."""
        state = self.state()
        return state.moment if state and state.loaded is None else None

    def refresh(self) -> None:
        """Do nothing: the store is asked each time."""

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return what the store finds for the question that a vector was made of.

        `None` where that is not known, where it finds fewer than there are, and where only some are allowed.
        """
        check_dimension(vector, self._dimension)
        question = self._question(vector)
        if question is None or allowed is not None:
            return None
        kept = self._kept()
        own = self._own_ids(kept)
        found = [key for one in self._store.search(question, limit) if (key := self._key(one, own)) is not None]
        known = [key for key in dict.fromkeys(found) if kept and key in kept.keys]
        enough = min(limit, len(kept.keys) if kept else 0)
        return np.array(known[:limit], np.int64) if len(known) >= enough else None

    def drop(self) -> None:
        """Have the store forget what it was handed."""
        with self._lock:
            self._forget()
            self._file.remove()

    def close(self) -> None:
        """End what the adapter runs; the store stays open."""
        self._store.close()

    def _kept(self) -> KeptByHost | None:
        """Return what the store was handed with this mark; what is left of another is forgotten before it begins."""
        kept = self._file.read()
        return kept if kept and kept.mark == self._mark else None

    def _forget(self) -> None:
        kept = self._file.read_if_whole()
        if kept:
            self._store.delete([kept.stored_id(key) for key in sorted(kept.keys)])

    def _documents(self, keys: Sequence[int]) -> dict[int, StoredDocument]:
        return {
            key: StoredDocument(
                document_id(self._mark, key), found.text, {"memory_id": found.object_id, "title": found.title}
            )
            for key, found in self._texts(keys).items()
        }

    def _own_ids(self, kept: KeptByHost | None) -> Mapping[str, int]:
        """Return the keys of passages by the ids that the store gave, where it gives its own."""
        if self._own[0] is not kept:
            self._own = (kept, {one: key for key, one in kept.ids.items()} if kept else {})
        return self._own[1]

    def _key(self, stored_id: str, own: Mapping[str, int]) -> int | None:
        """Return the key of a document of this space; `None` for those of others."""
        if stored_id in own:
            return own[stored_id]
        mark, _, number = stored_id.rpartition("-")
        return int(number) if mark == self._mark and number.isdecimal() else None
