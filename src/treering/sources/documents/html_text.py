"""The text of HTML in books and mail, by headings. Nothing is fetched, no script is run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message
from html.parser import HTMLParser

from treering.sources.documents.contents import DocumentDamaged, Outliner, plain


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


# Pages that a browser saved as a web archive (MHTML): mail whose main part is the page. Nothing else is read.


_HEADER_LINE = re.compile(rb"[A-Za-z][A-Za-z0-9-]{0,60}:|[ \t]")
_TYPE = re.compile(
    rb"^content-type:\s{0,20}(?:multipart/related|text/html|application/xhtml)", re.IGNORECASE | re.MULTILINE
)
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_ENCODINGS = frozenset({"", "7bit", "8bit", "binary", "base64", "quoted-printable"})
_MOST_PARTS = 5_000
_MOST_HEAD = 65_536
_LONGEST_HEADER = 4_000
_TITLE_CHARS = 200


@dataclass(frozen=True, slots=True)
class ArchivedPage:
    """The page of a web archive, and what the archive says about it."""

    data: bytes
    charset: str
    title: str
    address: str


def main_part(data: bytes) -> ArchivedPage | None:
    """Return the page of a web archive; `None` for another file. Raises `DocumentDamaged`."""
    if not is_web_archive(data[:_MOST_HEAD]):
        return None
    archive = message_from_bytes(data)
    parts = list(_parts(archive))
    address = _header(archive, "Snapshot-Content-Location")
    page = _page_of(archive, parts, address)
    encoding = _header(page, "Content-Transfer-Encoding").lower()
    if encoding not in _ENCODINGS:
        raise DocumentDamaged(f"its page is encoded in a way that is not read ({encoding[:40]})")
    content = page.get_payload(decode=True)
    if not isinstance(content, bytes) or not content.strip():
        raise DocumentDamaged("its page is empty")
    title = " ".join(plain(_subject(archive)).split())[:_TITLE_CHARS]
    return ArchivedPage(content, page.get_content_charset() or "", title, address or _header(page, "Content-Location"))


def is_web_archive(head: bytes) -> bool:
    """Tell by its beginning whether a file may be a web archive."""
    headers = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return all(map(_HEADER_LINE.match, headers.split(b"\n"))) and _TYPE.search(headers) is not None


def _parts(archive: Message) -> Iterator[Message]:
    for at, part in enumerate(archive.walk()):
        if at >= _MOST_PARTS:
            raise DocumentDamaged(f"it has more than {_MOST_PARTS:,} parts")
        if part.get_content_type() in _PAGES and not part.is_multipart():
            yield part


def _page_of(archive: Message, parts: list[Message], address: str) -> Message:
    """Return the part that the archive begins with: as it says itself, else that of its address, else the first."""
    if not parts:
        raise DocumentDamaged("it holds no page")
    start = str(archive.get_param("start") or "")
    named = (part for part in parts if start and _header(part, "Content-ID") == start)
    placed = (part for part in parts if address and _header(part, "Content-Location") == address)
    return next(named, None) or next(placed, None) or parts[0]


def _header(message: Message, name: str) -> str:
    return str(message.get(name) or "")[:_LONGEST_HEADER].strip()


def _subject(message: Message) -> str:
    value = _header(message, "Subject")
    try:
        return str(make_header(decode_header(value)))
    except (LookupError, ValueError):  # written in no way that is known: kept as it stands
        return value
