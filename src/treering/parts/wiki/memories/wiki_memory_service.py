"""The memory of wiki agents as a service: asynchronous, with plain dictionaries as results."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar
from uuid import UUID

from treering.core.errors import Denied, InvalidInput, NotFound, TreeringError, Unavailable
from treering.parts.wiki.memories.repository import AnyEmbeddingTool, WikiMemoryRepository
from treering.parts.wiki.memories.wiki_memory import (
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
from treering.ports.models import Embedder
from treering.surfaces.python.space import Space

_LOG = logging.getLogger(__name__)

Result = dict[str, Any]
"""`status` is `success` or `error`; an error has a message and a type, and nothing of what is inside."""

_Done = TypeVar("_Done")


class MemoryUnreachable(Unavailable):
    """The memory failed. The message names nothing of what is inside; the log does."""

    code = "InternalError"


class WikiMemoryService:
    """What wiki agents remember of repositories: store, search, find by file, purge. Safe to use from many threads.

    Every method is asynchronous, works in a thread, and returns a dictionary: no error of the memory ends an agent.
    `wiki_memory_repo`: a `WikiMemoryRepository`, or its store: a space, or whatever else keeps the memories; without it
    the space that the settings name (`TREERING_SPACE`, else the nearest `.treering/` folder) is opened by the first
    call that needs it, and closed by `aclose`. `embedding_tool`: what texts are embedded with there: an
    `EmbeddingTool`, an `Embedder`, or an object of the host with `create_embedding(text)`. Raises `InvalidInput` for a
    tool of another model than that of a store that embeds by itself. `store` and `embedder` are other names of the two.
    """

    def __init__(
        self,
        wiki_memory_repo: WikiMemoryRepository | WikiMemoryStore | Space | None = None,
        embedding_tool: AnyEmbeddingTool | None = None,
        *,
        store: WikiMemoryStore | Space | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        given = wiki_memory_repo if wiki_memory_repo is not None else store
        self._repository = given if isinstance(given, WikiMemoryRepository) else WikiMemoryRepository(given)
        tool = embedding_tool if embedding_tool is not None else embedder
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
        """Keep a memory: `{status, memory_id, repository_id}`.

        What is longer than 4,000 characters is cut at the end of a sentence; the result has `kept_chars` and
        `given_chars` then. The same `idempotency_key` again, for the same repository and branch, keeps nothing more.
        """

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
        """Return the memories most like a query, best first: `{status, memories, count}`.

        A store that has several ways to search adds `searched`, the one that it took.
        """

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

        def purge(kept: WikiMemoryStore) -> Result:
            repository = _repository(kept, repository_id, branch, generation)
            count = kept.purge(repository, erase=erase)
            return {"deleted_count": count, "repository_id": repository.repository_id}

        return await self._answer(purge)

    async def complete_generation(
        self, repository_id: UUID | str, generation: str, *, branch: str | None = None
    ) -> Result:
        """Make a generation the current one, and withdraw the memories of all others, in one patch.

        Returns `{status, deleted_count, repository_id, generation}`. The generations are those of the repository, or
        of its branch where one is named. What was withdrawn before is not counted again, so a call may be repeated.
        """

        def complete(kept: WikiMemoryStore) -> Result:
            repository = WikiRepository.of(repository_id, branch=branch, generation=generation)
            count = generation_store(kept).complete_generation(repository)
            told = {"repository_id": repository.repository_id, "generation": repository.generation}
            return {"deleted_count": count, **told}

        return await self._answer(complete)

    @classmethod
    async def purge_for_repository(cls, repository_id: UUID | str) -> Result:
        """Withdraw all memories of a repository with a service of its own, for workflows that have none."""
        async with cls() as service:
            return await service.purge_memories(repository_id)

    async def aclose(self) -> None:
        """Close the space, if this service opened one."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def with_store(self, work: Callable[[WikiMemoryStore], _Done]) -> _Done:
        """Do blocking work on the store, in this thread.

        Raises `InvalidInput`, `NotFound` and `Denied` as they are. Whatever else goes wrong is logged and becomes a
        `MemoryUnreachable`, which names nothing of what is inside.
        """
        try:
            return work(self._repository.opened())
        except (InvalidInput, NotFound, Denied):
            raise
        except Exception as error:  # a store may raise anything, and tell addresses and users
            _LOG.exception("The memory of wiki agents failed.")
            raise MemoryUnreachable("The memory could not be reached.", hint="Make the call again.") from error

    async def _answer(self, work: Callable[[WikiMemoryStore], Result]) -> Result:
        return await asyncio.to_thread(partial(self._attempted, work))

    def _attempted(self, work: Callable[[WikiMemoryStore], Result]) -> Result:
        try:
            return {"status": "success", **self.with_store(work)}
        except TreeringError as error:
            # The name of the class says what failed, and no more: no address and no user stands in it.
            raised = error.__cause__ if isinstance(error, MemoryUnreachable) else error
            return _failed(f"{error.message} {error.hint}".strip(), type(raised).__name__)

    def close(self) -> None:
        """Close the space, if this service opened one. Blocking."""
        self._repository.close()


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


def _failed(message: str, kind: str) -> Result:
    told: Mapping[str, Any] = {"status": "error", "error": message, "error_type": kind}
    return dict(told)


def _texts(given: object) -> Sequence[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput("file_paths is not a list.", hint="Give a list of paths.")
    return [str(one) for one in given]
