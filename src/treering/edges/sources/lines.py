r"""A text as numbered lines, and lines packed into pieces of a bounded size.

A line ends at `\n`, `\r\n` or `\r`, as in editors and Markdown; a form feed or U+2028 ends none. Line numbers
here count from 0 and ranges are half-open; locators count from 1 and are inclusive.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from treering.core.locator import Lines, Locator, Section


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines `start` to `end` without surrounding blank lines, or a part of one very long line from `column` on."""

    start: int
    end: int
    column: int
    text: str


Place = Callable[[Piece, str], Locator]
"""Says where a piece stands, given the heading it stands under."""


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` without their ends. A line end that closes the text starts no further line."""
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def in_file(path: str, commit: str | None) -> Place:
    """Locate pieces by their lines in a file."""

    def place(piece: Piece, heading: str) -> Locator:
        return Lines(path=path, start=piece.start + 1, end=piece.end, commit=commit, heading=heading)

    return place


def in_text(text: str) -> Place:
    """Locate pieces by their character offset in an inline text."""
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def place(piece: Piece, heading: str) -> Locator:
        return Section(heading=heading, offset=starts[piece.start] + piece.column)

    return place


def pack(lines: Sequence[str], cuts: Sequence[int], *, start: int, end: int, target: int, most: int) -> Iterator[Piece]:
    """Pack lines `start` to `end` into pieces, cutting at `cuts` (ascending) as long as blocks allow.

    A piece grows to about `target` characters. A block longer than `most` is cut between its lines, a line
    longer than `most` between its words, so no piece is longer than `most`.
    """
    target = min(target, most)
    inner = cuts[bisect_left(cuts, start + 1) : bisect_left(cuts, end)]
    open_at, size = start, 0
    for block in pairwise([start, *inner, end]):
        block_size = sum(len(line) + 1 for line in lines[slice(*block)])
        if size and size + block_size > target:
            yield from _pieces(lines, open_at, block[0], most)
            open_at, size = block[0], 0
        size += block_size
    yield from _pieces(lines, open_at, end, most)


def is_blank(line: str) -> bool:
    """Tell whether a line shows nothing."""
    return not line.strip()


_LINE_END = re.compile(r"\r\n|\r|\n")


def _pieces(lines: Sequence[str], start: int, end: int, most: int) -> Iterator[Piece]:
    """Yield the lines as one piece where that fits into `most`, else as few pieces as possible."""
    start, end = _trimmed(lines, start, end)
    open_at, size = start, 0
    for at in range(start, end):
        if size and size + len(lines[at]) > most:
            yield from _piece(lines, open_at, at)
            open_at, size = at, 0
        size += len(lines[at]) + 1
        if len(lines[at]) > most:
            yield from _parts(lines[at], at, most)
            open_at, size = at + 1, 0
    yield from _piece(lines, open_at, end)


def _piece(lines: Sequence[str], start: int, end: int) -> Iterator[Piece]:
    start, end = _trimmed(lines, start, end)
    if start < end:
        yield Piece(start, end, 0, "\n".join(lines[start:end]))


def _parts(line: str, at: int, most: int) -> Iterator[Piece]:
    column = 0
    while column < len(line):
        space = line.rfind(" ", column + most // 2, column + most) if len(line) - column > most else -1
        stop = space + 1 if space >= 0 else column + most
        if line[column:stop].strip():
            yield Piece(at, at + 1, column, line[column:stop])
        column = stop


def _trimmed(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    while start < end and is_blank(lines[start]):
        start += 1
    while end > start and is_blank(lines[end - 1]):
        end -= 1
    return start, end
