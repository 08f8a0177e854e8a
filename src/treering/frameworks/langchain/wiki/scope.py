"""Which repository a run remembers for: told by its context, else by its state, else by the run it is part of."""

import json
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired
from uuid import UUID

from langchain.agents import AgentState
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langgraph.config import get_config

from treering.core.canonical import digest
from treering.core.errors import InvalidInput
from treering.parts.wiki.memories.wiki_memory import WikiRepository

PACK = "wiki_memory_pack"
"""The key of the state under which a run keeps what was recalled before its first model call."""


@dataclass(frozen=True, slots=True)
class WikiRunContext:
    """Whose memories a run uses: the `context` of a run, as `context_schema` declares it. No model can change it."""

    repository_id: UUID | str
    branch: str | None = None
    commit: str | None = None
    generation: str | None = None


class WikiAgentState(AgentState[Any]):
    """The state of an agent that writes a wiki. Keys that no schema declares would be dropped by the graph."""

    repository_id: NotRequired[UUID | str]
    repository_url: NotRequired[str]
    branch: NotRequired[str]
    commit: NotRequired[str]
    generation: NotRequired[str]
    repo_dir: NotRequired[str]
    force_regenerate: NotRequired[bool]
    structure: NotRequired[Any]
    pages: NotRequired[Annotated[list[Any], operator.add]]
    wiki_memory_pack: NotRequired[Annotated[str, PrivateStateAttr]]


@dataclass(frozen=True, slots=True)
class RunScope:
    """The repository of a run, and what tells its tool calls from those of other runs."""

    repository: WikiRepository
    run: str

    def key(self, *parts: object) -> str:
        """Return the idempotency key of one store: the same again where a call is retried or resumed."""
        return digest(json.dumps([self.run, *map(str, parts)]))


_OUTER: ContextVar[RunScope | None] = ContextVar("treering_wiki_run", default=None)


def scope_of(context: object, state: object) -> RunScope:
    """Return the scope of the run that this is called in.

    A context that names a repository decides alone; else the state; else the state that the config of the run has
    (`config={"state": …}`); else the run whose tool started this one. Raises `InvalidInput` where none of them names a
    repository: it is never guessed.
    """
    outer = _OUTER.get()
    for told in (context, state, told_in_config()):
        if _told(told, "repository_id") is not None:
            return RunScope(_repository(told), _run(outer))
    if outer is None:
        raise InvalidInput(
            "The run names no repository to remember for.",
            hint="Invoke the agent with context=WikiRunContext(repository_id=…), with repository_id in its state, or "
            'with config={"state": {"repository_id": …}}.',
        )
    return RunScope(outer.repository, _run(outer))


def told_in_config() -> object:
    """Return what was given as `config={"state": …}`: LangChain carries keys that it does not know as configurable."""
    return get_config().get("configurable", {}).get("state")


def told_in_run(context: object, state: object, name: str) -> Any:
    """Return what a run says of itself under a name: in its context, its state, or the state that its config has."""
    return next((said for told in (context, state, told_in_config()) if (said := _told(told, name)) is not None), None)


@contextmanager
def part_of(request: ToolCallRequest) -> Iterator[None]:
    """Let agents that a tool starts inherit the scope of the run that calls it."""
    scope = scope_of(request.runtime.context, request.state)
    token = _OUTER.set(RunScope(scope.repository, scope.key(request.tool_call["id"])))
    try:
        yield
    finally:
        _OUTER.reset(token)


def _repository(told: object) -> WikiRepository:
    return WikiRepository.of(
        _told(told, "repository_id"),
        branch=_told(told, "branch"),
        commit=_told(told, "commit"),
        generation=_told(told, "generation"),
    )


def _told(told: object, name: str) -> Any:
    return told.get(name) if isinstance(told, Mapping) else getattr(told, name, None)


def _run(outer: RunScope | None) -> str:
    """Return the thread of this run; without one, the call that started it, else its own task."""
    settings = get_config().get("configurable", {})
    thread = settings.get("thread_id")
    if thread is not None:
        return f"thread {thread}"
    return outer.run if outer else f"task {settings.get('checkpoint_ns')}"
