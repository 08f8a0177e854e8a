"""All that the command line prints goes through here: what a terminal would obey is written out.

A test looks for other places that print. What comes from other packages and from Python itself (warnings, errors of
threads) is cleaned on its way to the terminal, by `clean_terminals`.
"""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, cast

import typer

from treering.core.characters import visible, visible_json
from treering.core.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound, TreeringError, Unavailable

if TYPE_CHECKING:
    # Imported where lines are made: help and errors need none of it.
    from rich.console import Console
    from rich.text import Text


class CleanStream:
    """A stream to a terminal that writes out what the terminal would obey."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        """The terminal itself, for colours and the movements of a progress bar."""

    def write(self, text: str) -> int:
        """Write a text; return how many of its characters were taken: all of them."""
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def clean_terminals() -> None:
    """Have everything that this process prints to a terminal cleaned, whoever prints it."""
    sys.stdout, sys.stderr = _cleaned(sys.stdout), _cleaned(sys.stderr)


def say(text: str) -> None:
    """Print a text on standard output."""
    typer.echo(visible(text))


def tell(text: str) -> None:
    """Print a text on standard error: progress, warnings, errors."""
    typer.echo(visible(text), err=True)


def say_json(text: str) -> None:
    """Print a JSON text on standard output. What is escaped in it has the same value."""
    typer.echo(visible_json(text))


def tell_json(text: str) -> None:
    """Print a JSON text on standard error."""
    typer.echo(visible_json(text), err=True)


def say_document(text: str) -> None:
    """Print a document as it is, without a line feed of our own.

    Byte for byte where standard output is a file, because that is an export; else controls are written out.
    """
    typer.echo(text if _is_file() else visible(text), nl=False)


def confirm(question: str) -> bool:
    """Ask for a yes on standard error."""
    return typer.confirm(visible(question), err=True)


def tell_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an error nobody expected: `sys.excepthook`. Its message may hold anything."""
    tell("".join(traceback.format_exception(kind, error, trace)).rstrip("\n"))


def _is_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # no file behind it: closed, or a stream in memory
        return False


def _cleaned(stream: TextIO) -> TextIO:
    if isinstance(stream, CleanStream) or not stream or not stream.isatty():
        return stream
    return cast(TextIO, CleanStream(stream))


# How the command line tells what went wrong: one shape on stderr, and an exit code that scripts can rely on.


EXIT_CODES: Mapping[type[TreeringError], int] = {
    InvalidInput: 2,
    NotFound: 3,
    Conflict: 4,
    Denied: 5,
    Unavailable: 6,
    Corrupt: 7,
}
OTHER = 1
NO_PAGER = "TREERING_NO_PAGER"
"""The environment variable that `--no-pager` sets."""

_PLAINLY = (
    (re.compile(r"Input should be greater than or equal to "), "it must be at least "),
    (re.compile(r"Input should be less than or equal to "), "it must be at most "),
    (re.compile(r"Input should be a valid integer.*"), "it must be a whole number"),
    (re.compile(r"Input should be a valid number.*"), "it must be a number"),
)
"""What the checks of typer say of a value, and how people say it."""

_NO_COMMAND = re.compile(r"No such command '(\w+)'")

# The error for a wrong command line lies in another module from one release of typer to the next; its child does not.
Misuse: type[Exception] = typer.BadParameter.__mro__[1]


def exit_code(error: TreeringError) -> int:
    """Return the exit code of an error: that of the nearest class in the tree."""
    return next((EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES), OTHER)


def tell_failure(error: TreeringError, given: Sequence[str]) -> int:
    """Write an error to stderr, as JSON if the command line asks for that; return its exit code."""
    if "--json" in given:
        tell_json(json.dumps({"error": error.as_dict()}, default=str))
    else:
        tell("\n".join(_lines(error, shlex.join(["treering", *given]))))
    return exit_code(error)


def tell_interrupted() -> None:
    """Say that somebody pressed Ctrl-C, and that this does no harm."""
    tell("error: interrupted\nhint: Changes so far are saved; run the command again to continue.")


def misuse(error: Exception) -> InvalidInput:
    """Turn a wrong command line into our error."""
    said = getattr(error, "format_message", lambda: str(error))().rstrip(".")
    for theirs, ours in _PLAINLY:
        said = theirs.sub(ours, said)
    end = "" if said.endswith("?") else "."  # a question: which command was meant
    command = getattr(getattr(error, "ctx", None), "command_path", "treering")
    return InvalidInput(f"{said}{end}", hint=_of_a_verb(said) or f"See `{command} --help`.")


def _of_a_verb(said: str) -> str:
    """Name the verb whose mode was given as a command, such as `search`; empty where none was."""
    # Imported here: it reads a file, and only a wrong command needs it.
    from treering.surfaces.cli.help import command_for, shipped_modes

    unknown = _NO_COMMAND.match(said)
    verbs = [verb for verb, modes in shipped_modes().items() if unknown and unknown[1] in {mode[0] for mode in modes}]
    return f"Write: {command_for(verbs[0], unknown[1])}" if unknown and verbs else ""


def blocked(error: OSError) -> TreeringError:
    """Turn an error of the operating system into ours."""
    place = f"{error.filename}: " if error.filename else ""
    return TreeringError(
        f"{place}{error.strerror or error}.", hint="Check the path, its permissions and the free space."
    )


def _lines(error: TreeringError, typed: str) -> Sequence[str]:
    fields = error.details.get("fields", ())
    several = [f"  {one['field'] or 'input'}: {one['problem']}" for one in fields] if len(fields) > 1 else []
    # A person sees the fields here; the details are for programs.
    hint = "Correct the input; nothing was changed." if "details.fields" in error.hint else error.hint
    # A hint never suggests the command that was just typed.
    is_typed = re.search(rf"{re.escape(typed)}`?\.?$", hint) is not None
    return [f"error: {error.message}", *several, *([f"hint: {hint}"] if hint and not is_typed else [])]


# Lines of an answer: styled text with an indent, wrapped for a terminal, left whole in a pipe.


_LEAST = 20  # columns: indents give way before text gets narrower

Part = str | tuple[str, str]
"""Text, or text and its style."""


@dataclass(frozen=True, slots=True)
class IndentedLine:
    """One line, or several with the same indent; `indent` in columns.

    `hang`: characters at its start, such as a number, below which a wrapped line does not continue.
    """

    text: "Text"
    indent: int = 0
    hang: int = 0


def line(*parts: Part, indent: int = 0, hang: int = 0) -> IndentedLine:
    """Make a line of parts; control characters in them are shown, not obeyed."""
    from rich.text import Text

    text = Text()
    for part in parts:
        content, style = part if isinstance(part, tuple) else (part, "")
        text.append(visible(content.replace("\r\n", "\n").expandtabs(4)), style=style)
    return IndentedLine(text, indent, hang)


def local_time(moment: datetime) -> str:
    """Return a moment as the reader's clock shows it, to the minute."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def terminal(*, errors: bool = False) -> "Console":
    """Return what prints lines with their colours: on standard output or, with `errors`, on standard error.

    What is printed with it has to be clean: `line` makes it so.
    """
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    return Console(file=stream.stream if isinstance(stream, CleanStream) else stream, highlight=False)


def show(console: "Console", lines: Iterable[IndentedLine]) -> None:
    """Print lines: wrapped with their indent on a terminal, as they are elsewhere."""
    for one in lines:
        for row in _wrapped(console, one) if console.is_terminal else one.text.split("\n", allow_blank=True):
            row.rstrip()
            row.pad_left(one.indent if row else 0)
            console.print(row, soft_wrap=True)


def _wrapped(console: "Console", one: IndentedLine) -> Iterator["Text"]:
    """Wrap a line; what follows the first row continues behind the characters that hang."""
    start, rest = one.text.divide([one.hang]) if one.hang else (one.text.blank_copy(), one.text)
    for row in rest.wrap(console, max(console.width - one.indent - one.hang, _LEAST)):
        yield start + row
        start = start.blank_copy(" " * one.hang)


def page(text: str, *, screen_rows: int) -> bool:
    """Show a text in a pager if it is longer than the screen; return whether it was.

    TREERING_PAGER names the pager, else PAGER, else `less`; an empty one, `cat` and `--no-pager` mean none.
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
    command = shlex.split(os.environ.get("TREERING_PAGER", os.environ.get("PAGER", "less")))
    return [] if command == ["cat"] else command
