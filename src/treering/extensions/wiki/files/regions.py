"""Text of a person in a page: regions between marker comments, and entries of the front matter.

A region begins with a line `<!-- treering:keep -->` and ends with `<!-- treering:end -->`. When the page is rewritten,
it stays in its section: after the same line, else at the end of the section, else at the end of the page.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from treering.extensions.wiki.files.front_matter import own_entries, with_own_entries
from treering.extensions.wiki.files.headings import fenced_lines

KEEP = "<!-- treering:keep -->"
END = "<!-- treering:end -->"

_MARKER = re.compile(r" {0,3}<!--\s*treering:(?P<which>keep|end)\s*-->\s*")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t].*)?")
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Region:
    """A person's region with its markers and its position."""

    text: str
    heading: str
    """The heading above it, or "" before the first heading."""
    after: str
    """The last line of text before it."""


@dataclass(frozen=True, slots=True)
class PageText:
    """The current text of a page, split into Treering's text, and a person's regions and front matter."""

    written: str
    regions: tuple[Region, ...]
    entries: str
    """A person's entries of the front matter."""
    open_region: bool = False
    """Whether a marker has no counterpart; the whole page is then treated as written by Treering."""


def part(text: str) -> PageText:
    """Split the text of a page."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    written, regions, region = list[str](), list[Region](), list[str]()
    heading = after = ""
    for line, code in fenced_lines(text):
        marker = None if code else _MARKER.fullmatch(line)
        if marker and (marker["which"] == "keep") == bool(region):
            return PageText(text, (), "", open_region=True)
        if marker or region:
            region.append(line)
            if marker and marker["which"] == "end":
                regions.append(Region("\n".join(region), heading, after))
                region = []
            continue
        written.append(line)
        if not code and _HEADING.fullmatch(line):
            heading = line.strip()
        after = line.strip() or after
    if region:
        return PageText(text, (), "", open_region=True)
    whole, entries = own_entries("\n".join(written))
    return PageText(whole, tuple(regions), entries)


def merged(written: str, before: PageText) -> str:
    """Insert a person's regions and entries into the new text of a page."""
    lines = list(fenced_lines(written))
    places: dict[int, list[str]] = {}
    for region in before.regions:
        places.setdefault(_place(lines, region), []).append(region.text)
    result = list[str]()
    for number in range(len(lines) + 1):
        for text in places.get(number, ()):
            result += ([""] if result and result[-1].strip() else []) + [text, ""]
        if number < len(lines) and not (number in places and not lines[number][0].strip()):
            result.append(lines[number][0])
    text = "\n".join(result).rstrip("\n") + "\n"
    return with_own_entries(text, before.entries)


def without_markers(body: str) -> str:
    """Escape the region markers in a generated body."""
    return "\n".join(
        line.replace("<!--", "&lt;!--", 1) if not code and _MARKER.fullmatch(line) else line
        for line, code in fenced_lines(body)
    )


def blocks(text: str) -> list[str]:
    """Split a text at blank lines."""
    result, block = list[str](), list[str]()
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            result.append("\n".join(block))
            block = []
    return result


def block_digests(text: str) -> tuple[str, ...]:
    """Return a short digest of each block, to detect later changes."""
    return tuple(map(short_digest, blocks(text)))


def short_digest(text: str) -> str:
    """Return the first 64 bits of the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _place(lines: list[tuple[str, bool]], region: Region) -> int:
    """Return the line before which a region is inserted."""
    start, end = _section(lines, region.heading)
    for number in range(start, end):
        line, code = lines[number]
        ends_block = number + 1 >= end or not lines[number + 1][0].strip()
        inside = code and number + 1 < end and lines[number + 1][1]
        if line.strip() == region.after and ends_block and not inside:
            return number + 1
    return _without_blanks(lines, start, end)


def _section(lines: list[tuple[str, bool]], heading: str) -> tuple[int, int]:
    headings = [n for n, (line, code) in enumerate(lines) if not code and _HEADING.fullmatch(line)]
    start = next((n for n in headings if lines[n][0].strip() == heading), None)
    if start is None:
        return (0, headings[0]) if not heading and headings else (len(lines), len(lines))
    return start, next((n for n in headings if n > start), len(lines))


def _without_blanks(lines: Iterable[tuple[str, bool]], start: int, end: int) -> int:
    rows = list(lines)
    while end > start and not rows[end - 1][0].strip():
        end -= 1
    return end
