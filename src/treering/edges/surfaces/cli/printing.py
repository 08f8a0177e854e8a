"""All that the command line prints goes through here or `rendering.lines`: what a terminal would obey is written out.

A test looks for other places that print. What comes from other packages and from Python itself (warnings, errors of
threads) is cleaned on its way to the terminal, by `clean_terminals`.
"""

import os
import stat
import sys
import traceback
from types import TracebackType
from typing import TextIO, cast

import typer

from treering.core.characters import visible, visible_json


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
