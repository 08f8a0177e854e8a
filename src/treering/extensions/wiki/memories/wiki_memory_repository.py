"""Access to the memories of wiki agents as data: insert, search by vector, find by file, delete."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from inspect import isawaitable
from threading import Lock
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID
from weakref import finalize

import numpy as np

from treering.core.errors import InvalidInput
from treering.extensions.encoder.embedders import FunctionEmbedder
from treering.extensions.encoder.onnx import BgeSmall
from treering.extensions.wiki.memories.named_store import NamedStore, open_named_store
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import (
    RELEVANT,
    EmbeddedWikiMemories,
    KeptWikiMemory,
    WikiMemoryDraft,
    WikiMemoryStore,
    WikiMemoryType,
    WikiRepository,
    memory_type_of,
)
from treering.ports.models import Embedder
from treering.surfaces.python.space import Space

_Done = TypeVar("_Done")


@runtime_checkable
class CreatesEmbeddings(Protocol):
    """An embedding tool of a host."""

    def create_embedding(self, text: str) -> Awaitable[Sequence[float]] | Sequence[float]:
        """Return the vector of a text, or an awaitable of it, always of the same length."""
        ...


class EmbeddingTool:
    """Embed texts with an embedder, by default the built-in one (384 dimensions)."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.given = embedder
        """`None`: stores use their own embedder."""

    async def create_embedding(self, text: str) -> list[float]:
        """Return the unit vector of a text."""
        return await asyncio.to_thread(lambda: [float(one) for one in self._embedder.embed_query(text)])

    @cached_property
    def _embedder(self) -> Embedder:
        return self.given or BgeSmall()


AnyEmbeddingTool = EmbeddingTool | Embedder | CreatesEmbeddings


class WikiMemoryRepository:
    """The memories of wiki agents as data, over a store. Safe to use from many threads.

    `store`: a space or another store; by default the first call opens the configured store, and `aclose` closes it:
    `TREERING_WIKI_MEMORY`, which may be an address of MongoDB, else the space of `TREERING_SPACE`, else the nearest
    `.treering/` folder.
    """

    def __init__(self, store: WikiMemoryStore | Space | None = None) -> None:
        self._lock = Lock()
        self._own: NamedStore | None = None
        self._closed = False
        self._tool: AnyEmbeddingTool | None = None
        self._given = SpaceWikiMemories(store.engine) if isinstance(store, Space) else store

    def embed_with(self, tool: AnyEmbeddingTool) -> None:
        """Embed texts with a tool. Raises `InvalidInput` if the store uses another model."""
        if isinstance(tool, EmbeddingTool) and tool.given is None:
            return
        if not isinstance(tool, EmbeddingTool | CreatesEmbeddings) and not hasattr(tool, "embed_query"):
            raise invalid_tool(tool)
        if self._given is not None:
            _require_same_model(self._given, tool)
            return
        with self._lock:
            if self._own is not None:
                raise InvalidInput(
                    "The space of this repository is already open with another embedding tool.",
                    hint="Set the tool before the first call.",
                )
            self._tool = tool

    async def insert(self, memory: Any) -> str:
        """Store a memory; return its id.

        `memory` has the fields of a `WikiMemory`: `repository_id, content, memory_type, source_agent`, and optionally
        `file_paths, related_pages, branch, commit`.
        """

        def insert(store: WikiMemoryStore) -> str:
            repository = WikiRepository.of(
                memory.repository_id,
                branch=getattr(memory, "branch", None) or None,
                commit=getattr(memory, "commit", None),
            )
            files, pages = getattr(memory, "file_paths", ()), getattr(memory, "related_pages", ())
            draft = WikiMemoryDraft.of(memory.content, memory.memory_type, memory.source_agent, files, pages)
            return store.store(repository, draft).id

        return await self._in_thread(insert)

    async def vector_search(
        self,
        repository_id: UUID | str,
        query_embedding: Sequence[float],
        limit: int = 10,
        memory_type: WikiMemoryType | str | None = None,
        score_threshold: float = RELEVANT,
    ) -> list[KeptWikiMemory]:
        """Return the memories with the nearest vectors, best first. The type is a condition of the search.

        Scores are on the common scale: scores below 0.7 are not distinguishable from chance.
        """

        def search(store: WikiMemoryStore) -> list[KeptWikiMemory]:
            if not isinstance(store, EmbeddedWikiMemories):
                raise InvalidInput(
                    f"{type(store).__name__} does not support search by vector.",
                    hint="Use its `search`, which searches by words.",
                )
            memories = store.nearest(
                WikiRepository.of(repository_id),
                np.asarray(query_embedding, np.float32),
                limit=limit,
                memory_type=memory_type_of(memory_type) if memory_type else None,
                score_threshold=score_threshold,
            )
            return list(memories)

        return await self._in_thread(search)

    async def find_by_file_paths(self, repository_id: UUID | str, file_paths: Sequence[str]) -> list[KeptWikiMemory]:
        """Return the memories about any of some files, or about files below some folders, newest first."""
        repository = WikiRepository.of(repository_id)
        return await self._in_thread(lambda store: list(store.by_files(repository, list(file_paths))))

    async def delete_by_repository(self, repository_id: UUID | str) -> int:
        """Withdraw all memories of a repository; return how many."""
        repository = WikiRepository.of(repository_id)
        return await self._in_thread(lambda store: store.purge(repository))

    def serialize(self, memory: KeptWikiMemory) -> dict[str, Any]:
        """Return a memory as JSON data."""
        return memory.as_dict()

    async def aclose(self) -> None:
        """Close the store, if this repository opened one."""
        await asyncio.to_thread(self.close)

    def opened(self) -> WikiMemoryStore:
        """Return the store; blocks if it must be opened first. Raises the errors of `open_named_store`."""
        if self._given is not None:
            return self._given
        with self._lock:
            if self._closed:
                raise InvalidInput("This service was closed.", hint="Create another one.")
            if self._own is None:
                self._own = open_named_store(_embedder_of(self._tool) if self._tool is not None else None)
                # A middleware that opened a store is often only dropped.
                self._close_own = finalize(self, self._own.close)
            return self._own.store

    def close(self) -> None:
        """Close the store, if this repository opened one. Blocking."""
        with self._lock:
            own, self._own, self._closed = self._own, None, True
        if own:
            self._close_own()

    async def _in_thread(self, work: Callable[[WikiMemoryStore], _Done]) -> _Done:
        return await asyncio.to_thread(lambda: work(self.opened()))


def invalid_tool(tool: object) -> InvalidInput:
    """Return the error for an object that is no embedding tool."""
    return InvalidInput(
        f"embedding_tool: {type(tool).__name__} has no method create_embedding.",
        hint="Give an EmbeddingTool, an Embedder, or an object with create_embedding(text).",
    )


def _embedder_of(tool: AnyEmbeddingTool) -> Embedder | None:
    if isinstance(tool, EmbeddingTool):
        return tool.given
    if isinstance(tool, CreatesEmbeddings):
        return FunctionEmbedder(partial(_embedded, tool), f"{type(tool).__module__}.{type(tool).__qualname__}")
    return tool


def _embedded(tool: CreatesEmbeddings, texts: list[str]) -> list[Sequence[float]]:
    """Embed texts with a tool, in a thread without an event loop."""

    async def one_by_one() -> list[Sequence[float]]:
        vectors = []
        for text in texts:
            vector = tool.create_embedding(text)
            vectors.append(await vector if isawaitable(vector) else vector)
        return vectors

    return asyncio.run(one_by_one())


def _require_same_model(store: WikiMemoryStore, tool: AnyEmbeddingTool) -> None:
    embedder = tool.given if isinstance(tool, EmbeddingTool) else tool
    own, other = getattr(store, "model_id", None), getattr(embedder, "model_id", None)
    if own is None or own != other:
        raise InvalidInput(
            f"The store has its own embedder{f' ({own})' if own else ''}, and the embedding tool is a different one.",
            hint="Omit embedding_tool, or open the store with the same embedder.",
        )
