"""Nested loops: a context of its own for what a loop remembers, which its parent gets when the loop has ended."""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal, TypeVar

from treering.core.errors import InvalidInput
from treering.edges.hooks.memory_access import (
    NODE,
    SESSION,
    STATE_SESSION,
    NodeMemory,
    attempted,
    has_field,
    memory_access,
    recalled_memories,
)

_Holder = TypeVar("_Holder")
OnFailure = Literal["keep", "merge", "discard"]


@asynccontextmanager
async def nested_memory(holder: _Holder, loop_id: object, *, on_failure: OnFailure = "keep") -> AsyncIterator[_Holder]:
    """Give a nested loop a copy of a state or of dependencies whose session is a nested context of theirs.

    What the loop stores, runs of its tools too, is seen by the loop and those nested in it; when it ends it is merged
    into the session of `holder`. Where it raises, what it stored is kept unmerged, for the same loop when it is
    resumed, or merged, or discarded, as `on_failure` says. The copy is shallow. Without a memory `holder` itself is
    given.

    Raises `InvalidInput` where contexts are nested too deep. What else goes wrong with the memory is logged.
    """
    is_state = has_field(holder, STATE_SESSION)
    access = memory_access(holder) if is_state else memory_access(deps=holder)
    if access is None:
        yield holder
        return
    context = access.client.create_nested_context(access.session_id, loop_id)
    inner = _with_session(holder, STATE_SESSION if is_state else SESSION, context.session_id)
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
        object.__setattr__(inner, name, session_id)  # a frozen one is its copy's own, too
    return inner
