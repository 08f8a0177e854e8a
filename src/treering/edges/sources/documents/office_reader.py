"""Office files and books: which of the readers a file is for. Runs in a child process with bounds."""

from collections.abc import Callable, Mapping

from treering.edges.sources.documents import epub, open_document, sheets, slides, word
from treering.edges.sources.documents.contents import DocumentContents, DocumentDamaged, NotThatFormat
from treering.edges.sources.documents.package import Package

_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_BY_PART: Mapping[str, Callable[[Package], DocumentContents]] = {
    "word/document.xml": word.read,
    "ppt/presentation.xml": slides.read,
    "xl/workbook.xml": sheets.read,
    "META-INF/container.xml": epub.read,
    "content.xml": open_document.read,
}


def read(data: bytes) -> DocumentContents:
    """Read a file by the part that tells what it is. Raises `DocumentDamaged`, `NotThatFormat`."""
    if data.startswith(_OLD_OFFICE):
        raise DocumentDamaged("it is encrypted with a password, or of the binary formats before 2007: save it anew")
    package = Package(data)
    for part, reader in _BY_PART.items():
        if part in package.names:
            return reader(package)
    raise NotThatFormat
