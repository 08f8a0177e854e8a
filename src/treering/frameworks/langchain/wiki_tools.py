"""The three memory tools of wiki agents."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, ToolException
from pydantic import WithJsonSchema

from treering.core.canonical import digest
from treering.core.characters import visible
from treering.core.errors import TreeringError
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
from treering.frameworks.langchain.run_scope import RunScope, scope_of
from treering.frameworks.langchain.structured_tools import structured_tool

STORE, RECALL, BY_FILES = "store_memory", "recall_memories", "get_file_memories"
MEMORY_TOOLS = frozenset({STORE, RECALL, BY_FILES})
SHOWN_CHARS = 300
"""The length of a memory in a list."""
_MOST_LISTED = 20
_LONGEST_ID = 100

_Answer = TypeVar("_Answer")
# The schema lists the types, but accepts any text: the error of the memory is shorter than one of the schema.
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
        """Return the tools. They block; LangChain runs them in threads for asynchronous agents."""
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
        """Store a memory, once per call of the model, even if the call is retried."""

        def store(memories: WikiMemoryStore, scope: RunScope) -> StoredWikiMemory:
            draft = WikiMemoryDraft.of(content, memory_type, self._source_agent, file_paths, related_pages)
            # With the content, because some models number their calls from 0 in every answer.
            call = scope.key(self._source_agent, runtime.tool_call_id, memory_type, digest(content))
            return memories.store(scope.repository, draft, key=call if runtime.tool_call_id else None)

        stored = self._asked("store memory", runtime, store)
        message = f"Memory stored successfully (ID: {stored.id})"
        if stored.kept_chars < stored.given_chars:
            message += f". It was cut: the first {stored.kept_chars:,} of {stored.given_chars:,} characters are stored."
        return message

    def recall(
        self,
        query: str,
        runtime: ToolRuntime[Any, Any],
        limit: int = 5,
        memory_type: _TypeOrNone = None,
    ) -> str:
        """Recall memories by meaning. If the query is an ID, return that memory whole."""

        def recall(memories: WikiMemoryStore, scope: RunScope) -> str:
            if (named := _named(memories, scope.repository, query.strip())) is not None:
                return f"Found 1 relevant memories:\n{_line(named, whole=True)}"
            kind = memory_type_of(memory_type) if memory_type else None
            memories_found = memories.search(scope.repository, query, limit=limit, memory_type=kind)
            return _listed(memories_found, "relevant memories") if memories_found else "No relevant memories found."

        return self._asked("recall memories", runtime, recall)

    def by_files(self, file_paths: list[str], runtime: ToolRuntime[Any, Any]) -> str:
        """Return the memories about files, or about files below folders."""

        def by_files(memories: WikiMemoryStore, scope: RunScope) -> str:
            memories_found = memories.by_files(scope.repository, file_paths)
            return (
                _listed(memories_found, "file-related memories")
                if memories_found
                else "No memories found for these files."
            )

        return self._asked("get file memories", runtime, by_files)

    def _asked(
        self, what: str, runtime: ToolRuntime[Any, Any], work: Callable[[WikiMemoryStore, RunScope], _Answer]
    ) -> _Answer:
        """Run the work of a tool.

        Raises `ToolException` for errors that the model can fix, and `MemoryToolFailed` if a retry may succeed.
        """
        try:
            scope = scope_of(runtime.context, runtime.state)
            return self._service.with_store(lambda kept: work(store_for(kept, scope.repository), scope))
        except MemoryUnreachable as error:
            raise MemoryToolFailed(f"Failed to {what}: {error.message}") from None
        except TreeringError as error:
            raise ToolException(f"Failed to {what}: {error.message} {error.hint}".rstrip()) from None


def _tool(function: Callable[..., str], name: str, description: str) -> BaseTool:
    return structured_tool(function, name=name, description=description, parse_docstring=False, handle_tool_error=True)


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
    text, note = memory.content, f"ID: {memory.id}"
    if len(text) > SHOWN_CHARS and not whole:
        note += (
            f"; the first {SHOWN_CHARS} of {len(text):,} characters: {RECALL} with this ID as the query gives all of it"
        )
        text = f"{text[:SHOWN_CHARS].rstrip()}…"
    item = visible(without_markers(text)).replace("\n", "\n  ")
    return f"- [{memory.memory_type}] {item} ({note})"
