"""Find broken links of a wiki: to its pages, their headings, and files of the work tree."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from treering.extensions.wiki.files.front_matter import without_matter
from treering.extensions.wiki.files.headings import heading_anchors
from treering.extensions.wiki.files.links import unquoted
from treering.sources.reading.folder import place_in, read_bytes
from treering.verbs.envelope import Value

_MOST_BYTES = 16 * 1024 * 1024
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_WEB = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")
_ANCHOR = re.compile(r"<a\s[^>]*?\b(?:id|name)=[\"']([^\"'>]+)[\"']", re.IGNORECASE)
_MARKDOWN = MarkdownIt("commonmark").enable("table")
# Invalid addresses are reported, not dropped.
_MARKDOWN.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005


class BrokenLink(Value):
    """A broken link."""

    page: str
    target: str
    why: str


def broken_links(folder: Path, *, work_tree: Path | None = None) -> list[BrokenLink]:
    """Return the broken links of all pages in a folder. Links to the web are not checked."""
    return list(_LinkCheck(folder, work_tree).run())


@dataclass
class _LinkCheck:
    folder: Path
    work_tree: Path | None
    _texts: dict[Path, str | None] = field(default_factory=dict)
    _anchors: dict[Path, frozenset[str]] = field(default_factory=dict)

    def run(self) -> Iterator[BrokenLink]:
        for page in sorted(self.folder.rglob("*.md")):
            path = page.relative_to(self.folder)
            if any(name.startswith(".") for name in path.parts) or page.is_symlink():
                continue
            text = self._text(page)
            if text is None:
                yield BrokenLink(page=path.as_posix(), target="", why="the page cannot be read")
                continue
            for target in dict.fromkeys(_targets(without_matter(text))):
                why = self._why_broken(page, target)
                if why:
                    yield BrokenLink(page=path.as_posix(), target=target, why=why)

    def _why_broken(self, page: Path, target: str) -> str:
        if _SCHEME.match(target):
            return "" if _WEB.match(target) else "its scheme is not supported"
        address, _, fragment = target.partition("#")
        place = self._place(page, unquoted(address))
        if place is None:
            return "it points outside the wiki and its work tree"
        try:
            exists = place.exists()
        except (OSError, ValueError):
            exists = False
        if not exists:
            return "the file does not exist"
        return self._why_no_fragment(place, unquoted(fragment)) if fragment and place.is_file() else ""

    def _place(self, page: Path, address: str) -> Path | None:
        if not address:
            return page
        if address.startswith("/") or "\0" in address:
            return None
        place = place_in(page.parent, address).resolve()
        roots = [root.resolve() for root in (self.folder, self.work_tree) if root]
        return place if any(place.is_relative_to(root) for root in roots) else None

    def _why_no_fragment(self, place: Path, fragment: str) -> str:
        text = self._text(place)
        if text is None:
            return "the file cannot be read"
        lines = _LINES.fullmatch(fragment)
        if lines and not place.is_relative_to(self.folder.resolve()):
            last = max(int(lines[1]), int(lines[2] or 0))
            count = len(text.splitlines())
            return "" if int(lines[1]) and last <= count else f"the file has {count} lines"
        if place.suffix == ".md" and fragment not in self._anchors_of(place, text):
            return "the page has no such heading"
        return ""

    def _anchors_of(self, place: Path, text: str) -> frozenset[str]:
        if place not in self._anchors:
            body = without_matter(text)
            named = {one.forge for one in heading_anchors(body)}
            self._anchors[place] = frozenset(named | set(_ANCHOR.findall(body)))
        return self._anchors[place]

    def _text(self, place: Path) -> str | None:
        if place not in self._texts:
            try:
                data = read_bytes(place, _MOST_BYTES)
                self._texts[place] = None if data is None or len(data) > _MOST_BYTES else data.decode()
            except (OSError, UnicodeDecodeError):
                self._texts[place] = None
        return self._texts[place]


def _targets(body: str) -> Iterator[str]:
    for token in _MARKDOWN.parse(body):
        for child in token.children or ():
            if target := _target(child):
                yield target


def _target(token: Token) -> str:
    name = {"link_open": "href", "image": "src"}.get(token.type)
    return str(token.attrGet(name) or "") if name else ""
