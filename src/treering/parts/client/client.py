"""The memory client: opens the space that a configuration names, when it is first used."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Lock
from typing import Any, Literal, Self, TypeVar
from uuid import uuid4

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from treering.core.errors import InvalidInput, TreeringError
from treering.core.objects import Channel
from treering.parts.client.config import MemoryConfig
from treering.parts.client.default_place import with_place
from treering.parts.client.items.buffering import SetAside
from treering.parts.client.items.documents import (
    MemoryDocument,
    MemoryItem,
    NestedContext,
    RetrievedMemories,
    nested_context,
)
from treering.parts.client.items.recalling import RecallScope, Who
from treering.parts.client.items.recording import KeyedMemory
from treering.parts.client.memory import ClientMemory
from treering.parts.client.opening import OpenMemory, check, open_memory
from treering.parts.client.place import Given, GivenEmbedder
from treering.parts.client.profiles import AgentProfile
from treering.parts.client.records import Records
from treering.ports.models import Reranker
from treering.ports.vector_engine import EngineReport
from treering.stores.engines.host import VectorStoreAdapter
from treering.system.settings import Settings

_LOG = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
THREADS = 4
"""Maximum number of calls of one client that run at the same time; others wait."""


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
        """The type of the agent whose memories it stores, if it has one."""
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

    def store(self, content: str | MemoryDocument | Any, metadata: Mapping[str, Any] | None = None) -> str:
        """Store a text, a `MemoryDocument` or a host's own document, and return its id.

        An excluded agent stores nothing, and gets an empty id. Raises `InvalidInput` naming what is wrong, and with
        `enable_async_writes=false` what the ledger raises.
        """
        return self._memory.store(content, metadata) if self.config.enabled else ""

    def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Store the memories whose keys are new, in order, and return their ids.

        A memory that was stored under a key does not change, even if it was archived or erased. Raises what `store`
        raises, and then stores none.
        """
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
        """Return the memories that answer a query, best first, including those stored just before.

        `top_k`: how many; by default the profile's `max_items`, which bounds it, else the configuration's. `filters`:
        conditions on metadata, all of which hold. `session_id`: see the lineage of that session, and memories without
        a session; without it everything that is in no unmerged nested context. `profile`: a profile, or the name of
        one; by default the profile of the client's agent type, if there is one.

        Memories below the threshold (the profile's `relevance_threshold`, else `retrieval.min_similarity`) are left
        out. If filters leave no more than `top_k` memories all of them are returned, unless the threshold was set
        to another value than the default.
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
        """Return the memories linked to one, nearest first. `types`: such as `["FOLLOWS"]`; by default all relations.

        Memories of a nested context are only visible from within it. Raises `NotFound` for an unknown id.
        """
        return self._memory.get_related_memories(memory_id, types, direction, depth) if self.config.enabled else []

    def merge_nested_context(self, context: NestedContext) -> int:
        """Move the memories of a nested context to its parent; return how many. A second call moves none."""
        return self._memory.merge_nested_context(context) if self.config.enabled else 0

    def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and of those below it; return how many."""
        return self._memory.discard_nested_context(context) if self.config.enabled else 0

    def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed. `erase`: remove it from every revision and index.

        Raises `Denied` if the author may not erase.
        """
        return self._memory.delete(memory_id, erase=erase) if self.config.enabled else False

    def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one."""
        return self._memory.set_aside() if self.config.enabled else []

    def retry_set_aside(self) -> int:
        """Write the memories that were set aside again; return how many succeeded. The others stay set aside."""
        return self._memory.retry_set_aside() if self.config.enabled else 0

    def catch_up(self) -> EngineReport:
        """Write buffered memories, compute all vectors, update the engine, and return its state.

        Optional: `retrieve` returns the same before. Raises `Unavailable` if the engine cannot be reached, and what
        the embedder raises.
        """
        return self._memory.catch_up() if self.config.enabled else EngineReport("none")

    def create_nested_context(self, parent_session_id: object | None, loop_id: object) -> NestedContext:
        """Return the context of a nested loop: it sees what its parent sees, which does not see it until it is merged.

        The same parent and loop give the same context. Opens nothing. Raises `InvalidInput` where it is too deep.
        """
        return nested_context(parent_session_id, loop_id)

    @property
    def records(self) -> Records:
        """Values kept under names, for framework adapters. Raises `InvalidInput` where the client is disabled."""
        if not self.config.enabled:
            raise InvalidInput("This memory client is disabled and stores no records.", hint="Set memory.enabled=true.")
        return self._memory.records

    def flush(self) -> None:
        """Write what is buffered. Raises what the ledger raises; it stays buffered then."""
        if self._space.is_open:
            self._memory.flush()

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
                raise InvalidInput("This memory client was closed.", hint="Create another one.")
            if self._opened is None:
                self._opened = self._open()
            return self._opened.memory

    def close(self) -> None:
        """Write what is buffered, and close the space."""
        with self._lock:
            opened, self._opened, self.closed = self._opened, None, True
        if opened:
            opened.close()


class StoringMemory(Coroutine[Any, Any, str]):
    """Storing that has begun: `await` it for the id, or call `result()` where nothing can be awaited.

    It goes on whether anybody waits or not, so that a synchronous tool runner loses nothing. Where it fails and nobody
    asked, that is logged. It is a coroutine for `asyncio.create_task` and `asyncio.run`, too.
    """

    def __init__(self, work: "Future[str]") -> None:
        self._work = work
        self._waiting: Coroutine[Any, Any, str] | None = None
        self._asked = False

    def result(self, timeout: float | None = None) -> str:
        """Wait for the id. Raises what storing raises, and `TimeoutError` after `timeout` seconds."""
        self._asked = True
        return self._work.result(timeout)

    def __await__(self) -> Generator[Any, Any, str]:
        return self._wait().__await__()

    def send(self, value: Any, /) -> Any:
        """Go on waiting, as a coroutine does."""
        return self._coroutine().send(value)

    def throw(self, *given: Any) -> Any:
        """Raise something where it waits, as a coroutine does."""
        return self._coroutine().throw(*given)

    def close(self) -> None:
        """Wait no more. Storing goes on."""
        if self._waiting is not None:
            self._waiting.close()

    def __del__(self) -> None:
        if not self._asked:
            self._work.add_done_callback(_log_failure)

    def _coroutine(self) -> Coroutine[Any, Any, str]:
        if self._waiting is None:
            self._waiting = self._wait()
        return self._waiting

    async def _wait(self) -> str:
        self._asked = True
        return await asyncio.wrap_future(self._work)


def _log_failure(work: "Future[str]") -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _LOG.warning("Storing a memory in the background failed: %s", error)


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
        """Store the memories whose keys are new, in order, and return their ids."""
        return await self._run(partial(self.sync.store_once, memories))

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
        """Return the memories that answer a query, best first; arguments as for `BlockingMemoryClient.retrieve`."""
        return await self._run(partial(self.sync.retrieve, query, top_k, filters, session_id, scope, profile=profile))

    async def brief(
        self, session_id: object | None = None, scope: RecallScope = "lineage", *, max_tokens: int = 500
    ) -> str:
        """Return the newest memories that a session, an agent or a user sees, one line each, fenced as data."""
        return await self._run(partial(self.sync.brief, session_id, scope, max_tokens=max_tokens))

    async def get_related_memories(
        self,
        memory_id: str,
        types: Sequence[str] | None = None,
        direction: Literal["any", "out", "in"] = "any",
        depth: int = 1,
    ) -> list[MemoryItem]:
        """Return the memories linked to one, nearest first. Raises `NotFound` for an unknown id."""
        return await self._run(partial(self.sync.get_related_memories, memory_id, types, direction, depth))

    async def merge_nested_context(self, context: NestedContext) -> int:
        """Move the memories of a nested context to its parent; return how many. A second call moves none."""
        return await self._run(partial(self.sync.merge_nested_context, context))

    async def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and of those below it; return how many."""
        return await self._run(partial(self.sync.discard_nested_context, context))

    async def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed. `erase`: remove it from every revision and index."""
        return await self._run(partial(self.sync.delete, memory_id, erase=erase))

    async def flush(self) -> None:
        """Write buffered memories. Raises what the ledger raises; they stay buffered then."""
        await self._run(self.sync.flush)

    async def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one."""
        return await self._run(self.sync.set_aside)

    async def retry_set_aside(self) -> int:
        """Write the memories that were set aside again; return how many succeeded. The others stay set aside."""
        return await self._run(self.sync.retry_set_aside)

    async def catch_up(self) -> EngineReport:
        """Write buffered memories, compute all vectors, update the engine, and return its state."""
        return await self._run(self.sync.catch_up)

    def create_nested_context(self, parent_session_id: object | None, loop_id: object) -> NestedContext:
        """Return the context of a nested loop. Opens nothing, so that it is not a coroutine."""
        return self.sync.create_nested_context(parent_session_id, loop_id)

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
        return _found_again, (self._key, *self.sync.pickled)

    async def _run(self, work: Callable[[], _Answer]) -> _Answer:
        if not self.config.enabled or self.sync.closed:
            return work()
        loop = asyncio.get_running_loop()
        # What was stored before is there, whether anybody awaited it or not. Threads take work in order: it has begun.
        with self._lock:
            before = tuple(self._storing)
        return await loop.run_in_executor(self._threads, partial(_after, before, work))

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


def _checked(config: MemoryConfig | Mapping[str, Any] | None, given: Given) -> MemoryConfig:
    """Return the configuration with the file of its memories. Raises `InvalidInput` if it cannot be used."""
    read = config if isinstance(config, MemoryConfig) else MemoryConfig.read({} if config is None else config)
    if not read.enabled:
        return read
    settings = Settings.read()
    placed = with_place(read, settings)
    check(placed, settings, given)
    return placed
