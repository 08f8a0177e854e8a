"""A decorator for graph nodes: retrieve memories before a node runs, and store its decision after it."""

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, Literal, TypeVar

from treering.core.arguments import check_count
from treering.core.errors import InvalidInput
from treering.extensions.client.blocking import MOST_RETRIEVED
from treering.extensions.client.client import MemorySystemClient
from treering.extensions.client.hooks.execution_history import capped
from treering.extensions.client.hooks.memory_access import (
    CLIENT,
    NODE,
    SESSION,
    STATE_SESSION,
    MemoryAccess,
    NodeMemory,
    attempted,
    has_field,
    memory_access,
    read_field,
    recalled_memories,
    with_or_without_first,
)
from treering.extensions.client.hooks.node_decisions import Fields, decision_text, public_fields
from treering.extensions.client.items.documents import MemoryDocument, RetrievedMemories
from treering.extensions.client.items.recalling import RecallScope

Query = Callable[[Any], str | None]
Content = Callable[[Any, Any], str | MemoryDocument | None]


@dataclass(frozen=True, slots=True)
class _Hook:
    """The options of a decorated node."""

    client: MemorySystemClient | None
    name: str | None
    agent_type: str | None
    query: Query
    content: Content | None
    memory_type: str
    top_k: int | None
    filters: Mapping[str, Any] | None
    scope: RecallScope
    recall: bool
    store: bool


@with_or_without_first
def memory_node(
    node: Any = None,
    *,
    client: MemorySystemClient | None = None,
    name: str | None = None,
    agent_type: str | None = None,
    query: Query | None = None,
    content: Content | None = None,
    memory_type: str = "decision",
    top_k: int | None = None,
    filters: Mapping[str, Any] | None = None,
    scope: RecallScope = "lineage",
    recall: bool = True,
    store: bool = True,
) -> Any:
    """Return a graph node with memory: it retrieves before the node runs, and stores after it.

    `node`: an asynchronous function of a context with `state` and `deps`, or of a state; or a class with such a method
    `run`, which is replaced. Without it, a decorator is returned. `recalled_memories()` returns the retrieved memories
    in the node. Without a memory, and for an excluded agent, the node runs as if it were not decorated.

    `client`: default: the client of the state or the dependencies. `name`: default: the node's name. `agent_type`: the
    owner of the memory; default: the dependencies' profile. `query`: a function from the context to the query; default:
    the state's `question`, else the input, if they are texts. `content`: a function from context and result to the text
    to store, or `None` for nothing; default: the result, or the change of the state if it returns the next node: `Plan:
    […]` of a `PlanNode` that sets `state.plan`. `memory_type`: the kind of that memory. `top_k`, `filters`, `scope`: as
    in `retrieve`; `scope="user"` and `scope="space"` include earlier runs. `recall`, `store`: whether to do that.

    Errors of the memory are logged: the node then runs without memories. If a node fails, its failure is stored, and
    raised again.
    """
    if top_k is not None:
        check_count(top_k, name="top_k", most=MOST_RETRIEVED)
    own = query or _question
    hook = _Hook(client, name, agent_type, own, content, memory_type, top_k, filters, scope, recall=recall, store=store)
    return partial(_hooked, hook=hook) if node is None else _hooked(node, hook=hook)


def _hooked(node: Any, *, hook: _Hook) -> Any:
    name = hook.name or str(getattr(node, "__name__", type(node).__name__))
    if not isinstance(node, type):
        return _with_memory(node, name, hook)
    run = getattr(node, "run", None)
    if not callable(run):
        raise InvalidInput(f"{name} has no method `run`.", hint="Decorate a node class, or an asynchronous function.")
    setattr(node, "run", _with_memory(run, name, hook))  # noqa: B010 - mypy knows no `run` of a type
    return node


def _with_memory(function: Callable[..., Any], name: str, hook: _Hook) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(function):
        raise InvalidInput(f"{name} is not an asynchronous function.", hint="Define it with `async def`.")

    @wraps(function)
    async def run(*given: Any, **named: Any) -> Any:
        ctx = given[-1] if given else next(iter(named.values()), None)
        deps = read_field(ctx, "deps")
        access = memory_access(_state_of(ctx), deps, agent_type=hook.agent_type, client=hook.client)
        if access is None:
            return await function(*given, **named)
        recalled = await attempted(_recalled(access, hook, ctx), "Retrieving memories for a node")
        before = await attempted(_state_before(hook, ctx), "Reading the state of a node")
        token = NODE.set(NodeMemory(access, recalled or RetrievedMemories()))
        try:
            result = await function(*given, **named)
        except Exception as error:
            await attempted(_store_failure(access, hook, name, ctx, error), "Storing the failure of a node")
            raise
        finally:
            NODE.reset(token)
        await attempted(_store_decision(access, hook, name, ctx, result, before or {}), "Storing what a node did")
        return result

    return run


async def _recalled(access: MemoryAccess, hook: _Hook, ctx: Any) -> RetrievedMemories:
    question = hook.query(ctx) if hook.recall else None
    if not question:
        return RetrievedMemories()
    return await access.client.retrieve(
        question,
        hook.top_k or access.top_k,
        hook.filters,
        session_id=access.session_id,
        scope=hook.scope,
        profile=access.profile,
    )


async def _state_before(hook: _Hook, ctx: Any) -> Fields:
    return public_fields(_state_of(ctx)) if hook.store and hook.content is None else {}


async def _store_decision(access: MemoryAccess, hook: _Hook, name: str, ctx: Any, result: Any, before: Fields) -> None:
    if not hook.store:
        return
    if hook.content:
        content = hook.content(ctx, result)
    else:
        decision = decision_text(name, result, before, public_fields(_state_of(ctx)))
        content = _with_question(decision, ctx) if decision else None
    if content:
        document = MemoryDocument(content=content) if isinstance(content, str) else content
        metadata = {**_metadata(access, name, ctx), "memory_type": hook.memory_type, "success": True, **document.told}
        await access.client.store(document.content, metadata)


async def _store_failure(access: MemoryAccess, hook: _Hook, name: str, ctx: Any, error: Exception) -> None:
    if hook.store:
        text = str(capped(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__))
        metadata = {"memory_type": "failure_analysis", "success": False, "error": text}
        content = _with_question(f"{name} failed: {text}", ctx)
        await access.client.store(content, {**_metadata(access, name, ctx), **metadata})


def _with_question(text: str, ctx: Any) -> str:
    """Add the question, unless the text contains it, so that a later run with this question finds the text."""
    question = _question(ctx)
    return text if not question or question in text else f"{text}\nQuestion: {question}"


def _metadata(access: MemoryAccess, name: str, ctx: Any) -> dict[str, Any]:
    known = {
        "node": name,
        "question": _question(ctx),
        "session_id": access.session_id,
        "agent_type": access.agent_type,
    }
    return {key: value for key, value in known.items() if value is not None}


def _question(ctx: Any) -> str | None:
    candidates = (read_field(_state_of(ctx), "question"), read_field(ctx, "inputs"))
    return next((text for text in candidates if isinstance(text, str) and text.strip()), None)


def _state_of(ctx: Any) -> Any:
    """Return the state of a context; a plain function may get the state itself."""
    return read_field(ctx, "state") if has_field(ctx, "state") else ctx


_Holder = TypeVar("_Holder")
OnFailure = Literal["keep", "merge", "discard"]


@asynccontextmanager
async def nested_memory(holder: _Holder, loop_id: object, *, on_failure: OnFailure = "keep") -> AsyncIterator[_Holder]:
    """Yield a copy of a state or dependencies for a nested loop, with a nested context as its session.

    Memories of the loop, including its tool runs, are visible in the loop and in loops nested in it; when it ends, they
    are merged into the session of `holder`. If it raises, they stay unmerged for the same loop when it is resumed, or
    are merged or discarded, depending on `on_failure`. The copy is shallow. A holder without memory fields is yielded
    unchanged; its loop uses the memory of the running node, if there is one.

    Raises `InvalidInput` if contexts are nested too deeply. Other errors of the memory are logged.
    """
    is_state = has_field(holder, STATE_SESSION)
    session_field = STATE_SESSION if is_state else SESSION
    access = memory_access(holder) if is_state else memory_access(deps=holder)
    if access is None:
        yield holder
        return
    context = access.client.create_nested_context(access.session_id, loop_id)
    # A holder without memory fields is yielded unchanged: hooks in the loop find its memory by themselves.
    has_memory = has_field(holder, session_field) or has_field(holder, CLIENT)
    inner = _with_session(holder, session_field, context.session_id) if has_memory else holder
    outer = NODE.get()
    NODE.set(NodeMemory(replace(access, session_id=context.session_id), recalled_memories()))
    try:
        yield inner
    except Exception:  # whatever the loop failed with: it is raised again below
        if on_failure == "merge":
            await attempted(access.client.merge_nested_context(context), "Merging a nested loop")
        elif on_failure == "discard":
            await attempted(access.client.discard_nested_context(context), "Discarding a nested loop")
        raise
    finally:
        NODE.set(outer)  # no token: it may end in another context than it began in
    await attempted(access.client.merge_nested_context(context), "Merging a nested loop")


def _with_session(holder: _Holder, name: str, session_id: str) -> _Holder:
    """Return a copy of a state or of dependencies with another session."""
    if not has_field(holder, name):
        raise InvalidInput(
            f"{type(holder).__name__} has no field {name!r}.", hint="Inherit from MemoryState or MemoryDependencies."
        )
    inner = copy.copy(holder)
    if isinstance(inner, dict):
        inner[name] = session_id
    else:
        object.__setattr__(inner, name, session_id)  # also works for frozen copies
    return inner
