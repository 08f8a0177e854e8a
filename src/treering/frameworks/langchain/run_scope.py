"""The repository of a run of a wiki agent, from its context, state, config or parent run."""

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
from treering.extensions.wiki.memories.wiki_memory import (
    WikiRepository,
)

PACK = "wiki_memory_pack"
"""The key in the state for the memories recalled before the first model call."""


@dataclass(frozen=True, slots=True)
class WikiRunContext:
    """Whose memories a run uses: the `context` of a run, as `context_schema` declares it. No model can change it."""

    repository_id: UUID | str
    branch: str | None = None
    commit: str | None = None
    generation: str | None = None
    repo_dir: str | None = None
    """The work tree of the repository, whose brief a run begins with if the space has read it."""


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
    """The repository of a run, its work tree if known, and a distinct key for its tool calls."""

    repository: WikiRepository
    run: str
    folder: str = ""

    def key(self, *parts: object) -> str:
        """Return the idempotency key of one store call: the same if the call is retried or resumed."""
        return digest(json.dumps([self.run, *map(str, parts)]))


_OUTER: ContextVar[RunScope | None] = ContextVar("treering_wiki_run", default=None)


def scope_of(context: object, state: object) -> RunScope:
    """Return the scope of the current run.

    The repository in the context takes precedence; then the state; then the state in the run's config
    (`config={"state": …}`); then the run whose tool started this one. Raises `InvalidInput` if none names a repository:
    it is never guessed.
    """
    outer = _OUTER.get()
    for values in (context, state, state_in_config()):
        if _field(values, "repository_id") is not None:
            return RunScope(_repository(values), _run(outer), str(_field(values, "repo_dir") or ""))
    if outer is None:
        raise InvalidInput(
            "The run names no repository to remember for.",
            hint="Invoke the agent with context=WikiRunContext(repository_id=…), with repository_id in its state, or "
            'with config={"state": {"repository_id": …}}.',
        )
    return RunScope(outer.repository, _run(outer), outer.folder)


def state_in_config() -> object:
    """Return the value of `config={"state": …}`: LangChain passes unknown keys as configurable."""
    return get_config().get("configurable", {}).get("state")


def field_of_run(context: object, state: object, name: str) -> Any:
    """Return a value of a run by name: from its context, its state, or the state in its config."""
    values = (_field(one, name) for one in (context, state, state_in_config()))
    return next((value for value in values if value is not None), None)


@contextmanager
def part_of(request: ToolCallRequest) -> Iterator[None]:
    """Let agents that a tool starts inherit the scope of the run that calls it."""
    scope = scope_of(request.runtime.context, request.state)
    token = _OUTER.set(RunScope(scope.repository, scope.key(request.tool_call["id"]), scope.folder))
    try:
        yield
    finally:
        _OUTER.reset(token)


def _repository(values: object) -> WikiRepository:
    return WikiRepository.of(
        _field(values, "repository_id"),
        branch=_field(values, "branch"),
        commit=_field(values, "commit"),
        generation=_field(values, "generation"),
    )


def _field(values: object, name: str) -> Any:
    return values.get(name) if isinstance(values, Mapping) else getattr(values, name, None)


def _run(outer: RunScope | None) -> str:
    """Return the id of this run: its thread, else the call that started it, else its task."""
    settings = get_config().get("configurable", {})
    thread = settings.get("thread_id")
    if thread is not None:
        return f"thread {thread}"
    return outer.run if outer else f"task {settings.get('checkpoint_ns')}"
