"""The memory tool of Claude (`memory_20250818`) over a space."""

from collections.abc import Callable
from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from treering.core.errors import TreeringError
from treering.frameworks.client import AnyClient, blocking, in_thread
from treering.frameworks.memory_files import FileRefused, MemoryFiles


class TreeringMemoryTool(BetaAbstractMemoryTool):
    """The memory tool of Claude: `client.beta.messages.run_tools(…, tools=[TreeringMemoryTool(memory)])`.

    Files are below `/memories`; nothing else is accessible. `retrieve` of the memory client also finds their text;
    secrets are redacted. `folder`: the owner of the files, such as a user or a project. `erase`: delete permanently;
    otherwise deleted files are withdrawn and stay in the history of the space.
    """

    def __init__(
        self,
        client: AnyClient,
        *,
        folder: str = "default",
        erase: bool = False,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._client = blocking(client)
        self._folder = folder
        self._erase = erase

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the text of a file with line numbers, or list a folder."""
        return self._done(lambda files: files.view(_text(command, "path"), _lines(command)))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file."""
        return self._done(lambda files: files.create(_text(command, "path"), _text(command, "file_text")))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return self._done(
            lambda files: files.str_replace(
                _text(command, "path"), _text(command, "old_str"), _text(command, "new_str", missing="")
            )
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text behind a line of a file."""
        return self._done(
            lambda files: files.insert(
                _text(command, "path"), _number(command, "insert_line"), _text(command, "insert_text")
            )
        )

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with its files."""
        return self._done(lambda files: files.delete(_text(command, "path")))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a file or a folder another path."""
        return self._done(lambda files: files.rename(_text(command, "old_path"), _text(command, "new_path")))

    def clear_all_memory(self) -> str:
        """Delete all files."""
        return self._done(lambda files: files.clear())

    def _done(self, work: Callable[[MemoryFiles], str]) -> str:
        """Run a command; errors are returned to the model."""
        try:
            return work(MemoryFiles(self._client.records, self._folder, erase=self._erase))
        except FileRefused as error:
            raise ToolError(str(error)) from error
        except TreeringError as error:
            raise ToolError(f"{error.message} {error.hint}".strip()) from error


class AsyncTreeringMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same tool for `AsyncAnthropic`; its work is done in threads."""

    def __init__(
        self,
        client: AnyClient,
        *,
        folder: str = "default",
        erase: bool = False,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = TreeringMemoryTool(client, folder=folder, erase=erase)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the text of a file with line numbers, or list a folder."""
        return await in_thread(lambda: self._tool.view(command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Make a file."""
        return await in_thread(lambda: self._tool.create(command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return await in_thread(lambda: self._tool.str_replace(command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text behind a line of a file."""
        return await in_thread(lambda: self._tool.insert(command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with its files."""
        return await in_thread(lambda: self._tool.delete(command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a file or a folder another path."""
        return await in_thread(lambda: self._tool.rename(command))

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        return await in_thread(self._tool.clear_all_memory)


def _text(command: Any, name: str, *, missing: str | None = None) -> str:
    value = getattr(command, name, None)
    if value is None and missing is not None:
        return missing
    if not isinstance(value, str):
        raise FileRefused(f"`{name}` has to be a text, not {type(value).__name__}.")
    return value


def _number(command: Any, name: str) -> int:
    value = getattr(command, name, None)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FileRefused(f"`{name}` has to be a whole number, not {type(value).__name__}.")
    return value


def _lines(command: BetaMemoryTool20250818ViewCommand) -> list[int] | None:
    given: Any = getattr(command, "view_range", None)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != 2 or not all(isinstance(one, int) for one in given):
        raise FileRefused("`view_range` has to be two line numbers, such as [1, 20].")
    return given
