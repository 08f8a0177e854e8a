"""The sections of a document: headings, blocks, and their lines."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Literal

from treering.extensions.wiki.pages import LineCitation
from treering.extensions.wiki.repository.api_entries import SourceLines
from treering.extensions.wiki.repository.prose import words_of
from treering.sources.reading.lines import Heading, MarkupOutline, is_asciidoc, restructured_outline
from treering.sources.reading.text import outline_markdown

MAX_SECTIONS = 200
MAX_HEADINGS = 400
_FENCE = re.compile(
    r"^(?P<indent> {0,12})(?P<fence>`{3,}|~{3,})\s*(?:\{(?P<directive>[A-Za-z][\w:-]*)\}\s*)?"
    r"(?:\{?\.)?(?P<language>[\w+#.-]*)"
)
_CODE_DIRECTIVES = frozenset("code code-block code-cell sourcecode prompt ipython".split())
_LANGUAGES = frozenset("python r julia bash sql".split())
"""Languages in braces, in R Markdown and Quarto. Other words in braces are directives of MyST, such as `toctree`."""
_CODE_DIRECTIVE = re.compile(
    r"^(?P<indent>\s*)\.\. (?:code-block|sourcecode|code|prompt|ipython)::\s*(?P<language>[\w+#.-]*)"
)
_DIRECTIVE = re.compile(r"^\s*(?:\.\.(?:\s|$)|\([^()\s]+\)=\s*$|:[\w-]+:(?:\s|$)|\[[^\]]+\]:\s)")
_ITEM = re.compile(r"^\s{0,6}(?:[-*+]|\d{1,3}[.)]|#\.)\s+(?=\S)")
_INSTALLING = re.compile(r"`(?P<command>[^\s`]+(?: [^\s`]+)? (?:install|add) [^`\n]{1,200})`")
_RULER = re.compile(r"^\s{0,3}(?:=|-|~|\^|\"|'|`|#|\*|\+|_){3,}\s*$")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_ADMONITION = re.compile(r"^\s{0,4}(?:!!!|\?\?\?\+?|///+|:::+)")
_TABLE = re.compile(r"^\s*(?:\||\+[-=+]+\+|={3,}\s+={3,})")
_HTML = re.compile(r"^\s{0,3}<(?:!--|/?[A-Za-z])")
_QUOTED = re.compile(r"^\s{0,3}>(?:\s*\[!\w+\]\s*$)?")
_PROGRAM = re.compile(r"\s*<(script|style)\b")
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}\s*$")
_LINK = re.compile(r"<a\s[^<>]*>[^<>]*(?:<[^a/][^<>]*>[^<>]*)*</a>|!?\[[^\[\]]*\]\([^()]*\)|</?\w[^<>]*>|&\w+;")
_WORD = re.compile(r"[^\W\d_]{2}")

BlockKind = Literal["paragraph", "item", "code"]


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A block of a document. `first` and `last` are its lines, from 1, in the given text."""

    kind: BlockKind
    text: str
    first: int
    last: int
    language: str = ""
    marker: str = ""
    """The marker of a list item with its indentation, such as `  1.`."""


def blocks_of(text: str, *, fences: bool = True) -> list[DocumentBlock]:
    """Return the paragraphs, list items and code blocks of a section of Markdown or reStructuredText.

    `fences`: whether three backticks begin code; in reStructuredText they underline a heading.
    """
    return list(_Reader(text.split("\n"), fences).blocks())


@dataclass(slots=True)
class _Reader:
    lines: Sequence[str]
    fences: bool
    at: int = 0

    def blocks(self) -> Iterator[DocumentBlock]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            fence, directive = self._fence(line), _CODE_DIRECTIVE.match(line)
            if fence:
                block = self._fenced(fence)
                directive_name = (fence["directive"] or "code").lower()
                if directive_name in _CODE_DIRECTIVES | _LANGUAGES:
                    yield block
            elif directive:
                yield from self._indented(directive["language"] or "", len(directive["indent"]), options=True)
            elif _DIRECTIVE.match(line):
                list(self._deeper(_indent(line)))  # skips them
            elif program := _PROGRAM.match(line):
                self._skip_to(f"</{program[1]}>")
            elif _HTML.match(line) and ">" not in line:
                self._skip_to(">")
            elif not line.strip() or self._is_passed_over(line):
                self.at += 1
            else:
                yield from self._paragraph()

    def _fence(self, line: str) -> re.Match[str] | None:
        return _FENCE.match(line) if self.fences else None

    def _is_passed_over(self, line: str) -> bool:
        following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else ""
        titled = bool(_RULER.match(following)) and len(following.strip()) >= min(3, len(line.strip()))
        return titled or any(one.match(line) for one in (_RULER, _HEADING, _ADMONITION, _TABLE, _HTML))

    def _fenced(self, fence: re.Match[str]) -> DocumentBlock:
        start, indent, closing = self.at, len(fence["indent"]), fence["fence"]
        self.at += 1
        inside: list[str] = []
        while self.at < len(self.lines) and not self.lines[self.at].strip().startswith(closing):
            inside.append(self.lines[self.at])
            self.at += 1
        self.at += 1
        last = min(self.at, len(self.lines))
        name = (fence["directive"] or "").lower()
        if name:  # options of the directive
            inside = [*dropwhile(lambda line: not line.strip() or line.lstrip().startswith((":", "#|")), inside)]
        language = name if name in _LANGUAGES else fence["language"].lower()
        return DocumentBlock("code", "\n".join(_dedented(inside, indent)), start + 1, last, language)

    def _indented(self, language: str, indent: int, *, options: bool = False) -> Iterator[DocumentBlock]:
        start = self.at + 1
        inside: list[str] = []
        for line in self._deeper(indent):
            if not (options and not any(map(str.strip, inside)) and line.strip().startswith(":")):
                inside.append(line)
        body = "\n".join(_dedented(inside, 200)).strip("\n")
        if body:
            spare = next((n for n, line in enumerate(reversed(inside)) if line.strip()), 0)
            yield DocumentBlock("code", body, start, self.at - spare, language.lower())

    def _deeper(self, indent: int) -> Iterator[str]:
        """Read the lines after the current one that are indented more than `indent`."""
        self.at += 1
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and _indent(line) <= indent:
                return
            yield line
            self.at += 1

    def _skip_to(self, closing: str) -> None:
        while self.at < len(self.lines) and closing not in self.lines[self.at]:
            self.at += 1
        self.at += 1

    def _paragraph(self) -> Iterator[DocumentBlock]:
        start = self.at
        item = _ITEM.match(self.lines[start])
        said = [self.lines[start][item.end() :] if item else _QUOTED.sub("", self.lines[start]).strip()]
        self.at += 1
        while self.at < len(self.lines) and not self._ends_paragraph(self.lines[self.at]):
            said.append(_QUOTED.sub("", self.lines[self.at]).strip())
            self.at += 1
        text = " ".join(said).strip()
        announces = text.endswith("::")
        shown = re.sub(r"\s*::$", ":" if not text.endswith(" ::") else "", text)
        if shown:
            marker = item[0].rstrip() if item else ""
            yield DocumentBlock("item" if item else "paragraph", shown, start + 1, self.at, marker=marker)
        if announces:
            self.at -= 1
            line = self.lines[start]
            yield from self._indented("", _indent(line))

    def _ends_paragraph(self, line: str) -> bool:
        return not line.strip() or bool(self._fence(line) or _ITEM.match(line) or _DIRECTIVE.match(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedented(lines: Sequence[str], most: int) -> list[str]:
    """Remove the common indentation of lines, at most `most` characters."""
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    indent = min([most, *indents])
    return [line[indent:] for line in lines]


def outline_document(lines: Sequence[str], path: str) -> MarkupOutline:
    """Outline a document, as Markdown unless its name has another ending. `lines[1]` is its first line."""
    text = "\n".join(lines[1:])
    if _reads_as_markdown(path):
        return outline_markdown(text)
    return restructured_outline(text, indented_blocks=False, asciidoc=is_asciidoc(path))


def heading_text(heading: Heading) -> str:
    """Return the text of a heading without attributes such as `{#anchor}`."""
    return _ATTRIBUTES.sub("", heading.name)


def _reads_as_markdown(path: str) -> bool:
    return not (path.lower().endswith((".rst", ".rest", ".txt")) or is_asciidoc(path))


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A section of a document. `headings`: those of its parents and its own, without markup."""

    headings: tuple[str, ...]
    blocks: tuple[DocumentBlock, ...]
    lines: LineCitation
    cites: tuple[tuple[int, LineCitation], ...]
    """The citation of each block, by its first line."""

    @property
    def title(self) -> str:
        """Its own heading, or "" before the first heading."""
        return self.headings[-1] if self.headings else ""

    @property
    def first_paragraph(self) -> DocumentBlock | None:
        """Its first paragraph."""
        return next((block for block in self.blocks if block.kind == "paragraph"), None)

    @property
    def first_code(self) -> DocumentBlock | None:
        """Its first code block, else the command in the text of a section about installation."""
        blocks = (block for block in self.blocks if block.kind == "code" and block.text.strip())
        return next(blocks, None) or self._installation

    @property
    def _installation(self) -> DocumentBlock | None:
        if not self.title.lower().startswith("install"):
            return None
        found = ((block, _INSTALLING.search(block.text)) for block in self.blocks if block.kind == "paragraph")
        stated = ((block, command["command"]) for block, command in found if command)
        return next((replace(block, kind="code", text=text, language="console") for block, text in stated), None)

    def cite(self, block: DocumentBlock) -> LineCitation:
        """Return the citation of a block."""
        return dict(self.cites).get(block.first, self.lines)


def sections_of(text: SourceLines) -> tuple[DocumentSection, ...]:
    """Return the sections of a document that have text, in order; at most 200."""
    outline = outline_document(text.lines, text.path)
    sections: list[DocumentSection] = []
    for around, first, last in _stretches(outline.headings[:MAX_HEADINGS], outline.matter + 1, len(text.lines) - 1):
        section = _section(text, around, first, last, markdown=_reads_as_markdown(text.path))
        if section:
            sections.append(section)
        if len(sections) == MAX_SECTIONS:
            break
    return tuple(sections)


def is_navigation(text: str) -> bool:
    """Return whether a paragraph consists of several links."""
    return len(_LINK.findall(text)) > 1 and not _WORD.search(_LINK.sub("", text))


def _stretches(headings: Sequence[Heading], start: int, end: int) -> Iterator[tuple[list[Heading], int, int]]:
    """Yield the lines between headings with their parent headings, the nearest last."""
    before = headings[0].start if headings else end
    if before >= start:
        yield [], start, before
    around: list[Heading] = []
    for at, heading in enumerate(headings):
        around = [*(one for one in around if one.level < heading.level), heading]
        yield around, heading.start + 1, headings[at + 1].start if at + 1 < len(headings) else end


def _section(
    text: SourceLines, around: Sequence[Heading], first: int, last: int, *, markdown: bool
) -> DocumentSection | None:
    while first <= last and not text.lines[first].strip():
        first += 1
    while last > first and not text.lines[last].strip():
        last -= 1
    cited = text.cite(first, last)
    if cited is None or first > last:
        return None
    start = around[-1].body + 1 if around else first
    inside = blocks_of("\n".join(text.lines[start : last + 1]), fences=markdown)
    blocks = [
        replace(one, first=one.first + start - 1, last=one.last + start - 1)
        for one in inside
        if one.kind != "paragraph" or not is_navigation(one.text)
    ]
    cites = ((block.first, text.cite(block.first, block.last)) for block in blocks)
    titles = tuple("".join(word.text for word in words_of(heading_text(one))) for one in around)
    # A heading without text of its own is in no segment, but in the heading path of the next one.
    named = next((part.heading for place, part in text.spans if place.start <= first <= place.end), "")
    path = tuple(named.removeprefix(f"{text.source.title} / ").split(" > "))
    if titles and len(path) > len(titles) and path[-1] == heading_text(around[-1]):
        titles = path
    return DocumentSection(titles, tuple(blocks), cited, tuple((at, lines) for at, lines in cites if lines))
