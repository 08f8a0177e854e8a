"""The memories of wiki agents in a space: one source per memory, in the scope of the repository or branch."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import cast

from treering.core.canonical import digest
from treering.core.errors import Conflict, NotFound
from treering.core.fencing import fence
from treering.core.filters import METADATA, And, Compare, Filter, Not, Or
from treering.core.objects import Source
from treering.core.patch import Create, Operation, Transition
from treering.extensions.client.items.documents import content_of
from treering.extensions.client.items.recalling import MemoryQuery, Who, recall
from treering.extensions.client.items.recording import entry_of, source_of
from treering.extensions.client.items.similarity import of_cosine
from treering.extensions.client.profiles import Switches
from treering.extensions.wiki.memories.generations import (
    all_current_generations,
    current_generation,
    generation_change,
)
from treering.extensions.wiki.memories.wiki_memory import (
    FILES,
    GENERATION,
    REPOSITORY,
    EmbeddedWikiMemories,
    FoundWikiMemories,
    KeptWikiMemory,
    MemorySearch,
    WikiMemoryDraft,
    WikiRepository,
    fields_of,
    memory_with,
)
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.models import Embedder, Vector
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import NearRequest
from treering.verbs import catalog
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.envelope import READS, Envelope
from treering.verbs.lint import erasure
from treering.verbs.query.brief import OF_SESSIONS, BriefReport
from treering.verbs.trees import tree_of

_READS_TREES = replace(READS, reads_files=True)
_PREFIX = "wiki-memory:"
_KEPT = Compare("origin", "prefix", _PREFIX)
_WHAT = "The memory of wiki agents"
_POOL = 10
"""The number of passages requested per memory when searching by vector."""
_MOST_WAITING = 200
"""The maximum number of unembedded memories that are embedded for a search, newest first."""


class SpaceWikiMemories(EmbeddedWikiMemories):
    """`WikiGenerationStore` over a space: one source per memory. Safe to use from many threads.

    Each change is one patch, which can be reverted.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def embedder(self) -> Embedder:
        """The embedder of the space."""
        return self._engine.embedder

    def get(self, repository: WikiRepository, memory_id: str) -> KeptWikiMemory | None:
        """Return a memory of the repository by its id; `None` if there is none."""
        (read,) = self._engine.ledger.read([ObjectRequest(objects=(memory_id,))])
        item = read.objects.get(memory_id)
        if not isinstance(item, Source) or item.status != "active" or not item.origin.startswith(_PREFIX):
            return None
        return self._memory(item) if self._sight(repository).includes(item) else None

    def brief(self, repository: WikiRepository, folder: Path) -> str:
        """Return the fenced brief of a work tree, or "" if the space has not read its repository.

        The last conversation is omitted, because agents that write a wiki do not continue it.
        """
        engine = self._engine.asked_from(folder)
        if tree_of(engine, repository.scope) is None:
            return ""
        envelope = Envelope(mode="brief", scope=repository.scope)
        report = cast("BriefReport", catalog.call(engine, "query", envelope, granted=_READS_TREES))
        lines = [one for one in report.lines if not one.startswith(OF_SESSIONS)]
        return fence("\n".join(lines), origin="brief") if lines else ""

    def _found(self, repository: WikiRepository, search: MemorySearch) -> FoundWikiMemories:
        if search.vector is not None:
            return self._nearest(repository, search, search.vector)
        reach = self._reach(repository, search.fields)
        items = recall(self._engine, MemoryQuery(search.query, search.limit, reach, search.score_threshold, Switches()))
        (read,) = self._engine.ledger.read([ObjectRequest(objects=tuple(one.id for one in items))])
        sources = ((read.objects.get(one.id), one.similarity_score) for one in items)
        return FoundWikiMemories(self._memory(one, score) for one, score in sources if isinstance(one, Source))

    def _nearest(self, repository: WikiRepository, search: MemorySearch, vector: Vector) -> FoundWikiMemories:
        embedder, index = self._engine.embedder, self._engine.index
        reach = self._reach(repository, search.fields)
        (near,) = index.vectors.search([NearRequest(reach, (vector,), (search.limit * _POOL,))])
        (read,) = index.passages.read([PassageRequest(tuple(near.found), reach)])
        cosines: dict[str, float] = {}
        for key, head in read.heads.items():
            if key in read.visible and key in near.cosines[0]:
                cosines[head.object_id] = max(cosines.get(head.object_id, -1.0), near.cosines[0][key])
        memories = {
            one.id: one
            for one in self._seen_by(repository)
            if all(one.metadata.get(name) == value for name, value in search.fields.items())
        }
        if index.vectors.lag().pending:  # memories without a vector are embedded for this search
            unembedded = [one for one in reversed(memories.values()) if one.id not in cosines][:_MOST_WAITING]
            vectors = embedder.embed_documents([content_of(one) for one in unembedded])
            cosines |= {one.id: float(row @ vector) for one, row in zip(unembedded, vectors, strict=True)}
        scores = {
            one: of_cosine(cosine, unrelated_below=embedder.unrelated_below)
            for one, cosine in cosines.items()
            if one in memories
        }
        similar = [one for one in scores if scores[one] >= search.score_threshold]
        best = sorted(similar, key=lambda one: (-cosines[one], one))[: search.limit]
        return FoundWikiMemories(self._memory(memories[one], scores[one]) for one in best)

    def _about(self, repository: WikiRepository, paths: Sequence[str]) -> Sequence[KeptWikiMemory]:
        wanted = [PurePosixPath(path) for path in paths]
        held = [one for one in self._seen_by(repository) if _is_about(one, wanted)]
        return [self._memory(one) for one in reversed(held)]

    def purge(self, repository: WikiRepository, *, erase: bool = False) -> int:
        """Withdraw all memories of a repository, or of its generation if given, in one patch, which can be reverted.

        `erase`: delete them permanently. Raises `Denied` if the author may not erase.
        """
        if erase:
            ids = [one.id for one in self._below(repository) if _is_of(one, repository.generation)]
            if ids:
                erasure.erase(self._engine, ids, reason="Erased the memories of a wiki")
            return len(ids)
        return _retried(partial(self._purge, repository))

    def current_generation(self, repository: WikiRepository) -> str | None:
        """Return the key of the current generation of a repository, or of its branch; `None` if none is complete."""
        return current_generation(self._engine, repository.scope)

    def _complete(self, repository: WikiRepository, generation: str) -> int:
        return _retried(partial(self._switched, repository, generation))

    def _save(self, repository: WikiRepository, draft: WikiMemoryDraft, key: str | None) -> str:
        return retry_on_conflict(partial(self._store, repository, draft, key))

    def _store(self, repository: WikiRepository, draft: WikiMemoryDraft, key: str | None) -> str:
        scope = repository.scope
        generation = repository.generation or current_generation(self._engine, scope)
        # Origins of active sources are unique within a scope.
        origin = f"{_PREFIX}{digest(json.dumps([generation, key]))}" if key else None
        stored = self._engine.ledger.sources_at(scope=scope, origins=[origin]).get(origin) if origin else None
        if stored is None or stored.status != "active":
            fields = {
                name: value for name, value in fields_of(repository, draft, generation).items() if value is not None
            }
            entry = entry_of(self._engine, draft.content, fields, Who())
            source = source_of(self._engine, entry, scope=scope, prefix=_PREFIX)
            created = Create(object=source.model_copy(update={"origin": origin}) if origin else source)
            receipt = apply_directly(self._engine, scope, [created], what=_WHAT, reason="Stored a memory")
            return receipt.results[0].id
        return stored.id

    def _purge(self, repository: WikiRepository) -> int:
        held = [one for one in self._below(repository) if one.status == "active" and _is_of(one, repository.generation)]
        self._apply(repository, _withdrawing(held), reason="Purged the memories of a wiki")
        return len(held)

    def _switched(self, repository: WikiRepository, generation: str) -> int:
        change = generation_change(self._engine, repository.scope, generation)
        held = [one for one in self._active(repository) if one.scope == repository.scope]
        old = [one for one in held if one.metadata.get(GENERATION) != generation]
        self._apply(repository, [*change, *_withdrawing(old)], reason="Completed a generation of a wiki")
        return len(old)

    def _apply(self, repository: WikiRepository, operations: Sequence[Operation], *, reason: str) -> None:
        if operations:
            apply_directly(self._engine, repository.scope, operations, what=_WHAT, reason=reason)

    def _reach(self, repository: WikiRepository, named: Mapping[str, str]) -> Reach:
        values = {REPOSITORY: repository.repository_id, **named}
        where = (Compare(f"{METADATA}{name}", "eq", value) for name, value in values.items())
        return Reach(
            scope=repository.scope,
            descend=repository.branch is None,
            where=And((_KEPT, *where, self._sight(repository).condition)),
            now=self._engine.clock.now(),
        )

    def _seen_by(self, repository: WikiRepository) -> list[Source]:
        """Return the memories of the visible generations, oldest first."""
        sight = self._sight(repository)
        return [one for one in self._active(repository) if sight.includes(one)]

    def _sight(self, repository: WikiRepository) -> "_Sight":
        return _Sight(repository, all_current_generations(self._engine, repository.scopes[-1]))

    def _active(self, repository: WikiRepository) -> list[Source]:
        """Return the active memories of a branch and its repository, or of all branches, oldest first."""
        selection = Selection(repository.scope, descend=repository.branch is None)
        return [one for one in self._selected(selection) if one.status == "active"]

    def _below(self, repository: WikiRepository) -> list[Source]:
        """Return all memories of a repository or branch, including withdrawn ones."""
        own = repository.scope
        memories = self._selected(Selection(own, descend=True))
        return [one for one in memories if one.scope == own or one.scope.startswith(f"{own}/")]

    def _selected(self, selection: Selection) -> list[Source]:
        items = self._engine.ledger.select(replace(selection, types=("source",), where=_KEPT))
        return [one for one in items if isinstance(one, Source)]

    def _memory(self, source: Source, score: float | None = None) -> KeptWikiMemory:
        model = {"model": self._engine.embedder.model_id, "dimension": self._engine.embedder.dimension}
        times = source.created_at, source.updated_at
        return memory_with(source.id, content_of(source), source.metadata, model, times, score)


def _retried(work: Callable[[], int]) -> int:
    return retry_on_conflict(work, on=(Conflict, NotFound))


def _withdrawing(memories: Sequence[Source]) -> list[Operation]:
    return [Transition(id=one.id, expected_revision=one.revision, to="archived") for one in memories]


def _is_of(memory: Source, generation: str | None) -> bool:
    return generation is None or memory.metadata.get(GENERATION) == generation


@dataclass(frozen=True, slots=True)
class _Sight:
    """The visible memories of a repository. `current`: the current generations by scope."""

    repository: WikiRepository
    current: Mapping[str, str]

    def includes(self, memory: Source) -> bool:
        """Return whether a memory is visible."""
        return self.repository.sees(memory.scope) and memory.metadata.get(GENERATION) == self._generation(memory.scope)

    @property
    def condition(self) -> Filter:
        """The condition for a search in the scope of the repository."""
        if self.repository.branch is None and self.repository.generation is not None:
            return _of_generation(self.repository.generation)
        scopes = sorted({*self.current, *self.repository.scopes})
        apart = {scope: generation for scope in scopes if (generation := self._generation(scope)) is not None}
        if not apart:
            return _of_generation(None)
        others = And((Not(Compare("scope", "in", tuple(apart))), _of_generation(None)))
        return Or((others, *(And((Compare("scope", "eq", one), _of_generation(apart[one]))) for one in apart)))

    def _generation(self, scope: str) -> str | None:
        named = self.repository.generation
        is_named = named is not None and (self.repository.branch is None or scope == self.repository.scope)
        return named if is_named else self.current.get(scope)


def _of_generation(generation: str | None) -> Filter:
    field = f"{METADATA}{GENERATION}"
    return Compare(field, "exists", False) if generation is None else Compare(field, "eq", generation)


def _is_about(memory: Source, wanted: Sequence[PurePosixPath]) -> bool:
    files = memory.metadata.get(FILES)
    paths = [PurePosixPath(path) for path in files if isinstance(path, str)] if isinstance(files, list) else []
    return any(path.is_relative_to(one) for path in paths for one in wanted)
