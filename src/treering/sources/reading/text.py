"""Segments of texts other than parsed code: Markdown by headings, other texts by paragraphs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from treering.ports.adapter import Role, SegmentDraft
from treering.ports.format import posix_path
from treering.sources.reading import lines as restructured
from treering.sources.reading.lines import (
    Heading,
    MarkupOutline,
    Place,
    in_file,
    in_text,
    is_blank,
    pack,
    section_segments,
    split_lines,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def segment_text(path: str, text: str, *, commit: str | None, max_chars: int) -> list[SegmentDraft]:
    """Split a file into segments of about 1,200 characters, with their lines.

    Prose is split between sections and paragraphs, configuration between top-level blocks (role `data`), code without a
    parser between paragraphs (role `code`).
    """
    if role_of(path) == "data":
        return _data_segments(path, text, in_file(path, commit), max_chars)
    outline = restructured.restructured_outline(
        text,
        indented_blocks=posix_path(path).suffix.lower() not in _RESTRUCTURED,
        asciidoc=restructured.is_asciidoc(path),
    )
    place, target = in_file(path, commit), min(_TARGET, max_chars)
    if role_of(path) == "code":
        pieces = pack(outline.lines, outline.cuts, start=0, end=len(outline.lines), target=target, most=max_chars)
        return [SegmentDraft(place(piece, ""), piece.text, role="code") for piece in pieces]
    return section_segments(outline, place, target=target, most=max_chars)


def segment_inline_text(text: str, *, max_chars: int) -> list[SegmentDraft]:
    """Split a plain text that is not a file into segments with heading and offset."""
    outline = restructured.restructured_outline(text, indented_blocks=True)
    return section_segments(outline, in_text(text), target=min(_TARGET, max_chars), most=max_chars)


def role_of(path: str) -> Role:
    """Return by a file's name whether it contains prose, configuration and data, or code."""
    file = posix_path(path)
    names = {file.suffix.lower(), file.name.lower()}
    if not _DATA.isdisjoint(names):
        return "data"
    return "prose" if _CODE.isdisjoint(names) else "code"


_TARGET = 1_200
_CATALOGUE_TARGET = 2_000  # about the maximum input of an embedder
_NAMES_SHOWN = 4
_RESTRUCTURED = (".rst", ".rest")
_DATA = frozenset(
    ".toml .yaml .yml .json .jsonc .json5 .jsonl .ndjson .ini .cfg .conf .properties .env .editorconfig .lock "
    ".csv .tsv .xml .svg .xsd .plist .csproj .props .geojson .webmanifest .ipynb .gitignore .gitattributes "
    ".gitmodules .dockerignore .npmrc .po .pot go.mod go.sum go.work pipfile codeowners".split()
)
_CODE = frozenset(
    ".kt .kts .swift .scala .lua .pl .pm .r .jl .ex .exs .erl .hs .ml .mli .clj .cljs .dart .groovy .gradle .sql "
    ".css .scss .sass .less .vue .svelte .proto .graphql .tf .hcl .cmake .mk .ps1 .bat .cmd .zsh .fish .awk .asm .s "
    ".v .sv .vhd .m .mm .f90 .f .pas .nim .zig .d .pyx .pxd .cu .cuh .el .lisp .vim .j2 .jinja .tmpl .ejs .erb "
    "makefile dockerfile containerfile justfile rakefile gemfile jenkinsfile vagrantfile cmakelists.txt".split()
)


def _data_segments(path: str, text: str, place: Place, most: int) -> list[SegmentDraft]:
    lines = split_lines(text)
    blocks = top_level_blocks(path, lines)
    target = _CATALOGUE_TARGET if _is_catalogue(path) else _TARGET
    drafts = []
    for piece in pack(lines, sorted(blocks), start=0, end=len(lines), target=target, most=most):
        names = list(dict.fromkeys(filter(None, map(blocks.get, range(piece.start, piece.end)))))
        heading = ", ".join([*names[:_NAMES_SHOWN], *(["…"] if len(names) > _NAMES_SHOWN else [])])
        drafts.append(SegmentDraft(place(piece, heading), piece.text, heading, "data"))
    return drafts


Names = dict[int, str]
"""The name of a block by the line (from 0) at which it starts; may be empty."""


def top_level_blocks(path: str, lines: Sequence[str]) -> Names:
    """Find the blocks by their first lines, which also works for broken or commented files.

    A block begins at a table header of TOML and INI, an unindented key of YAML, a member of the outermost object or
    array of indented JSON, an element below the root of indented XML, an entry of a translation catalog after a blank
    line, else at each line. Comment lines directly above belong to it.
    """
    if _is_catalogue(path):
        return {at: "" for at, pair in enumerate(pairwise(lines), 1) if is_blank(pair[0]) and not is_blank(pair[1])}
    opener = _opener(posix_path(path).suffix.lower(), lines)
    blocks = {}
    for at, line in enumerate(lines):
        match = None if _COMMENT.match(line) else opener.match(line)
        if match:
            blocks[_with_comments(lines, at)] = (match["name"] or "").strip("\"' ")
    return blocks


def _is_catalogue(path: str) -> bool:
    return posix_path(path).suffix.lower() in (".po", ".pot")


_TABLE = re.compile(r"\[\[?(?P<name>[^\[\]\n]{1,200})\]")
_KEY = re.compile(r"(?P<name>[^\s#:\-][^:#\n]{0,100}):(?:\s|$)|---|-\s")
_LINE = re.compile(r"(?P<name>)\S")
_OPENERS = {
    **dict.fromkeys((".toml", ".ini", ".cfg", ".editorconfig", ".conf", ".lock"), _TABLE),
    **dict.fromkeys((".yaml", ".yml"), _KEY),
}
_MEMBER = r'(?:"(?P<name>[^"\n]{1,200})"\s{0,4}:|[\[{"\d])'
_ELEMENT = r"<(?P<name>[\w:.-]{1,100})"
_INDENTED_OPENERS = {
    **dict.fromkeys((".json", ".jsonc", ".json5", ".ipynb", ".geojson", ".webmanifest"), _MEMBER),
    **dict.fromkeys((".xml", ".csproj", ".svg", ".xsd", ".plist", ".props"), _ELEMENT),
}
_INDENT = re.compile(r"[ \t]+(?=\S)")
_COMMENT = re.compile(r"[ \t]*(?:#|;|//)")


def _opener(suffix: str, lines: Sequence[str]) -> re.Pattern[str]:
    opening = _INDENTED_OPENERS.get(suffix)
    if opening is None:
        return _OPENERS.get(suffix, _LINE)
    # Children of the root have the indentation of the first indented line.
    indent = next((match[0] for line in lines if (match := _INDENT.match(line))), "")
    return re.compile(re.escape(indent) + opening)


def _with_comments(lines: Sequence[str], at: int) -> int:
    while at and not is_blank(lines[at - 1]) and _COMMENT.match(lines[at - 1]):
        at -= 1
    return at


@dataclass(frozen=True, slots=True)
class Paragraph:
    """The text of a paragraph or list item, and its first line (from 0)."""

    text: str
    line: int


def is_markdown(path: str) -> bool:
    """Return by a file's name whether it is Markdown."""
    return posix_path(path).suffix.lower() in (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".mdc")


def segment_inline_markdown(text: str, *, max_chars: int) -> list[SegmentDraft]:
    """Split a Markdown text that is not a file, such as a note, into segments with heading path and offset."""
    return segments_of_markdown(outline_markdown(text), in_text(text), max_chars=max_chars)


def outline_markdown(text: str) -> MarkupOutline:
    """Outline a text: its headings (outside code, lists, quotations and comments), blocks and front matter."""
    lines = split_lines(text)
    matter = _front_matter(lines)
    tokens = _parse(lines, matter)
    return MarkupOutline(lines, list(_headings(tokens)), sorted(set(_cuts(tokens))), matter)


def segments_of_markdown(outline: MarkupOutline, place: Place, *, max_chars: int) -> list[SegmentDraft]:
    """Split an outlined text; its front matter is a segment of its own, with role `data`.

    A section longer than 2,000 characters, about the maximum input of an embedder, is split between blocks; a block is
    only split if it is longer than `max_chars` itself.
    """
    matter = [
        SegmentDraft(place(piece, "front matter"), piece.text, "front matter", "data")
        for piece in pack(outline.lines, (), start=0, end=outline.matter, target=max_chars, most=max_chars)
    ]
    return matter + section_segments(outline, place, target=min(_LONG_SECTION, max_chars), most=max_chars)


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs and list items of a text, as written; no headings, code, tables or comments."""
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
_FENCE_OF_MATTER = re.compile(r"(---|\+\+\+)[ \t]*")
_ENTRY_OF_MATTER = re.compile(r"[\w\"'.-][^:=\n]{0,100}[:=]")
_LONGEST_MATTER = 500


def _front_matter(lines: Sequence[str]) -> int:
    """Count the lines of the YAML (`---`) or TOML (`+++`) block at the beginning; 0 if there is none."""
    opening = _FENCE_OF_MATTER.fullmatch(lines[0].removeprefix("\ufeff")) if lines else None
    if not opening or len(lines) < 3 or is_blank(lines[1]):
        return 0
    closings = (opening[1], "...") if opening[1] == "---" else (opening[1],)
    for at, line in enumerate(lines[1:_LONGEST_MATTER], start=1):
        if line.rstrip() in closings:
            return at + 1 if any(map(_ENTRY_OF_MATTER.match, lines[1:at])) else 0
    return 0


@cache
def _markdown_parsers() -> "tuple[MarkdownIt, MarkdownIt]":
    """Return the parsers of blocks, and of the markup of a heading, loaded on first use."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline"), MarkdownIt("commonmark")


def _parse(lines: Sequence[str], matter: int) -> "list[Token]":
    # Blank lines replace the front matter, which Markdown would parse as a rule and a heading.
    return _markdown_parsers()[0].parse("\n".join([*[""] * matter, *lines[matter:], ""]))


def _headings(tokens: "Sequence[Token]") -> Iterator[Heading]:
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            yield Heading(int(token.tag[1:]), _plain(inline.content), *token.map)


def _cuts(tokens: "Sequence[Token]") -> Iterator[int]:
    """Yield the lines at which a block, or an item of an outermost list, starts."""
    for token in tokens:
        if token.map and (token.level == 0 or (token.level == 1 and token.type == "list_item_open")):
            yield token.map[0]


def _plain(markup: str) -> str:
    """Return a heading without emphasis, links and code marks."""
    parsed = _markdown_parsers()[1].parseInline(markup[:_LONGEST_HEADING])
    words = (_words(child) for child in (parsed[0].children or ()))
    return " ".join("".join(words).split())


def _words(token: "Token") -> str:
    return " " if token.type in ("softbreak", "hardbreak") else token.content if token.type != "html_inline" else ""
