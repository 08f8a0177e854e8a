"""The three tools of the memory of wiki agents, and what they answer."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import WithJsonSchema

from treering.core.canonical import digest
from treering.core.characters import visible
from treering.core.errors import TreeringError
from treering.core.fencing import without_markers
from treering.frameworks.langchain.wiki.scope import RunScope, scope_of
from treering.parts.wiki.memories.wiki_memory import (
    KeptWikiMemory,
    StoredWikiMemory,
    WikiMemoryDraft,
    WikiMemoryStore,
    WikiMemoryType,
    WikiRepository,
    memory_type_of,
    store_for,
)
from treering.parts.wiki.memories.wiki_memory_service import MemoryUnreachable, WikiMemoryService

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
    """The tools of one agent. They keep nothing of a run: the runtime that each call is given tells the repository."""

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
            told += f". It was cut: the first {stored.kept_chars:,} of {stored.given_chars:,} characters are kept."
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
