"""The sections of a document: a heading, its blocks, and where they stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from treering.memories.wiki.repository.api_entries import CitedSpan, SourceLines
from treering.memories.wiki.repository.document_blocks import DocumentBlock, blocks_of
from treering.memories.wiki.repository.document_headings import DocumentHeading, headings_of
from treering.memories.wiki.repository.prose import words_of

_MOST_SECTIONS = 200


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A section of a document. `headings` are those around it and its own, as words."""

    headings: tuple[str, ...]
    blocks: tuple[DocumentBlock, ...]
    lines: CitedSpan
    cites: tuple[tuple[int, CitedSpan], ...]
    """For the first lines of blocks, what to cite."""

    @property
    def title(self) -> str:
        """Return its own heading; empty for what stands before the first."""
        return self.headings[-1] if self.headings else ""

    @property
    def first_paragraph(self) -> DocumentBlock | None:
        """Return its first paragraph."""
        return next((block for block in self.blocks if block.kind == "paragraph"), None)

    @property
    def first_code(self) -> DocumentBlock | None:
        """Return its first block of code."""
        return next((block for block in self.blocks if block.kind == "code" and block.text.strip()), None)

    def cite(self, block: DocumentBlock) -> CitedSpan:
        """Return what a block cites."""
        return dict(self.cites).get(block.first, self.lines)


def sections_of(text: SourceLines) -> tuple[DocumentSection, ...]:
    """Return the sections of a document that say something, in its order; at most 200."""
    path = text.spans[0][0].path.lower() if text.spans else ""
    markdown = not path.endswith((".rst", ".rest", ".txt"))
    headings = headings_of(text.lines, markdown=markdown)
    found: list[DocumentSection] = []
    for around, first, last in _stretches(headings, len(text.lines) - 1):
        section = _section(text, around, first, last, markdown=markdown)
        if section:
            found.append(section)
        if len(found) == _MOST_SECTIONS:
            break
    return tuple(found)


def _stretches(headings: Sequence[DocumentHeading], end: int) -> Iterator[tuple[list[DocumentHeading], int, int]]:
    """Return the lines between headings with the headings around them, the nearest last."""
    first = headings[0].first if headings else end + 1
    if first > 1:
        yield [], 1, first - 1
    around: list[DocumentHeading] = []
    for at, heading in enumerate(headings):
        around = [*(one for one in around if one.level < heading.level), heading]
        yield around, heading.first, headings[at + 1].first - 1 if at + 1 < len(headings) else end


def _section(
    text: SourceLines, around: Sequence[DocumentHeading], first: int, last: int, *, markdown: bool
) -> DocumentSection | None:
    while first <= last and not text.lines[first].strip():
        first += 1
    while last > first and not text.lines[last].strip():
        last -= 1
    cited = text.cite(first, last)
    if cited is None or first > last:
        return None
    start = around[-1].last + 1 if around else first
    inside = blocks_of("\n".join(text.lines[start : last + 1]), fences=markdown)
    blocks = [replace(one, first=one.first + start - 1, last=one.last + start - 1) for one in inside]
    cites = ((block.first, text.cite(block.first, block.last)) for block in blocks)
    titles = tuple("".join(word.text for word in words_of(one.text)) for one in around)
    return DocumentSection(titles, tuple(blocks), cited, tuple((at, lines) for at, lines in cites if lines))
