"""Pages in HTML, also as a browser saves them: their headings and main content, without navigation."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from email import message_from_bytes
from email.errors import MessageError
from email.policy import default as modern
from typing import Protocol
from urllib.parse import quote

from treering.core.injection import instruction_flags
from treering.core.locator import Section
from treering.core.redaction import Redacted
from treering.edges.sources import markdown
from treering.edges.sources.lines import in_text
from treering.edges.sources.text import decode
from treering.edges.sources.text_format import TextFormat
from treering.ports.adapter import SegmentDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable

_PAGES = (".html", ".htm", ".xhtml")
_ARCHIVES = (".mhtml", ".mht")
_TEMPLATE = re.compile(rb"\{%|\{\{|<\?php|<%[@=\s]")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_SAVED_FROM = re.compile(r"<!--\s*saved from url=\(\d{1,6}\)(https?://[^\s<>\"]{1,2000})")
_CANONICAL = re.compile(
    r"<link\b(?=[^>]{0,500}\brel\s*=\s*[\"']?canonical\b)[^>]{0,500}?\bhref\s*=\s*[\"']?(https?://[^\s<>\"']{1,2000})",
    re.IGNORECASE,
)
_HEAD_CHARS = 100_000
"""How much of a page is searched for what it says of itself."""
_MARKUP = re.compile(r"^(?:#{1,6} |[-*+>] |\d+\. |\| ?)+|[*_`]+")
_FRAGMENT_WORDS = 8
_MOST_PAGE_BYTES = 1_000_000
"""A page of so many hostile bytes is read in a few seconds."""
_MISSING = "read as plain text, with its markup: pip install 'treering[web]' reads pages by headings and main content"


class PageReader(Protocol):
    """Returns the title of a page and its main content as Markdown; `None` where it finds none."""

    def __call__(self, text: str, /) -> tuple[str, str] | None:
        """Read a page."""
        ...


@dataclass(frozen=True, slots=True)
class HtmlFormat:
    """Files `*.html` and `*.mhtml` that are pages, not templates: sources of kind `web`.

    Without the extra `web`, and for a page without content, `plain` reads them, and their warnings say so.
    """

    plain: TextFormat
    reader: PageReader | None
    """What reads a page; `None` where the extra is not installed."""
    name: str = "html"
    limits: FormatLimits = FormatLimits(max_bytes=_MOST_PAGE_BYTES, max_segments=10_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Go by the ending of the name; templates of programs are left to other formats."""
        return path.lower().endswith((*_PAGES, *_ARCHIVES)) and _TEMPLATE.search(head) is None

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a page. Bytes that are no text are left to other formats."""
        archived = file.suffix in _ARCHIVES
        page = _archived_page(data) if archived else _page(data)
        if page is None:
            return None
        if self.reader is None:
            return _with_warning(self.plain.read(data, file), _MISSING)
        found = self.reader(page.text)
        if found is None or not found[1].strip():
            return _with_warning(self.plain.read(data, file), "no main content was found: read with its markup")
        title, content, address = (file.cleaned(part) for part in (*found, page.address))
        return DocumentDraft(
            content_type="markdown",
            segments=_segments(content.text, file.limits.max_segment_chars),
            title=title.text,
            kind="web",
            payload={"url": address.text} if address.text else {},
            metadata={"language": "html", "encoding": page.encoding, **_flags(content.text)},
            warnings=tuple(filter(None, [page.warning, *_redactions(title, content, address)])),
        )


def page_reader() -> PageReader | None:
    """Return what reads a page, `None` where the extra `web` is not installed."""
    try:
        import trafilatura  # noqa: F401 - a page is the first to need it
    except ModuleNotFoundError:
        return None
    return _read_page


@dataclass(frozen=True, slots=True)
class _Page:
    text: str
    encoding: str
    address: str = ""
    """Where it was saved from, as far as it says so."""
    warning: str = ""


def _read_page(text: str, /) -> tuple[str, str] | None:
    import trafilatura

    # Of a page without content it says so on the console; here that is a warning of the source.
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    found = trafilatura.bare_extraction(
        text, favor_recall=True, include_comments=False, include_formatting=True, with_metadata=True, as_dict=False
    )
    written = trafilatura.extract(
        text, output_format="markdown", favor_recall=True, include_comments=False, include_formatting=True
    )
    title = getattr(found, "title", None)
    return (title or "", written) if written else None
