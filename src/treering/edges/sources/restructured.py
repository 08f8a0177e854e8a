"""reStructuredText, and plain text that underlines its titles: where the headings and blocks are."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from treering.edges.sources.lines import is_blank, split_lines
from treering.edges.sources.sections import Heading, MarkupOutline


def outline(text: str, *, indented_blocks: bool) -> MarkupOutline:
    """Find the underlined titles and the paragraphs of a text.

    `indented_blocks`: whether indented lines may start a block of their own, as in plain text. In
    reStructuredText they belong to the line above that is not indented (a literal block, a directive).
    """
    lines = split_lines(text)
    return MarkupOutline(lines, list(_headings(lines)), list(_blocks(lines, indented_blocks)))


# A run of one punctuation character. Docutils allows any length from the title's on; two are too easily prose.
_ADORNMENT = re.compile(r"([=\-`:'\"~^_*+#<>.!$%&,;?@|\\/])\1{2,}[ \t]*")


def _headings(lines: Sequence[str]) -> Iterator[Heading]:
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
