"""Pages that a browser saved as a web archive (MHTML): mail whose main part is the page. Nothing else is read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import Message

from treering.edges.sources.documents.contents import DocumentDamaged, plain

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
