"""The memory of a run: the client, session and profile that its state and dependencies hold, and tools to use it."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import wraps
from types import SimpleNamespace
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload
from uuid import uuid4

from pydantic import Field

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput, TreeringError
from treering.extensions.client.blocking import MOST_RETRIEVED, BlockingMemoryClient
from treering.extensions.client.client import MemorySystemClient, live_client, live_clients
from treering.extensions.client.config import MemoryConfig
from treering.extensions.client.items.documents import UNKNOWN_AGENT, RetrievedMemories, checked_share, session_text
from treering.extensions.client.items.recalling import RecallScope
from treering.extensions.client.profiles import AgentProfile, Switches

_LOG = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_Decorated = TypeVar("_Decorated", bound=Any)
_Given = ParamSpec("_Given")

STATE_SESSION = "memory_session_id"
SESSION = "session_id"
CLIENT = "memory_client"
CONFIG = "memory_config"
PROFILE = "agent_profile"
SCOPE = "memory_scope"


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """The memory of a run: an enabled client, and the defaults of its calls."""

    client: MemorySystemClient
    session_id: str | None = None
    agent_type: str | None = None
    profile: AgentProfile | None = None
    top_k: int | None = None
    """The default number of memories; `None`: the default of the profile or the client."""
    scope: RecallScope = "lineage"
    """Which memories are retrieved, as in `retrieve`."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory of a running graph node or nested loop, and the memories retrieved for the node."""

    access: MemoryAccess
    recalled: RetrievedMemories


NODE: ContextVar[NodeMemory | None] = ContextVar("treering_node_memory", default=None)
"""The memory of the running node or loop, in which the runs of its tools are stored."""


def memory_access(
    state: Any = None,
    deps: Any = None,
    *,
    agent_type: str | None = None,
    client: MemorySystemClient | None = None,
) -> MemoryAccess | None:
    """Return the memory of a run; `None` if it has none, it is disabled, or its agent is excluded.

    The client is the first of: `client`, the state's, the dependencies', one of this process with the configuration in
    the state, or a new one with that configuration, which is stored in the state. Without any of them, the memory is
    that of the running node or loop, with its session and agent as defaults. The session is the state's, else the
    dependencies'; if neither has one and the state has a field for it, it is created and stored there. The profile is
    the dependencies', unless `agent_type` names another agent: then the profile of that name, if any.

    Raises `InvalidInput` for an unknown profile.
    """
    client = client or _client_of(state) or _client_of(deps) or _found_again(state)
    node = NODE.get()
    caller = node.access if node and client is None else None
    if caller:
        client = caller.client
        agent_type = agent_type or (caller.agent_type if read_field(deps, PROFILE) is None else None)
    config = _config_of(deps) or _config_of(state)
    if client is None or not client.config.enabled or (config and not config.enabled):
        return None
    profile = _profile_of(deps, agent_type, config or client.config)
    who = agent_type or (profile.agent_type if profile else client.agent_type)
    if _excluded({who, profile.name if profile else None, client.agent_type}, client.config, config):
        return None
    return MemoryAccess(
        client=client,
        session_id=_session_of(state, deps, caller.session_id if caller else None),
        agent_type=who,
        profile=_with_settings(profile or _profile_of(None, client.agent_type, client.config), config),
        top_k=config.retrieval.top_k if config and "top_k" in config.retrieval.model_fields_set else None,
        scope=read_field(deps, SCOPE) or "lineage",
    )


def recalled_memories() -> RetrievedMemories:
    """Return the memories retrieved for the running graph node; nothing without a memory."""
    node = NODE.get()
    return node.recalled if node else RetrievedMemories()


def read_field(holder: Any, name: str) -> Any:
    """Return a field of a host's object, or a value of its mapping; `None` if it is missing."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)


def has_field(holder: Any, name: str) -> bool:
    """Return whether a host's object has a field, or its mapping a key."""
    return name in holder if isinstance(holder, Mapping) else hasattr(holder, name)


def write_field(holder: Any, name: str, value: Any) -> bool:
    """Set a field of a host's object, or a key of its mapping; return whether that was possible."""
    if isinstance(holder, MutableMapping):
        holder[name] = value
        return True
    try:
        setattr(holder, name, value)
    except (AttributeError, ValueError):  # a frozen dataclass, or a frozen model
        return False
    return True


class _Decorator(Protocol[_Given]):
    """A decorator that can be used with or without options."""

    @overload
    def __call__(self, decorated: _Decorated, /, *given: _Given.args, **named: _Given.kwargs) -> _Decorated: ...

    @overload
    def __call__(self, *given: _Given.args, **named: _Given.kwargs) -> Callable[[_Decorated], _Decorated]: ...


def with_or_without_first(decorator: Callable[Concatenate[Any, _Given], Any]) -> _Decorator[_Given]:
    """Declare the type of a decorator that returns the decorated object, or, given only options, a decorator."""
    return cast("_Decorator[_Given]", decorator)


async def attempted(work: Awaitable[_Answer], what: str) -> _Answer | None:
    """Return the result of memory work; if it fails, log the error and return `None`, so that the host continues."""
    try:
        return await work
    except Exception:  # noqa: BLE001 - the host's work must continue after any error
        _LOG.warning("%s failed; the run continues without it.", what, exc_info=True)
        return None


def _client_of(holder: Any) -> MemorySystemClient | None:
    client = read_field(holder, CLIENT)
    if isinstance(client, BlockingMemoryClient):
        raise InvalidInput(
            f"{CLIENT} is a BlockingMemoryClient, which would block the event loop.",
            hint="Pass a MemorySystemClient; its `sync` has the blocking methods.",
        )
    # A host may have serialized the state as text, which is then not a client.
    return client if hasattr(client, "retrieve") and hasattr(client, "store") else None


def _config_of(holder: Any) -> MemoryConfig | None:
    config = read_field(holder, CONFIG)
    if isinstance(config, Mapping):
        return MemoryConfig.read(config)
    # A host may have serialized the state as text, which is then not a configuration.
    return config if isinstance(config, MemoryConfig) else None


def _found_again(state: Any) -> MemorySystemClient | None:
    """Return a client for a state that was resumed without one."""
    config = _config_of(state)
    if config is None or not config.enabled:
        return None
    alike = [client for client in live_clients() if client.config == config]
    if len({client.user_id for client in alike}) > 1:
        _LOG.warning("Several users have a client with the memory_config of this state. Set its memory_client.")
        return None
    client = alike[0] if alike else MemorySystemClient(config)
    write_field(state, CLIENT, client)
    return client


def _session_of(state: Any, deps: Any, default: str | None) -> str | None:
    state_session = session_text(read_field(state, STATE_SESSION))
    session = session_text(read_field(deps, SESSION)) or session_text(read_field(state, SESSION)) or default
    if state_session is not None or not has_field(state, STATE_SESSION):
        return state_session or session
    session_id = session or f"run-{uuid4().hex}"
    return session_id if write_field(state, STATE_SESSION, session_id) else session


def _profile_of(deps: Any, agent_type: str | None, config: MemoryConfig) -> AgentProfile | None:
    profile = read_field(deps, PROFILE)
    if profile is not None:
        given = config.profile(profile) if isinstance(profile, str) else AgentProfile.model_validate(profile)
        if agent_type in {None, given.agent_type}:
            return given
    return config.profile(agent_type) if agent_type in config.profiles else None


def _with_settings(profile: AgentProfile | None, config: MemoryConfig | None) -> AgentProfile | None:
    """Return a profile with an agent's own retrieval settings as defaults."""
    explicit = config.retrieval.model_fields_set if config else set()
    if config is None or not explicit & {"min_similarity", *Switches.model_fields}:
        return profile
    base = profile or AgentProfile(agent_type="")
    own = Switches(**{name: getattr(config.retrieval, name) for name in explicit if name in Switches.model_fields})
    threshold = base.relevance_threshold
    if threshold is None and "min_similarity" in explicit:
        threshold = config.retrieval.min_similarity
    return base.model_copy(update={"relevance_threshold": threshold, "switches": base.switches.over(own)})


def _excluded(names: set[str | None], *configs: MemoryConfig | None) -> bool:
    return any(names & set(config.excluded_agents) for config in configs if config)


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """A placeholder for a client in a pickled state."""

    key: str | None


@dataclass
class _WithoutClient:
    """Excludes the client from pickles, and looks it up in the process on unpickling."""

    def __getstate__(self) -> dict[str, Any]:
        # Also fields by name: those of a dataclass with slots are not in `__dict__`.
        own = {one.name: getattr(self, one.name) for one in fields(self) if hasattr(self, one.name)}
        values = {**vars(self), **own}
        client = values.get(CLIENT)
        if isinstance(client, MemorySystemClient | BlockingMemoryClient):
            values[CLIENT] = _LeftOut(client.key if isinstance(client, MemorySystemClient) else None)
        return values

    def __setstate__(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            restored = live_client(value.key or "") if isinstance(value, _LeftOut) else value
            object.__setattr__(self, name, restored)


@dataclass(kw_only=True)
class MemoryState(_WithoutClient):
    """The memory fields of a workflow's state; all are optional, and without them there is no memory.

    Copies share the client. Pickled or written as JSON, it is replaced by a key with which its process finds it again;
    in another process a hook uses the client of the dependencies, or opens one from `memory_config`.
    """

    memory_session_id: str | None = None
    """The session of the run. If none is given, the first hook creates one."""
    memory_client: MemorySystemClient | None = field(default=None, repr=False, compare=False)
    memory_config: MemoryConfig | None = field(default=None, repr=False)
    """The settings of the run; without a client, one is opened with them."""


@dataclass(kw_only=True)
class MemoryDependencies(_WithoutClient):
    """The memory fields of an agent's dependencies; all are optional, and without a client there is no memory."""

    memory_client: MemorySystemClient | None = field(default=None, repr=False, compare=False)
    memory_config: MemoryConfig | None = field(default=None, repr=False)
    """The settings of the agent, used if its profile has none."""
    session_id: str | None = None
    agent_profile: AgentProfile | str | None = None
    """A profile, or the name of one."""


TopK = Annotated[int, Field(ge=1, le=MOST_RETRIEVED)]
"""The number of memories to retrieve, in the schema of a tool."""
Importance = Annotated[float, Field(ge=0, le=1)]
"""The importance of a memory, in the schema of a tool."""
NO_CLIENT = "Memory client not available"


async def retrieve_memory(
    ctx: Any, query: str, top_k: TopK = 5, filters: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Retrieve memories that help with the current task.

    Args:
        ctx: The context of the run.
        query: The query, in words.
        top_k: Number of memories to retrieve, from 1 to 200.
        filters: Conditions on metadata, such as {"agent_type": "planner"}.

    Returns:
        Memories, best first, each with content, metadata, similarity and timestamp. `replaced_by` and `replaced_at`
        mark a memory that is no longer current.
    """
    access = memory_access(deps=ctx.deps)
    if access is None:
        return []
    memories = await access.client.retrieve(
        query,
        top_k,
        filters or {},
        session_id=access.session_id,
        scope=access.scope,
        profile=access.profile,
    )
    return [
        {
            "content": one.content,
            "metadata": dict(one.metadata),
            "similarity": one.similarity_score,
            "timestamp": render_time(one.timestamp),
            **one.replacement,
        }
        for one in memories
    ]


_NOT_OF_MODELS = frozenset({"user_id", "session_id", "importance_score"})


def model_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the metadata of a model's tool call, which chooses neither user nor session.

    `importance_score` is omitted too: it is the alias of the argument `importance`.
    """
    return {key: value for key, value in (metadata or {}).items() if key not in _NOT_OF_MODELS}


async def store_memory(
    ctx: Any, content: str, metadata: dict[str, Any] | None = None, importance: Importance = 0.5
) -> dict[str, Any]:
    """Store a memory for later tasks.

    Args:
        ctx: The context of the run.
        content: The text to remember.
        metadata: More about it, such as tags.
        importance: Its importance, from 0.0 to 1.0.

    Returns:
        Whether it was stored, and the id of the memory or the reason why not.
    """
    access = memory_access(deps=ctx.deps)
    if access is None:
        return {"success": False, "reason": NO_CLIENT}
    own: dict[str, Any] = {"agent_type": access.agent_type or UNKNOWN_AGENT, "importance": importance}
    if access.session_id is not None:
        own["session_id"] = access.session_id
    try:
        checked_share("importance", importance)
        memory_id = await access.client.store(content, {**model_metadata(metadata), **own})
    except TreeringError as error:
        return {"success": False, "reason": error.message}
    return {"success": True, "memory_id": memory_id, "timestamp": render_time(datetime.now(UTC))}


for _tool in (retrieve_memory, store_memory):
    # An object with `deps`. Pydantic AI needs its own context type, which is not imported here, or no annotation.
    del _tool.__annotations__["ctx"]


def memory_tools(deps: Any) -> list[Callable[..., Coroutine[Any, Any, Any]]]:
    """Return both tools for dependencies, as functions without a context, for frameworks without tool contexts."""
    return [_bound(tool, SimpleNamespace(deps=deps)) for tool in (retrieve_memory, store_memory)]


def _bound(tool: Callable[..., Coroutine[Any, Any, Any]], context: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a tool without its context, in its parameters and its description."""

    @wraps(tool)
    async def bound(*given: Any, **named: Any) -> Any:
        return await tool(context, *given, **named)

    signature = inspect.signature(tool)
    own = [one for name, one in signature.parameters.items() if name != "ctx"]
    lines = (tool.__doc__ or "").splitlines()
    bound.__doc__ = "\n".join(line for line in lines if not line.strip().startswith("ctx:"))
    vars(bound).update(__signature__=signature.replace(parameters=own))
    del vars(bound)["__wrapped__"]
    return bound
