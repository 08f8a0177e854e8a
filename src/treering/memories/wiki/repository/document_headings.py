"""The headings of a document, by rules: those of Markdown and of reStructuredText, outside of code."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MOST = 400
_HASHES = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r"^ {0,3}(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r"^ {0,12}(`{3,}|~{3,})")
_ATTRIBUTES = re.compile(r"\s*\{[#.:][^{}]*\}\s*$")
_RULER = re.compile(r"^([=\-`:'\"~^_*+#<>.])\1{2,}[ \t]*$")
_NO_TITLE = re.compile(r"^(?:[-*+>|]|\d+[.)])\s|^\s*$|^\.\. ")


@dataclass(frozen=True, slots=True)
class DocumentHeading:
    """A heading: how deep it is (1 the highest), its words as written, and its first and last line."""

    level: int
    text: str
    first: int
    last: int


def headings_of(lines: Sequence[str], *, markdown: bool) -> list[DocumentHeading]:
    """Return the headings of a document, at most 400. `lines[1]` is its first line."""
    found = _of_markdown(lines) if markdown else _of_restructured(lines)
    return [one for _, one in zip(range(_MOST), found, strict=False)]


def _of_markdown(lines: Sequence[str]) -> Iterator[DocumentHeading]:
    at, fence = _behind_matter(lines), ""
    while at < len(lines):
        line = lines[at]
        opened = _FENCE.match(line)
        if fence:
            fence = "" if line.strip().startswith(fence) and not line.strip(" `~") else fence
        elif opened:
            fence = opened[1]
        elif hashes := _HASHES.match(line):
            yield DocumentHeading(len(hashes[1]), _ATTRIBUTES.sub("", hashes[2]), at, at)
        elif at + 1 < len(lines) and (under := _SETEXT.match(lines[at + 1])) and _may_be_title(lines, at):
            yield DocumentHeading(1 if under[1][0] == "=" else 2, line.strip(), at, at + 1)
            at += 1
        at += 1


def _behind_matter(lines: Sequence[str]) -> int:
    """Return the first line behind the front matter."""
    if len(lines) > 1 and lines[1].strip() in ("---", "+++"):
        closed = (at for at in range(2, min(len(lines), 500)) if lines[at].strip() == lines[1].strip())
        return next(closed, 0) + 1
    return 1


def _of_restructured(lines: Sequence[str]) -> Iterator[DocumentHeading]:
    styles: list[tuple[str, bool]] = []
    for at in range(1, len(lines) - 1):
        under = _RULER.match(lines[at + 1])
        if not under or not _may_be_title(lines, at) or len(lines[at + 1].rstrip()) < len(lines[at].rstrip()):
            continue
        over = at > 1 and lines[at - 1].rstrip() == lines[at + 1].rstrip()
        style = (under[1], over)
        if style not in styles:
            styles.append(style)
        yield DocumentHeading(styles.index(style) + 1, lines[at].strip(), at - over, at + 1)


def _may_be_title(lines: Sequence[str], at: int) -> bool:
    before = lines[at - 1] if at > 1 else ""
    stands_alone = not before.strip() or _RULER.match(before) is not None
    return stands_alone and not _NO_TITLE.match(lines[at]) and not _RULER.match(lines[at])
