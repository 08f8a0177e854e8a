"""The memory client with coroutines. Its work runs in a few threads, on the client with blocking methods."""

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

from treering.core.errors import TreeringError
from treering.core.objects import Channel
from treering.extensions.client.blocking import BlockingMemoryClient
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.items.buffering import SetAside
from treering.extensions.client.items.documents import MemoryDocument, MemoryItem, NestedContext, RetrievedMemories
from treering.extensions.client.items.recalling import RecallScope
from treering.extensions.client.items.recording import KeyedMemory
from treering.extensions.client.place import GivenEmbedder
from treering.extensions.client.profiles import AgentProfile
from treering.extensions.client.storing import StoringMemory
from treering.extensions.engines.host import VectorStoreAdapter
from treering.ports.models import Reranker
from treering.ports.vector_engine import EngineReport

_Answer = TypeVar("_Answer")
THREADS = 4
"""Maximum number of calls of one client that run at the same time; others wait."""


class MemorySystemClient:
    """The asynchronous memory client; `sync` is the same client with blocking methods.

    Work runs in a few threads, never on the event loop. An asynchronous context manager. A copy, deep or not, is the
    client itself; unpickling returns the same client in the same process, or opens a new one from its configuration.

    `config`: a `MemoryConfig`, or nested mappings such as Hydra's. `connection`: an open driver of the backend, such as
    a psycopg pool or a Redis client, which is used but not closed; SQLite has none. `agent_type`, `user_id`: the owner
    of stored memories, unless the metadata names one; with a `user_id`, memories of other users are returned only for
    `scope="space"`. `embedder`, `reranker`: replace the configured ones; an embedder may be a function that returns one
    vector per text. `vector_store`: a store of the host that searches next to the ledger. Raises `InvalidInput` for an
    invalid configuration, an unavailable backend or model; nothing is opened then.
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
        """The configuration of the client."""
        return self.sync.config

    @property
    def agent_type(self) -> str | None:
        """The agent type of its memories, if there is one."""
        return self.sync.agent_type

    @property
    def user_id(self) -> str | None:
        """The user of its memories, if there is one."""
        return self.sync.user_id

    @property
    def key(self) -> str:
        """The key for `live_client` in this process, until the client is closed."""
        return self._key

    def store(
        self,
        content: str | MemoryDocument | Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        replaces: str | None = None,
    ) -> StoringMemory:
        """Store a text, a `MemoryDocument` or a host's own document; await the result for the id.

        Storing starts at once, so that nothing is lost if the result is not awaited; `store(…).result()` waits for the
        id without an event loop. `key`, `replaces`: as for `BlockingMemoryClient.store`.
        """
        work = partial(self.sync.store, content, metadata, key=key, replaces=replaces)
        if not self.config.enabled or self.sync.closed:
            return StoringMemory(_done(work))
        task = self._threads.submit(work)
        with self._lock:
            self._storing.add(task)
        task.add_done_callback(self._stored)
        return StoringMemory(task)

    async def store_once(self, memories: Sequence[KeyedMemory]) -> list[str]:
        """Store the memories with new keys, in order; return their ids."""
        return await self._run(partial(self.sync.store_once, memories))

    async def retrieve(
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

        Arguments as for `BlockingMemoryClient.retrieve`.
        """
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
        """Move the memories of a nested context to its parent; return their number. Idempotent."""
        return await self._run(partial(self.sync.merge_nested_context, context))

    async def discard_nested_context(self, context: NestedContext) -> int:
        """Archive the memories of a nested context and those nested in it; return their number."""
        return await self._run(partial(self.sync.discard_nested_context, context))

    async def delete(self, memory_id: str, *, erase: bool = False) -> bool:
        """Withdraw a memory; return whether it existed.

        `erase`: delete it permanently from all revisions and indexes.
        """
        return await self._run(partial(self.sync.delete, memory_id, erase=erase))

    async def erase_user(self) -> int:
        """Erase all memories and records of the client's user permanently; return their number."""
        return await self._run(self.sync.erase_user)

    async def flush(self) -> None:
        """Write buffered memories. Raises the errors of the ledger; the memories stay buffered then."""
        await self._run(self.sync.flush)

    async def set_aside(self) -> Sequence[SetAside]:
        """Return the memories that could not be written to the ledger, with the reason. `delete` removes one."""
        return await self._run(self.sync.set_aside)

    async def retry_set_aside(self) -> int:
        """Try again to write memories that were set aside; return the number written. The others stay set aside."""
        return await self._run(self.sync.retry_set_aside)

    async def catch_up(self) -> EngineReport:
        """Write buffered memories, embed everything, and update the engine; return the engine's status."""
        return await self._run(self.sync.catch_up)

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
        # In JSON, a client is its key, which finds it in its process.
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
        # Earlier calls of `store` finish first, awaited or not. They have begun, because threads take work in order.
        with self._lock:
            before = tuple(self._storing)
        return await loop.run_in_executor(self._threads, partial(_after, before, work))

    def _stored(self, task: "Future[str]") -> None:
        with self._lock:
            self._storing.discard(task)


def _after(before: Sequence["Future[str]"], work: Callable[[], _Answer]) -> _Answer:
    wait(before)
    return work()


def _done(work: Callable[[], str]) -> "Future[str]":
    """Return the result of work, or its error, as a finished future."""
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
    """Return the open clients of this process."""
    return [*_LIVE.values()]


def _found_again(
    key: str, config: MemoryConfig, agent_type: str | None, user_id: str | None, actor: str | None, channel: Channel
) -> MemorySystemClient:
    """Return a pickled client: itself if it is still open, else a new one with its configuration."""
    return _LIVE.get(key) or MemorySystemClient(
        config, agent_type=agent_type, user_id=user_id, actor=actor, channel=channel
    )
