"""The `page:` and `source:` links of a page's body: find them outside of code, and rewrite their addresses."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

from treering.extensions.wiki.files.headings import fenced_lines
from treering.extensions.wiki.pages import LineCitation

_OPENS = re.compile(r"\]\((?P<angle><)?(?P<scheme>page|source):")
_PLAIN = re.compile(r"\]\((?![A-Za-z][\w+.-]*:|/)(?P<path>[^()\s#<>]+\.md)(?P<fragment>#[^()\s]*|)\)")
"""Matches the end of a link to a Markdown file by its path."""
_TICKS = re.compile(r"`+")
_LINES = re.compile(r"L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?")
_SPECIAL = re.compile(r"[\\`*_\[\]<>|~#&!]")
_ENTITIES = {"<": "&lt;", "&": "&amp;", "|": "&#124;", "~": "&#126;"}
_SAFE = "/!$'*+,;=@"
_PRINTED_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")
"""A byte of a file name that is not UTF-8, as `printable` writes it."""


@dataclass(frozen=True, slots=True)
class BodyLink:
    """A link of a body by one of its two schemes, unquoted: `page:PATH#FRAGMENT`, `source:PATH#L10-L20`."""

    scheme: Literal["page", "source"]
    path: str
    fragment: str

    @property
    def lines(self) -> tuple[int, int] | None:
        """The first and last line in the fragment."""
        found = _LINES.fullmatch(self.fragment)
        return (int(found["first"]), int(found["last"] or found["first"])) if found else None


Address = Callable[[BodyLink], str | None]
"""Returns the address of a link, or `None` to replace the link by its text."""


def with_addresses(body: str, address: Address) -> str:
    """Return a body with the addresses of its `page:` and `source:` links replaced."""
    return "\n".join(line if code else _rewritten(line, address) for line, code in fenced_lines(body))


def with_page_links(body: str, page: str, known: Collection[str]) -> str:
    """Return a body whose plain links to Markdown files are `page:` links. Paths may be relative to the page."""

    def path_of(path: str) -> str:
        nearby = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        return nearby if nearby in known else posixpath.normpath(path)

    def rewritten(line: str) -> str:
        code = _code_spans(line)

        def address(found: re.Match[str]) -> str:
            is_code = any(start <= found.start() < end for start, end in code)
            return (
                found[0] if is_code else f"](page:{quoted_path(path_of(unquoted(found['path'])))}{found['fragment']})"
            )

        return _PLAIN.sub(address, line)

    return "\n".join(line if code else rewritten(line) for line, code in fenced_lines(body))


def body_links(body: str) -> Iterator[BodyLink]:
    """Yield the `page:` and `source:` links in their order."""
    links: list[BodyLink] = []
    with_addresses(body, links.append)
    yield from links


def quoted_path(path: str) -> str:
    """Percent-encode a path. A byte that is not UTF-8 becomes `%` and its digits, as in the name of the file."""
    raw = _PRINTED_BYTE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), path)
    return quote(raw, safe=_SAFE, errors="surrogateescape")


def unquoted(text: str) -> str:
    """Decode a percent-encoded path, in the form that `printable` writes."""
    return unquote(text, errors="backslashreplace")


def target_of(link: BodyLink) -> str:
    """Return the target of a link as written in a body."""
    fragment = f"#{quoted_path(link.fragment)}" if link.fragment else ""
    return f"{link.scheme}:{quoted_path(link.path)}{fragment}"


def source_target(citation: LineCitation) -> str:
    """Return the target of a link to cited lines, as written in a body."""
    return f"source:{quoted_path(citation.path)}#L{citation.first_line}-L{citation.last_line}"


def escaped(text: str) -> str:
    """Escape a text for one line of Markdown."""
    return _SPECIAL.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), " ".join(text.split()))


def relative_path(page: str, target: str) -> str:
    """Return the relative path from the folder of a page to a target below the same root, both not encoded."""
    return posixpath.relpath(f"/{target}", posixpath.dirname(f"/{page}"))


def _rewritten(line: str, address: Address) -> str:
    if "](page:" not in line and "](source:" not in line and "](<" not in line:
        return line
    code = _code_spans(line)
    parts, at = list[str](), 0
    for found in _OPENS.finditer(line):
        if found.start() < at or any(start <= found.start() < end for start, end in code):
            continue
        closes = line.find(">)" if found["angle"] else ")", found.end())
        opens = _opening_bracket(line, found.start(), at)
        if closes < 0 or opens < 0:
            continue
        link = _link(found["scheme"], line[found.end() : closes])
        where = address(link)
        text = _renumbered(line[opens + 1 : found.start()], link, where)
        parts.append(line[at:opens] + (text if where is None else f"[{text}]({where})"))
        at = closes + (2 if found["angle"] else 1)
    return "".join(parts) + line[at:]


def _renumbered(text: str, before: BodyLink, where: str | None) -> str:
    """Return the text of a link with the line numbers of its new target."""
    after = _link("source", where.removeprefix("source:")) if where and where.startswith("source:") else before
    if before.lines is None or after.lines is None or before.lines == after.lines:
        return text
    (first, last), (new_first, new_last) = before.lines, after.lines
    if first == last:
        return re.sub(rf"\b(line |L|:){first}\b", rf"\g<1>{new_first}", text)
    return re.sub(rf"\b(L?){first}( to | and |[-–]L?){last}\b", rf"\g<1>{new_first}\g<2>{new_last}", text)


def _link(scheme: str, target: str) -> BodyLink:
    path, _, fragment = target.partition("#")
    return BodyLink("page" if scheme == "page" else "source", unquoted(path), unquoted(fragment))


def _code_spans(line: str) -> list[tuple[int, int]]:
    """Find the code spans of a line. A backslash before a backtick prevents a span; within a span it is literal."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(line)]
    spans, at = list[tuple[int, int]](), 0
    while at < len(runs):
        start = runs[at][0] + _is_escaped(line, runs[at][0])
        size = runs[at][1] - start
        same = next((n for n in range(at + 1, len(runs)) if runs[n][1] - runs[n][0] == size), None)
        if same is None:
            at += 1
        else:
            spans.append((start, runs[same][1]))
            at = same + 1
    return spans


def _opening_bracket(line: str, closing: int, least: int) -> int:
    """Return the position of the bracket that matches the one at `closing`, or -1 if there is none from `least` on."""
    depth = 0
    for at in range(closing, least - 1, -1):
        if line[at] not in "[]" or _is_escaped(line, at):
            continue
        depth += 1 if line[at] == "]" else -1
        if depth == 0:
            return at
    return -1


def _is_escaped(line: str, at: int) -> bool:
    before = at
    while before and line[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1
