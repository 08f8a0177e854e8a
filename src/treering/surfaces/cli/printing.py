"""Print all output of the command line, with control characters made visible.

A test finds other places that print. `clean_terminals` also cleans the output of other packages and of Python itself
(warnings, errors of threads).
"""

import os
import shlex
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, cast

import typer

from treering.core.characters import visible, visible_json

if TYPE_CHECKING:
    # Imported by the functions that need it: help and errors do not.
    from rich.console import Console
    from rich.text import Text


NO_PAGER = "TREERING_NO_PAGER"
"""The environment variable that `--no-pager` sets."""
UNATTENDED = (
    *("AI_AGENT", "AGENT", "CI"),
    *("ANTIGRAVITY_AGENT", "AUGMENT_AGENT", "CLAUDECODE", "CLINE_ACTIVE", "CODEX_CI", "CODEX_SANDBOX"),
    *("CODEX_THREAD_ID", "COPILOT_AGENT", "COPILOT_CLI", "CURSOR_AGENT", "GEMINI_CLI", "GOOSE_TERMINAL"),
    *("OPENCODE", "QWEN_CODE"),
)
"""Variables that coding agents and CI set for their commands, which cannot leave a pager."""
_MIN_COLUMNS = 20
"""Indents are reduced before text becomes narrower."""
Part = str | tuple[str, str]
"""Text, or text and its style."""


class CleanStream:
    """A stream to a terminal that makes control characters visible."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        """The terminal itself, for colors and progress bars."""

    def write(self, text: str) -> int:
        """Write a text; return its length."""
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def clean_terminals() -> None:
    """Clean everything that this process prints to a terminal, including other packages."""
    sys.stdout, sys.stderr = _cleaned(sys.stdout), _cleaned(sys.stderr)


def say(text: str) -> None:
    """Print a text on standard output."""
    typer.echo(visible(text))


def tell(text: str) -> None:
    """Print a text on standard error: progress, warnings, errors."""
    typer.echo(visible(text), err=True)


def say_json(text: str) -> None:
    """Print a JSON text on standard output. Escaping control characters does not change its value."""
    typer.echo(visible_json(text))


def tell_json(text: str) -> None:
    """Print a JSON text on standard error."""
    typer.echo(visible_json(text), err=True)


def say_document(text: str) -> None:
    """Print a document without an additional line feed.

    Byte for byte if standard output is a file, which is an export; else with visible control characters.
    """
    typer.echo(text if _is_file() else visible(text), nl=False)


def confirm(question: str) -> bool:
    """Ask for confirmation on standard error."""
    return typer.confirm(visible(question), err=True)


def tell_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error, cleaned: for `sys.excepthook`."""
    tell("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def _is_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # closed, or a stream in memory
        return False


def _cleaned(stream: TextIO) -> TextIO:
    if isinstance(stream, CleanStream) or not stream or not stream.isatty():
        return stream
    return cast(TextIO, CleanStream(stream))


@dataclass(frozen=True, slots=True)
class IndentedLine:
    """One line, or several with the same indent; `indent` in columns.

    `hang`: characters at its start, such as a number, below which a wrapped line does not continue.
    """

    text: "Text"
    indent: int = 0
    hang: int = 0


def line(*parts: Part, indent: int = 0, hang: int = 0) -> IndentedLine:
    """Make a line of parts, with visible control characters."""
    from rich.text import Text

    text = Text()
    for part in parts:
        content, style = part if isinstance(part, tuple) else (part, "")
        text.append(visible(content.replace("\r\n", "\n").expandtabs(4)), style=style)
    return IndentedLine(text, indent, hang)


def local_time(moment: datetime) -> str:
    """Return a time in the local time zone, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def terminal(*, errors: bool = False) -> "Console":
    """Return a console for standard output or, with `errors`, standard error.

    It does not clean its text; `line` does.
    """
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    return Console(file=stream.stream if isinstance(stream, CleanStream) else stream, highlight=False)


def show(console: "Console", lines: Iterable[IndentedLine]) -> None:
    """Print lines, wrapped within their indent on a terminal."""
    for one in lines:
        for row in _wrapped(console, one) if console.is_terminal else one.text.split("\n", allow_blank=True):
            row.rstrip()
            row.pad_left(one.indent if row else 0)
            console.print(row, soft_wrap=True)


def _wrapped(console: "Console", one: IndentedLine) -> Iterator["Text"]:
    """Wrap a line; the rows after the first are indented by `hang`."""
    start, rest = one.text.divide([one.hang]) if one.hang else (one.text.blank_copy(), one.text)
    for row in rest.wrap(console, max(console.width - one.indent - one.hang, _MIN_COLUMNS)):
        yield start + row
        start = start.blank_copy(" " * one.hang)


def page(text: str, *, screen_rows: int) -> bool:
    """Show a text in a pager if it is longer than the screen; return whether it was.

    TREERING_PAGER names the pager, else PAGER, else `less`; an empty one, one that ends with `cat` and `--no-pager`
    mean none. Coding agents and CI get one only from TREERING_PAGER.
    """
    command = _pager()
    if not command or text.count("\n") < screen_rows:
        return False
    environment = {"LESS": "FRX", **os.environ}
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True)  # noqa: S603 - the user's
    except OSError:  # it is not installed
        return False
    with suppress(BrokenPipeError):  # the reader has left
        process.communicate(text)
    return True


def _pager() -> list[str]:
    # A pager without a keyboard could not be left.
    if os.environ.get(NO_PAGER) or os.environ.get("TERM") == "dumb" or not sys.stdin.isatty():
        return []
    usual = "" if any(map(os.environ.get, UNATTENDED)) else os.environ.get("PAGER", "less")
    command = shlex.split(os.environ.get("TREERING_PAGER", usual))
    return [] if command[-1:] == ["cat"] else command  # also `head -n 10000 | cat`, which Cursor sets
