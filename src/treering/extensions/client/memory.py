"""The memory of an agent system over one space: the methods of `MemorySystemClient`, blocking."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Literal, cast

from treering.core.characters import one_line
from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.core.fencing import fence
from treering.core.filters import EVERYTHING, And, Compare
from treering.core.objects import Activity, Object, Source
from treering.core.patch import Transition
from treering.core.scope import ROOT
from treering.extensions.client import nested_contexts
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.items.buffering import SetAside
from treering.extensions.client.items.documents import (
    AGENT,
    CONTEXT,
    PREFIX,
    RELATIONS,
    TYPE,
    MemoryDocument,
    MemoryItem,
    NestedContext,
    RetrievedMemories,
    item_of,
    nested_context,
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
    entry_of,
)
from treering.extensions.client.opening import OpenMemory
from treering.extensions.client.profiles import AgentProfile
from treering.extensions.client.records import Records
from treering.extensions.client.writing import WHAT
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.vector_engine import EngineReport
from treering.retrieval.search.packing import lines_within
from treering.verbs import catalog
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.envelope import READS, Envelope
from treering.verbs.lint import erasure
from treering.verbs.query.related import RelatedReport

MOST_RETRIEVED = 200
_NEWEST_MEMORIES = 500
"""The number of memories stored last in the space that a brief considers."""
_MAX_LINE_CHARS = 200
_BRIEF = "brief"


class ClientMemory:
    """The memory of an agent system over one space, which is opened by the first call that needs it.

    Safe to use from many threads; many processes may use one space. With `enabled=False` nothing is opened, stored or
    found.
    """

    def __init__(self, config: MemoryConfig, who: Who, open_it: Callable[[], OpenMemory]) -> None:
        self.config = config
        self._who = who
        self._space = _OpenedOnUse(open_it)
        self._storing_once = Lock()

    def store(self, content: str | MemoryDocument | Any, metadata: Mapping[str, Any] | None = None) -> str:
        """Store a text, a `MemoryDocument` or a host's own document; return its id.

        For an excluded agent, stores nothing and returns an empty id. Raises `InvalidInput` with the invalid field, and
        with `enable_async_writes=false` the errors of the ledger.
        """
        if not self.config.enabled:
            return ""
        memory = self._space.memory
        if isinstance(content, str):
            return self._stored(entry_of(memory.engine, content, metadata, self._who))
        document = MemoryDocument.from_document(content)
        merged = {**document.told, **(metadata or {})}
        entry = entry_of(memory.engine, document.content, merged, self._who, identity=document.unused_id)
        stored_id = self._stored(entry)
        if stored_id:
            document.mark_stored()
        return stored_id

    def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Store the memories with new keys, in order; return the ids of all.

        A memory stored under a key stays unchanged, even if it was archived or erased. Raises the errors of `store`;
        then none is stored.
        """
        if not self.config.enabled:
            return []
        memory = self._space.memory
        entries = [entry_of(memory.engine, one.content, one.metadata, self._who, identity=one.id) for one in memories]
        with self._storing_once:
            memory.writer.flush()
            existing = set(memory.engine.ledger.heads([entry.id for entry in entries]))
            new = {entry.id: entry for entry in entries if not (entry.id in existing or self._is_excluded(entry))}
            memory.writer.submit([*new.values()])
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
        """Return the memories that match a query best, best first; without a query the newest.

        `top_k`: the maximum number; default: the profile's `max_items`, which also limits it, else the configuration's.
        `filters`: conditions on metadata, all of which must hold. `session_id`: only memories of that session and its
        parents, and those without a session; without it all except unmerged nested contexts. `profile`: a profile or
        its name; default: the profile of the client's agent type, if any.

        Memories below the threshold (the profile's `relevance_threshold`, else `retrieval.min_similarity`) are omitted,
        however few the filters leave.
        """
        if not self.config.enabled:
            return RetrievedMemories()
        memory = self._space.memory
        if not isinstance(query, str):
            raise InvalidInput(f"query: {type(query).__name__} is not text.", hint="Give a text.")
        agent, settings = self._profile(profile), self.config.retrieval
        agents = {self._who.agent_type, agent.agent_type if agent else None}
        if agents & set(self.config.excluded_agents):
            return RetrievedMemories()
        memory.writer.flush()
        threshold = agent.relevance_threshold if agent else None
        threshold = settings.min_similarity if threshold is None else threshold
        reach = reach_of(
            scope=scope,
            session_id=session_text(session_id),
            who=self._who,
            ages=Ages(self.config.session_ttl, settings.max_age_seconds),
            where=metadata_filter(filters),
            now=memory.engine.clock.now(),
        )
        request = MemoryQuery(
            query=query,
            limit=self._limit(top_k, agent),
            reach=reach,
            min_similarity=threshold,
            switches=agent.switches.over(settings) if agent else settings,
            priorities=agent.priorities if agent else (),
            no_reranker=memory.no_reranker,
        )
        return recall(memory.engine, request)

    def brief(self, session_id: object | None = None, scope: RecallScope = "lineage", *, max_tokens: int = 500) -> str:
        """Return the newest memories that a session, an agent or a user sees, for the beginning of a conversation.

        One line each, newest first, fenced as data; empty if there are none. `session_id`, `scope`: as for `retrieve`.
        """
        if not self.config.enabled:
            return ""
        memory = self._space.memory
        if self._who.agent_type in self.config.excluded_agents:
            return ""
        memory.writer.flush()
        reach = reach_of(
            scope=scope,
            session_id=session_text(session_id),
            who=self._who,
            ages=Ages(self.config.session_ttl, self.config.retrieval.max_age_seconds),
            where=EVERYTHING,
            now=memory.engine.clock.now(),
        )
        # The ledger does not filter by metadata: users and nested contexts are filtered afterwards.
        stored = And((Compare("origin", "prefix", PREFIX), Compare("status", "eq", "active")))
        newest = Selection(
            scope=reach.scope, descend=reach.descend, types=("source",), where=stored, newest=_NEWEST_MEMORIES
        )
        sources = (one for one in memory.engine.ledger.select(newest) if isinstance(one, Source))
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
        """Return the memories linked to one, nearest first. `types`: such as `["FOLLOWS"]`; default: all relations.

        Memories in a nested context are returned only for memories in it. Raises `NotFound` for an unknown id.
        """
        if not self.config.enabled:
            return []
        memory = self._space.memory
        memory.writer.flush()
        links = [relation_type(name) for name in types] if types else list(RELATIONS.values())
        request = {"id": memory_id, "types": links, "direction": direction, "depth": depth}
        envelope = Envelope(mode="related", scope=ROOT, input=request, options={"descend": True})
        report = cast("RelatedReport", catalog.call(memory.engine, "query", envelope, granted=READS))
        ids = tuple(dict.fromkeys(one.id for one in report.neighbours))
        (read,) = memory.engine.ledger.read([ObjectRequest(objects=(memory_id, *ids))])
        start = _context_of(read.objects.get(memory_id))
        objects = (read.objects[identity] for identity in ids if identity in read.objects)
        return [_related_item(one) for one in objects if _is_visible_from(one, start)]

    def merge_nested_context(self, context: NestedContext) -> int:
        """Move the memories of a nested context to its parent; return their number. Idempotent."""
        if not self.config.enabled:
            return 0
        memory = self._space.memory
        memory.writer.flush()
        return _retried(lambda: nested_contexts.merge(memory.engine, context))

    def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and those nested in it; return their number."""
        if not self.config.enabled:
            return 0
        memory = self._space.memory
        memory.writer.flush()
        return _retried(lambda: nested_contexts.discard(memory.engine, context))

    def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed. `erase`: delete it permanently from all revisions and indexes.

        Raises `Denied` if the author may not erase.
        """
        if not self.config.enabled:
            return False
        memory = self._space.memory
        memory.writer.flush()
        if memory.writer.forget_aside(memory_id):
            return True
        if erase:
            return erasure.erase(memory.engine, [memory_id], reason="Erased memory").clean
        return retry_on_conflict(lambda: _archive(memory.engine, memory_id), on=(Conflict,))

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one."""
        if not self.config.enabled:
            return []
        return self._space.memory.writer.set_aside()

    def retry_set_aside(self) -> int:
        """Try again to write memories that were set aside; return the number written. The others stay set aside."""
        if not self.config.enabled:
            return 0
        return self._space.memory.writer.retry_set_aside()

    def catch_up(self) -> EngineReport:
        """Write buffered memories, embed everything, and update the engine; return the engine's status.

        Optional: retrieving works without it. Raises `Unavailable` if the engine is not reachable, and the errors of
        the embedder.
        """
        if not self.config.enabled:
            return EngineReport("none")
        memory = self._space.memory
        memory.writer.flush()
        engine = memory.engine
        engine.vectoriser.finish(engine.progress)
        if engine.selection is None:
            return EngineReport("none")
        while engine.selection.advance():
            pass
        return engine.selection.report()

    def create_nested_context(self, parent_session_id: object | None, loop_id: object) -> NestedContext:
        """Return the context of a nested loop, which sees its parent's memories but is hidden from it until merged.

        The same parent and loop return the same context. Opens nothing. Raises `InvalidInput` if it is nested too
        deeply.
        """
        return nested_context(parent_session_id, loop_id)

    @property
    def records(self) -> Records:
        """Values stored under names, for framework adapters. Raises `InvalidInput` if the client is disabled."""
        if not self.config.enabled:
            raise InvalidInput("This memory client is disabled and stores no records.", hint="Set memory.enabled=true.")
        return Records(self._space.memory.engine)

    def flush(self) -> None:
        """Write buffered memories. Raises the errors of the ledger; the memories stay buffered then."""
        if self._space.is_open:
            self._space.memory.writer.flush()

    def close(self) -> None:
        """Write buffered memories and close the space."""
        self._space.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed; then every call except `close` raises."""
        return self._space.closed

    def _stored(self, entry: MemoryEntry) -> str:
        if self._is_excluded(entry):
            return ""
        self._space.memory.writer.submit([entry])
        return entry.id

    def _is_excluded(self, entry: MemoryEntry) -> bool:
        return entry.metadata.get(AGENT) in self.config.excluded_agents

    def _profile(self, profile: AgentProfile | str | None) -> AgentProfile | None:
        if isinstance(profile, AgentProfile):
            return profile
        if profile is not None:
            return self.config.profile(profile)
        own = self._who.agent_type
        return self.config.profile(own) if own in self.config.profiles else None

    def _limit(self, top_k: int | None, profile: AgentProfile | None) -> int:
        most = profile.max_items if profile and profile.max_items else MOST_RETRIEVED
        if top_k is None:
            return profile.max_items if profile and profile.max_items else self.config.retrieval.top_k
        if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MOST_RETRIEVED:
            raise InvalidInput(
                f"top_k: {top_k!r} is not a number from 1 to {MOST_RETRIEVED}.", hint="Use 5, for example."
            )
        return min(top_k, most)


class _OpenedOnUse:
    """A memory that is opened by the first call that needs it."""

    def __init__(self, open_it: Callable[[], OpenMemory]) -> None:
        self._open = open_it
        self._lock = Lock()
        self._opened: OpenMemory | None = None
        self.closed = False

    @property
    def is_open(self) -> bool:
        """Whether the memory is open."""
        return self._opened is not None

    @property
    def memory(self) -> OpenMemory:
        """The memory, opened if necessary. Raises what opening it raises, and `InvalidInput` after `close`."""
        with self._lock:
            if self.closed:
                raise InvalidInput("This memory client was closed.", hint="Create another one.")
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def close(self) -> None:
        """Write buffered memories and close the space."""
        with self._lock:
            opened, self._opened, self.closed = self._opened, None, True
        if opened:
            opened.close()


def _retried(work: Callable[[], int]) -> int:
    return retry_on_conflict(work, on=(Conflict, NotFound))


def _archive(engine: Engine, memory_id: str) -> bool:
    item = engine.ledger.get(memory_id)
    if item.status == "archived":
        return False
    step = Transition(id=item.id, expected_revision=item.revision, to="archived")
    apply_directly(engine, ROOT, [step], what=WHAT, reason="Withdrew a memory")
    return True


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
