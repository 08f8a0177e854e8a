"""Fenced blocks of Markdown, and the commands in those that show a terminal."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<language>\w*) ?(?P<name>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "$ "


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is the file's line (1-based) of its first line of text.

    `name`: what follows the language in its fence, the name of the file it shows; empty where it shows none.
    """

    file: Path
    line: int
    language: str
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a `console` block, and what is shown below it."""

    line: str
    shown: str


def blocks_of(file: Path) -> list[Block]:
    """Return the blocks of a file, in order."""
    text = file.read_text(encoding="utf-8")
    return [
        Block(file, text.count("\n", 0, found.start("text")) + 1, found["language"], found["name"], found["text"])
        for found in _FENCE.finditer(text)
    ]


def commands_of(block: Block) -> Iterator[Command]:
    """Return the commands of a `console` block: what follows `$ `, with lines that end in a backslash joined."""
    lines = block.text.splitlines()
    while lines:
        command = lines.pop(0).removeprefix(_PROMPT)
        while command.endswith("\\"):
            command = f"{command[:-1]}{lines.pop(0).lstrip()}"
        shown = []
        while lines and not lines[0].startswith(_PROMPT):
            shown.append(lines.pop(0))
        yield Command(command, "\n".join(shown))
