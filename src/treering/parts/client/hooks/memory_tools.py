"""The tools by which an agent uses its memory itself: `retrieve_memory` and `store_memory`."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol

from treering.core.canonical import render_time
from treering.core.errors import TreeringError
from treering.parts.client.hooks.memory_access import MemoryAccess, memory_access
from treering.parts.client.memory import MOST_RETRIEVED

NO_CLIENT = "Memory client not available"
UNKNOWN_AGENT = "unknown"


class WithDependencies(Protocol):
    """What a framework gives a tool: an object with the dependencies of its agent, as Pydantic AI's `RunContext`."""

    @property
    def deps(self) -> Any:
        """The dependencies: `memory_client`, `memory_config`, `session_id` and `agent_profile`, as far as there are."""
        ...


async def retrieve_memory(
    ctx: WithDependencies, query: str, top_k: int = 5, filters: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Retrieve memories that help with the current task.

    Args:
        ctx: The context of the run.
        query: What to look for, in words.
        top_k: How many memories to retrieve.
        filters: Conditions on metadata, such as {"agent_type": "planner"}.

    Returns:
        Memories, best first, each with content, metadata, similarity and timestamp.
    """
    access = memory_access(deps=ctx.deps)
    return [] if access is None else await _retrieved(access, query, top_k, filters)


async def store_memory(
    ctx: WithDependencies, content: str, metadata: dict[str, Any] | None = None, importance: float = 0.5
) -> dict[str, Any]:
    """Store a memory for later tasks.

    Args:
        ctx: The context of the run.
        content: The text to remember.
        metadata: What else is known of it, such as tags.
        importance: How much it matters, from 0.0 to 1.0.

    Returns:
        Whether it was stored, and the id of the memory or the reason why not.
    """
    access = memory_access(deps=ctx.deps)
    return _not_stored(NO_CLIENT) if access is None else await _stored(access, content, metadata, importance)


for _tool in (retrieve_memory, store_memory):
    # Pydantic AI takes a context of its own type, which this module cannot name, or of none.
    del _tool.__annotations__["ctx"]


def memory_tools(deps: Any) -> list[Callable[..., Coroutine[Any, Any, Any]]]:
    """Return both tools for dependencies, as functions without a context, for frameworks that give tools none."""

    async def retrieve(query: str, top_k: int = 5, filters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        access = memory_access(deps=deps)
        return [] if access is None else await _retrieved(access, query, top_k, filters)

    async def store(content: str, metadata: dict[str, Any] | None = None, importance: float = 0.5) -> dict[str, Any]:
        access = memory_access(deps=deps)
        return _not_stored(NO_CLIENT) if access is None else await _stored(access, content, metadata, importance)

    return [_named_as(retrieve_memory, retrieve), _named_as(store_memory, store)]


async def _retrieved(
    access: MemoryAccess, query: str, top_k: int, filters: dict[str, Any] | None
) -> list[dict[str, Any]]:
    memories = await access.client.retrieve(
        query,
        min(max(top_k, 1), MOST_RETRIEVED),
        filters or {},
        session_id=access.session_id,
        profile=access.profile,
    )
    return [
        {
            "content": one.content,
            "metadata": dict(one.metadata),
            "similarity": one.similarity_score,
            "timestamp": render_time(one.timestamp),
        }
        for one in memories
    ]


async def _stored(
    access: MemoryAccess, content: str, metadata: dict[str, Any] | None, importance: float
) -> dict[str, Any]:
    own: dict[str, Any] = {"agent_type": access.agent_type or UNKNOWN_AGENT, "importance": importance}
    if access.session_id is not None:
        own["session_id"] = access.session_id
    # What the agent says under another name of `importance` gives way, too.
    told = {key: value for key, value in (metadata or {}).items() if key != "importance_score"}
    try:
        memory_id = await access.client.store(content, {**told, **own})
    except TreeringError as error:
        return _not_stored(error.message)
    return {"success": True, "memory_id": memory_id, "timestamp": render_time(datetime.now(UTC))}


def _not_stored(reason: str) -> dict[str, Any]:
    return {"success": False, "reason": reason}


def _named_as(
    tool: Callable[..., Any], bound: Callable[..., Coroutine[Any, Any, Any]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Give a function the name and the description of a tool, without its context."""
    bound.__name__ = bound.__qualname__ = tool.__name__
    lines = (tool.__doc__ or "").splitlines()
    bound.__doc__ = "\n".join(line for line in lines if not line.strip().startswith("ctx:"))
    return bound
