"""The memory client: opens the space that a configuration names, when it is first used."""

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial, wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from uuid import uuid4

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from treering.core.errors import InvalidInput, TreeringError
from treering.core.objects import Channel
from treering.parts.client.config import MemoryConfig
from treering.parts.client.default_place import with_place
from treering.parts.client.engines import GivenEmbedder
from treering.parts.client.items.documents import MemoryDocument, NestedContext, RetrievedMemories, nested_context
from treering.parts.client.items.recalling import Who
from treering.parts.client.memory import ClientMemory
from treering.parts.client.opening import GivenStores, MemoryParts, OpenMemory, check_parts, open_memory
from treering.parts.client.records import Records
from treering.ports.models import Reranker
from treering.ports.vector_engine import EngineReport
from treering.stores.engines.host import VectorStoreAdapter
from treering.system.settings import Settings

_LOG = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_Given = ParamSpec("_Given")
THREADS = 4
"""Calls of one client that are worked on side by side; others wait for their turn."""


def _of_memory(
    method: Callable[Concatenate[ClientMemory, _Given], _Answer], *, disabled: Callable[[], _Answer]
) -> Callable[Concatenate["BlockingMemoryClient", _Given], _Answer]:
    """Return a method of the memory as one of the client: it opens the space, or returns `disabled()`."""

    @wraps(method)
    def call(self: "BlockingMemoryClient", /, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        return method(self._memory, *given, **named) if self.config.enabled else disabled()

    return call


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
        self.config: MemoryConfig = _checked(config)
        self.agent_type = agent_type
        """The type of the agent whose memories it keeps, where it has one."""
        self.pickled: tuple[MemoryConfig, str | None, str | None, str | None, Channel] = (
            self.config,
            agent_type,
            user_id,
            actor,
            channel,
        )
        """What a pickled client is opened again with."""
        given = MemoryParts(GivenStores(connection, vector_store), embedder, reranker, background)
        if self.config.enabled:
            check_parts(self.config, given)
        self._space = _OpenedOnUse(
            partial(open_memory, self.config, Who(agent_type, user_id), given, actor=actor, channel=channel)
        )
        # Where nobody closes it, what is buffered is written at the end all the same.
        weakref.finalize(self, self._space.close)

    store = _of_memory(ClientMemory.store, disabled=str)
    store_once = _of_memory(ClientMemory.store_once, disabled=list)
    retrieve = _of_memory(ClientMemory.retrieve, disabled=RetrievedMemories)
    brief = _of_memory(ClientMemory.brief, disabled=str)
    get_related_memories = _of_memory(ClientMemory.get_related_memories, disabled=list)
    merge_nested_context = _of_memory(ClientMemory.merge_nested_context, disabled=int)
    discard_nested_context = _of_memory(ClientMemory.discard_nested_context, disabled=int)
    delete = _of_memory(ClientMemory.delete, disabled=bool)
    set_aside = _of_memory(ClientMemory.set_aside, disabled=list)
    retry_set_aside = _of_memory(ClientMemory.retry_set_aside, disabled=int)
    catch_up = _of_memory(ClientMemory.catch_up, disabled=partial(EngineReport, "none"))

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
    """A running store call: `await` it for the id, or call `result()` without an event loop.

    It continues even if it is not awaited, so that a synchronous tool runner loses nothing. If it fails and is not
    awaited, the error is logged. It is also a coroutine for `asyncio.create_task` and `asyncio.run`.
    """

    def __init__(self, work: "Future[str]") -> None:
        self._work = work
        self._waiting: Coroutine[Any, Any, str] | None = None
        self._asked = False

    def result(self, timeout: float | None = None) -> str:
        """Wait for the id. Raises the errors of storing, and `TimeoutError` after `timeout` seconds."""
        self._asked = True
        return self._work.result(timeout)

    def __await__(self) -> Generator[Any, Any, str]:
        return self._wait().__await__()

    def send(self, value: Any, /) -> Any:
        """Go on waiting, as a coroutine does."""
        return self._coroutine().send(value)

    def throw(self, *given: Any) -> Any:
        """Raise an exception at the point of waiting, as in a coroutine."""
        return self._coroutine().throw(*given)

    def close(self) -> None:
        """Wait no more. Storing goes on."""
        if self._waiting is not None:
            self._waiting.close()

    def __del__(self) -> None:
        if not self._asked:
            self._work.add_done_callback(_tell_of_failure)

    def _coroutine(self) -> Coroutine[Any, Any, str]:
        if self._waiting is None:
            self._waiting = self._wait()
        return self._waiting

    async def _wait(self) -> str:
        self._asked = True
        return await asyncio.wrap_future(self._work)


def _tell_of_failure(work: "Future[str]") -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _LOG.warning("Storing a memory in the background failed: %s", error)


def _in_threads(
    method: Callable[Concatenate[BlockingMemoryClient, _Given], _Answer],
) -> Callable[Concatenate["MemorySystemClient", _Given], Coroutine[Any, Any, _Answer]]:
    """Return a blocking method as a coroutine function, whose work is done in the threads of the client."""

    @wraps(method)
    async def call(self: "MemorySystemClient", /, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        return await self._run(partial(method, self.sync, *given, **named))

    return call


def _given_to(
    opened: Callable[_Given, BlockingMemoryClient],
) -> Callable[
    [Callable[["MemorySystemClient", BlockingMemoryClient], None]],
    Callable[Concatenate["MemorySystemClient", _Given], None],
]:
    """Make of a constructor that takes the blocking client one that takes what that is opened with."""

    def taking(
        begin: Callable[["MemorySystemClient", BlockingMemoryClient], None],
    ) -> Callable[Concatenate["MemorySystemClient", _Given], None]:
        @wraps(BlockingMemoryClient.__init__)
        def construct(self: "MemorySystemClient", /, *given: _Given.args, **named: _Given.kwargs) -> None:
            begin(self, opened(*given, **named))

        return construct

    return taking


class MemorySystemClient:
    """The asynchronous memory client; `sync` is the same client with blocking methods.

    Work runs in a few threads, never on the event loop. An asynchronous context manager. A copy, deep or not, is the
    client itself; unpickling returns the same client in the same process, or opens a new one from its configuration.

    `config`: a `MemoryConfig`, or nested mappings such as Hydra's. `connection`: an open driver of the backend, such as
    a psycopg pool or a Redis client, which is used but not closed; SQLite has none. `agent_type`, `user_id`: the owner
    of stored memories, unless the metadata names one. `embedder`, `reranker`: replace the configured ones; an embedder
    may be a function that returns one vector per text. `vector_store`: a store of the host that searches next to the
    ledger. Raises `InvalidInput` for an invalid configuration, an unavailable backend or model; nothing is opened then.
    """

    @_given_to(BlockingMemoryClient)
    def __init__(self, sync: BlockingMemoryClient) -> None:
        self.sync = sync
        self._storing: set[Future[str]] = set()
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="treering-memory")
        self._key = uuid4().hex
        _LIVE[self._key] = self

    @property
    def config(self) -> MemoryConfig:
        """The configuration of the client."""
        return self.sync.config

    @property
    def agent_type(self) -> str | None:
        """The agent type of its memories, if there is one."""
        return self.sync.agent_type

    @property
    def key(self) -> str:
        """The key for `live_client` in this process, until the client is closed."""
        return self._key

    def store(self, content: str | MemoryDocument | Any, metadata: Mapping[str, Any] | None = None) -> StoringMemory:
        """Store a text, a `MemoryDocument` or a host's own document; await the result for the id.

        Storing starts at once, so that nothing is lost if the result is not awaited; `store(…).result()` waits for the
        id without an event loop.
        """
        work = partial(self.sync.store, content, metadata)
        if not self.config.enabled or self.sync.closed:
            return StoringMemory(_done(work))
        begun = self._threads.submit(work)
        with self._lock:
            self._storing.add(begun)
        begun.add_done_callback(self._stored)
        return StoringMemory(begun)

    store_once = _in_threads(BlockingMemoryClient.store_once)
    retrieve = _in_threads(BlockingMemoryClient.retrieve)
    brief = _in_threads(BlockingMemoryClient.brief)
    get_related_memories = _in_threads(BlockingMemoryClient.get_related_memories)
    merge_nested_context = _in_threads(BlockingMemoryClient.merge_nested_context)
    discard_nested_context = _in_threads(BlockingMemoryClient.discard_nested_context)
    delete = _in_threads(BlockingMemoryClient.delete)
    flush = _in_threads(BlockingMemoryClient.flush)
    set_aside = _in_threads(BlockingMemoryClient.set_aside)
    retry_set_aside = _in_threads(BlockingMemoryClient.retry_set_aside)
    catch_up = _in_threads(BlockingMemoryClient.catch_up)

    def create_nested_context(self, parent_session_id: object | None, loop_id: object) -> NestedContext:
        """Return the context of a nested loop. Opens nothing, so that it is not a coroutine."""
        return self.sync.create_nested_context(parent_session_id, loop_id)

    async def aclose(self) -> None:
        """Write buffered memories and close the space."""
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
    """Return the open client of this process with a key; `None` if there is none."""
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
        config = MemoryConfig()
    read = config if isinstance(config, MemoryConfig) else MemoryConfig.read(config)
    return with_place(read, Settings.read()) if read.enabled else read
