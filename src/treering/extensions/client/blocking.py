"""The memory client with blocking methods: opens the space that a configuration names, when it is first used."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Literal, Self

from treering.core.errors import InvalidInput
from treering.core.objects import Channel
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.default_place import with_place
from treering.extensions.client.items.buffering import SetAside
from treering.extensions.client.items.documents import (
    MemoryDocument,
    MemoryItem,
    NestedContext,
    RetrievedMemories,
    nested_context,
)
from treering.extensions.client.items.recalling import RecallScope, Who
from treering.extensions.client.items.recording import KeyedMemory
from treering.extensions.client.memory import ClientMemory
from treering.extensions.client.opening import OpenMemory, check, open_memory
from treering.extensions.client.place import Given, GivenEmbedder
from treering.extensions.client.profiles import AgentProfile
from treering.extensions.client.records import Records
from treering.extensions.engines.host import VectorStoreAdapter
from treering.ports.models import Reranker
from treering.ports.vector_engine import EngineReport
from treering.system.settings import Settings


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
        self._space = _OpenedOnUse(
            partial(open_memory, self.config, Who(agent_type, user_id), given, actor=actor, channel=channel)
        )
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
        return self._memory.store(content, metadata, key=key, replaces=replaces) if self.config.enabled else ""

    def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Store the memories with new keys, in order; return the ids of all.

        A memory stored under a key stays unchanged, even if it was archived or erased. Raises the errors of `store`;
        then none is stored.
        """
        return self._memory.store_once(memories) if self.config.enabled else []

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
        return self._memory.retrieve(query, top_k, filters, session_id, scope, profile=profile)

    def brief(self, session_id: object | None = None, scope: RecallScope = "lineage", *, max_tokens: int = 500) -> str:
        """Return the newest memories that a session, an agent or a user sees, for the beginning of a conversation.

        One line each, newest first, fenced as data; empty if there are none. `session_id`, `scope`: as for `retrieve`.
        """
        return self._memory.brief(session_id, scope, max_tokens=max_tokens) if self.config.enabled else ""

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
        return self._memory.get_related_memories(memory_id, types, direction, depth) if self.config.enabled else []

    def merge_nested_context(self, context: NestedContext) -> int:
        """Move the memories of a nested context to its parent; return their number. Idempotent."""
        return self._memory.merge_nested_context(context) if self.config.enabled else 0

    def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and those nested in it; return their number."""
        return self._memory.discard_nested_context(context) if self.config.enabled else 0

    def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed. `erase`: delete it permanently from all revisions and indexes.

        Raises `Denied` if the author may not erase.
        """
        return self._memory.delete(memory_id, erase=erase) if self.config.enabled else False

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one."""
        return self._memory.set_aside() if self.config.enabled else []

    def retry_set_aside(self) -> int:
        """Try again to write memories that were set aside; return the number written. The others stay set aside."""
        return self._memory.retry_set_aside() if self.config.enabled else 0

    def catch_up(self) -> EngineReport:
        """Write buffered memories, embed everything, and update the engine; return the engine's status.

        Optional: retrieving works without it. Raises `Unavailable` if the engine is not reachable, and the errors of
        the embedder.
        """
        return self._memory.catch_up() if self.config.enabled else EngineReport("none")

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
        return self._memory.records

    def flush(self) -> None:
        """Write buffered memories. Raises the errors of the ledger; the memories stay buffered then."""
        if self._space.is_open:
            self._memory.flush()

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
    def _memory(self) -> ClientMemory:
        return self._space.memory


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
    def memory(self) -> ClientMemory:
        """The memory, opened if necessary. Raises what opening it raises, and `InvalidInput` after `close`."""
        with self._lock:
            if self.closed:
                raise InvalidInput("This memory client was closed.", hint="Create another one.")
            if self._opened is None:
                self._opened = self._open()
            return self._opened.memory

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
