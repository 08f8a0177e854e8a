"""The memory of an agent system over one space: the methods of `MemorySystemClient`, without opening anything."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Literal, cast

from treering.core.characters import one_line
from treering.core.errors import Conflict, Corrupt, InvalidInput, NotFound, TreeringError, Unavailable
from treering.core.fencing import fence
from treering.core.filters import EVERYTHING, And, Compare
from treering.core.objects import Activity, Object, Source
from treering.core.patch import Transition
from treering.core.scope import ROOT
from treering.extensions.client import nested_contexts
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.items.buffering import RefusedEntry, SetAside, WriteBuffer, WriteJournal
from treering.extensions.client.items.documents import (
    AGENT,
    CONTEXT,
    KEY,
    PREFIX,
    RELATIONS,
    TYPE,
    MemoryDocument,
    MemoryItem,
    NestedContext,
    RetrievedMemories,
    item_of,
    relation_type,
    session_text,
)
from treering.extensions.client.items.recalling import (
    Ages,
    MemoryQuery,
    RecallScope,
    Who,
    is_visible,
    metadata_filter,
    reach_of,
    recall,
)
from treering.extensions.client.items.recording import (
    KeyedMemory,
    MemoryEntry,
    check_writable,
    current_under,
    entry_of,
    named_ids,
    operations_of,
)
from treering.extensions.client.items.weighing import NO_RERANKER
from treering.extensions.client.profiles import MIN_SIMILARITY, AgentProfile
from treering.extensions.client.records import Records
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.vector_engine import EngineReport
from treering.retrieval.search.packing import lines_within
from treering.verbs import catalog
from treering.verbs.crystallize.submission import apply_directly, check_direct
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.envelope import READS, Envelope
from treering.verbs.lint import erasure
from treering.verbs.query.related import RelatedReport

_LOG = logging.getLogger(__name__)

MOST_RETRIEVED = 200
_NEWEST_MEMORIES = 500
"""The number of memories stored last in the space that a brief considers."""
_MAX_LINE_CHARS = 200
_BRIEF = "brief"
_ATTEMPTS = 20
_WHAT = "The memory client"
_ENTRY_ERRORS = (TreeringError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
"""The errors with which an entry may be refused; `Unavailable` instead means that the ledger cannot be written now."""


class ClientMemory:
    """Store and retrieve over one space, as `BlockingMemoryClient` documents.

    Safe to use from many threads; many processes may use one space.
    """

    def __init__(
        self,
        engine: Engine,
        config: MemoryConfig,
        *,
        who: Who | None = None,
        journal: WriteJournal | None = None,
        no_reranker: str = NO_RERANKER,
    ) -> None:
        self._engine = engine
        self._no_reranker = no_reranker
        self._config = config
        self._who = who or Who()
        storage = config.storage
        self._journal = journal or WriteJournal()
        self._buffer = WriteBuffer(self._write, self._journal, size=storage.batch_size, interval=storage.flush_interval)
        self._storing_once = Lock()

    def store(
        self,
        content: str | MemoryDocument | Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        replaces: str | None = None,
    ) -> str:
        """Store a text, a `MemoryDocument` or a host's own document; return its id."""
        given = {**(metadata or {}), **self._replacing(key, replaces)}
        if isinstance(content, str):
            return self._stored(entry_of(self._engine, content, given, self._who))
        document = MemoryDocument.from_document(content)
        merged = {**document.told, **given}
        entry = entry_of(self._engine, document.content, merged, self._who, identity=document.unused_id)
        stored_id = self._stored(entry)
        if stored_id:
            document.mark_stored()
        return stored_id

    def _replacing(self, key: str | None, replaces: str | None) -> dict[str, str]:
        """Return the metadata that says what a memory replaces. Raises `NotFound` for a memory that is unknown."""
        if key is not None and not key.strip():
            raise InvalidInput("key: an empty text names nothing.", hint="Give a key such as 'phone', or none.")
        if replaces is not None:
            self.flush()
            if replaces not in self._engine.ledger.heads([replaces]):
                raise NotFound(f"replaces: there is no memory {replaces!r}.", hint="Give the id of a stored memory.")
        named = {KEY: key, "replaces": replaces}
        return {name: value for name, value in named.items() if value is not None}

    def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Store the memories with new keys, in order; return the ids of all."""
        entries = [entry_of(self._engine, one.content, one.metadata, self._who, identity=one.id) for one in memories]
        with self._storing_once:
            self.flush()
            existing = set(self._engine.ledger.heads([entry.id for entry in entries]))
            new = {entry.id: entry for entry in entries if not (entry.id in existing or self._is_excluded(entry))}
            self._submit([*new.values()])
        return [*new]

    def retrieve(
        self,
        query: str = "",
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        session_id: object | None = None,
        scope: RecallScope = "lineage",
        *,
        profile: AgentProfile | str | None = None,
    ) -> RetrievedMemories:
        """Return the memories that match a query best, best first; without a query the newest."""
        if not isinstance(query, str):
            raise InvalidInput(f"query: {type(query).__name__} is not text.", hint="Give a text.")
        agent, settings = self._profile(profile), self._config.retrieval
        agents = {self._who.agent_type, agent.agent_type if agent else None}
        if agents & set(self._config.excluded_agents):
            return RetrievedMemories()
        self.flush()
        given = agent.relevance_threshold if agent else None
        threshold = settings.min_similarity if given is None else given
        reach_at = partial(
            reach_of,
            scope=scope,
            session_id=session_text(session_id),
            who=self._who,
            where=metadata_filter(filters),
            now=self._engine.clock.now(),
        )
        ttl, max_age = self._config.session_ttl, settings.max_age_seconds
        request = MemoryQuery(
            query=query,
            limit=self._limit(top_k, agent),
            reach=reach_at(ages=Ages(ttl, max_age)),
            older={
                **({} if max_age is None else {"retrieval.max_age_seconds": reach_at(ages=Ages(ttl))}),
                **({} if ttl is None else {"session_ttl": reach_at(ages=Ages(None, max_age))}),
            },
            is_threshold_given=given is not None or threshold != MIN_SIMILARITY,
            min_similarity=threshold,
            switches=agent.switches.over(settings) if agent else settings,
            priorities=agent.priorities if agent else (),
            no_reranker=self._no_reranker,
        )
        return recall(self._engine, request)

    def brief(self, session_id: object | None = None, scope: RecallScope = "lineage", *, max_tokens: int = 500) -> str:
        """Return the newest memories that a session, an agent or a user sees, one line each, fenced as data."""
        if self._who.agent_type in self._config.excluded_agents:
            return ""
        self.flush()
        reach = reach_of(
            scope=scope,
            session_id=session_text(session_id),
            who=self._who,
            ages=Ages(self._config.session_ttl, self._config.retrieval.max_age_seconds),
            where=EVERYTHING,
            now=self._engine.clock.now(),
        )
        # The ledger does not filter by metadata: users and nested contexts are filtered afterwards.
        stored = And((Compare("origin", "prefix", PREFIX), Compare("status", "eq", "active")))
        newest = Selection(
            scope=reach.scope, descend=reach.descend, types=("source",), where=stored, newest=_NEWEST_MEMORIES
        )
        sources = (one for one in self._engine.ledger.select(newest) if isinstance(one, Source))
        items = [item_of(one) for one in sources if is_visible(one, reach)]
        items.sort(key=lambda item: item.timestamp, reverse=True)
        lines = [f"{item.timestamp:%Y-%m-%d}  {one_line(item.content, most=_MAX_LINE_CHARS)}" for item in items]
        shown = lines_within(lines, origin=_BRIEF, max_tokens=max_tokens)
        return fence("\n".join(shown), origin=_BRIEF) if shown else ""

    def get_related_memories(
        self,
        memory_id: str,
        types: Sequence[str] | None = None,
        direction: Literal["any", "out", "in"] = "any",
        depth: int = 1,
    ) -> list[MemoryItem]:
        """Return the memories linked to one, nearest first. Raises `NotFound` for an unknown id."""
        self.flush()
        links = [relation_type(name) for name in types] if types else list(RELATIONS.values())
        request = {"id": memory_id, "types": links, "direction": direction, "depth": depth}
        envelope = Envelope(mode="related", scope=ROOT, input=request, options={"descend": True})
        report = cast("RelatedReport", catalog.call(self._engine, "query", envelope, granted=READS))
        ids = tuple(dict.fromkeys(one.id for one in report.neighbours))
        (read,) = self._engine.ledger.read([ObjectRequest(objects=(memory_id, *ids))])
        start = _context_of(read.objects.get(memory_id))
        objects = (read.objects[identity] for identity in ids if identity in read.objects)
        return [_related_item(one) for one in objects if _is_visible_from(one, start)]

    def merge_nested_context(self, context: NestedContext) -> int:
        """Move the memories of a nested context to its parent; return their number. Idempotent."""
        self.flush()
        return self._retried(lambda: nested_contexts.merge(self._engine, context))

    def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and those nested in it; return their number."""
        self.flush()
        return self._retried(lambda: nested_contexts.discard(self._engine, context))

    def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed.

        `erase`: delete it permanently from all revisions and indexes.
        """
        self.flush()
        if aside := [one for one in self._journal.aside() if one.id == memory_id]:
            for one in aside:
                self._journal.forget_aside(one.key)
            return True
        if erase:
            return erasure.erase(self._engine, [memory_id], reason="Erased memory").clean
        return retry_on_conflict(lambda: self._archive(memory_id), attempts=_ATTEMPTS, on=(Conflict,))

    @property
    def records(self) -> Records:
        """The values stored under names, such as the items of a session."""
        return Records(self._engine)

    def flush(self) -> None:
        """Write buffered memories. Raises the errors of the ledger; the memories stay buffered then."""
        self._buffer.flush()

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one."""
        return self._journal.aside()

    def retry_set_aside(self) -> int:
        """Try again to write memories that were set aside; return the number written."""
        written = 0
        for one in self._journal.aside():
            try:
                entry = MemoryEntry.read(one.data)
            except (KeyError, TypeError, ValueError):
                continue
            if not self._write([entry]):
                self._journal.forget_aside(one.key)
                written += 1
        return written

    def catch_up(self) -> EngineReport:
        """Write buffered memories, embed everything, and update the engine; return the engine's status."""
        self.flush()
        engine = self._engine
        engine.vectoriser.finish(engine.progress)
        if engine.selection is None:
            return EngineReport("none")
        while engine.selection.advance():
            pass
        return engine.selection.report()

    def close(self) -> None:
        """Write buffered memories and close."""
        self._buffer.close()

    def _stored(self, entry: MemoryEntry) -> str:
        if self._is_excluded(entry):
            return ""
        self._submit([entry])
        return entry.id

    def _is_excluded(self, entry: MemoryEntry) -> bool:
        return entry.metadata.get(AGENT) in self._config.excluded_agents

    def _retried(self, work: Callable[[], int]) -> int:
        return retry_on_conflict(work, attempts=_ATTEMPTS, on=(Conflict, NotFound))

    def _submit(self, entries: Sequence[MemoryEntry]) -> None:
        storage = self._config.storage
        check_direct(self._engine, [], what=_WHAT)
        for entry in entries:
            check_writable(self._engine, entry)
        if storage.enable_async_writes:
            for entry in entries:
                self._buffer.add(entry)
            return
        for start in range(0, len(entries), storage.batch_size):
            for refused in self._write(entries[start : start + storage.batch_size]):
                raise refused.error

    def _archive(self, memory_id: str) -> bool:
        item = self._engine.ledger.get(memory_id)
        if item.status == "archived":
            return False
        step = Transition(id=item.id, expected_revision=item.revision, to="archived")
        apply_directly(self._engine, ROOT, [step], what=_WHAT, reason="Withdrew a memory")
        return True

    def _write(self, entries: Sequence[MemoryEntry]) -> list[RefusedEntry]:
        """Write the entries that are not in the ledger yet, in one patch; return those that it refuses.

        If the patch is refused, write each entry separately. Raises `Unavailable` if the ledger cannot be written now.
        """
        ids = [entry.id for entry in entries]
        heads = self._engine.ledger.heads([*ids, *named_ids(entries)])
        new = [entry for entry in entries if entry.id not in heads]
        if not new:
            return []
        try:
            self._apply(new, heads)
        except Unavailable:
            raise
        except _ENTRY_ERRORS as error:
            if len(new) == 1:
                return self._write_without_links(new[0], error)
            return [refused for entry in new for refused in self._write([entry])]
        return []

    def _write_without_links(self, entry: MemoryEntry, error: Exception) -> list[RefusedEntry]:
        """Write an entry without its links if they are refused; its metadata still contains the related ids."""
        if isinstance(error, Conflict):
            # An entry left in the journal by a crash may have been written and erased since: it stays erased.
            _LOG.warning("%s was not written: its id is already used.", entry.id)
            return []
        try:
            self._apply([entry], ())
        except (Unavailable, Corrupt):
            raise
        except _ENTRY_ERRORS as again:
            return [RefusedEntry(entry, again)]
        _LOG.warning("%s was written without its links: %s", entry.id, error)
        return []

    def _apply(self, entries: Sequence[MemoryEntry], known: Iterable[str]) -> None:
        operations = operations_of(
            self._engine, entries, known=known, keyed=partial(current_under, self._engine.ledger)
        )
        apply_directly(self._engine, ROOT, operations, what=_WHAT, reason="Stored memories")

    def _profile(self, profile: AgentProfile | str | None) -> AgentProfile | None:
        if isinstance(profile, AgentProfile):
            return profile
        if profile is not None:
            return self._config.profile(profile)
        own = self._who.agent_type
        return self._config.profile(own) if own in self._config.profiles else None

    def _limit(self, top_k: int | None, profile: AgentProfile | None) -> int:
        most = profile.max_items if profile and profile.max_items else MOST_RETRIEVED
        if top_k is None:
            return profile.max_items if profile and profile.max_items else self._config.retrieval.top_k
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MOST_RETRIEVED:
            raise InvalidInput(
                f"top_k: {top_k!r} is not a number from 1 to {MOST_RETRIEVED}.", hint="Use 5, for example."
            )
        return min(top_k, most)


def _context_of(item: Object | None) -> str:
    return str(item.metadata.get(CONTEXT, "")) if isinstance(item, Source) else ""


def _is_visible_from(item: Object, start: str) -> bool:
    """Return whether an object is a memory, or an activity with memories, that is visible from the context `start`."""
    if isinstance(item, Activity):
        return item.status != "archived"
    context = _context_of(item)
    is_memory = isinstance(item, Source) and item.status == "active" and item.origin.startswith(PREFIX)
    return is_memory and (not context or start == context or start.startswith(f"{context}>"))


def _related_item(item: Object) -> MemoryItem:
    if isinstance(item, Source):
        return item_of(item)
    title = item.title if isinstance(item, Activity) else ""
    return MemoryItem(item.id, title, {TYPE: "nested_context"}, 1.0, item.created_at)
