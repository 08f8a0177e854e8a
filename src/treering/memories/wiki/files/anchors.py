"""The anchors of headings: what a forge makes of them, and what MkDocs and Zensical make."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from treering.memories.wiki.files.fences import fenced_lines

_HEADING = re.compile(r" {0,3}(?P<marks>#{1,6})[ \t]+(?P<text>.*?)(?:[ \t]+#+)?[ \t]*")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_TAG = re.compile(r"</?[a-zA-Z][^>\n]*>")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class HeadingAnchor:
    """A heading: its line in the text (from 0), what a forge calls it in addresses, and what site builders do."""

    line: int
    forge: str
    site: str


def heading_anchors(body: str) -> Iterator[HeadingAnchor]:
    """Yield the headings of a body, in their order."""
    forge, site = _Counted("-"), _Counted("_")
    for number, (line, code) in enumerate(fenced_lines(body)):
        found = None if code else _HEADING.fullmatch(line)
        if found:
            text = _ESCAPE.sub(r"\1", _TAG.sub("", _LINK.sub(r"\1", found["text"])))
            yield HeadingAnchor(number, forge.name(_forge_slug(text)), site.name(_site_slug(text)))


class _Counted:
    """Tells headings of the same name apart, as they come."""

    def __init__(self, joint: str) -> None:
        self._joint = joint
        self._taken: set[str] = set()

    def name(self, slug: str) -> str:
        name, number = slug, 0
        while name in self._taken or (not name and self._joint == "_"):
            number += 1
            name = f"{slug}{self._joint}{number}"
        self._taken.add(name)
        return name


def _forge_slug(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def _site_slug(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_text).strip().lower())
