"""The text of HTML in books and mail, by headings. Nothing is fetched, no script is run."""

import re
from html.parser import HTMLParser

from treering.edges.sources.documents.contents import Outliner, plain


def outline_html(text: str, outliner: Outliner) -> None:
    """Add what a page says to the sections of a document."""
    reader = _HtmlReader(outliner)
    reader.feed(text)
    reader.close()
    reader.end_block()


def text_of_html(text: str) -> str:
    """Return what a page says, as paragraphs."""
    outliner = Outliner()
    outline_html(text, outliner)
    return "\n\n".join(part for unit in outliner.units() for part in (unit.heading.split(" > ")[-1], unit.text) if part)


def shown_text(text: str) -> str:
    """Return what a browser shows of a page, navigation included.

    A line is a stretch in which a browser finds words as they stand here: at most a block, such as a paragraph.
    """
    reader = _ShownReader()
    reader.feed(text)
    reader.close()
    reader.end_line()
    return plain("\n".join(reader.lines))


_HIDDEN = frozenset({"script", "style", "head", "template", "svg", "nav"})
_BLOCKS = frozenset(
    "p div section article li ul ol dl dt dd table tr blockquote pre figure figcaption header footer br hr".split()
)
_LEVELS = {f"h{level}": level for level in range(1, 7)}
_CELLS = frozenset({"td", "th"})


class _HtmlReader(HTMLParser):
    def __init__(self, outliner: Outliner) -> None:
        super().__init__(convert_charrefs=True)
        self._outliner = outliner
        self._parts: list[str] = []
        self._hidden: str | None = None
        self._level = 0
        self._exact = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if self._hidden:
            return
        if tag in _HIDDEN:
            self._hidden = tag
        elif tag in _LEVELS:
            self.end_block()
            self._level = _LEVELS[tag]
        elif tag in _CELLS and self._parts:
            self._parts.append(" | ")
        elif tag in _BLOCKS:
            self._start_block(tag)

    def _start_block(self, tag: str) -> None:
        if self._exact:
            self._parts.append("\n" if tag == "br" else "")
            return
        self.end_block()
        self._exact = tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden = None if tag == self._hidden else self._hidden
        elif tag in _LEVELS or (tag in _BLOCKS and (tag == "pre" or not self._exact)):
            self.end_block()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def end_block(self) -> None:
        text = "".join(self._parts)
        text = text if self._exact else " ".join(text.split())
        if self._level:
            self._outliner.heading(self._level, text)
        else:
            self._outliner.paragraph(text)
        self._parts, self._level, self._exact = [], 0, False


_NOT_SHOWN = frozenset("script style head template svg noscript iframe textarea select video audio".split())
_LINES = (
    _BLOCKS
    | _CELLS
    | frozenset(_LEVELS)
    | frozenset("html body main aside nav form fieldset details summary address caption button option".split())
)

_SPACES = re.compile(r"[ \t\n\r\f]+")
_OTHER_SPACES = re.compile(r"[^\S \t\n\r\f]")
"""Spaces that browsers tell from others when they look for words, such as those without a break."""
_APART_IN_CODE = re.compile(r"[^\S ]| {2,}")


class _ShownReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self._parts: list[str] = []
        self._hidden: str | None = None
        self._exact = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if self._hidden == "head" and tag == "body":  # the end of a head need not be written
            self._hidden = None
        if self._hidden:
            return
        if tag in _NOT_SHOWN:
            self._hidden = tag
        elif tag in _LINES:
            self.end_line()
            self._exact = self._exact or tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden = None if tag == self._hidden else self._hidden
        elif tag in _LINES:
            self.end_line()
            self._exact = self._exact and tag != "pre"

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def end_line(self) -> None:
        text = "".join(self._parts)
        lines = _APART_IN_CODE.split(text) if self._exact else _OTHER_SPACES.split(_SPACES.sub(" ", text))
        self.lines += [line.strip() for line in lines if line.strip()]
        self._parts = []
