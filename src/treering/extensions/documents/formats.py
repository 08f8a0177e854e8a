"""The formats of documents, recognized by their first bytes or their names, and read in a child process."""

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from treering.core.errors import InvalidInput
from treering.core.evidence import Locator, Page, Section
from treering.core.screening import instruction_flags
from treering.core.secrets.redaction import Redacted
from treering.extensions.documents.contents import (
    DocumentContents,
    DocumentDamaged,
    DocumentUnit,
    NotThatFormat,
    ShownPage,
    bounded,
)
from treering.extensions.documents.html_text import is_web_archive
from treering.extensions.documents.web_addresses import parse_address
from treering.ports.adapter import SegmentDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable, posix_path
from treering.sources.reading.binary import BinaryFormat
from treering.sources.reading.bounded_process import BoundedProcess, answer_questions
from treering.sources.reading.lines import Piece, is_blank, pack

MEMORY_BYTES = 1_000_000_000
_CPU_SECONDS = 8
_BYTES_PER_SECOND = 200_000
_READERS: Mapping[str, str] = {
    "pdf": "treering.extensions.documents.pdf_reader",
    "office": "treering.extensions.documents.office_reader",
    "mail": "treering.extensions.documents.mail_reader",
    "html": "treering.extensions.documents.html_text",
}
"""The modules whose function `read` reads a format. Only the child process imports them."""
_LINKED = "+linked"
"""Suffix of a reader's name: `read_linked` is called, which also returns the text shown by a browser."""


_PROCESS = BoundedProcess(__name__, *((10.0,) if sys.platform == "win32" else ()))


def read_document(reader: str, data: bytes, *, linked: bool = False) -> DocumentContents | Unreadable | None:
    """Read a file with a reader, in a child process with limits; `None` if it is of another format.

    `linked`: also return the text that a browser shows of a page, to make links to its passages. The process is started
    on first use. Safe to use from many threads.
    """
    reader += _LINKED if linked else ""
    seconds = _CPU_SECONDS + len(data) // _BYTES_PER_SECOND
    answer = _PROCESS.ask(len(reader).to_bytes() + reader.encode() + data, seconds=seconds)
    if answer is None:
        return Unreadable(
            f"it cannot be read within {seconds} s and {MEMORY_BYTES // 10**6:,} MB, or crashes its reader"
        )
    result = json.loads(answer)
    if result is None:
        return None
    if "why" in result:
        return Unreadable(result["why"])
    return DocumentContents(**{**result, "units": [DocumentUnit(**unit) for unit in result["units"]]})


def serve() -> None:
    """Read the files requested on standard input."""
    answer_questions(_answered, memory_bytes=MEMORY_BYTES)


def _answered(question: bytes) -> bytes:
    name = question[1 : 1 + question[0]].decode()
    module = import_module(_READERS[name.removesuffix(_LINKED)])
    read: Callable[[bytes], DocumentContents] = module.read_linked if name.endswith(_LINKED) else module.read
    return json.dumps(_result(read, question[1 + question[0] :])).encode()


def _result(read: Callable[[bytes], DocumentContents], data: bytes) -> dict[str, object] | None:
    try:
        return asdict(bounded(read(data)))
    except NotThatFormat:
        return None
    except DocumentDamaged as error:
        return {"why": str(error)}
    except MemoryError:
        return {"why": f"reading it needs more than {MEMORY_BYTES // 10**6:,} MB"}
    except RecursionError:
        return {"why": "it is nested too deeply to be read"}
    except Exception:  # noqa: BLE001 - parsers raise anything for damaged bytes
        return {"why": "it is damaged"}


_SEGMENT_CHARS = 1_200


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A document format, whose units are redacted and split into segments.

    If none of its `packages` is installed, a file becomes a stub, with a warning that names the extra.
    """

    name: str
    claims: Callable[[str, bytes], bool]
    suffixes: frozenset[str]
    kind: str
    packages: tuple[str, ...] = ()
    limits: FormatLimits = field(default_factory=lambda: FormatLimits(max_bytes=50_000_000, max_segments=100_000))

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a file in the child process."""
        if self.packages and not any(map(find_spec, self.packages)):
            needed = f'its text is not read: run pip install "treering[{self.name}]"'
            return self._stub(data, file, [needed], missing_extra=self.name)
        contents = read_document(self.name, data, linked=bool(file.address) and self.kind == "web")
        if contents is None or (isinstance(contents, Unreadable) and file.suffix not in self.suffixes):
            return None
        return contents if isinstance(contents, Unreadable) else self._document(contents, data, file)

    def _stub(
        self, data: bytes, file: FileToRead, warnings: Sequence[str], *, missing_extra: str = ""
    ) -> DocumentDraft | Unreadable:
        stub = BinaryFormat().read(data, file)
        if isinstance(stub, Unreadable):
            return stub
        return replace(stub, kind=self.kind, missing_extra=missing_extra, warnings=warnings)

    def _document(self, contents: DocumentContents, data: bytes, file: FileToRead) -> DocumentDraft | Unreadable:
        text = _JoinedUnits.of(contents.units)
        cleaned = file.cleaned("\n".join(text.lines))
        segments = list(text.segments(cleaned, most=file.limits.max_segment_chars))
        warnings = [f"{one.kind} at {text.place_of(one.line - 1)}: redacted" for one in cleaned.findings]
        flags, address = instruction_flags(cleaned.text), _address(contents)
        segments = _linked(segments, file.address or address, contents.shown)
        if not segments:
            return self._stub(data, file, contents.warnings)
        metadata: dict[str, Any] = {"flags": list(flags), "encoding": contents.encoding}
        return DocumentDraft(
            "structured" if all(unit.data for unit in contents.units) else "text",
            segments=segments,
            title=file.cleaned(contents.title).text,
            kind=self.kind,
            payload={"url": address} if address else {},
            metadata={name: value for name, value in metadata.items() if value},
            warnings=[*contents.warnings, *warnings],
        )


def _linked(segments: list[SegmentDraft], address: str, shown: str) -> list[SegmentDraft]:
    """Add links to the passages of a page that a browser can find."""
    if not address or not shown:
        return segments
    page = ShownPage(shown)
    return [replace(one, locator=_with_link(one.locator, address, page.fragment(one.text))) for one in segments]


def _with_link(place: Locator, address: str, fragment: str) -> Locator:
    if not fragment or not isinstance(place, Section):
        return place
    return place.model_copy(update={"link": f"{address}{fragment}"})


def _address(contents: DocumentContents) -> str:
    """Return the address a document was saved from; empty if it is not a valid web address."""
    try:
        return parse_address(contents.address).text if contents.address else ""
    except InvalidInput:
        return ""


@dataclass(frozen=True, slots=True)
class _JoinedUnits:
    """Units as the lines of one text, so that secrets across page breaks are found."""

    units: Sequence[DocumentUnit]
    lines: Sequence[str]
    starts: Sequence[int]
    """The first line of each unit."""

    @classmethod
    def of(cls, units: Sequence[DocumentUnit]) -> "_JoinedUnits":
        lines, starts = list[str](), list[int]()
        for unit in units:
            starts.append(len(lines))
            lines += [*unit.text.split("\n"), ""]
        return cls(units, lines, starts)

    def place_of(self, line: int) -> str:
        unit = self.units[bisect_right(self.starts, line) - 1]
        return f"page {unit.page}" if unit.page else unit.heading or "its text"

    def segments(self, cleaned: Redacted, *, most: int) -> list[SegmentDraft]:
        lines = cleaned.text.split("\n")  # redaction does not change the number of lines
        offsets, segments, ends = _offsets(lines), list[SegmentDraft](), [*self.starts, len(lines)][1:]
        for unit, start, end in zip(self.units, self.starts, ends, strict=True):
            cuts = [at for at in range(start + 1, end) if is_blank(lines[at - 1]) and not is_blank(lines[at])]
            for piece in pack(lines, cuts, start=start, end=end, target=min(_SEGMENT_CHARS, most), most=most):
                place = _place(unit, piece, 1 + bisect_right(cuts, piece.start), offsets)
                segments.append(SegmentDraft(place, piece.text, unit.heading, "data" if unit.data else "prose"))
        return segments


def _place(unit: DocumentUnit, piece: Piece, paragraph: int, offsets: Sequence[int]) -> Locator:
    if unit.page is not None:
        return Page(page=unit.page, paragraph=paragraph)
    return Section(heading=unit.heading, offset=offsets[piece.start] + piece.column)


def _offsets(lines: Sequence[str]) -> list[int]:
    offsets, at = list[int](), 0
    for line in lines:
        offsets.append(at)
        at += len(line) + 1
    return offsets


_PDF = frozenset({".pdf"})
_OFFICE = frozenset({
    ".docx", ".docm", ".dotx", ".pptx", ".pptm", ".ppsx", ".xlsx", ".xlsm", ".odt", ".ods", ".odp", ".epub"
})  # fmt: skip
_MAIL = frozenset({".eml", ".mbox", ".mbx"})
_ZIP = b"PK\x03\x04"
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OFFICE_PARTS = re.compile(
    rb"\[Content_Types\]\.xml|mimetypeapplication/(?:vnd\.oasis\.opendocument\.(?:text|spreadsheet|presentation)|epub\+zip)"
)
_MBOX = re.compile(rb"From \S+ [^\n]{10,40}\d{4}[^\n]{0,10}\r?\n[A-Za-z-]+:")
_HEADER = re.compile(
    rb"^(?:Received|Message-ID|From|To|Date|Subject|MIME-Version|Return-Path):", re.IGNORECASE | re.MULTILINE
)
_FEWEST_HEADERS = 3
_HTML = frozenset({".html", ".htm", ".xhtml"})
_ARCHIVES = frozenset({".mhtml", ".mht"})
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,200}(?:<!--.{0,500}?-->\s{0,200})?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_TEMPLATE = re.compile(rb"\{%|\{\{|<\?php|<%[@=\s]")


def _is_pdf(path: str, head: bytes) -> bool:
    return head.startswith(b"%PDF-") or (_suffix(path) in _PDF and (not head or b"%PDF-" in head))


def _is_office(path: str, head: bytes) -> bool:
    if _suffix(path) in _OFFICE:
        return not head or head.startswith((_ZIP, _OLD_OFFICE))
    return head.startswith(_ZIP) and _OFFICE_PARTS.search(head) is not None


def _is_mail(path: str, head: bytes) -> bool:
    suffix = _suffix(path)
    if suffix not in _MAIL and suffix:
        return False
    if not head:
        return suffix in _MAIL
    headers = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return _MBOX.match(head) is not None or (
        _HEADER.match(headers) is not None and len(set(_HEADER.findall(headers))) >= _FEWEST_HEADERS
    )


def _is_page(path: str, head: bytes) -> bool:
    if _suffix(path) in _ARCHIVES:
        return not head or is_web_archive(head)
    if not _suffix(path):  # as saved by programs that fetch pages
        return _PAGE.match(head) is not None
    return _suffix(path) in _HTML and _TEMPLATE.search(head) is None


def _suffix(path: str) -> str:
    return posix_path(path).suffix.lower()


PDF = DocumentFormat("pdf", _is_pdf, _PDF, "pdf", ("pypdfium2", "pypdf"))
OFFICE = DocumentFormat("office", _is_office, _OFFICE, "office")
MAIL = DocumentFormat("mail", _is_mail, _MAIL, "office")
HTML = DocumentFormat("html", _is_page, _HTML | _ARCHIVES, "web")
DOCUMENTS = (PDF, OFFICE, MAIL, HTML)
