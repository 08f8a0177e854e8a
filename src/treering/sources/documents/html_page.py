"""Pages of the web (HTML, MHTML): their headings and main content. Nothing is fetched, no script is run.

With the extra `web` the main content is found by trafilatura; without it, navigation and the like is left out by the
names of its elements alone.
"""

import logging
import re
from html import unescape

from treering.sources.documents.contents import DocumentContents, NotThatFormat, Outliner
from treering.sources.documents.html_text import main_part, outline_html, shown_text
from treering.sources.documents.text_fragments import MOST_SHOWN

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>(?P<title>[^<]{1,500})</title", re.IGNORECASE)
_AROUND = re.compile(r"<(?P<name>header|footer|aside|form)\b.{0,200000}?</(?P=name)\s*>", re.IGNORECASE | re.DOTALL)
_HEADING = re.compile(r"<h[1-6]\b", re.IGNORECASE)
_CODE = re.compile(
    r"(?P<block><pre\b[^>]{0,200}>\s{0,20})?<code\b[^>]{0,200}>(?P<code>[^<]{1,300})</code", re.IGNORECASE
)
_BLOCK = re.compile(r"<pre>([^<]{1,300})</pre>")
_SAVED_FROM = re.compile(r"<!--\s{0,20}saved from url=\(\d{1,6}\)(?P<address>[^\s<>]{1,2000}?)\s{0,20}-->")
"""What browsers write at the beginning of a page that they save."""
_HEAD_BYTES = 4_096
_TITLE_CHARS = 200
_MOST_FOR_CONTENT = 3_000_000
"""A longer page is read whole: looking for its main content takes too long."""


def read(data: bytes) -> DocumentContents:
    """Read a page, also one that a browser saved as a web archive (MHTML).

    What a browser shows of it is told where it says which address it was saved from.
    """
    return _page(data, linked=False)


def read_linked(data: bytes) -> DocumentContents:
    """Read a page, and tell what a browser shows of it."""
    return _page(data, linked=True)


def _page(data: bytes, *, linked: bool) -> DocumentContents:
    archived = main_part(data)
    if archived is not None:
        text = _decoded(archived.data, archived.charset)
        return _read(text, archived.title, archived.address or _saved_from(text), linked=linked)
    text = _decoded(data, "")
    return _read(text, "", _saved_from(text), linked=linked)


def _read(text: str, title: str, address: str, *, linked: bool) -> DocumentContents:
    if "<" not in text:
        raise NotThatFormat
    outliner, warnings = Outliner(), list[str]()
    too_long = len(text) > _MOST_FOR_CONTENT
    main = None if too_long else _main_content(text)
    outline_html(_AROUND.sub(" ", text) if main is None else main, outliner)
    units = outliner.units()
    if not units:
        outliner = Outliner()
        outline_html(text, outliner)
        units = outliner.units()
    if too_long:
        warnings.append("it is too long for its main content to be found: all of it is kept")
    shown = shown_text(text) if linked or address else ""
    return DocumentContents(
        units,
        _title_of(text) or title or outliner.title,
        warnings,
        address=address,
        shown=shown if len(shown) <= MOST_SHOWN else "",
    )


def _title_of(text: str) -> str:
    found = _TITLE.search(text)
    return " ".join(unescape(found["title"]).split())[:_TITLE_CHARS] if found else ""


def _saved_from(text: str) -> str:
    found = _SAVED_FROM.search(text[:_HEAD_BYTES])
    return found["address"] if found else ""


def _decoded(data: bytes, charset: str) -> str:
    """Return the text of a page: in UTF-8, else in what is said that it is in, else as old browsers read it."""
    for encoding in ("utf-8-sig", *(["utf-16"] if data[:2] in (b"\xff\xfe", b"\xfe\xff") else [])):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    told = _CHARSET.search(data[:_HEAD_BYTES])
    try:
        return data.decode(charset or (told[1].decode() if told else "cp1252"), "replace")
    except (LookupError, ValueError):
        return data.decode("cp1252", "replace")


def _main_content(text: str) -> str | None:
    """Return the main content of a page as HTML; `None` where nobody looks for it, or none is found."""
    try:
        import trafilatura
    except ImportError:  # also where a part of it is missing
        return None
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    found: str | None = trafilatura.extract(
        text, output_format="html", favor_recall=True, include_comments=False, include_tables=True
    )
    # Of a short page it may give all words in a row, those of the navigation too.
    lost = _HEADING.search(text) and not _HEADING.search(found or "")
    return None if lost or not found else _with_words_of_code(found, text)


def _with_words_of_code(main: str, text: str) -> str:
    """Return the main content with code inside a sentence as the page has it: there it is a block of its own."""
    inside = {_code(found["code"]) for found in _CODE.finditer(text) if not found["block"]}
    return _BLOCK.sub(lambda found: f"<code>{found[1]}</code>" if _code(found[1]) in inside else found[0], main)


def _code(markup: str) -> str:
    return " ".join(unescape(markup).split())
