"""What wiki agents remember of a repository: kept in a space, apart by repository and branch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Protocol
from uuid import UUID

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.core.filters import METADATA, And, Compare
from treering.core.objects import Source
from treering.core.patch import Create, Transition
from treering.core.times import render_time
from treering.memories.applying import apply_directly
from treering.memories.client.documents import MemoryItem, item_of
from treering.memories.client.filtering import Who
from treering.memories.client.metadata import TYPE
from treering.memories.client.profiles import Switches
from treering.memories.client.recalling import MemoryQuery, recall
from treering.memories.client.recording import entry_of, source_of
from treering.memories.client.sessions import scope_part
from treering.ports.ledger import Selection
from treering.ports.reach import Reach
from treering.tools import erasure
from treering.tools.engine import Engine
from treering.tools.retrying import retry_on_conflict

MOST_CHARS = 4_000
"""Of one memory; what is longer is cut at the end of a sentence."""
MOST_FOUND = 200
RELEVANT = 0.7
"""What is less like a query is not recalled: the least that the embedder can tell from chance."""

_HOME = "/wiki"
_PREFIX = "wiki-memory:"
_KEPT = Compare("origin", "prefix", _PREFIX)
_WHAT = "The memory of wiki agents"
_ATTEMPTS = 20
_REPOSITORY, _BRANCH, _COMMIT = "repository_id", "branch", "commit"
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s)|\n(?=\s*\n)")
_AGENT, _FILES, _PAGES = "source_agent", "file_paths", "related_pages"


class WikiMemoryType(StrEnum):
    """What a memory of a wiki agent is about."""

    STRUCTURAL_DECISION = "structural_decision"
    PATTERN_FOUND = "pattern_found"
    CROSS_REFERENCE = "cross_reference"


@dataclass(frozen=True, slots=True)
class WikiRepository:
    """Whose memories are meant: those of a repository, and where a branch is named, of that branch alone."""

    repository_id: str
    branch: str | None = None
    commit: str | None = None
    """What was read when a memory was stored; kept with it, and no condition of a recall."""

    @classmethod
    def of(cls, repository_id: UUID | str, *, branch: str | None = None, commit: str | None = None) -> "WikiRepository":
        """Read an id. A UUID is the same as its text in any spelling. Raises `InvalidInput` where there is none."""
        text = str(repository_id).strip() if isinstance(repository_id, UUID | str) else ""
        if not text:
            raise InvalidInput(
                "There is no repository to remember for.", hint="Give the repository_id of the run, a UUID or a name."
            )
        return cls(_uuid_text(text) or text, branch or None, commit or None)

    @property
    def scope(self) -> str:
        """The scope its memories lie in."""
        parts = [self.repository_id, *([self.branch] if self.branch else [])]
        return "/".join([_HOME, *map(scope_part, parts)])


@dataclass(frozen=True, slots=True)
class WikiMemoryDraft:
    """A memory as an agent states it."""

    content: str
    memory_type: WikiMemoryType
    source_agent: str
    file_paths: tuple[str, ...] = ()
    related_pages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WikiMemory:
    """A memory as it is kept. `score`: how like it is to what was asked, 0 to 1; `None` where nothing was asked."""

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
            "id": self.id,
            "repository_id": self.repository_id,
            "memory_type": self.memory_type,
            "content": self.content,
            "source_agent": self.source_agent,
            "file_paths": [*self.file_paths],
            "related_pages": [*self.related_pages],
            "embedding_metadata": dict(self.embedding_metadata),
            "created_at": render_time(self.created_at),
            "updated_at": render_time(self.updated_at),
            "score": self.score,
        }


@dataclass(frozen=True, slots=True)
class StoredWikiMemory:
    """What became of a draft. Where it was cut, fewer characters are kept than were given."""

    id: str
    kept_chars: int
    given_chars: int


class WikiMemoryStore(Protocol):
    """Where memories of wiki agents are kept."""

    def store(self, repository: WikiRepository, draft: WikiMemoryDraft, *, key: str | None = None) -> StoredWikiMemory:
        """Keep a memory. The same `key` again keeps nothing more and gives what was kept the first time."""
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
    ) -> Sequence[WikiMemory]:
        """Return the memories most like a query, best first."""
        ...

    def by_files(self, repository: WikiRepository, file_paths: Sequence[str]) -> Sequence[WikiMemory]:
        """Return the memories about any of some files, or about files below one of them, newest first."""
        ...

    def purge(self, repository: WikiRepository, *, erase: bool = False) -> int:
        """Withdraw all memories of a repository, of every branch unless one is named; return how many."""
        ...


class SpaceWikiMemories:
    """`WikiMemoryStore` over a space: each memory is a source. Safe to use from many threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def store(self, repository: WikiRepository, draft: WikiMemoryDraft, *, key: str | None = None) -> StoredWikiMemory:
        """Keep a memory in one patch; what is longer than `MOST_CHARS` is cut at the end of a sentence."""
        content = _cut(draft.content)
        entry = entry_of(self._engine, content, _metadata(repository, draft), Who())
        operations = [Create(object=source_of(self._engine, entry, scope=repository.scope, prefix=_PREFIX))]
        once = digest(f"{repository.scope}\n{key}") if key else None
        receipt = apply_directly(
            self._engine, repository.scope, operations, what=_WHAT, reason="Stored a memory", key=once
        )
        return StoredWikiMemory(receipt.results[0].id, len(content), len(draft.content))

    def search(
        self,
        repository: WikiRepository,
        query: str,
        *,
        limit: int,
        memory_type: WikiMemoryType | None = None,
        source_agent: str | None = None,
        score_threshold: float = RELEVANT,
    ) -> Sequence[WikiMemory]:
        """Return the memories most like a query, best first. Those of a branch are not among those of another one."""
        if not isinstance(query, str) or not query.strip():
            raise InvalidInput("The query is empty.", hint="Ask in words.")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_FOUND:
            raise InvalidInput(f"limit: {limit!r} is not a number from 1 to {MOST_FOUND}.", hint="Ask for 5.")
        told = {_REPOSITORY: repository.repository_id, TYPE: memory_type, _AGENT: source_agent}
        where = (Compare(f"{METADATA}{name}", "eq", str(value)) for name, value in told.items() if value is not None)
        reach = Reach(
            scope=repository.scope,
            where=And((_KEPT, *where)),
            now=self._engine.clock.now(),
        )
        asked = MemoryQuery(query, limit, reach, score_threshold, Switches())
        return [self._memory(item) for item in recall(self._engine, asked)]

    def by_files(self, repository: WikiRepository, file_paths: Sequence[str]) -> Sequence[WikiMemory]:
        """Return the memories about any of some files, or about files below one of them, newest first."""
        wanted = [PurePosixPath(path) for path in _paths(file_paths)]
        held = [one for one in self._held(repository, below=False) if _is_about(one, wanted)]
        return [self._memory(item_of(one), one) for one in reversed(held)]

    def purge(self, repository: WikiRepository, *, erase: bool = False) -> int:
        """Withdraw all memories of a repository in one patch, which can be reverted; `erase`: leave nothing of them.

        Raises `Denied` where the author may not erase.
        """
        if erase:
            ids = [one.id for one in self._held(repository, below=True, withdrawn=True)]
            if ids:
                erasure.erase(self._engine, ids, reason="Erased the memories of a wiki")
            return len(ids)
        return retry_on_conflict(lambda: self._withdraw(repository), attempts=_ATTEMPTS, on=(Conflict, NotFound))

    def _withdraw(self, repository: WikiRepository) -> int:
        held = self._held(repository, below=True)
        steps = [Transition(id=one.id, expected_revision=one.revision, to="archived") for one in held]
        if steps:
            apply_directly(self._engine, repository.scope, steps, what=_WHAT, reason="Purged the memories of a wiki")
        return len(steps)

    def _held(self, repository: WikiRepository, *, below: bool, withdrawn: bool = False) -> list[Source]:
        """Return memories, the first made first: those of a branch with those of its repository, or all below."""
        found = self._engine.ledger.select(Selection(repository.scope, descend=below, types=("source",), where=_KEPT))
        return [
            one
            for one in found
            if isinstance(one, Source)
            and (withdrawn or one.status == "active")
            and (not below or one.scope == repository.scope or one.scope.startswith(f"{repository.scope}/"))
        ]

    def _memory(self, item: MemoryItem, source: Source | None = None) -> WikiMemory:
        kept = source or self._engine.ledger.get(item.id)
        told = item.metadata
        return WikiMemory(
            id=item.id,
            repository_id=str(told.get(_REPOSITORY, "")),
            memory_type=str(told.get(TYPE, "")),
            content=item.content,
            source_agent=str(told.get(_AGENT, "")),
            file_paths=tuple(told.get(_FILES, ())),
            related_pages=tuple(told.get(_PAGES, ())),
            embedding_metadata={
                "model": self._engine.embedder.model_id,
                "dimension": self._engine.embedder.dimension,
            },
            created_at=kept.created_at,
            updated_at=kept.updated_at,
            score=None if source else item.similarity_score,
        )


def memory_type_of(text: str | WikiMemoryType) -> WikiMemoryType:
    """Read a type. Raises `InvalidInput` naming those there are."""
    try:
        return WikiMemoryType(text)
    except ValueError as error:
        raise InvalidInput(
            f"memory_type: {text!r} is none.", hint=f"Give one of: {', '.join(WikiMemoryType)}."
        ) from error


def _metadata(repository: WikiRepository, draft: WikiMemoryDraft) -> dict[str, Any]:
    known = {
        _REPOSITORY: repository.repository_id,
        _BRANCH: repository.branch,
        _COMMIT: repository.commit,
        TYPE: draft.memory_type.value,
        _AGENT: draft.source_agent,
        _FILES: _paths(draft.file_paths),
        _PAGES: list(draft.related_pages),
    }
    return {name: value for name, value in known.items() if value is not None}


def _paths(given: Sequence[str]) -> list[str]:
    """Return paths from the root of the repository, each once. Raises `InvalidInput` for what leads out of it."""
    paths = [str(PurePosixPath(str(path).replace("\\", "/").lstrip("/"))) for path in given]
    for path in paths:
        if ".." in PurePosixPath(path).parts:
            raise InvalidInput(
                f"{path!r} leads out of the repository.", hint="Give paths from the root of the repository."
            )
    return list(dict.fromkeys(path for path in paths if path != "."))


def _is_about(memory: Source, wanted: Sequence[PurePosixPath]) -> bool:
    told = memory.metadata.get(_FILES)
    paths = [PurePosixPath(path) for path in told if isinstance(path, str)] if isinstance(told, list) else []
    return any(path.is_relative_to(one) for path in paths for one in wanted)


def _uuid_text(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None


def _cut(text: str) -> str:
    """Cut a text to `MOST_CHARS`: after the last sentence that fits, else the last word."""
    if not isinstance(text, str) or len(text) <= MOST_CHARS:
        return text
    fits = text[:MOST_CHARS]
    ends = [found.end() for found in _SENTENCE_END.finditer(fits)]
    at = ends[-1] if ends and ends[-1] > MOST_CHARS // 2 else fits.rfind(" ")
    return (fits[:at] if at > MOST_CHARS // 2 else fits).rstrip()
