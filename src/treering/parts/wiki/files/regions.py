"""What of a page is a person's: regions between marker comments, and entries of the front matter.

A region begins with a line `<!-- treering:keep -->` and ends with `<!-- treering:end -->`. It stays in its section
when the page is written anew: after the line it followed, else at the section's end, else at the end of the page.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from treering.parts.wiki.files.links import fenced_lines

KEEP = "<!-- treering:keep -->"
END = "<!-- treering:end -->"

_MARKER = re.compile(r" {0,3}<!--\s*treering:(?P<which>keep|end)\s*-->\s*")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t].*)?")
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Region:
    """A person's region, with its markers, and where it stood."""

    text: str
    heading: str
    """The line of the heading above it; empty above the first."""
    after: str
    """The last line of text before it."""


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as it lies, parted into what Treering wrote and what is a person's."""

    written: str
    regions: tuple[Region, ...]
    entries: str
    """Of the front matter."""
    open_region: bool = False
    """Whether a region is begun and never ended, or ended and never begun: then all of the page counts as written."""


def part(text: str) -> PageText:
    """Part the text of a page."""
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
    """Put a person's regions and entries into a page that was written anew."""
    lines = list(fenced_lines(written))
    places: dict[int, list[str]] = {}
    for region in before.regions:
        places.setdefault(_place(lines, region), []).append(region.text)
    made = list[str]()
    for number in range(len(lines) + 1):
        for text in places.get(number, ()):
            made += ([""] if made and made[-1].strip() else []) + [text, ""]
        if number < len(lines) and not (number in places and not lines[number][0].strip()):
            made.append(lines[number][0])
    text = "\n".join(made).rstrip("\n") + "\n"
    return with_own_entries(text, before.entries)


def without_markers(body: str) -> str:
    """Return a body in which no line begins or ends a region: what is written is never a person's."""
    return "\n".join(
        line.replace("<!--", "&lt;!--", 1) if not code and _MARKER.fullmatch(line) else line
        for line, code in fenced_lines(body)
    )


def blocks(text: str) -> list[str]:
    """Cut a text at its blank lines."""
    found, block = list[str](), list[str]()
    for line in [*text.split("\n"), ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            found.append("\n".join(block))
            block = []
    return found


def block_digests(text: str) -> tuple[str, ...]:
    """Return a short digest of each block: by these it is seen later what a person changed."""
    return tuple(map(short_digest, blocks(text)))


def short_digest(text: str) -> str:
    """Return the first 64 bits of the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _place(lines: list[tuple[str, bool]], region: Region) -> int:
    """Return before which line a region goes."""
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


# The front matter of a page: written as YAML that every reader takes, and the lines in it that are a person's.


OURS = frozenset("okf_version type title description aliases status generated sources verified stale_after".split())
"""The keys that Treering writes; all others are a person's own and stay."""

_RULE = "---"
_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_KEY = re.compile(r"""(?P<quote>["']?)(?P<key>[^\s:#"'][^:"']*?)(?P=quote)\s*:(?:\s|$)""")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_AMBIGUOUS = frozenset("y n yes no on off true false null none".split())
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}

Scalar = str | bool
Field = Scalar | Sequence[str]


def front_matter(fields: Mapping[str, Field]) -> str:
    """Write front matter with its rules, ending in a line feed."""
    lines = [line for key, value in fields.items() for line in _lines(key, value)]
    return "\n".join([_RULE, *lines, _RULE, ""])


def without_matter(text: str) -> str:
    """Return a page without its front matter."""
    return _MATTER.sub("", text.removeprefix("\ufeff").replace("\r\n", "\n"), count=1)


def own_entries(text: str) -> tuple[str, str]:
    """Part a text into itself without the entries of its front matter that are not ours, and these entries."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return text, ""
    kept, own = list[str](), list[str]()
    into = kept
    for line in lines[1:end]:
        found = _KEY.match(line)
        if found:
            into = kept if found["key"] in OURS else own
        into.append(line)
    return "\n".join([lines[0], *kept, *lines[end:]]), "\n".join(own)


def with_own_entries(text: str, own: str) -> str:
    """Put a person's entries at the end of the front matter of a text."""
    if not own:
        return text
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _RULE), 0)
    if not end or lines[0].rstrip() != _RULE:
        return "\n".join([_RULE, own, _RULE, "", text])
    return "\n".join([*lines[:end], own, *lines[end:]])


def _lines(key: str, value: Field) -> Iterator[str]:
    if isinstance(value, bool | str):
        yield f"{key}: {_scalar(value)}"
    elif not value:
        yield f"{key}: []"
    else:
        yield f"{key}:"
        yield from (f"  - {_scalar(each)}" for each in value)


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS:
        return value
    return '"' + "".join(map(_character, value)) + '"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    # What YAML does not let stand in a text, and what would end a line in it.
    if code < 0x20 or 0x7F <= code <= 0xA0 or code in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF):
        return f"\\u{code:04x}"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else char
