r"""A text as numbered lines, and lines packed into pieces of a bounded size.

A line ends at `\n`, `\r\n` or `\r`, as in editors and Markdown, but not at a form feed or U+2028. Line numbers here
start at 0 and ranges are half-open; locators start at 1 and are inclusive.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from treering.core.evidence import Lines, Locator, Section
from treering.ports.adapter import SegmentDraft


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines `start` to `end` without surrounding blank lines, or a part of a very long line from `column` on."""

    start: int
    end: int
    column: int
    text: str


Place = Callable[[Piece, str], Locator]
"""Returns the location of a piece, given its heading."""


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` without their ends. A line end at the end of the text starts no further line."""
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def in_file(path: str, commit: str | None) -> Place:
    """Return the function that locates pieces by their lines in a file."""

    def place(piece: Piece, heading: str) -> Locator:
        return Lines(path=path, start=piece.start + 1, end=piece.end, commit=commit, heading=heading)

    return place


def segment_at(segments: Sequence[SegmentDraft], line: int) -> int:
    """Return the index of the segment that contains a line (from 0), else of the one before it."""
    starts = [segment.locator.start for segment in segments if isinstance(segment.locator, Lines)]
    return max(bisect_right(starts, line + 1) - 1, 0)


def in_text(text: str) -> Place:
    """Return the function that locates pieces by their character offset in an inline text."""
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]

    def place(piece: Piece, heading: str) -> Locator:
        return Section(heading=heading, offset=starts[piece.start] + piece.column)

    return place


def pack(lines: Sequence[str], cuts: Sequence[int], *, start: int, end: int, target: int, most: int) -> Iterator[Piece]:
    """Pack lines `start` to `end` into pieces of about `target` characters, split at `cuts` (ascending).

    A block longer than `most` is split between its lines, and a line longer than `most` between its words, so no piece
    is longer than `most`. A block without words, such as a closing tag, stays with the block before it.
    """
    target = min(target, most)
    inner = cuts[bisect_left(cuts, start + 1) : bisect_left(cuts, end)]
    open_at, size = start, 0
    for block in pairwise([start, *inner, end]):
        block_size = sum(len(line) + 1 for line in lines[slice(*block)])
        if size and size + block_size > target and not _is_markup(lines[slice(*block)]):
            yield from _pieces(lines, open_at, block[0], most)
            open_at, size = block[0], 0
        size += block_size
    yield from _pieces(lines, open_at, end, most)


def is_blank(line: str) -> bool:
    """Return whether a line is empty or white space."""
    return not line.strip()


_WITHOUT_WORDS = re.compile(r"(?:</?[a-zA-Z][^<>]{0,200}>|[^\w<]|<!)*")


def _is_markup(block: Sequence[str]) -> bool:
    return all(_WITHOUT_WORDS.fullmatch(line) for line in block)


_LINE_END = re.compile(r"\r\n|\r|\n")


def _pieces(lines: Sequence[str], start: int, end: int, most: int) -> Iterator[Piece]:
    """Yield the lines as one piece if that fits into `most`, else as few pieces as possible."""
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


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of depth `level` (1 is the top) on the lines `start` up to `body`, where its text begins."""

    level: int
    name: str
    start: int
    body: int


@dataclass(frozen=True, slots=True)
class MarkupOutline:
    """The outline of a text: its headings, the lines at which blocks start, and the length of the front matter."""

    lines: Sequence[str]
    headings: Sequence[Heading] = ()
    cuts: Sequence[int] = ()
    matter: int = 0
    """The number of lines of front matter."""


def section_segments(outline: MarkupOutline, place: Place, *, target: int, most: int) -> list[SegmentDraft]:
    """Return one segment per section, in order.

    A section longer than `target` characters is split between blocks. Tiny neighbors with one parent share a segment. A
    heading directly above its first sub-heading is only part of the heading path; every other line that is not blank is
    in exactly one segment.
    """
    return [
        SegmentDraft(place(piece, name), piece.text, name)
        for section in _grouped(list(_sections(outline)), outline.lines, target)
        for name in [section.title()]
        for piece in pack(outline.lines, outline.cuts, start=section.start, end=section.end, target=target, most=most)
    ]


_TINY = 120
_NAMES_SHOWN = 3
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class _Section:
    parents: tuple[str, ...]
    names: tuple[str, ...]
    start: int
    end: int
    level: int = field(default=0)

    def title(self) -> str:
        more = ("…",) if len(self.names) > _NAMES_SHOWN else ()
        own = " / ".join((*self.names[:_NAMES_SHOWN], *more))
        return " > ".join(part for part in (*self.parents, own) if part)

    def joined(self, other: "_Section") -> "_Section":
        return _Section(self.parents, self.names + other.names, self.start, other.end, self.level)


def _sections(outline: MarkupOutline) -> Iterator[_Section]:
    """Yield the text before the first heading, then the text of each heading, except headings without own text."""
    lines, headings = outline.lines, outline.headings
    ends = [*(heading.start for heading in headings), len(lines)]
    if ends[0] > outline.matter:
        yield _Section((), (), outline.matter, ends[0])
    above: list[Heading] = []
    for heading, end, following in zip(headings, ends[1:], [*headings[1:], None], strict=False):
        while above and above[-1].level >= heading.level:
            above.pop()
        holds_others = following is not None and following.level > heading.level
        if not (holds_others and all(map(is_blank, lines[heading.body : end]))):
            parents = tuple(parent.name[:_LONGEST_NAME] for parent in above)
            yield _Section(parents, (heading.name[:_LONGEST_NAME],), heading.start, end, heading.level)
        above.append(heading)


def _grouped(sections: Iterable[_Section], lines: Sequence[str], target: int) -> Iterator[_Section]:
    """Join a tiny section with the next one of the same parent and level."""
    last: _Section | None = None
    for section in sections:
        if last and _may_join(last, section, lines, target):
            last = last.joined(section)
            continue
        if last:
            yield last
        last = section
    if last:
        yield last


def _may_join(first: _Section, then: _Section, lines: Sequence[str], target: int) -> bool:
    siblings = first.level == then.level > 0 and first.parents == then.parents and first.end == then.start
    size = _size(first, lines)
    return siblings and size < _TINY and size + _size(then, lines) <= target


def _size(section: _Section, lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines[section.start : section.end])


def is_asciidoc(path: str) -> bool:
    """Return by a file's name whether it is AsciiDoc."""
    return path.lower().endswith((".adoc", ".asciidoc", ".asc"))


def restructured_outline(text: str, *, indented_blocks: bool, asciidoc: bool = False) -> MarkupOutline:
    """Outline reStructuredText, AsciiDoc, or plain text with underlined titles.

    `indented_blocks`: whether indented lines may start a block, as in plain text. In reStructuredText they belong to
    the line above that is not indented (a literal block, a directive).
    """
    lines = split_lines(text)
    headings = _asciidoc_headings(lines) if asciidoc else _underlined_headings(lines)
    return MarkupOutline(lines, list(headings), list(_blocks(lines, indented_blocks)))


_ASCIIDOC_TITLE = re.compile(r"(={1,6})[ \t]+(\S.*)")
_ASCIIDOC_RULE = re.compile(r"([-=.+*_~^/])\1{3,}|\|={3,}")
_ASCIIDOC_UNDERLINES = "=-~^+"
_ASCIIDOC_MACRO = re.compile(r"\b(?:image|link|icon|anchor):[^\s\[\]]{0,200}\[[^\[\]]{0,200}\][ \t]*")


def _asciidoc_headings(lines: Sequence[str]) -> Iterator[Heading]:
    """Yield the titles in order, marked by `=` or underlined, outside delimited blocks such as listings."""
    block = ""
    for at, line in enumerate(map(str.rstrip, lines)):
        above = lines[at - 1].rstrip() if at else ""
        if block:
            block = "" if line == block else block
        elif title := _ASCIIDOC_TITLE.fullmatch(line):
            yield Heading(len(title[1]), _ASCIIDOC_MACRO.sub("", title[2]).strip(), at, at + 1)
        elif _ASCIIDOC_RULE.fullmatch(line):
            alone = at == 1 or is_blank(lines[at - 2])
            if alone and line[0] in _ASCIIDOC_UNDERLINES and above[:1].isalnum() and abs(len(above) - len(line)) <= 2:
                yield Heading(_ASCIIDOC_UNDERLINES.index(line[0]) + 1, above, at - 1, at + 1)
            else:
                block = line


# A run of one punctuation character. Docutils allows any length from the title's on, but two are often prose.
_ADORNMENT = re.compile(r"([=\-`:'\"~^_*+#<>.!$%&,;?@|\\/])\1{2,}[ \t]*")


def _underlined_headings(lines: Sequence[str]) -> Iterator[Heading]:
    """Yield the titles in order. A title's style (its character, and whether it is also overlined) sets its level."""
    styles: list[tuple[str, bool]] = []
    free_from = 0
    for at in range(1, len(lines)):
        if at - 1 < free_from or not _underlines(lines, at):
            continue
        overlined = at - 2 >= free_from and _adorns(lines[at - 2], lines[at - 1]) and lines[at - 2][0] == lines[at][0]
        start = at - 2 if overlined else at - 1
        if start > 0 and not is_blank(lines[start - 1]):
            continue
        style = (lines[at][0], overlined)
        if style not in styles:
            styles.append(style)
        yield Heading(styles.index(style) + 1, lines[at - 1].strip(), start, at + 1)
        free_from = at + 1


def _underlines(lines: Sequence[str], at: int) -> bool:
    title = lines[at - 1]
    if is_blank(title) or not _adorns(lines[at], title) or _ADORNMENT.fullmatch(title):
        return False
    overlined = at >= 2 and _adorns(lines[at - 2], title)
    return overlined or not title[0].isspace()


def _adorns(line: str, title: str) -> bool:
    return bool(_ADORNMENT.fullmatch(line)) and len(line.rstrip()) >= len(title.strip())


def _blocks(lines: Sequence[str], indented_blocks: bool) -> Iterator[int]:
    for at, (above, line) in enumerate(pairwise(["", *lines])):
        if is_blank(above) and not is_blank(line) and (indented_blocks or not line[0].isspace()):
            yield at
