"""The memory service over a host's repository: an object with the methods of `WikiMemoryRepository`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any
from uuid import UUID, uuid4

from treering.core.errors import InvalidInput
from treering.extensions.wiki.memories.wiki_memory import (
    RELEVANT,
    StoredWikiMemory,
    WikiMemoryDraft,
    WikiMemoryType,
    cut_to_limit,
    memory_type_of,
)

_METHODS = ("insert", "vector_search", "find_by_file_paths", "delete_by_repository", "serialize")
Result = dict[str, Any]


@dataclass(slots=True)
class NewWikiMemory:
    """A new memory, as passed to `insert` of a host's repository."""

    repository_id: UUID | str
    content: str
    memory_type: WikiMemoryType
    source_agent: str
    embedding: list[float]
    file_paths: list[str] = field(default_factory=list)
    related_pages: list[str] = field(default_factory=list)
    embedding_metadata: dict[str, Any] = field(default_factory=dict)
    id: UUID = field(default_factory=uuid4)


def is_host_repository(given: object) -> bool:
    """Return whether an object has the methods of a repository. Mocks have them too."""
    return all(callable(getattr(given, name, None)) for name in _METHODS)


class HostMemories:
    """Store memories with a host's repository and embedding tool, whose methods may be coroutines.

    They are awaited in the event loop of the caller, because database clients belong to one. `embed`: returns the
    vector of a text, or an awaitable of it.
    """

    def __init__(self, repository: Any, embed: Callable[[str], Any]) -> None:
        self._repository = repository
        self._embed = embed

    async def store(self, repository_id: UUID | str, draft: WikiMemoryDraft) -> Result:
        """Cut a memory that is too long, embed it, and insert it."""
        if not isinstance(draft.content, str) or not draft.content.strip():
            raise InvalidInput("The content is empty.", hint="Store a text that is not empty.")
        text = cut_to_limit(draft.content)
        memory = NewWikiMemory(
            repository_id=repository_id,
            content=text,
            memory_type=draft.memory_type,
            source_agent=draft.source_agent,
            embedding=list(await _answer(self._embed(text))),
            file_paths=list(draft.file_paths),
            related_pages=list(draft.related_pages),
        )
        inserted = await _answer(self._repository.insert(memory))
        identity = inserted if isinstance(inserted, str | UUID) else memory.id
        stored = StoredWikiMemory(str(identity), len(text), len(draft.content))
        return {"memory_id": stored.id, "repository_id": str(repository_id), **stored.cut}

    async def search(
        self,
        repository_id: UUID | str,
        query: str,
        limit: int,
        memory_type: WikiMemoryType | str | None,
        score_threshold: float,
    ) -> Result:
        """Embed a query and search by its vector."""
        narrowed = {} if score_threshold == RELEVANT else {"score_threshold": score_threshold}
        memories = await _answer(
            self._repository.vector_search(
                repository_id=repository_id,
                query_embedding=list(await _answer(self._embed(query))),
                limit=limit,
                memory_type=memory_type_of(memory_type) if memory_type else None,
                **narrowed,
            )
        )
        return await self._listed(memories)

    async def by_files(self, repository_id: UUID | str, file_paths: Sequence[str]) -> Result:
        """Find memories by their files."""
        memories = self._repository.find_by_file_paths(repository_id=repository_id, file_paths=list(file_paths))
        return await self._listed(await _answer(memories))

    async def purge(self, repository_id: UUID | str) -> Result:
        """Delete all memories of a repository."""
        count = await _answer(self._repository.delete_by_repository(repository_id=repository_id))
        return {"deleted_count": count, "repository_id": str(repository_id)}

    async def _listed(self, rows: Sequence[Any]) -> Result:
        memories = [await _answer(self._repository.serialize(one)) for one in rows]
        return {"memories": memories, "count": len(memories)}


async def _answer(value: Any) -> Any:
    return await value if isawaitable(value) else value
