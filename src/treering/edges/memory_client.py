"""The memory client: opens the space that a configuration names, when it is first used."""

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Lock
from typing import Any, Literal, Self, TypeVar
from uuid import uuid4

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from treering.core.errors import InvalidInput, TreeringError
from treering.core.objects import Channel
from treering.edges.engines.host_store import VectorStoreAdapter
from treering.edges.memory_models import GivenEmbedder
from treering.edges.memory_opening import MemoryParts, OpenMemory, check_parts, open_memory
from treering.edges.memory_places import GivenStores
from treering.edges.memory_storing import StoringMemory
from treering.memories.client.buffering import SetAside
from treering.memories.client.config import MemoryConfig
from treering.memories.client.documents import MemoryDocument, MemoryItem, RetrievedMemories
from treering.memories.client.filtering import RecallScope, Who
from treering.memories.client.memory import ClientMemory
from treering.memories.client.profiles import AgentProfile
from treering.memories.client.recording import KeyedMemory
from treering.memories.client.records.records import Records
from treering.memories.client.sessions import NestedContext, nested_context
from treering.ports.reranker import Reranker
from treering.ports.vector_engine import EngineReport

_Answer = TypeVar("_Answer")
THREADS = 4
"""Calls of one client that are worked on side by side; others wait for their turn."""


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
        self.config = _checked(config)
        self.agent_type = agent_type
        """The type of the agent whose memories it keeps, where it has one."""
        given = MemoryParts(GivenStores(connection, vector_store), embedder, reranker, background)
        if self.config.enabled:
            check_parts(self.config, given)
        self._space = _OpenedOnUse(
            partial(open_memory, self.config, Who(agent_type, user_id), given, actor=actor, channel=channel)
        )
        # Where nobody closes it, what is buffered is written at the end all the same.
        weakref.finalize(self, self._space.close)

    def store(self, content: str | MemoryDocument | Any, metadata: Mapping[str, Any] | None = None) -> str:
        """Keep a text, a `MemoryDocument` or a host's own document; see `ClientMemory.store`."""
        return self._memory.store(content, metadata) if self.config.enabled else ""

    def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Keep those of some memories whose keys are new, and return their ids; see `ClientMemory.store_once`."""
        return self._memory.store_once(memories) if self.config.enabled else []

    def retrieve(
        self,
        query: str,
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        session_id: object | None = None,
        scope: RecallScope = "lineage",
        *,
        profile: AgentProfile | str | None = None,
    ) -> RetrievedMemories:
        """Return the memories that answer a query best; see `ClientMemory.retrieve`."""
        if not self.config.enabled:
            return RetrievedMemories()
        return self._memory.retrieve(query, top_k, filters, session_id, scope, profile=profile)

    def get_related_memories(
        self,
        memory_id: str,
        types: Sequence[str] | None = None,
        direction: Literal["any", "out", "in"] = "any",
        depth: int = 1,
    ) -> list[MemoryItem]:
        """Return the memories linked to one; see `ClientMemory.get_related_memories`."""
        return self._memory.get_related_memories(memory_id, types, direction, depth) if self.config.enabled else []

    def create_nested_context(self, parent_session_id: object | None, loop_id: object) -> NestedContext:
        """Return the context of a nested loop: it sees what its parent sees, which does not see it until it is merged.

        The same parent and loop give the same context. Opens nothing. Raises `InvalidInput` where it is too deep.
        """
        return nested_context(parent_session_id, loop_id)

    def merge_nested_context(self, context: NestedContext) -> int:
        """Move what lies in a nested context to its parent; return how many memories that were."""
        return self._memory.merge_nested_context(context) if self.config.enabled else 0

    def discard_nested_context(self, context: NestedContext) -> int:
        """Archive what lies in a nested context; return how many memories that were."""
        return self._memory.discard_nested_context(context) if self.config.enabled else 0

    def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory, or erase it for good; see `ClientMemory.delete`."""
        return self._memory.delete(memory_id, erase=erase) if self.config.enabled else False

    @property
    def records(self) -> Records:
        """Values kept under names, for framework adapters. Raises `InvalidInput` where the client is disabled."""
        if not self.config.enabled:
            raise InvalidInput("This memory client is disabled, and keeps no records.", hint="Set memory.enabled=true.")
        return self._memory.records

    def flush(self) -> None:
        """Write what is buffered. Raises what the ledger raises; it stays buffered then."""
        if self._space.is_open:
            self._memory.flush()

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the space, with the reason; see `ClientMemory.set_aside`."""
        return self._memory.set_aside() if self.config.enabled else []

    def retry_set_aside(self) -> int:
        """Try to write again what was set aside; return how many memories that wrote."""
        return self._memory.retry_set_aside() if self.config.enabled else 0

    def catch_up(self) -> EngineReport:
        """Write what is buffered, make all vectors, and have the engine take them over; see `ClientMemory.catch_up`."""
        return self._memory.catch_up() if self.config.enabled else EngineReport("none")

    def close(self) -> None:
        """Write what is buffered, and close the space."""
        self._space.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed; then every call but `close` raises."""
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
        """Tell whether there is anything to write or to close."""
        return self._opened is not None

    @property
    def memory(self) -> ClientMemory:
        """The memory. Raises what opening it raises, and `InvalidInput` once it was closed."""
        with self._lock:
            if self.closed:
                raise InvalidInput("This memory client was closed.", hint="Make another one.")
            if self._opened is None:
                self._opened = self._open()
            return self._opened.memory

    def close(self) -> None:
        """Write what is buffered, and close the space."""
        with self._lock:
            opened, self._opened, self.closed = self._opened, None, True
        if opened:
            opened.close()


class MemorySystemClient:
    """The memory client, asynchronous; `sync` is the same client with blocking methods.

    Work runs in a few threads of its own, never on the event loop. An asynchronous context manager. A copy of it, deep
    or not, is the client itself; pickled, it is found again in the same process, or opened anew from its configuration.

    `config`: a `MemoryConfig`, or nested mappings such as Hydra's. `connection`: an open driver of the backend, which
    is used and not closed, such as a psycopg pool or a client of Redis; SQLite has none. `agent_type`, `user_id`: whose
    memories are stored, where the metadata does not say. `embedder`, `reranker`: instead of those that the
    configuration names; an embedder may be a function that gives a vector for each text. `vector_store`: a store of
    the host that searches beside the ledger. Raises `InvalidInput` for a configuration that makes no sense, a backend
    that is not there, and a model that cannot be had; nothing is opened then.
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
        self.sync = BlockingMemoryClient(
            config,
            connection,
            agent_type=agent_type,
            user_id=user_id,
            actor=actor,
            channel=channel,
            embedder=embedder,
            reranker=reranker,
            background=background,
            vector_store=vector_store,
        )
        self._storing: set[Future[str]] = set()
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="treering-memory")
        self._key = uuid4().hex
        self._kept = (self.config, agent_type, user_id, actor, channel)
        _LIVE[self._key] = self

    @property
    def config(self) -> MemoryConfig:
        """What it was configured with."""
        return self.sync.config

    @property
    def agent_type(self) -> str | None:
        """The type of the agent whose memories it keeps, where it has one."""
        return self.sync.agent_type

    @property
    def key(self) -> str:
        """What `live_client` finds it by, in its process, until it is closed."""
        return self._key

    def store(self, content: str | MemoryDocument | Any, metadata: Mapping[str, Any] | None = None) -> StoringMemory:
        """Keep a text, a `MemoryDocument` or a host's own document: await what it returns for the id.

        Storing begins at once, so that nothing is lost where nobody awaits it; `store(…).result()` waits for the id
        without an event loop.
        """
        work = partial(self.sync.store, content, metadata)
        if not self.config.enabled or self.sync.closed:
            return StoringMemory(_done(work))
        begun = self._threads.submit(work)
        with self._lock:
            self._storing.add(begun)
        begun.add_done_callback(self._stored)
        return StoringMemory(begun)

    async def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Keep those of some memories whose keys are new, and return their ids."""
        return await self._run(self.sync.store_once, memories)

    async def retrieve(
        self,
        query: str,
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        session_id: object | None = None,
        scope: RecallScope = "lineage",
        *,
        profile: AgentProfile | str | None = None,
    ) -> RetrievedMemories:
        """Return the memories that answer a query best, best first."""
        return await self._run(self.sync.retrieve, query, top_k, filters, session_id, scope, profile=profile)

    async def get_related_memories(
        self,
        memory_id: str,
        types: Sequence[str] | None = None,
        direction: Literal["any", "out", "in"] = "any",
        depth: int = 1,
    ) -> list[MemoryItem]:
        """Return the memories linked to one, nearest first."""
        return await self._run(self.sync.get_related_memories, memory_id, types, direction, depth)

    def create_nested_context(self, parent_session_id: object | None, loop_id: object) -> NestedContext:
        """Return the context of a nested loop. Opens nothing, so that it is not a coroutine."""
        return self.sync.create_nested_context(parent_session_id, loop_id)

    async def merge_nested_context(self, context: NestedContext) -> int:
        """Move what lies in a nested context to its parent; return how many memories that were."""
        return await self._run(self.sync.merge_nested_context, context)

    async def discard_nested_context(self, context: NestedContext) -> int:
        """Archive what lies in a nested context; return how many memories that were."""
        return await self._run(self.sync.discard_nested_context, context)

    async def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory, or erase it for good; tell whether that was done."""
        return await self._run(self.sync.delete, memory_id, erase=erase)

    async def flush(self) -> None:
        """Write what is buffered."""
        await self._run(self.sync.flush)

    async def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the space, with the reason."""
        return await self._run(self.sync.set_aside)

    async def retry_set_aside(self) -> int:
        """Try to write again what was set aside; return how many memories that wrote."""
        return await self._run(self.sync.retry_set_aside)

    async def catch_up(self) -> EngineReport:
        """Write what is buffered, make all vectors, and have the engine take them over; tell how the engine is."""
        return await self._run(self.sync.catch_up)

    async def aclose(self) -> None:
        """Write what is buffered, and close the space."""
        await self._run(self.sync.close)
        self._threads.shutdown(wait=False)
        _LIVE.pop(self._key, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: type, _handler: GetCoreSchemaHandler) -> CoreSchema:
        # In a state that is written as JSON it is left out but for its key, by which it is found in its process.
        by_key = core_schema.no_info_after_validator_function(live_client, core_schema.str_schema())
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), by_key],
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda client: client.key, when_used="json-unless-none"
            ),
        )

    def __reduce__(self) -> tuple[Callable[..., "MemorySystemClient"], tuple[Any, ...]]:
        return _found_again, (self._key, *self._kept)

    async def _run(self, work: Callable[..., _Answer], *given: Any, **named: Any) -> _Answer:
        if not self.config.enabled or self.sync.closed:
            return work(*given, **named)
        loop = asyncio.get_running_loop()
        # What was stored before is there, whether anybody awaited it or not. Threads take work in order: it has begun.
        with self._lock:
            before = tuple(self._storing)
        return await loop.run_in_executor(self._threads, partial(_after, before, partial(work, *given, **named)))

    def _stored(self, begun: "Future[str]") -> None:
        with self._lock:
            self._storing.discard(begun)


def _after(before: Sequence["Future[str]"], work: Callable[[], _Answer]) -> _Answer:
    wait(before)
    return work()


def _done(work: Callable[[], str]) -> "Future[str]":
    """Return what work gives or raises, as a future that is done."""
    done: Future[str] = Future()
    try:
        done.set_result(work())
    except TreeringError as error:
        done.set_exception(error)
    return done


_LIVE: weakref.WeakValueDictionary[str, MemorySystemClient] = weakref.WeakValueDictionary()


def live_client(key: str) -> MemorySystemClient | None:
    """Return the client of this process that has a key; `None` where there is none, or none any more."""
    return _LIVE.get(key)


def live_clients() -> list[MemorySystemClient]:
    """Return the clients of this process that are not closed."""
    return [*_LIVE.values()]


def _found_again(
    key: str, config: MemoryConfig, agent_type: str | None, user_id: str | None, actor: str | None, channel: Channel
) -> MemorySystemClient:
    """Return the client that was pickled: itself where it lives, else another one of its configuration."""
    return _LIVE.get(key) or MemorySystemClient(
        config, agent_type=agent_type, user_id=user_id, actor=actor, channel=channel
    )


def _checked(config: MemoryConfig | Mapping[str, Any] | None) -> MemoryConfig:
    if config is None:
        return MemoryConfig()
    return config if isinstance(config, MemoryConfig) else MemoryConfig.read(config)
