"""The memory service over a repository of the host: an object with the methods of `WikiMemoryRepository`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Protocol
from uuid import UUID, uuid4

from treering.core.errors import InvalidInput
from treering.extensions.wiki.memories.wiki_memory import (
    RELEVANT,
    WikiMemoryType,
    cut_to_limit,
    memory_type_of,
)


class HostRepository(Protocol):
    """What a repository of the host does; each method may be a coroutine."""

    def insert(self, memory: Any) -> Any:
        """Store a memory (`NewWikiMemory`)."""
        ...

    def vector_search(self, repository_id: Any, query_embedding: Any, limit: int, memory_type: Any) -> Any:
        """Return the memories nearest to a vector."""
        ...

    def find_by_file_paths(self, repository_id: Any, file_paths: Any) -> Any:
        """Return the memories about some files."""
        ...

    def delete_by_repository(self, repository_id: Any) -> Any:
        """Delete all memories of a repository; return how many."""
        ...

    def serialize(self, memory: Any) -> Any:
        """Return a memory as JSON data."""
        ...


_METHODS = ("insert", "vector_search", "find_by_file_paths", "delete_by_repository", "serialize")
Result = dict[str, Any]


@dataclass(slots=True)
class NewWikiMemory:
    """A memory as a repository of the host is given it."""

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
    """Return whether an object has the methods of a repository; a mock has them as well."""
    return all(callable(getattr(given, name, None)) for name in _METHODS)


class HostMemories:
    """Keeps memories by a repository and an embedding tool of the host, whose methods may be coroutines.

    They are awaited in the event loop of the caller: clients of databases belong to one. `embed`: from a text to its
    vector, which may have to be awaited.
    """

    def __init__(self, repository: Any, embed: Callable[[str], Any]) -> None:
        self._repository = repository
        self._embed = embed

    async def store(
        self,
        repository_id: UUID | str,
        content: str,
        memory_type: WikiMemoryType | str,
        source_agent: str,
        file_paths: Sequence[str] | None,
        related_pages: Sequence[str] | None,
    ) -> Result:
        """Cut a memory where it is too long, embed it, and insert it."""
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("The content is empty.", hint="Store a text that is not empty.")
        kept = cut_to_limit(content)
        memory = NewWikiMemory(
            repository_id=repository_id,
            content=kept,
            memory_type=memory_type_of(memory_type),
            source_agent=source_agent,
            embedding=list(await _answer(self._embed(kept))),
            file_paths=list(file_paths or ()),
            related_pages=list(related_pages or ()),
        )
        inserted = await _answer(self._repository.insert(memory))
        identity = inserted if isinstance(inserted, str | UUID) else memory.id
        cut = {"kept_chars": len(kept), "given_chars": len(content)} if len(kept) < len(content) else {}
        return {"memory_id": str(identity), "repository_id": str(repository_id), **cut}

    async def search(
        self,
        repository_id: UUID | str,
        query: str,
        limit: int,
        memory_type: WikiMemoryType | str | None,
        score_threshold: float,
    ) -> Result:
        """Embed a query, and search by its vector."""
        narrowed = {} if score_threshold == RELEVANT else {"score_threshold": score_threshold}
        found = await _answer(
            self._repository.vector_search(
                repository_id=repository_id,
                query_embedding=list(await _answer(self._embed(query))),
                limit=limit,
                memory_type=memory_type_of(memory_type) if memory_type else None,
                **narrowed,
            )
        )
        return await self._listed(found)

    async def by_files(self, repository_id: UUID | str, file_paths: Sequence[str]) -> Result:
        """Find memories by their files."""
        found = self._repository.find_by_file_paths(repository_id=repository_id, file_paths=list(file_paths))
        return await self._listed(await _answer(found))

    async def purge(self, repository_id: UUID | str) -> Result:
        """Delete all memories of a repository."""
        count = await _answer(self._repository.delete_by_repository(repository_id=repository_id))
        return {"deleted_count": count, "repository_id": str(repository_id)}

    async def _listed(self, found: Sequence[Any]) -> Result:
        memories = [await _answer(self._repository.serialize(one)) for one in found]
        return {"memories": memories, "count": len(memories)}


async def _answer(value: Any) -> Any:
    return await value if isawaitable(value) else value
