"""The memory of wiki agents: as a service that answers with dictionaries, and as data (`WikiMemoryRepository`)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from inspect import isawaitable
from threading import Lock
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable
from uuid import UUID

import numpy as np

from treering.core.errors import Corrupt, Denied, InvalidInput, NotFound, TreeringError, Unavailable
from treering.extensions.encoder.embedders import FunctionEmbedder
from treering.extensions.encoder.onnx import BgeSmall
from treering.extensions.wiki.memories.host_repository import HostMemories, HostRepository, is_host_repository
from treering.extensions.wiki.memories.named_store import NamedStore, open_named_store
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import (
    RELEVANT,
    FoundWikiMemories,
    KeptWikiMemory,
    WikiMemoryDraft,
    WikiMemoryStore,
    WikiMemoryType,
    WikiRepository,
    WikiVectorStore,
    generation_store,
    memory_type_of,
    store_for,
)
from treering.ports.models import Embedder
from treering.surfaces.python.space import Space

# Access to the memories of wiki agents as data: inserted, searched by a vector, found by file, deleted.


_Done = TypeVar("_Done")


@runtime_checkable
class CreatesEmbeddings(Protocol):
    """A tool of a host that turns a text into a vector."""

    def create_embedding(self, text: str) -> Awaitable[Sequence[float]] | Sequence[float]:
        """Return the vector of a text, at once or when it is awaited; of the same length always."""
        ...


class EmbeddingTool:
    """Turns texts into vectors with an embedder, by default the built-in one (384 dimensions)."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.given = embedder
        """`None`: whatever is searched with this tool keeps to an embedder of its own."""

    async def create_embedding(self, text: str) -> list[float]:
        """Return the vector of a text, of unit length."""
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
        """Have texts embedded by a tool. Raises `InvalidInput` for a store that embeds with another model."""
        if isinstance(tool, EmbeddingTool) and tool.given is None:
            return
        if not isinstance(tool, EmbeddingTool | CreatesEmbeddings) and not hasattr(tool, "embed_query"):
            raise _no_tool(tool)
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

        def keep(store: WikiMemoryStore) -> str:
            repository = WikiRepository.of(
                memory.repository_id,
                branch=getattr(memory, "branch", None) or None,
                commit=getattr(memory, "commit", None),
            )
            draft = WikiMemoryDraft(
                memory.content,
                memory_type_of(memory.memory_type),
                memory.source_agent,
                tuple(getattr(memory, "file_paths", ())),
                tuple(getattr(memory, "related_pages", ())),
            )
            return store.store(repository, draft).id

        return await self._in_thread(keep)

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
            if not isinstance(store, WikiVectorStore):
                raise InvalidInput(
                    f"{type(store).__name__} does not support search by vector.",
                    hint="Use its `search`, which searches by words.",
                )
            found = store.nearest(
                WikiRepository.of(repository_id),
                np.asarray(query_embedding, np.float32),
                limit=limit,
                memory_type=memory_type_of(memory_type) if memory_type else None,
                score_threshold=score_threshold,
            )
            return list(found)

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
            return self._own.store

    def close(self) -> None:
        """Close the store, if this repository opened one. Blocking."""
        with self._lock:
            own, self._own, self._closed = self._own, None, True
        if own:
            own.close()

    async def _in_thread(self, work: Callable[[WikiMemoryStore], _Done]) -> _Done:
        return await asyncio.to_thread(lambda: work(self.opened()))


def _no_tool(given: object) -> InvalidInput:
    return InvalidInput(
        f"embedding_tool: {type(given).__name__} has no method create_embedding.",
        hint="Give an EmbeddingTool, an Embedder, or an object with create_embedding(text).",
    )


def _embedder_of(tool: AnyEmbeddingTool) -> Embedder | None:
    if isinstance(tool, EmbeddingTool):
        return tool.given
    if isinstance(tool, CreatesEmbeddings):
        return FunctionEmbedder(partial(_embedded, tool), f"{type(tool).__module__}.{type(tool).__qualname__}")
    return tool


def _embedded(tool: CreatesEmbeddings, texts: list[str]) -> list[Sequence[float]]:
    """Ask a tool for a few texts, from a thread that has no event loop."""

    async def one_by_one() -> list[Sequence[float]]:
        made = []
        for text in texts:
            vector = tool.create_embedding(text)
            made.append(await vector if isawaitable(vector) else vector)
        return made

    return asyncio.run(one_by_one())


def _require_same_model(store: WikiMemoryStore, tool: AnyEmbeddingTool) -> None:
    embedder = tool.given if isinstance(tool, EmbeddingTool) else tool
    own, other = getattr(store, "model_id", None), getattr(embedder, "model_id", None)
    if own is None or own != other:
        raise InvalidInput(
            f"The store has its own embedder{f' ({own})' if own else ''}, and the embedding tool is a different one.",
            hint="Omit embedding_tool, or open the store with the same embedder.",
        )


_LOG = logging.getLogger(__name__)

_AGAIN = "Repeat the call. If it fails again, see the log for the cause."

Result = dict[str, Any]
"""`status` is `success` or `error`; an error has a message and a type, without internal details."""


class MemoryUnreachable(Unavailable):
    """The memory failed. The message contains no internal details; see the log."""

    code = "InternalError"


class WikiMemoryService:
    """Memories of wiki agents: store, search, find by file, purge. Safe to use from many threads.

    Every method is asynchronous, works in a thread, and returns a dictionary: errors of the memory never end an agent.
    `wiki_memory_repo`: a `WikiMemoryRepository`, or its store: a space or another store; by default the first call
    opens the configured store (`TREERING_WIKI_MEMORY`, else `TREERING_SPACE`, else the nearest `.treering/` folder),
    and `aclose` closes it. A repository of the host with the methods of `WikiMemoryRepository`, or a mock of one, is
    called in the caller's event loop and only for data; it has no branches, generations and keys. `embedding_tool`: the
    embedding tool for it: an `EmbeddingTool`, an `Embedder`, or an object with `create_embedding(text)`. Raises
    `InvalidInput` for a tool with another model than a store with its own embedder. `store` and `embedder` are aliases
    of the two.
    """

    def __init__(
        self,
        wiki_memory_repo: WikiMemoryRepository | WikiMemoryStore | HostRepository | Space | None = None,
        embedding_tool: AnyEmbeddingTool | None = None,
        *,
        store: WikiMemoryStore | Space | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        given = wiki_memory_repo if wiki_memory_repo is not None else store
        tool = embedding_tool if embedding_tool is not None else embedder
        self._host: HostMemories | None = None
        # By its class: a mock with a specification passes for an instance.
        if not issubclass(type(given), WikiMemoryRepository) and is_host_repository(given):
            self._host = HostMemories(given, _embedding_by(tool))
            return
        self._repository = (
            given if isinstance(given, WikiMemoryRepository) else WikiMemoryRepository(cast("WikiMemoryStore", given))
        )
        if tool is not None:
            self._repository.embed_with(tool)

    async def store_memory(
        self,
        repository_id: UUID | str,
        content: str,
        memory_type: WikiMemoryType | str,
        source_agent: str,
        file_paths: Sequence[str] | None = None,
        related_pages: Sequence[str] | None = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
        generation: str | None = None,
        idempotency_key: str | None = None,
    ) -> Result:
        """Store a memory: `{status, memory_id, repository_id}`.

        A text longer than 4,000 characters is cut at the end of a sentence; the result then has `kept_chars` and
        `given_chars`. The same `idempotency_key` again, for the same repository and branch, stores nothing.
        """
        if host := self._host:
            given = (repository_id, content, memory_type, source_agent, file_paths, related_pages)
            unknown = {"branch": branch, "generation": generation, "idempotency_key": idempotency_key}
            return await _by_host(lambda: host.store(*given), unknown)

        def store(kept: WikiMemoryStore) -> Result:
            repository = _repository(kept, repository_id, branch, generation, commit)
            draft = WikiMemoryDraft(
                content, memory_type_of(memory_type), source_agent, tuple(file_paths or ()), tuple(related_pages or ())
            )
            stored = kept.store(repository, draft, key=idempotency_key)
            was_cut = stored.kept_chars < stored.given_chars
            cut = {"kept_chars": stored.kept_chars, "given_chars": stored.given_chars} if was_cut else {}
            return {"memory_id": stored.id, "repository_id": repository.repository_id, **cut}

        return await self._answer(store)

    async def search_memories(
        self,
        repository_id: UUID | str,
        query: str,
        limit: int = 10,
        memory_type: WikiMemoryType | str | None = None,
        *,
        source_agent: str | None = None,
        score_threshold: float = RELEVANT,
        branch: str | None = None,
        generation: str | None = None,
    ) -> Result:
        """Return the memories most similar to a query, best first: `{status, memories, count}`.

        A store with several ways to search adds `searched`, the way used.
        """
        if host := self._host:
            asked = (repository_id, query, limit, memory_type, score_threshold)
            unknown = {"source_agent": source_agent, "branch": branch, "generation": generation}
            return await _by_host(lambda: host.search(*asked), unknown)

        def search(kept: WikiMemoryStore) -> Result:
            found = kept.search(
                _repository(kept, repository_id, branch, generation),
                query,
                limit=limit,
                memory_type=memory_type_of(memory_type) if memory_type else None,
                source_agent=source_agent,
                score_threshold=score_threshold,
            )
            how = {"searched": found.searched} if isinstance(found, FoundWikiMemories) and found.searched else {}
            return {**_listed(found), **how}

        return await self._answer(search)

    async def get_memories_by_files(
        self,
        repository_id: UUID | str,
        file_paths: Sequence[str],
        *,
        branch: str | None = None,
        generation: str | None = None,
    ) -> Result:
        """Return the memories about any of some files, or below some folders: `{status, memories, count}`."""
        if host := self._host:
            unknown = {"branch": branch, "generation": generation}
            return await _by_host(lambda: host.by_files(repository_id, _texts(file_paths)), unknown)

        def by_files(kept: WikiMemoryStore) -> Result:
            repository = _repository(kept, repository_id, branch, generation)
            return _listed(kept.by_files(repository, _texts(file_paths)))

        return await self._answer(by_files)

    async def purge_memories(
        self,
        repository_id: UUID | str,
        *,
        branch: str | None = None,
        generation: str | None = None,
        erase: bool = False,
    ) -> Result:
        """Withdraw all memories of a repository, branch or generation: `{status, deleted_count, repository_id}`.

        That is one patch, which `treering revert` takes back. `erase`: leave nothing of them, for good.
        """
        if host := self._host:
            unknown = {"branch": branch, "generation": generation, "erase": erase or None}
            return await _by_host(lambda: host.purge(repository_id), unknown)

        def purge(kept: WikiMemoryStore) -> Result:
            repository = _repository(kept, repository_id, branch, generation)
            count = kept.purge(repository, erase=erase)
            return {"deleted_count": count, "repository_id": repository.repository_id}

        return await self._answer(purge)

    async def complete_generation(
        self, repository_id: UUID | str, generation: str, *, branch: str | None = None
    ) -> Result:
        """Make a generation the current one, and withdraw the memories of all others, in one patch.

        Returns `{status, deleted_count, repository_id, generation}`. The generations are those of the repository, or of
        its branch if given. Memories withdrawn before are not counted again, so a call may be repeated.
        """

        def complete(kept: WikiMemoryStore) -> Result:
            repository = WikiRepository.of(repository_id, branch=branch, generation=generation)
            count = generation_store(kept).complete_generation(repository)
            told = {"repository_id": repository.repository_id, "generation": repository.generation}
            return {"deleted_count": count, **told}

        return await self._answer(complete)

    @classmethod
    async def purge_for_repository(cls, repository_id: UUID | str) -> Result:
        """Withdraw all memories of a repository with a service of its own, for workflows that have none.

        That service uses the store that the settings name, as one without arguments does.
        """
        async with cls() as service:
            return await service.purge_memories(repository_id)

    async def aclose(self) -> None:
        """Close the store, if this service opened one."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def with_store(self, work: Callable[[WikiMemoryStore], _Done]) -> _Done:
        """Run blocking work on the store in this thread.

        Raises `InvalidInput`, `NotFound` and `Denied` unchanged, and `Corrupt` if the stored data does not verify.
        Other errors are logged and raised as `MemoryUnreachable`, without internal details.
        """
        if self._host is not None:
            raise InvalidInput(
                "A host's own repository has no store for tools and middleware.",
                hint="Call the methods of the service, or pass it a space or MongoWikiMemories.",
            )
        try:
            return work(self._repository.opened())
        except (InvalidInput, NotFound, Denied):
            raise
        except Corrupt as error:
            _LOG.exception("The memory of wiki agents is damaged.")
            raise Corrupt(
                "The memory is damaged: the stored data does not verify.", hint="Run `treering lint audit`."
            ) from error
        except Exception as error:  # a store may raise anything, and tell addresses and users
            _LOG.exception("The memory of wiki agents failed.")
            raise MemoryUnreachable("Cannot reach the memory.", hint=_AGAIN) from error

    async def _answer(self, work: Callable[[WikiMemoryStore], Result]) -> Result:
        return await asyncio.to_thread(partial(self._attempted, work))

    def _attempted(self, work: Callable[[WikiMemoryStore], Result]) -> Result:
        try:
            return {"status": "success", **self.with_store(work)}
        except TreeringError as error:
            # The name of the class says what failed, and no more: no address and no user stands in it.
            return _failure(error, error.__cause__ if isinstance(error, MemoryUnreachable) else error)

    def close(self) -> None:
        """Close the store, if this service opened one. Blocking."""
        if self._host is None:
            self._repository.close()


class _HostFailed(Unavailable):
    """A repository of the host raised something; the cause is what it raised."""


async def _by_host(work: Callable[[], Awaitable[Result]], unknown: Mapping[str, object]) -> Result:
    """Answer by a repository of the host, whose errors are told as they are. `unknown`: what it cannot be given."""
    try:
        _refuse([name for name, value in unknown.items() if value is not None])
        return {"status": "success", **await _awaited(work)}
    except TreeringError as error:
        raised = error.__cause__ if isinstance(error, _HostFailed) else error
        return _failure(error, raised)


async def _awaited(work: Callable[[], Awaitable[Result]]) -> Result:
    try:
        return await work()
    except TreeringError:
        raise
    except Exception as error:  # a repository of the host may raise anything
        _LOG.exception("The repository of wiki memories failed.")
        raise _HostFailed(str(error)) from error


def _refuse(names: Sequence[str]) -> None:
    if names:
        raise InvalidInput(
            f"A host's own repository has no {' and no '.join(names)}.",
            hint="Omit it, or pass the service a space or MongoWikiMemories.",
        )


def _failure(error: TreeringError, raised: BaseException | None) -> Result:
    return {
        "status": "error",
        "error": f"{error.message} {error.hint}".strip(),
        "error_type": type(raised).__name__,
    }


def _embedding_by(tool: object) -> Callable[[str], Any]:
    """Return what embeds a text: the method of a tool of the host, or the embedder."""
    if (create := getattr(tool, "create_embedding", None)) is not None:
        return cast("Callable[[str], Any]", create)
    if tool is not None and not hasattr(tool, "embed_query"):
        raise _no_tool(tool)
    return EmbeddingTool(cast("Embedder | None", tool)).create_embedding


def _repository(
    kept: WikiMemoryStore,
    repository_id: UUID | str,
    branch: str | None,
    generation: str | None,
    commit: str | None = None,
) -> WikiRepository:
    repository = WikiRepository.of(repository_id, branch=branch, commit=commit, generation=generation)
    store_for(kept, repository)
    return repository


def _listed(found: Sequence[KeptWikiMemory]) -> Result:
    return {"memories": [one.as_dict() for one in found], "count": len(found)}


def _texts(given: object) -> Sequence[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput("file_paths is not a list.", hint="Give a list of paths.")
    return [str(one) for one in given]
