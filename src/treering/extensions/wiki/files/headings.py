"""Headings of Markdown outside of fenced code, and their anchors."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"[ \t>]*(?:[-*+] +|\d+[.)] +)?(?P<mark>`{3,}|~{3,})(?P<rest>.*)")


def fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is part of fenced code, including the fences."""
    open_mark = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if open_mark:
            yield line, True
            if found and found["mark"].startswith(open_mark) and not found["rest"].strip():
                open_mark = ""
        elif found and not (found["mark"].startswith("`") and "`" in found["rest"]):
            open_mark = found["mark"]
            yield line, True
        else:
            yield line, False


_HEADING = re.compile(r" {0,3}(?P<marks>#{1,6})[ \t]+(?P<text>.*?)(?:[ \t]+#+)?[ \t]*")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_TAG = re.compile(r"</?[a-zA-Z][^>\n]*>")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class HeadingAnchor:
    """A heading: its line (from 0), its anchor on a forge, and its anchor in MkDocs and Zensical."""

    line: int
    forge: str
    site: str


def heading_anchors(body: str) -> Iterator[HeadingAnchor]:
    """Yield the headings of a body in their order."""
    forge, site = _Counted("-"), _Counted("_")
    for number, (line, code) in enumerate(fenced_lines(body)):
        found = None if code else _HEADING.fullmatch(line)
        if found:
            text = _ESCAPE.sub(r"\1", _TAG.sub("", _LINK.sub(r"\1", found["text"])))
            yield HeadingAnchor(number, forge.name(_forge_slug(text)), site.name(_site_slug(text)))


class _Counted:
    """Appends numbers to repeated slugs."""

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
