"""The memory client with blocking methods: opens the space that a configuration names, when it is first used."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, Literal, Self, cast, get_args

from treering.core.arguments import check_count, check_items, check_type
from treering.core.characters import one_line
from treering.core.errors import Conflict, Corrupt, InvalidInput, NotFound, nearest
from treering.core.fencing import fence
from treering.core.filters import EVERYTHING, Compare, Or
from treering.core.objects import Activity, Channel, Object, Source
from treering.core.patch import Transition
from treering.core.scope import ROOT
from treering.extensions.client import nested_contexts
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.default_place import with_place
from treering.extensions.client.items.buffering import SetAside
from treering.extensions.client.items.documents import (
    AGENT,
    CONTEXT,
    KEY,
    PREFIX,
    RELATIONS,
    TYPE,
    USER,
    MemoryDocument,
    MemoryItem,
    NestedContext,
    RetrievedMemories,
    is_in_context,
    is_nested,
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
    listed,
    metadata_filter,
    newest_memories,
    reach_of,
    recall,
    wanted_keys,
)
from treering.extensions.client.items.recording import KeyedMemory, MemoryEntry, entry_of, keyed_ids, with_related
from treering.extensions.client.items.replacing import Reader
from treering.extensions.client.opening import OpenMemory, check, open_memory
from treering.extensions.client.place import Given, GivenEmbedder
from treering.extensions.client.profiles import AgentProfile
from treering.extensions.client.record_names import HIDDEN_ORIGIN
from treering.extensions.client.records import Records
from treering.extensions.client.writing import WHAT
from treering.extensions.engines.host import VectorStoreAdapter
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.models import Reranker
from treering.ports.vector_engine import EngineReport
from treering.retrieval.search.packing import lines_within
from treering.system.settings import Settings
from treering.verbs import catalog
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine, retry_on_conflict
from treering.verbs.envelope import READS, Envelope
from treering.verbs.lint import erasure
from treering.verbs.query.related import RelatedReport

MOST_RETRIEVED = 200
_MAX_LINE_CHARS = 200
_BRIEF = "brief"
_ATTEMPTS = 20


class BlockingMemoryClient:
    """The memory client with blocking methods, for tool runners and scripts. Safe to use from many threads.

    The space is opened by the first call that needs it. With `enabled=False` nothing is opened, stored or found.
    """

    def __init__(
        self,
        config: MemoryConfig | Mapping[str, Any] | None = None,
        connection: object | None = None,
        *,
        agent_type: str | None = None,
        user_id: str | None = None,
        actor: str | None = None,
        channel: Channel = "agent",
        embedder: GivenEmbedder | None = None,
        reranker: Reranker | None = None,
        background: bool | None = None,
        vector_store: VectorStoreAdapter | None = None,
    ) -> None:
        given = Given(connection, vector_store, embedder, reranker, background)
        check_type(user_id, str | None, name="user_id", expected="text")
        if user_id == "":
            raise InvalidInput("user_id: an empty text names no user.", hint="Give an id, or None for all users.")
        if channel not in get_args(Channel):
            raise InvalidInput(f"Unknown channel {channel!r}.", hint=nearest(str(channel), get_args(Channel)))
        self.config: MemoryConfig = _checked(config, given)
        self.agent_type = agent_type
        """The agent type of its memories, if there is one."""
        self.pickled: tuple[MemoryConfig, str | None, str | None, str | None, Channel] = (
            self.config,
            agent_type,
            user_id,
            actor,
            channel,
        )
        """The arguments with which a pickled client is opened again."""
        self.user_id = user_id
        """The user of its memories, if there is one; it sees memories of others only with `scope="space"`."""
        self._who = Who(agent_type, user_id)
        self._storing_once = Lock()
        self._space = _OpenedOnUse(partial(open_memory, self.config, self._who, given, actor=actor, channel=channel))
        # If the program does not close it, buffered memories are written at the end.
        weakref.finalize(self, self._space.close)

    def store(
        self,
        content: str | MemoryDocument | Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        replaces: str | None = None,
    ) -> str:
        """Store a text, a `MemoryDocument` or a host's own document; return its id.

        `key`: a name such as `phone`: the memory replaces the last one of the same user under it. `replaces`: the id of
        the memory that it replaces. Replaced memories stay, and are retrieved directly behind their replacements.

        For an excluded agent, stores nothing and returns an empty id. Raises `InvalidInput` with the invalid field, and
        with `enable_async_writes=false` the errors of the ledger; `NotFound` for an unknown id in `replaces`.
        """
        if not self.config.enabled:
            return ""
        check_type(metadata, Mapping | None, name="metadata", expected="a dictionary")
        memory = self._memory
        given = {**(metadata or {}), **self._replacing(key, replaces)}
        if isinstance(content, str):
            return self._stored(entry_of(memory.engine, content, given, self._who))
        document = MemoryDocument.from_document(content)
        merged = {**document.told, **given}
        stored_id = self._stored(
            entry_of(memory.engine, document.content, merged, self._who, identity=document.unused_id)
        )
        if stored_id:
            document.mark_stored()
        return stored_id

    def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Store the memories with new keys, in order; return their ids.

        A memory stored under a key stays unchanged, even if it was archived or erased. Users may use the same keys.
        Relations may name the `id` of others of these memories. Raises the errors of `store`; then none is stored.
        """
        if not self.config.enabled:
            return []
        check_items(memories, KeyedMemory, name="memories", expected="a list of KeyedMemory")
        with self._storing_once:
            engine = self._up_to_date()
            ids = keyed_ids(engine, memories, self._who)
            entries = [
                entry_of(engine, one.content, with_related(one.metadata, ids), self._who, identity=ids[one.id])
                for one in memories
            ]
            existing = set(engine.ledger.heads([entry.id for entry in entries]))
            new = {entry.id: entry for entry in entries if not (entry.id in existing or self._is_excluded(entry))}
            self._memory.writer.submit([*new.values()])
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
        parents, and those without a session; without it all except unmerged nested contexts. `scope`: if the client
        has a user, only `space` includes memories of other users. `profile`: a profile or its name; default: the
        profile of the client's agent type, if any.

        Memories below the threshold (the profile's `relevance_threshold`, else `retrieval.min_similarity`) are omitted,
        however few the filters leave.
        """
        if not self.config.enabled:
            return RetrievedMemories()
        memory = self._memory
        check_type(query, str, name="query", expected="text", hint="Give a text.")
        agent, settings = self._profile(profile), self.config.retrieval
        agents = {self._who.agent_type, agent.agent_type if agent else None}
        if agents & set(self.config.excluded_agents):
            return RetrievedMemories()
        memory.writer.flush_all()
        given = agent.relevance_threshold if agent else None
        threshold = settings.min_similarity if given is None else given
        reach_at = partial(
            reach_of,
            scope=scope,
            session_id=session_text(session_id),
            who=self._who,
            now=memory.engine.clock.now(),
        )
        where = metadata_filter(filters)
        ttl, max_age = self.config.session_ttl, settings.max_age_seconds
        request = MemoryQuery(
            query=query,
            limit=self._limit(top_k, agent),
            reach=reach_at(ages=Ages(ttl, max_age), where=where),
            older={
                **({} if max_age is None else {"retrieval.max_age_seconds": reach_at(ages=Ages(ttl), where=where)}),
                **({} if ttl is None else {"session_ttl": reach_at(ages=Ages(None, max_age), where=where)}),
            },
            unfiltered=reach_at(ages=Ages(), where=EVERYTHING),
            keys=wanted_keys(filters),
            reader=self._reader(scope, session_id),
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
        check_type(max_tokens, int, name="max_tokens", expected="a number")
        memory = self._memory
        if self._who.agent_type in self.config.excluded_agents:
            return ""
        memory.writer.flush_all()
        reach = reach_of(
            scope=scope,
            session_id=session_text(session_id),
            who=self._who,
            ages=Ages(self.config.session_ttl, self.config.retrieval.max_age_seconds),
            where=EVERYTHING,
            now=memory.engine.clock.now(),
        )
        newest = newest_memories(memory.engine, reach)
        fitting = lines_within(list(map(_brief_line, map(item_of, newest))), origin=_BRIEF, max_tokens=max_tokens)
        items = listed(memory.engine, newest[: len(fitting)], self._reader(scope, session_id))
        shown = lines_within(list(map(_brief_line, items)), origin=_BRIEF, max_tokens=max_tokens)
        return fence("\n".join(shown), origin=_BRIEF) if shown else ""

    def get_related_memories(
        self,
        memory_id: str,
        types: Sequence[str] | None = None,
        direction: Literal["any", "out", "in"] = "any",
        depth: int = 1,
    ) -> list[MemoryItem]:
        """Return the memories linked to one, nearest first. `types`: such as `["FOLLOWS"]`; default: all relations.

        Memories in a nested context are returned only for memories in it. Raises `NotFound` for an unknown id, and for
        a memory of another user.
        """
        if not self.config.enabled:
            return []
        check_items(types or (), str, name="types", expected="a list of relations", hint="Give such as ['FOLLOWS'].")
        engine = self._up_to_date()
        self._check_visible(memory_id)
        links = [relation_type(name) for name in types] if types else list(RELATIONS.values())
        request = {"id": memory_id, "types": links, "direction": direction, "depth": depth}
        envelope = Envelope(mode="related", scope=ROOT, input=request, options={"descend": True})
        report = cast("RelatedReport", catalog.call(engine, "query", envelope, granted=READS))
        ids = tuple(dict.fromkeys(one.id for one in report.neighbours))
        (read,) = engine.ledger.read([ObjectRequest(objects=(memory_id, *ids))])
        start = _context_of(read.objects.get(memory_id))
        objects = (read.objects[identity] for identity in ids if identity in read.objects)
        return [_related_item(one) for one in objects if _is_visible_from(one, start) and self._who.sees(one)]

    def merge_nested_context(self, context: NestedContext) -> int:
        """Move the memories of a nested context to its parent; return their number. Idempotent.

        Only memories that this client sees are moved.
        """
        return self._changed(nested_contexts.merge, context)

    def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and those nested in it; return their number.

        Only memories that this client sees are archived.
        """
        return self._changed(nested_contexts.discard, context)

    def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed. `erase`: delete it permanently from all revisions and indexes.

        A client may withdraw each memory that it sees, including those without a user, for all users.
        Raises `Denied` if the author may not erase, and `NotFound` for a memory of another user.
        """
        if not self.config.enabled:
            return False
        engine = self._up_to_date()
        for one in self.set_aside():
            if one.id == memory_id:
                self._memory.writer.forget_aside(memory_id)
                return True
        self._check_visible(memory_id)
        if erase:
            return erasure.erase(engine, [memory_id], reason="Erased memory").clean
        return retry_on_conflict(lambda: _archive(engine, memory_id), attempts=_ATTEMPTS, on=(Conflict,))

    def erase_user(self) -> int:
        """Erase all memories and records of the client's user permanently; return their number.

        Includes memories that other clients on this machine stored but have not written yet; their journals may contain
        the text until they write or close. Memories of several users stay. Raises `InvalidInput` if the client has
        no user, and `Denied` if the author may not erase.
        """
        if not self.config.enabled:
            return 0
        if self.user_id is None:
            raise InvalidInput("This client has no user to erase.", hint="Open a client with user_id=….")
        engine = self._up_to_date()
        origins = Or((Compare("origin", "prefix", PREFIX), Compare("origin", "prefix", HIDDEN_ORIGIN)))
        stored = engine.ledger.select(Selection(ROOT, descend=True, types=("source",), where=origins))
        ids = [one.id for one in stored if isinstance(one, Source) and one.metadata.get(USER) == self.user_id]
        if ids:
            erasure.erase(engine, ids, reason="Erased the memories of a user")
        for one in self._memory.writer.set_aside():
            if one.metadata.get(USER) == self.user_id:
                self._memory.writer.forget_aside(one.id)
        return len(ids)

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one.

        A client of a user omits records of other users, and unreadable ones.
        """
        if not self.config.enabled:
            return []
        aside = self._memory.writer.set_aside()
        return [one for one in aside if self.user_id is None or (one.id and self._who.owns(one.metadata))]

    def retry_set_aside(self) -> int:
        """Try again to write memories that were set aside; return the number written. The others stay set aside.

        A client of a user leaves records of other users aside.
        """
        return self._memory.writer.retry_set_aside(self._who) if self.config.enabled else 0

    def catch_up(self) -> EngineReport:
        """Write buffered memories, embed everything, and update the engine; return the engine's status.

        Optional: retrieving works without it. The state `none`, without counts, means that the database searches its
        own vectors; `problem` names damaged files of the engine. Raises `Unavailable` if the engine is not reachable,
        and the errors of the embedder.
        """
        if not self.config.enabled:
            return EngineReport("none")
        engine = self._up_to_date()
        engine.vectoriser.finish(engine.progress)
        if engine.selection is None:
            return EngineReport("none")
        try:
            while engine.selection.advance():
                pass
        except Corrupt as error:
            hint = error.hint.replace("index rebuild`", f"index rebuild --space {self._memory.address}`")
            return replace(engine.selection.report(), state="failing", problem=error.message, hint=hint)
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
        return Records(self._memory.engine, self._who.user_id)

    def flush(self) -> None:
        """Write buffered memories. Raises the errors of the ledger; the memories stay buffered then."""
        if self._space.is_open:
            self._memory.writer.flush()

    def close(self) -> None:
        """Write buffered memories and close the space."""
        self._space.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed; then every call except `close` raises."""
        return self._space.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    @property
    def _memory(self) -> OpenMemory:
        return self._space.memory

    def _up_to_date(self) -> Engine:
        """Return the engine of the space, after the memories that its clients buffered were written."""
        self._memory.writer.flush_all()
        return self._memory.engine

    def _changed(self, work: Callable[[Engine, NestedContext, Who], int], context: NestedContext) -> int:
        if not self.config.enabled:
            return 0
        check_type(
            context,
            NestedContext,
            name="context",
            expected="a NestedContext",
            hint="Create one with create_nested_context.",
        )
        engine = self._up_to_date()
        work_as = partial(work, engine, context, self._who)
        return retry_on_conflict(work_as, attempts=_ATTEMPTS, on=(Conflict, NotFound))

    def _replacing(self, key: str | None, replaces: str | None) -> dict[str, str]:
        """Return the metadata that names what a memory replaces. Raises `NotFound` for a memory that is unknown."""
        check_type(key, str | None, name="key", expected="text")
        if key is not None and not key.strip():
            raise InvalidInput("key: an empty text names nothing.", hint="Give a key such as 'phone', or none.")
        if replaces is not None:
            self._up_to_date()
            self._check_visible(replaces, name="replaces")
        named = {KEY: key, "replaces": replaces}
        return {name: value for name, value in named.items() if value is not None}

    def _check_visible(self, memory_id: str, *, name: str = "memory_id") -> None:
        """Raise `NotFound` for a memory that is unknown or another user's."""
        check_type(memory_id, str, name=name, expected="text")
        (read,) = self._memory.engine.ledger.read([ObjectRequest(objects=(memory_id,))])
        item = read.objects.get(memory_id)
        if item is None or not self._who.sees(item):
            raise NotFound(f"{name}: there is no memory {memory_id!r}.", hint="Give the id of a stored memory.")

    def _reader(self, scope: RecallScope, session_id: object | None) -> Reader:
        """Return the reader for whom a retrieval marks replaced memories."""
        session = session_text(session_id)
        in_context = session if is_nested(session) and scope in {"session", "lineage"} else None
        return Reader(Who().owns if scope == "space" else self._who.owns, in_context or "")

    def _stored(self, entry: MemoryEntry) -> str:
        if self._is_excluded(entry):
            return ""
        self._memory.writer.submit([entry])
        return entry.id

    def _is_excluded(self, entry: MemoryEntry) -> bool:
        return entry.metadata.get(AGENT) in self.config.excluded_agents

    def _profile(self, profile: AgentProfile | str | None) -> AgentProfile | None:
        if isinstance(profile, AgentProfile):
            return profile
        check_type(profile, str | None, name="profile", expected="a profile or its name")
        if profile is not None:
            return self.config.profile(profile)
        own = self._who.agent_type
        return self.config.profile(own) if own in self.config.profiles else None

    def _limit(self, top_k: int | None, profile: AgentProfile | None) -> int:
        most = profile.max_items if profile and profile.max_items else MOST_RETRIEVED
        if top_k is None:
            return profile.max_items if profile and profile.max_items else self.config.retrieval.top_k
        check_count(top_k, name="top_k", most=MOST_RETRIEVED)
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


def _checked(config: MemoryConfig | Mapping[str, Any] | None, given: Given) -> MemoryConfig:
    """Return the configuration with the file of its memories. Raises `InvalidInput` if it cannot be used."""
    read = config if isinstance(config, MemoryConfig) else MemoryConfig.read({} if config is None else config)
    if not read.enabled:
        return read
    settings = Settings.read()
    placed = with_place(read, settings)
    check(placed, settings, given)
    return placed


def _brief_line(item: MemoryItem) -> str:
    mark = f" [{item.mark}]" if item.mark else ""
    return f"{item.timestamp:%Y-%m-%d}  {one_line(item.content, most=_MAX_LINE_CHARS)}{mark}"


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
    return is_memory and is_in_context(context, start)


def _related_item(item: Object) -> MemoryItem:
    if isinstance(item, Source):
        return item_of(item)
    title = item.title if isinstance(item, Activity) else ""
    return MemoryItem(item.id, title, {TYPE: "nested_context"}, 1.0, item.created_at)
