"""Markdown as segments: one per heading section, front matter apart."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from treering.ports.adapter import SegmentDraft
from treering.sources.reading.lines import (
    Heading,
    MarkupOutline,
    Place,
    in_text,
    is_blank,
    pack,
    section_segments,
    split_lines,
)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph's or list item's own text, and on which line (from 0) it starts."""

    text: str
    line: int


def is_markdown(path: str) -> bool:
    """Tell by a file's name whether it is Markdown."""
    return PurePosixPath(path).suffix.lower() in (".md", ".markdown", ".mdown", ".mkd", ".mdx")


def segment_inline_markdown(text: str, *, max_chars: int) -> list[SegmentDraft]:
    """Cut a Markdown text that is not a file, such as a note, into segments with heading path and offset."""
    return segments_of(outline(text), in_text(text), max_chars=max_chars)


def outline(text: str) -> MarkupOutline:
    """Find the headings (outside code, lists, quotations and comments), blocks and front matter of a text."""
    lines = split_lines(text)
    matter = _front_matter(lines)
    tokens = _parse(lines, matter)
    return MarkupOutline(lines, list(_headings(tokens)), sorted(set(_cuts(tokens))), matter)


def segments_of(found: MarkupOutline, place: Place, *, max_chars: int) -> list[SegmentDraft]:
    """Cut a text that is outlined already; its front matter is a segment of its own, with role `data`.

    A section longer than 2,000 characters, about what an embedder reads, is cut between blocks; a block is cut
    only where it is longer than `max_chars` itself.
    """
    matter = [
        SegmentDraft(place(piece, "front matter"), piece.text, "front matter", "data")
        for piece in pack(found.lines, (), start=0, end=found.matter, target=max_chars, most=max_chars)
    ]
    return matter + section_segments(found, place, target=min(_LONG_SECTION, max_chars), most=max_chars)


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Return the paragraphs and list items of a text, as written; no headings, code, tables or comments."""
    lines = split_lines(text)
    inside: list[str] = []
    for token in _parse(lines, _front_matter(lines)):
        if token.nesting == 1:
            inside.append(token.type)
        elif token.nesting == -1:
            inside.pop()
        elif token.type == "inline" and token.map and inside[-1] == "paragraph_open":
            yield Paragraph(token.content, token.map[0])


_LONG_SECTION = 2_000
_LONGEST_HEADING = 1_000
_BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")
_INLINE = MarkdownIt("commonmark")
_FENCE_OF_MATTER = re.compile(r"(---|\+\+\+)[ \t]*")
_ENTRY_OF_MATTER = re.compile(r"[\w\"'.-][^:=\n]{0,100}[:=]")
_LONGEST_MATTER = 500


def _front_matter(lines: Sequence[str]) -> int:
    """Count the lines of the YAML (`---`) or TOML (`+++`) block the text begins with; 0 where there is none."""
    opening = _FENCE_OF_MATTER.fullmatch(lines[0].removeprefix("\ufeff")) if lines else None
    if not opening or len(lines) < 3 or is_blank(lines[1]):
        return 0
    closings = (opening[1], "...") if opening[1] == "---" else (opening[1],)
    for at, line in enumerate(lines[1:_LONGEST_MATTER], start=1):
        if line.rstrip() in closings:
            return at + 1 if any(map(_ENTRY_OF_MATTER.match, lines[1:at])) else 0
    return 0


def _parse(lines: Sequence[str], matter: int) -> list[Token]:
    # Blank lines in place of the front matter, which Markdown would read as a rule and a heading.
    return _BLOCKS.parse("\n".join([*[""] * matter, *lines[matter:], ""]))


def _headings(tokens: Sequence[Token]) -> Iterator[Heading]:
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield Heading(int(token.tag[1:]), _plain(inline.content), *token.map)


def _cuts(tokens: Sequence[Token]) -> Iterator[int]:
    """Return the lines where a block or an item of an outermost list starts."""
    for token in tokens:
        if token.map and (token.level == 0 or (token.level == 1 and token.type == "list_item_open")):
            yield token.map[0]


def _plain(markup: str) -> str:
    """Return a heading as people read it, without emphasis, links and code marks."""
    parsed = _INLINE.parseInline(markup[:_LONGEST_HEADING])
    words = (_words(child) for child in (parsed[0].children or ()))
    return " ".join("".join(words).split())


def _words(token: Token) -> str:
    return " " if token.type in ("softbreak", "hardbreak") else token.content if token.type != "html_inline" else ""
