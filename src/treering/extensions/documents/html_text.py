"""HTML as text, by headings, for web pages, books and mail. Nothing is fetched, no script is run.

With the extra `web`, trafilatura finds the main content of a page; without it, navigation and similar elements are
omitted by their names.
"""

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message
from html import unescape
from html.parser import HTMLParser

from treering.extensions.documents.contents import (
    MOST_SHOWN,
    DocumentContents,
    DocumentDamaged,
    NotThatFormat,
    Outliner,
    plain,
)
from treering.sources.reading.encodings import Decoded, decode


def outline_html(text: str, outliner: Outliner) -> None:
    """Add the text of a page to the sections of a document."""
    reader = _HtmlReader(outliner)
    reader.feed(text)
    reader.close()
    reader.end_block()


def text_of_html(text: str) -> str:
    """Return the text of a page, as paragraphs."""
    outliner = Outliner()
    outline_html(text, outliner)
    return "\n\n".join(part for unit in outliner.units() for part in (unit.heading.split(" > ")[-1], unit.text) if part)


def shown_text(text: str) -> str:
    """Return the text that a browser shows of a page, including navigation.

    A line is a run in which browsers can search: at most a block, such as a paragraph.
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


class _TextReader(HTMLParser, ABC):
    """Collects the text of elements that are not hidden."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden: str | None = None
        self._exact = False

    def handle_endtag(self, tag: str) -> None:
        if not self._hidden:
            self._end(tag)
        elif tag == self._hidden:
            self._hidden = None

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip `<![…>` with an unknown name, as browsers do; the standard library raises `AssertionError`."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i)

    @abstractmethod
    def _end(self, tag: str) -> None: ...


class _HtmlReader(_TextReader):
    def __init__(self, outliner: Outliner) -> None:
        super().__init__()
        self._outliner = outliner
        self._level = 0

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

    def _end(self, tag: str) -> None:
        if tag in _LEVELS or (tag in _BLOCKS and (tag == "pre" or not self._exact)):
            self.end_block()

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
"""Spaces that browsers distinguish from others when they search, such as non-breaking ones."""
_APART_IN_CODE = re.compile(r"[^\S ]| {2,}")


class _ShownReader(_TextReader):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if self._hidden == "head" and tag == "body":  # the end tag of a head is optional
            self._hidden = None
        if self._hidden:
            return
        if tag in _NOT_SHOWN:
            self._hidden = tag
        elif tag in _LINES:
            self.end_line()
            self._exact = self._exact or tag == "pre"

    def _end(self, tag: str) -> None:
        if tag in _LINES:
            self.end_line()
            self._exact = self._exact and tag != "pre"

    def end_line(self) -> None:
        text = "".join(self._parts)
        lines = _APART_IN_CODE.split(text) if self._exact else _OTHER_SPACES.split(_SPACES.sub(" ", text))
        self.lines += [line.strip() for line in lines if line.strip()]
        self._parts = []


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
    """The page of a web archive (MHTML), and the metadata of the archive."""

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
        raise DocumentDamaged(f"its page has an unsupported encoding ({encoding[:40]})")
    content = page.get_payload(decode=True)
    if not isinstance(content, bytes) or not content.strip():
        raise DocumentDamaged("its page is empty")
    title = readable_header(archive, "Subject")[:_TITLE_CHARS]
    return ArchivedPage(content, page.get_content_charset() or "", title, address or _header(page, "Content-Location"))


def is_web_archive(head: bytes) -> bool:
    """Return whether a file may be a web archive, by its beginning."""
    headers = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return all(map(_HEADER_LINE.match, headers.split(b"\n"))) and _TYPE.search(headers) is not None


def _parts(archive: Message) -> Iterator[Message]:
    for at, part in enumerate(archive.walk()):
        if at >= _MOST_PARTS:
            raise DocumentDamaged(f"it has more than {_MOST_PARTS:,} parts")
        if part.get_content_type() in _PAGES and not part.is_multipart():
            yield part


def _page_of(archive: Message, parts: list[Message], address: str) -> Message:
    """Return the first page of an archive: as declared, else by its address, else the first part."""
    if not parts:
        raise DocumentDamaged("it contains no page")
    start = str(archive.get_param("start") or "")
    named = (part for part in parts if start and _header(part, "Content-ID") == start)
    placed = (part for part in parts if address and _header(part, "Content-Location") == address)
    return next(named, None) or next(placed, None) or parts[0]


def _header(message: Message, name: str) -> str:
    return str(message.get(name) or "")[:_LONGEST_HEADER].strip()


def readable_header(message: Message, name: str) -> str:
    """Return a header of a message as plain text in one line."""
    value = _header(message, name)
    with suppress(LookupError, ValueError):  # an unknown encoding
        value = str(make_header(decode_header(value)))
    return " ".join(plain(value).split())


_TITLE = re.compile(r"<title[^>]{0,200}>(?P<title>[^<]{1,500})</title", re.IGNORECASE)
_AROUND = re.compile(r"<(?P<name>header|footer|aside|form)\b.{0,200000}?</(?P=name)\s*>", re.IGNORECASE | re.DOTALL)
_HEADING = re.compile(r"<h[1-6]\b", re.IGNORECASE)
_CODE = re.compile(
    r"(?P<block><pre\b[^>]{0,200}>\s{0,20})?<code\b[^>]{0,200}>(?P<code>[^<]{1,300})</code", re.IGNORECASE
)
_BLOCK = re.compile(r"<pre>([^<]{1,300})</pre>")
_SAVED_FROM = re.compile(r"<!--\s{0,20}saved from url=\(\d{1,6}\)(?P<address>[^\s<>]{1,2000}?)\s{0,20}-->")
"""The comment that browsers write at the beginning of a saved page."""
_HEAD_BYTES = 4_096
_MOST_FOR_CONTENT = 3_000_000
"""Main content is not searched for in longer pages, because that takes too long."""


def read(data: bytes) -> DocumentContents:
    """Read a page, or one saved as a web archive (MHTML).

    The text shown by a browser is included if the page states the address it was saved from.
    """
    return _page(data, linked=False)


def read_linked(data: bytes) -> DocumentContents:
    """Read a page, including the text that a browser shows."""
    return _page(data, linked=True)


def _page(data: bytes, *, linked: bool) -> DocumentContents:
    archived = main_part(data)
    if archived is not None:
        decoded = _decoded(archived.data, archived.charset)
        return _read(decoded, archived.title, archived.address or _saved_from(decoded.text), linked=linked)
    decoded = _decoded(data, "")
    return _read(decoded, "", _saved_from(decoded.text), linked=linked)


def _read(decoded: Decoded, title: str, address: str, *, linked: bool) -> DocumentContents:
    text = decoded.text
    if "<" not in text:
        raise NotThatFormat
    outliner, warnings = Outliner(), [decoded.warning()] if decoded.warning() else list[str]()
    too_long = len(text) > _MOST_FOR_CONTENT
    main = None if too_long else _main_content(text)
    outline_html(_AROUND.sub(" ", text) if main is None else main, outliner)
    units = outliner.units()
    if not units:
        outliner = Outliner()
        outline_html(text, outliner)
        units = outliner.units()
    if too_long:
        warnings.append("it is too long to find its main content: all of it is indexed")
    shown = shown_text(text) if linked or address else ""
    return DocumentContents(
        units,
        _title_of(text) or title or outliner.title,
        warnings,
        address=address,
        encoding=decoded.encoding,
        shown=shown if len(shown) <= MOST_SHOWN else "",
    )


def _title_of(text: str) -> str:
    match = _TITLE.search(text)
    return " ".join(unescape(match["title"]).split())[:_TITLE_CHARS] if match else ""


def _saved_from(text: str) -> str:
    match = _SAVED_FROM.search(text[:_HEAD_BYTES])
    return match["address"] if match else ""


def _decoded(data: bytes, charset: str) -> Decoded:
    """Return the text of a page; data that is not text is decoded like in old browsers."""
    return decode(data, declared=charset) or Decoded(data.decode("cp1252", "replace"), "cp1252", guessed=True)


def _main_content(text: str) -> str | None:
    """Return the main content of a page as HTML; `None` without the extra, or if there is none."""
    try:
        import trafilatura
    except ImportError:  # also if one of its dependencies is missing
        return None
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    main: str | None = trafilatura.extract(
        text, output_format="html", favor_recall=True, include_comments=False, include_tables=True
    )
    # For short pages it may return all words in a row, including navigation.
    lost = _HEADING.search(text) and not _HEADING.search(main or "")
    return None if lost or not main else _with_words_of_code(main, text)


def _with_words_of_code(main: str, text: str) -> str:
    """Return the main content with inline code as in the page; extraction makes it a block of its own."""
    inline = {_code(match["code"]) for match in _CODE.finditer(text) if not match["block"]}
    return _BLOCK.sub(lambda match: f"<code>{match[1]}</code>" if _code(match[1]) in inline else match[0], main)


def _code(markup: str) -> str:
    return " ".join(unescape(markup).split())
