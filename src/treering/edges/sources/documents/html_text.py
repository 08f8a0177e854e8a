"""The text of HTML in books and mail, by headings. Nothing is fetched, no script is run."""

from html.parser import HTMLParser

from treering.edges.sources.documents.contents import Outliner


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
