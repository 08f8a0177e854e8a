"""Lines of an answer: styled text with an indent, wrapped for a terminal, left whole in a pipe."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from treering.core.characters import visible
from treering.surfaces.cli.printing import CleanStream

_LEAST = 20  # columns: indents give way before text gets narrower

Part = str | tuple[str, str]
"""Text, or text and its style."""


@dataclass(frozen=True, slots=True)
class IndentedLine:
    """One line, or several with the same indent; `indent` in columns."""

    text: Text
    indent: int = 0


def line(*parts: Part, indent: int = 0) -> IndentedLine:
    """Make a line of parts; control characters in them are shown, not obeyed."""
    text = Text()
    for part in parts:
        content, style = part if isinstance(part, tuple) else (part, "")
        text.append(visible(content.replace("\r\n", "\n").expandtabs(4)), style=style)
    return IndentedLine(text, indent)


def terminal(*, errors: bool = False) -> Console:
    """Return what prints lines with their colours: on standard output or, with `errors`, on standard error.

    What is printed with it has to be clean: `line` makes it so.
    """
    stream = sys.stderr if errors else sys.stdout
    return Console(file=stream.stream if isinstance(stream, CleanStream) else stream, highlight=False)


def show(console: Console, lines: Iterable[IndentedLine]) -> None:
    """Print lines: wrapped with their indent on a terminal, as they are elsewhere."""
    for one in lines:
        width = max(console.width - one.indent, _LEAST)
        rows = one.text.wrap(console, width) if console.is_terminal else one.text.split("\n", allow_blank=True)
        for row in rows:
            row.rstrip()
            console.print(Text(" " * one.indent if row else "") + row, soft_wrap=True)
