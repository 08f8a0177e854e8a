"""The three tools of the memory of wiki agents, and their answers."""

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypeVar
from uuid import UUID

from langchain.agents import AgentState
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.config import get_config
from pydantic import WithJsonSchema

from treering.core.canonical import digest
from treering.core.characters import visible
from treering.core.errors import InvalidInput, TreeringError
from treering.core.fencing import without_markers
from treering.extensions.wiki.memories.wiki_memory import (
    KeptWikiMemory,
    StoredWikiMemory,
    WikiMemoryDraft,
    WikiMemoryStore,
    WikiMemoryType,
    WikiRepository,
    memory_type_of,
    store_for,
)
from treering.extensions.wiki.memories.wiki_memory_service import MemoryUnreachable, WikiMemoryService

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
    for told in (context, state, told_in_config()):
        if _told(told, "repository_id") is not None:
            return RunScope(_repository(told), _run(outer), str(_told(told, "repo_dir") or ""))
    if outer is None:
        raise InvalidInput(
            "The run names no repository to remember for.",
            hint="Invoke the agent with context=WikiRunContext(repository_id=…), with repository_id in its state, or "
            'with config={"state": {"repository_id": …}}.',
        )
    return RunScope(outer.repository, _run(outer), outer.folder)


def told_in_config() -> object:
    """Return the value of `config={"state": …}`: LangChain passes unknown keys as configurable."""
    return get_config().get("configurable", {}).get("state")


def told_in_run(context: object, state: object, name: str) -> Any:
    """Return a value of a run by name: from its context, its state, or the state in its config."""
    return next((said for told in (context, state, told_in_config()) if (said := _told(told, name)) is not None), None)


@contextmanager
def part_of(request: ToolCallRequest) -> Iterator[None]:
    """Let agents that a tool starts inherit the scope of the run that calls it."""
    scope = scope_of(request.runtime.context, request.state)
    token = _OUTER.set(RunScope(scope.repository, scope.key(request.tool_call["id"]), scope.folder))
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


STORE, RECALL, BY_FILES = "store_memory", "recall_memories", "get_file_memories"
MEMORY_TOOLS = frozenset({STORE, RECALL, BY_FILES})
SHOWN_CHARS = 300
"""Of a memory in a list."""
_MOST_LISTED = 20
_LONGEST_ID = 100

_Answer = TypeVar("_Answer")
# A model is told the types; another one reaches the memory, whose error is shorter than that of a schema.
_NAMED = {"type": "string", "enum": [*WikiMemoryType]}
_Type = Annotated[str, WithJsonSchema(_NAMED)]
_TypeOrNone = Annotated[str | None, WithJsonSchema({"anyOf": [_NAMED, {"type": "null"}]})]


class MemoryToolFailed(Exception):
    """A tool could not reach the memory. Retry middleware tries the call again; the message names no internals."""


class MemoryTools:
    """The tools of one agent. They have no state: the runtime of each call names the repository."""

    def __init__(self, service: WikiMemoryService, source_agent: str) -> None:
        self._service = service
        self._source_agent = source_agent

    def tools(self) -> list[BaseTool]:
        """Return the tools. They block, and LangChain runs them in threads for agents that are asynchronous."""
        return [
            _tool(
                self.store,
                STORE,
                "Store a structural decision, pattern, or cross-reference for future wiki generations.",
            ),
            _tool(self.recall, RECALL, "Recall relevant memories based on semantic similarity to your query."),
            _tool(self.by_files, BY_FILES, "Get memories related to specific source files you're analyzing."),
        ]

    def store(
        self,
        content: str,
        memory_type: _Type,
        runtime: ToolRuntime[Any, Any],
        file_paths: list[str] | None = None,
        related_pages: list[str] | None = None,
    ) -> str:
        """Store a memory, once for each call of a model, however often the call is tried."""

        def store(kept: WikiMemoryStore, scope: RunScope) -> StoredWikiMemory:
            draft = WikiMemoryDraft(
                content,
                memory_type_of(memory_type),
                self._source_agent,
                tuple(file_paths or ()),
                tuple(related_pages or ()),
            )
            # Models that number their calls from 0 in every answer are told apart by what they store.
            call = scope.key(self._source_agent, runtime.tool_call_id, memory_type, digest(content))
            return kept.store(scope.repository, draft, key=call if runtime.tool_call_id else None)

        stored = self._asked("store memory", runtime, store)
        told = f"Memory stored successfully (ID: {stored.id})"
        if stored.kept_chars < stored.given_chars:
            told += f". It was cut: the first {stored.kept_chars:,} of {stored.given_chars:,} characters are stored."
        return told

    def recall(
        self,
        query: str,
        runtime: ToolRuntime[Any, Any],
        limit: int = 5,
        memory_type: _TypeOrNone = None,
    ) -> str:
        """Recall memories by meaning; a query that is the ID of one gives that one whole."""

        def recall(kept: WikiMemoryStore, scope: RunScope) -> str:
            if (named := _named(kept, scope.repository, query.strip())) is not None:
                return f"Found 1 relevant memories:\n{_line(named, whole=True)}"
            kind = memory_type_of(memory_type) if memory_type else None
            found = kept.search(scope.repository, query, limit=limit, memory_type=kind)
            return _listed(found, "relevant memories") if found else "No relevant memories found."

        return self._asked("recall memories", runtime, recall)

    def by_files(self, file_paths: list[str], runtime: ToolRuntime[Any, Any]) -> str:
        """Give the memories about some files, or about files below some folders."""

        def by_files(kept: WikiMemoryStore, scope: RunScope) -> str:
            found = kept.by_files(scope.repository, file_paths)
            return _listed(found, "file-related memories") if found else "No memories found for these files."

        return self._asked("get file memories", runtime, by_files)

    def _asked(
        self, what: str, runtime: ToolRuntime[Any, Any], work: Callable[[WikiMemoryStore, RunScope], _Answer]
    ) -> _Answer:
        """Do the work of a tool.

        Raises `ToolException` for what the model can repair, which becomes an error that it reads, and
        `MemoryToolFailed` for what another try may change.
        """
        try:
            scope = scope_of(runtime.context, runtime.state)
            return self._service.with_store(lambda kept: work(store_for(kept, scope.repository), scope))
        except MemoryUnreachable as error:
            raise MemoryToolFailed(f"Failed to {what}: {error.message}") from None
        except TreeringError as error:
            raise ToolException(f"Failed to {what}: {error.message} {error.hint}".rstrip()) from None


def _tool(function: Callable[..., str], name: str, description: str) -> BaseTool:
    return StructuredTool.from_function(
        func=function, name=name, description=description, parse_docstring=False, handle_tool_error=True
    )


def _named(kept: WikiMemoryStore, repository: WikiRepository, query: str) -> KeptWikiMemory | None:
    may_be_id = 0 < len(query) <= _LONGEST_ID and not any(character.isspace() for character in query)
    return kept.get(repository, query) if may_be_id else None


def _listed(found: Sequence[KeptWikiMemory], what: str) -> str:
    lines = [_line(one) for one in found[:_MOST_LISTED]]
    more = len(found) - len(lines)
    rest = [f"… and {more:,} more: ask about fewer files."] if more else []
    return "\n".join([f"Found {len(found)} {what}:", *lines, *rest])


def _line(memory: KeptWikiMemory, *, whole: bool = False) -> str:
    """Return a memory as one item of a list: nothing in its text can look like another item or a marker."""
    text, told = memory.content, f"ID: {memory.id}"
    if len(text) > SHOWN_CHARS and not whole:
        told += (
            f"; the first {SHOWN_CHARS} of {len(text):,} characters: {RECALL} with this ID as the query gives all of it"
        )
        text = f"{text[:SHOWN_CHARS].rstrip()}…"
    item = visible(without_markers(text)).replace("\n", "\n  ")
    return f"- [{memory.memory_type}] {item} ({told})"
