"""The formats of documents, and how their files are recognised: by their first bytes, or by their names."""

import re
from pathlib import PurePosixPath

from treering.edges.sources.documents.document_format import DocumentFormat
from treering.edges.sources.documents.web_archive import is_web_archive

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
    if not _suffix(path):  # as programs save what they fetch
        return _PAGE.match(head) is not None
    return _suffix(path) in _HTML and _TEMPLATE.search(head) is None


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


PDF = DocumentFormat("pdf", _is_pdf, _PDF, "pdf", ("pypdfium2", "pypdf"))
OFFICE = DocumentFormat("office", _is_office, _OFFICE, "office")
MAIL = DocumentFormat("mail", _is_mail, _MAIL, "office")
HTML = DocumentFormat("html", _is_page, _HTML | _ARCHIVES, "web")
DOCUMENTS = (PDF, OFFICE, MAIL, HTML)
