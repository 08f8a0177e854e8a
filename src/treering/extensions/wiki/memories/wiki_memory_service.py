"""The memory of wiki agents: a service that returns dictionaries, and `WikiMemoryRepository` for data access."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from treering.core.errors import Corrupt, Denied, InvalidInput, NotFound, TreeringError, Unavailable
from treering.extensions.wiki.memories.host_repository import HostMemories, is_host_repository
from treering.extensions.wiki.memories.wiki_memory import (
    RELEVANT,
    FoundWikiMemories,
    KeptWikiMemory,
    WikiMemoryDraft,
    WikiMemoryStore,
    WikiMemoryType,
    WikiRepository,
    generation_store,
    memory_type_of,
    store_for,
)
from treering.extensions.wiki.memories.wiki_memory_repository import (
    AnyEmbeddingTool,
    EmbeddingTool,
    WikiMemoryRepository,
    invalid_tool,
)
from treering.ports.models import Embedder
from treering.surfaces.python.space import Space

_Done = TypeVar("_Done")
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
        wiki_memory_repo: WikiMemoryRepository | WikiMemoryStore | Space | Any = None,
        embedding_tool: AnyEmbeddingTool | None = None,
        *,
        store: WikiMemoryStore | Space | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        given = wiki_memory_repo if wiki_memory_repo is not None else store
        tool = embedding_tool if embedding_tool is not None else embedder
        self._host: HostMemories | None = None
        # `issubclass`: a mock with a spec passes `isinstance`.
        if not issubclass(type(given), WikiMemoryRepository) and is_host_repository(given):
            self._host = HostMemories(given, _embedding_by(tool))
            return
        self._repository = given if isinstance(given, WikiMemoryRepository) else WikiMemoryRepository(given)
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

        def draft() -> WikiMemoryDraft:
            return WikiMemoryDraft.of(content, memory_type, source_agent, file_paths, related_pages)

        if host := self._host:
            unknown = {"branch": branch, "generation": generation, "idempotency_key": idempotency_key}
            return await _by_host(lambda: host.store(repository_id, draft()), unknown)

        def store(memories: WikiMemoryStore) -> Result:
            repository = _repository(memories, repository_id, branch, generation, commit)
            stored = memories.store(repository, draft(), key=idempotency_key)
            return {"memory_id": stored.id, "repository_id": repository.repository_id, **stored.cut}

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
            values = (repository_id, query, limit, memory_type, score_threshold)
            unknown = {"source_agent": source_agent, "branch": branch, "generation": generation}
            return await _by_host(lambda: host.search(*values), unknown)

        def search(store: WikiMemoryStore) -> Result:
            memories = store.search(
                _repository(store, repository_id, branch, generation),
                query,
                limit=limit,
                memory_type=memory_type_of(memory_type) if memory_type else None,
                source_agent=source_agent,
                score_threshold=score_threshold,
            )
            how = (
                {"searched": memories.searched} if isinstance(memories, FoundWikiMemories) and memories.searched else {}
            )
            return {**_listed(memories), **how}

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

        def by_files(store: WikiMemoryStore) -> Result:
            repository = _repository(store, repository_id, branch, generation)
            return _listed(store.by_files(repository, _texts(file_paths)))

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

        This is one patch, which `treering revert` undoes. `erase`: delete them permanently.
        """
        if host := self._host:
            unknown = {"branch": branch, "generation": generation, "erase": erase or None}
            return await _by_host(lambda: host.purge(repository_id), unknown)

        def purge(store: WikiMemoryStore) -> Result:
            repository = _repository(store, repository_id, branch, generation)
            count = store.purge(repository, erase=erase)
            return {"deleted_count": count, "repository_id": repository.repository_id}

        return await self._answer(purge)

    async def complete_generation(
        self, repository_id: UUID | str, generation: str, *, branch: str | None = None
    ) -> Result:
        """Make a generation the current one, and withdraw the memories of all others, in one patch.

        Returns `{status, deleted_count, repository_id, generation}`. The generations are those of the repository, or of
        its branch if given. Memories withdrawn before are not counted again, so a call may be repeated.
        """

        def complete(store: WikiMemoryStore) -> Result:
            repository = WikiRepository.of(repository_id, branch=branch, generation=generation)
            count = generation_store(store).complete_generation(repository)
            identity = {"repository_id": repository.repository_id, "generation": repository.generation}
            return {"deleted_count": count, **identity}

        return await self._answer(complete)

    @classmethod
    async def purge_for_repository(cls, repository_id: UUID | str) -> Result:
        """Withdraw all memories of a repository in the configured store, for workflows without a service."""
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
        except Exception as error:  # a store may raise anything, with addresses and users in the message
            _LOG.exception("The memory of wiki agents failed.")
            raise MemoryUnreachable("Cannot reach the memory.", hint=_AGAIN) from error

    async def _answer(self, work: Callable[[WikiMemoryStore], Result]) -> Result:
        return await asyncio.to_thread(partial(self._attempted, work))

    def _attempted(self, work: Callable[[WikiMemoryStore], Result]) -> Result:
        try:
            return {"status": "success", **self.with_store(work)}
        except TreeringError as error:
            # Only the name of the class: messages may contain addresses and users.
            return _failure(error, error.__cause__ if isinstance(error, MemoryUnreachable) else error)

    def close(self) -> None:
        """Close the store, if this service opened one. Blocking."""
        if self._host is None:
            self._repository.close()


async def _by_host(work: Callable[[], Awaitable[Result]], unknown: Mapping[str, object]) -> Result:
    """Call a host's repository; its errors are returned unchanged. `unknown`: unsupported arguments."""
    names = [name for name, value in unknown.items() if value is not None]
    if names:
        refused = InvalidInput(
            f"A host's own repository has no {' and no '.join(names)}.",
            hint="Omit it, or pass the service a space or MongoWikiMemories.",
        )
        return _failure(refused, refused)
    try:
        return {"status": "success", **await work()}
    except TreeringError as error:
        return _failure(error, error)
    except Exception as error:  # noqa: BLE001 - a repository of the host may raise anything
        _LOG.exception("The repository of wiki memories failed.")
        return _failure(Unavailable(str(error)), error)


def _failure(error: TreeringError, raised: BaseException | None) -> Result:
    return {
        "status": "error",
        "error": f"{error.message} {error.hint}".strip(),
        "error_type": type(raised).__name__,
    }


def _embedding_by(tool: object) -> Callable[[str], Any]:
    """Return the function that embeds a text: the method of a host's tool, or the embedder."""
    if (create := getattr(tool, "create_embedding", None)) is not None:
        return cast("Callable[[str], Any]", create)
    if tool is not None and not hasattr(tool, "embed_query"):
        raise invalid_tool(tool)
    return EmbeddingTool(cast("Embedder | None", tool)).create_embedding


def _repository(
    store: WikiMemoryStore,
    repository_id: UUID | str,
    branch: str | None,
    generation: str | None,
    commit: str | None = None,
) -> WikiRepository:
    repository = WikiRepository.of(repository_id, branch=branch, commit=commit, generation=generation)
    store_for(store, repository)
    return repository


def _listed(memories: Sequence[KeptWikiMemory]) -> Result:
    return {"memories": [one.as_dict() for one in memories], "count": len(memories)}


def _texts(paths: object) -> Sequence[str]:
    if isinstance(paths, str) or not isinstance(paths, Sequence):
        raise InvalidInput("file_paths is not a list.", hint="Give a list of paths.")
    return [str(one) for one in paths]
