"""Memories of wiki agents about a repository: values, stores, and shared code of the stores."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

import numpy as np

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput
from treering.core.screening import kept_key
from treering.extensions.client.items.documents import scope_part
from treering.ports.models import Embedder, Vector

MOST_CHARS = 4_000
"""The maximum length of a memory; a longer text is cut at the end of a sentence."""
MOST_FOUND = 200
RELEVANT = 0.7
"""The default score threshold: the lowest score that is distinguishable from chance."""

TYPE, AGENT, FILES, PAGES = "memory_type", "source_agent", "file_paths", "related_pages"
REPOSITORY, BRANCH, COMMIT, GENERATION = "repository_id", "branch", "commit", "generation"
"""The names of the stored fields of a memory."""

_HOME = "/wiki"
_MOST_GENERATION_CHARS = 200
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|\n(?=\s*\n)")


class WikiMemoryType(StrEnum):
    """The kind of a wiki agent's memory."""

    STRUCTURAL_DECISION = "structural_decision"
    PATTERN_FOUND = "pattern_found"
    CROSS_REFERENCE = "cross_reference"


MemoryType = WikiMemoryType


@dataclass(frozen=True, slots=True)
class WikiRepository:
    """The owner of memories: a repository with all its branches, or one of its branches.

    A branch also sees memories stored without a branch, but none of other branches.
    """

    repository_id: str
    branch: str | None = None
    commit: str | None = None
    """The commit when a memory was stored; stored with it, but not a condition of recall."""
    generation: str | None = None
    """The generation of the wiki: memories of different generations are stored and seen separately.

    `None`: the current one, which `WikiGenerationStore.complete_generation` sets.
    """

    @classmethod
    def of(
        cls,
        repository_id: UUID | str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        generation: str | None = None,
    ) -> "WikiRepository":
        """Parse an id. UUIDs are equal in any spelling. Raises `InvalidInput` if it is missing."""
        text = str(repository_id).strip() if isinstance(repository_id, UUID | str) else ""
        if not text:
            raise InvalidInput(
                "The repository id is missing.", hint="Give the repository_id of the run, a UUID or a name."
            )
        return cls(_uuid_text(text) or text, branch or None, commit or None, _generation(generation))

    @property
    def scope(self) -> str:
        """The scope of its memories."""
        return self.scopes[0]

    @property
    def scopes(self) -> tuple[str, ...]:
        """The visible scopes: its own, and for a branch also the repository's."""
        whole = f"{_HOME}/{scope_part(self.repository_id)}"
        return (f"{whole}/{scope_part(self.branch)}", whole) if self.branch else (whole,)

    def sees(self, scope: str) -> bool:
        """Return whether memories of a scope are visible: without a branch, all branches are."""
        return scope in self.scopes or (self.branch is None and scope.startswith(f"{self.scope}/"))


@dataclass(frozen=True, slots=True)
class WikiMemoryDraft:
    """A memory as an agent states it."""

    content: str
    memory_type: WikiMemoryType
    source_agent: str
    file_paths: tuple[str, ...] = ()
    related_pages: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        content: str,
        memory_type: WikiMemoryType | str,
        source_agent: str,
        file_paths: Iterable[str] | None,
        related_pages: Iterable[str] | None,
    ) -> "WikiMemoryDraft":
        """Parse the arguments of a call. Raises `InvalidInput` for an unknown type."""
        files, pages = tuple(file_paths or ()), tuple(related_pages or ())
        return cls(content, memory_type_of(memory_type), source_agent, files, pages)


@dataclass(frozen=True, slots=True)
class KeptWikiMemory:
    """A stored memory. `score`: its similarity to the query, from 0 to 1; `None` without a query."""

    id: str
    repository_id: str
    memory_type: str
    content: str
    source_agent: str
    file_paths: tuple[str, ...]
    related_pages: tuple[str, ...]
    embedding_metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            **asdict(self),
            "file_paths": [*self.file_paths],
            "related_pages": [*self.related_pages],
            "created_at": render_time(self.created_at),
            "updated_at": render_time(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class StoredWikiMemory:
    """The result of storing a draft. `kept_chars` is less than `given_chars` if it was cut."""

    id: str
    kept_chars: int
    given_chars: int

    @property
    def cut(self) -> dict[str, int]:
        """Both lengths if the draft was cut, else nothing."""
        is_cut = self.kept_chars < self.given_chars
        return {"kept_chars": self.kept_chars, "given_chars": self.given_chars} if is_cut else {}


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """A valid search: for a query, or only for the vector of one."""

    limit: int
    fields: Mapping[str, str]
    """The required values of stored fields."""
    score_threshold: float
    query: str = ""
    vector: Vector | None = None
    """Of unit length."""


class FoundWikiMemories(list[KeptWikiMemory]):
    """Search results, best first. `searched`: how they were found, if the store has several ways."""

    def __init__(self, memories: Iterable[KeptWikiMemory] = (), *, searched: str = "") -> None:
        super().__init__(memories)
        self.searched = searched


class WikiMemoryStore(Protocol):
    """A store for memories of wiki agents."""

    def store(self, repository: WikiRepository, draft: WikiMemoryDraft, *, key: str | None = None) -> StoredWikiMemory:
        """Store a memory. While it is current, the same `key` again stores nothing and returns it."""
        ...

    def get(self, repository: WikiRepository, memory_id: str) -> KeptWikiMemory | None:
        """Return a memory of the repository by its id; `None` if there is none."""
        ...

    def search(
        self,
        repository: WikiRepository,
        query: str,
        *,
        limit: int,
        memory_type: WikiMemoryType | None = None,
        source_agent: str | None = None,
        score_threshold: float = RELEVANT,
    ) -> Sequence[KeptWikiMemory]:
        """Return the memories most similar to a query, best first."""
        ...

    def by_files(self, repository: WikiRepository, file_paths: Sequence[str]) -> Sequence[KeptWikiMemory]:
        """Return the memories about any of some files, or about files below one of them, newest first."""
        ...

    def purge(self, repository: WikiRepository, *, erase: bool = False) -> int:
        """Withdraw all memories of a repository, of every branch unless one is named; return how many."""
        ...


@runtime_checkable
class WikiGenerationStore(WikiMemoryStore, Protocol):
    """A store that separates the memories of generations.

    A repository with a generation stores in it and sees only it; `purge` then withdraws only its memories, otherwise
    those of all generations. Memories of a whole repository have their own generations: a branch sees the current one.
    """

    def current_generation(self, repository: WikiRepository) -> str | None:
        """Return the key of the current generation of a repository, or of its branch; `None` if none is complete."""
        ...

    def complete_generation(self, repository: WikiRepository) -> int:
        """Make a generation the current one and withdraw the memories of all others, atomically; return their number.

        The generations are those of the repository, or of its branch if given. Idempotent.
        """
        ...


class EmbeddedWikiMemories(ABC):
    """Base class of `WikiGenerationStore`s that can also be searched by a vector of their own model.

    It validates and normalizes the input; subclasses search and write.
    """

    @property
    @abstractmethod
    def embedder(self) -> Embedder:
        """The embedder of this store."""

    @property
    def model_id(self) -> str:
        """The name of the embedding model."""
        return self.embedder.model_id

    def store(self, repository: WikiRepository, draft: WikiMemoryDraft, *, key: str | None = None) -> StoredWikiMemory:
        """Store a memory. A text longer than `MOST_CHARS` is cut at the end of a sentence; secrets are redacted.

        While it exists, a call with the same `key` returns it and stores nothing.
        """
        content = cut_to_limit(draft.content)
        paths, pages = repository_paths(draft.file_paths), map(str, draft.related_pages)
        fits = replace(draft, content=content, file_paths=tuple(paths), related_pages=tuple(pages))
        return StoredWikiMemory(self._save(repository, fits, key), len(content), len(draft.content))

    def search(
        self,
        repository: WikiRepository,
        query: str,
        *,
        limit: int,
        memory_type: WikiMemoryType | None = None,
        source_agent: str | None = None,
        score_threshold: float = RELEVANT,
    ) -> FoundWikiMemories:
        """Return the memories most similar to a query, best first."""
        check_search(query, limit)
        return self._found(repository, MemorySearch(limit, _named(memory_type, source_agent), score_threshold, query))

    def nearest(
        self,
        repository: WikiRepository,
        vector: Vector,
        *,
        limit: int,
        memory_type: WikiMemoryType | None = None,
        score_threshold: float = RELEVANT,
    ) -> FoundWikiMemories:
        """Return the memories whose vectors are nearest to one, best first."""
        unit = check_vector(vector, limit, self.embedder.dimension)
        return self._found(repository, MemorySearch(limit, _named(memory_type), score_threshold, vector=unit))

    def by_files(self, repository: WikiRepository, file_paths: Sequence[str]) -> Sequence[KeptWikiMemory]:
        """Return the memories about any of some files, or about files below one of them, newest first."""
        paths = repository_paths(file_paths)
        return self._about(repository, paths) if paths else []

    def complete_generation(self, repository: WikiRepository) -> int:
        """Make a generation the current one and withdraw the memories of all others; return how many.

        Raises `InvalidInput` without a generation.
        """
        if repository.generation is None:
            raise InvalidInput("The generation to complete is missing.", hint="Give the generation that is complete.")
        return self._complete(repository, repository.generation)

    @abstractmethod
    def _save(self, repository: WikiRepository, draft: WikiMemoryDraft, key: str | None) -> str:
        """Store a memory unless an active one has the same key; return its id."""

    @abstractmethod
    def _found(self, repository: WikiRepository, search: MemorySearch) -> FoundWikiMemories:
        """Return the memories most similar to a query or vector, best first."""

    @abstractmethod
    def _about(self, repository: WikiRepository, paths: Sequence[str]) -> Sequence[KeptWikiMemory]:
        """Return the memories about files or folders, newest first."""

    @abstractmethod
    def _complete(self, repository: WikiRepository, generation: str) -> int:
        """Make a generation the current one and withdraw the memories of all others; return how many."""


def _named(memory_type: WikiMemoryType | None, source_agent: str | None = None) -> dict[str, str]:
    values = {TYPE: memory_type.value if memory_type else None, AGENT: source_agent}
    return {name: value for name, value in values.items() if value}


def fields_of(repository: WikiRepository, draft: WikiMemoryDraft, generation: str | None) -> dict[str, Any]:
    """Return the stored fields of a memory except its content; missing values are `None`."""
    return {
        REPOSITORY: repository.repository_id,
        BRANCH: repository.branch,
        COMMIT: repository.commit,
        GENERATION: generation,
        TYPE: draft.memory_type.value,
        AGENT: draft.source_agent,
        FILES: list(draft.file_paths),
        PAGES: list(draft.related_pages),
    }


def memory_with(
    identity: str,
    content: str,
    fields: Mapping[str, Any],
    embedding_metadata: Mapping[str, Any],
    times: tuple[datetime, datetime],
    score: float | None = None,
) -> KeptWikiMemory:
    """Return a memory from its stored fields. `times`: when it was created and updated."""
    return KeptWikiMemory(
        id=identity,
        repository_id=str(fields.get(REPOSITORY, "")),
        memory_type=str(fields.get(TYPE, "")),
        content=content,
        source_agent=str(fields.get(AGENT, "")),
        file_paths=tuple(fields.get(FILES) or ()),
        related_pages=tuple(fields.get(PAGES) or ()),
        embedding_metadata=embedding_metadata,
        created_at=times[0],
        updated_at=times[1],
        score=score,
    )


def store_for(store: WikiMemoryStore, repository: WikiRepository) -> WikiMemoryStore:
    """Return the store. Raises `InvalidInput` if it cannot separate the generation of the repository."""
    return store if repository.generation is None else generation_store(store)


def generation_store(store: WikiMemoryStore) -> WikiGenerationStore:
    """Return the store. Raises `InvalidInput` if it cannot separate generations."""
    if not isinstance(store, WikiGenerationStore):
        raise InvalidInput(
            f"{type(store).__name__} cannot separate generations of memories.",
            hint="Omit the generation, or store the memories in a space.",
        )
    return store


def check_search(query: object, limit: object) -> None:
    """Raise `InvalidInput` for an empty query or an invalid limit."""
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("The query is empty.", hint="Give a text.")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_FOUND:
        raise InvalidInput(f"limit: {limit!r} is not a number from 1 to {MOST_FOUND}.", hint="Use 5, for example.")


def check_vector(vector: Vector, limit: object, dimension: int) -> Vector:
    """Return a vector of unit length. Raises `InvalidInput` for an invalid vector or limit."""
    check_search("vector", limit)
    length = float(np.linalg.norm(vector)) if vector.shape == (dimension,) else 0.0
    if not np.isfinite(length) or length == 0.0:
        raise InvalidInput(
            f"query_embedding is not a nonzero vector of {dimension} numbers.",
            hint="Create it with the embedding model of the store: EmbeddingTool().create_embedding(text).",
        )
    return (vector / length).astype(np.float32)


def repository_paths(given: Sequence[str]) -> list[str]:
    """Return normalized paths from the root of the repository. Raises `InvalidInput` for paths outside of it."""
    paths = [str(PurePosixPath(str(path).replace("\\", "/").lstrip("/"))) for path in given]
    for path in paths:
        if ".." in PurePosixPath(path).parts:
            raise InvalidInput(
                f"{path!r} points outside the repository.", hint="Give paths from the root of the repository."
            )
    return list(dict.fromkeys(path for path in paths if path != "."))


def memory_type_of(text: str | WikiMemoryType) -> WikiMemoryType:
    """Parse a type. Raises `InvalidInput` with the valid values."""
    try:
        return WikiMemoryType(text)
    except ValueError as error:
        raise InvalidInput(
            f"Unknown memory_type {text!r}.", hint=f"Use one of: {', '.join(WikiMemoryType)}."
        ) from error


def _generation(given: str | None) -> str | None:
    if given is None:
        return None
    text = given.strip() if isinstance(given, str) else ""
    if not text or len(text) > _MOST_GENERATION_CHARS:
        raise InvalidInput(
            f"generation: {given!r} is not a text of 1 to {_MOST_GENERATION_CHARS} characters.",
            hint="Give the key of a generation, such as its number, or omit it for the current one.",
        )
    return kept_key(text)


def _uuid_text(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None


def cut_to_limit(text: str) -> str:
    """Cut a text to `MOST_CHARS` characters, after the last complete sentence, else the last word."""
    if not isinstance(text, str) or len(text) <= MOST_CHARS:
        return text
    fits = text[:MOST_CHARS]
    ends = [found.end() for found in _SENTENCE_END.finditer(fits)]
    at = ends[-1] if ends and ends[-1] > MOST_CHARS // 2 else fits.rfind(" ")
    return (fits[:at] if at > MOST_CHARS // 2 else fits).rstrip()
