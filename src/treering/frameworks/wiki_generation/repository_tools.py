"""Read-only tools of agents that write a wiki: list folders, read lines, search."""

from collections.abc import Callable
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool

from treering.core.fencing import fence
from treering.extensions.wiki.work_tree import ReadRepository
from treering.frameworks.langchain.structured_tools import structured_tool
from treering.surfaces.python.space import Space

MOST_LINES = 400
"""The maximum number of lines per answer of `read_lines`."""
MOST_CHARS = 24_000
"""The maximum length of an answer of a tool."""
_MOST_LISTED = 300
_MOST_FOUND = 8


Runtime = ToolRuntime[Any, Any]
"""The run that a tool is called in; no model sees it."""


class RepositoryTools:
    """Read-only tools for the files of a repository in a space. `read_of`: returns the repository of a run."""

    def __init__(self, space: Space, read_of: Callable[[Runtime], ReadRepository]) -> None:
        self._space = space
        self._read_of = read_of

    def tools(self) -> list[BaseTool]:
        """Return the tools. They block."""
        functions: list[Callable[..., str]] = [self.list_folder, self.read_lines, self.search_repository]
        return [structured_tool(function, name=function.__name__, handle_tool_error=True) for function in functions]

    def list_folder(self, runtime: Runtime, path: str = "") -> str:
        """List the contents of a folder of the repository, with the sizes of files in bytes. No path: the root."""
        below = "" if path.strip() in ("", ".", "/", "./") else f"{path.strip('/')}/"
        entries: dict[str, str] = {}
        for file, size in self._read_of(runtime).tree.sizes.items():
            if file.startswith(below):
                name, is_deeper, _ = file.removeprefix(below).partition("/")
                entries[f"{name}/" if is_deeper else name] = "" if is_deeper else f" ({size:,} bytes)"
        if not entries:
            return f"There is no folder {path!r} in the repository. Give a path from its root, or none for the root."
        lines = [f"{name}{size}" for name, size in sorted(entries.items())]
        more = f"\n… and {len(lines) - _MOST_LISTED} more" if len(lines) > _MOST_LISTED else ""
        return fence("\n".join(lines[:_MOST_LISTED]) + more, origin=below or "/")

    def read_lines(self, path: str, runtime: Runtime, first_line: int = 1, last_line: int | None = None) -> str:
        """Read lines of a file, by its path from the root of the repository, with their numbers; at most 400."""
        lines = self._read_of(runtime).tree.lines(path)
        if lines is None:
            return f"There is no text file {path!r} in the repository. List folders to see what there is."
        first = max(first_line, 1)
        last = min(len(lines), last_line or len(lines), first + MOST_LINES - 1)
        if first > last:
            return f"{path} has {len(lines)} lines; there are none from {first_line} to {last_line}."
        shown = "\n".join(f"{number}: {lines[number - 1]}" for number in range(first, last + 1))
        more = f"\n{path} has {len(lines)} lines; read on from line {last + 1}." if last < len(lines) else ""
        return fence(shown[:MOST_CHARS], origin=f"{path}#L{first}-L{last}") + more

    def search_repository(self, query: str, runtime: Runtime) -> str:
        """Search the repository by words, names and meaning; the answer names files and lines."""
        if not query.strip():
            return "The query is empty. Ask in words."
        read = self._read_of(runtime)
        report = self._space.query("search", read.place.scope, {"text": query}, {"limit": _MOST_FOUND})
        passages = []
        for hit in getattr(report, "hits", ()):
            path = hit.origin.removeprefix(read.place.prefix)
            if hit.origin.startswith(read.place.prefix) and path in read.tree.sizes:
                passages.append(fence(hit.text[: MOST_CHARS // _MOST_FOUND], origin=hit.place))
        if passages:
            return "\n".join((*report.warnings, *passages))
        return "No results. Use other words, or list folders."
