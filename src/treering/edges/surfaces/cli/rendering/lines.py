"""Lines of an answer: styled text with an indent, wrapped for a terminal, left whole in a pipe."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

# Controls could move the cursor or retitle the window; stored text is data, whatever it holds. Direction marks
# could make it read as something else.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LEAST = 20  # columns: indents give way before text gets narrower

Part = str | tuple[str, str]
"""Text, or text and its style."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line, or several with the same indent; `indent` in columns."""

    text: Text
    indent: int = 0


def line(*parts: Part, indent: int = 0) -> Line:
    """Make a line of parts; control characters in them are shown, not obeyed."""
    text = Text()
    for part in parts:
        content, style = part if isinstance(part, tuple) else (part, "")
        text.append(visible(content), style=style)
    return Line(text, indent)


def visible(text: str) -> str:
    """Write control characters out, so that a terminal does not act on them."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text.replace("\r\n", "\n").expandtabs(4))


def show(console: Console, lines: Iterable[Line]) -> None:
    """Print lines: wrapped with their indent on a terminal, as they are elsewhere."""
    for one in lines:
        width = max(console.width - one.indent, _LEAST)
        rows = one.text.wrap(console, width) if console.is_terminal else one.text.split("\n", allow_blank=True)
        for row in rows:
            row.rstrip()
            console.print(Text(" " * one.indent if row else "") + row, soft_wrap=True)
