"""The blocks of a document's text, by rules: paragraphs, lists and code of Markdown and reStructuredText."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["paragraph", "item", "code"]


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A block of a document. `first` and `last` are its lines, counted from the first line of the text given."""

    kind: BlockKind
    text: str
    first: int
    last: int
    language: str = ""


_FENCE = re.compile(r"^(?P<indent> {0,12})(?P<fence>`{3,}|~{3,})\s*\{?\.?(?P<language>[\w+#.-]*)")
_CODE_DIRECTIVE = re.compile(
    r"^(?P<indent>\s*)\.\. (?:code-block|sourcecode|code|prompt|ipython)::\s*(?P<language>[\w+#.-]*)"
)
_DIRECTIVE = re.compile(r"^\s*(?:\.\.(?:\s|$)|:[\w-]+:(?:\s|$)|\[[^\]]+\]:\s)")
_ITEM = re.compile(r"^\s{0,6}(?:[-*+]|\d{1,3}[.)]|#\.)\s+(?=\S)")
_RULER = re.compile(r"^\s{0,3}(?:=|-|~|\^|\"|'|`|#|\*|\+|_){3,}\s*$")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_ADMONITION = re.compile(r"^\s{0,4}(?:!!!|\?\?\?\+?|///+|:::+)")
_TABLE = re.compile(r"^\s*(?:\||\+[-=+]+\+|={3,}\s+={3,})")
_TERMINALS = frozenset({"console", "shell", "shell-session", "bash", "sh", "text", "ansi", ""})
_COLOURS = re.compile(r"</?(?:font|span|b|i|u)(?: [^<>\n]{0,200})?>")
_ENTITIES = {"&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&amp;": "&"}
_HTML = re.compile(r"^\s{0,3}<(?:!--|/?[A-Za-z])")


def blocks_of(text: str, *, fences: bool = True) -> list[DocumentBlock]:
    """Return the paragraphs, items and code of a section of Markdown or reStructuredText; nothing else of it.

    `fences`: three backticks begin code, as in Markdown; in reStructuredText they underline a heading.
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
                yield self._fenced(fence)
            elif directive:
                yield from self._indented(directive["language"] or "", len(directive["indent"]), options=True)
            elif _DIRECTIVE.match(line):
                self._skip_directive()
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
        language = fence["language"].lower()
        body = _without_colours("\n".join(_dedented(inside, indent)), language)
        return DocumentBlock("code", body, start + 1, last, language)

    def _indented(self, language: str, indent: int, *, options: bool = False) -> Iterator[DocumentBlock]:
        """Read the lines that stand further in than `indent`, behind the line that announced them."""
        start = self.at + 1
        self.at += 1
        inside: list[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                break
            if not (options and not any(map(str.strip, inside)) and line.strip().startswith(":")):
                inside.append(line)
            self.at += 1
        body = "\n".join(_dedented(inside, 200)).strip("\n")
        if body:
            spare = next((n for n, line in enumerate(reversed(inside)) if line.strip()), 0)
            yield DocumentBlock("code", body, start, self.at - spare, language.lower())

    def _skip_directive(self) -> None:
        indent = len(self.lines[self.at]) - len(self.lines[self.at].lstrip())
        self.at += 1
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                return
            self.at += 1

    def _paragraph(self) -> Iterator[DocumentBlock]:
        start = self.at
        item = _ITEM.match(self.lines[start])
        said = [self.lines[start][item.end() :] if item else self.lines[start].strip()]
        self.at += 1
        while self.at < len(self.lines) and not self._ends_paragraph(self.lines[self.at]):
            said.append(self.lines[self.at].strip())
            self.at += 1
        text = " ".join(said).strip()
        announces = text.endswith("::")
        shown = re.sub(r"\s*::$", ":" if not text.endswith(" ::") else "", text)
        if shown:
            yield DocumentBlock("item" if item else "paragraph", shown, start + 1, self.at)
        if announces:
            self.at -= 1
            line = self.lines[start]
            yield from self._indented("", len(line) - len(line.lstrip()))

    def _ends_paragraph(self, line: str) -> bool:
        return not line.strip() or bool(self._fence(line) or _ITEM.match(line) or _DIRECTIVE.match(line))


def _without_colours(text: str, language: str) -> str:
    """Return what a terminal showed without the HTML that gives it colours on a page."""
    if language not in _TERMINALS or not _COLOURS.search(text):
        return text
    bare = _COLOURS.sub("", text)
    for entity, sign in _ENTITIES.items():
        bare = bare.replace(entity, sign)
    return bare


def _dedented(lines: Sequence[str], most: int) -> list[str]:
    """Take away the white space that all lines begin with, at most so many characters."""
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    indent = min([most, *indents])
    return [line[indent:] for line in lines]
