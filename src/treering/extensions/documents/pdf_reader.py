"""PDF files as pages of paragraphs: with pypdfium2, or pypdf if that is missing or cannot open a file.

Runs in a child process with limits. Nothing is rendered, so the size of a page costs nothing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import pairwise
from statistics import median
from typing import Any
from unicodedata import normalize

from treering.extensions.documents.contents import DocumentContents, DocumentDamaged, DocumentUnit, heading_path, plain

MOST_PAGES = 5_000
_MOST_HEADINGS = 20_000
_PAGE_CHARS = 200_000
_SHOWN_PAGES = 8
_ENCRYPTED = "it is encrypted and needs a password"


def read(data: bytes) -> DocumentContents:
    """Read a file. Raises `DocumentDamaged`."""
    problems = list[str]()
    for reader in (_by_pdfium, _by_pypdf):
        try:
            return reader(data)
        except (ImportError, _CannotOpen) as error:
            problems.append(str(error))
    raise DocumentDamaged(_ENCRYPTED if _ENCRYPTED in problems else "it is damaged: none of its pages can be read")


class _CannotOpen(Exception):
    """A library cannot open the file, with the reason."""


def _by_pdfium(data: bytes) -> DocumentContents:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise _CannotOpen(_ENCRYPTED if "password" in str(error).lower() else str(error)) from error
    count = min(len(document), MOST_PAGES)
    if not count:
        raise _CannotOpen("it has no pages")
    headings = _Headings(_toc(document))
    pages = [_page_text(partial(_pdfium_page, document, at), pypdfium2.PdfiumError) for at in range(count)]
    title = str(document.get_metadata_dict().get("Title") or "")
    return _contents(pages, len(document), title, headings)


def _toc(document: Any) -> Iterator[tuple[int, int, str]]:
    """Yield level, page (from 0) and name of the entries of the outline."""
    for at, entry in enumerate(document.get_toc(max_depth=6)):
        target = entry.get_dest()
        page = target.get_index() if target else None
        if page is not None:
            yield entry.level, page, str(entry.get_title())
        if at >= _MOST_HEADINGS:
            return


def _pdfium_page(document: Any, at: int) -> str:
    page = document[at]
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range(0, min(textpage.count_chars(), _PAGE_CHARS))
        return _paragraphs(text, textpage.get_charbox)
    finally:
        textpage.close()
        page.close()


def _page_text(read_page: Callable[[], str], *errors: type[Exception]) -> str | None:
    """Return a page's text, or `None` if the page is damaged."""
    try:
        return read_page()
    except errors:
        return None


def _paragraphs(text: str, box: Callable[[int], Sequence[float]]) -> str:
    """Insert an empty line between lines whose distance is larger than usual on the page."""
    lines = text.replace("\r\n", "\n\0").split("\n")  # the mark keeps characters and positions in step
    tops, at = list[float | None](), 0
    for line in lines:
        start = at + len(line) - len(line.lstrip("\0 \t"))
        tops.append(_baseline(box, start) if line.strip("\0 \t") else None)
        at += len(line) + 1
    steps = [above - below for above, below in pairwise(top for top in tops if top is not None) if above > below]
    usual = median(steps) if steps else 0.0
    return _joined([line.replace("\0", "") for line in lines], tops, usual)


def _baseline(box: Callable[[int], Sequence[float]], at: int) -> float | None:
    try:
        return box(at)[1]
    except Exception as error:  # noqa: BLE001 - the library raises anything for characters without a box
        del error
        return None


def _joined(lines: Sequence[str], tops: Sequence[float | None], usual: float) -> str:
    parts, last = list[str](), None
    for line, top in zip(lines, tops, strict=True):
        if last is not None and top is not None and (last - top > 1.4 * usual or top - last > 2 * usual > 0):
            parts.append("")
        parts.append(line.rstrip())
        last = top if top is not None else last
    return "\n".join(parts)


def _by_pypdf(data: bytes) -> DocumentContents:
    import pypdf
    from pypdf.errors import PyPdfError

    damaged = (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, OSError)
    try:
        document = pypdf.PdfReader(BytesIO(data))
        if document.is_encrypted and not document.decrypt(""):
            raise _CannotOpen(_ENCRYPTED)
        count = len(document.pages)
        title = str(document.metadata.title or "") if document.metadata else ""
    except damaged as error:
        raise _CannotOpen(str(error)) from error
    pages = [_page_text(partial(_pypdf_page, document, at), *damaged) for at in range(min(count, MOST_PAGES))]
    if not any(pages):
        raise _CannotOpen("none of its pages can be read")
    return _contents(pages, count, title, _Headings(()))


def _pypdf_page(document: Any, at: int) -> str:
    return str(document.pages[at].extract_text())[:_PAGE_CHARS]


class _Headings:
    """The path of headings at the end of each page."""

    def __init__(self, entries: Iterable[tuple[int, int, str]]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry[1])
        self._above: list[tuple[int, str]] = []
        self._next = 0

    def at(self, page: int) -> str:
        """Return the path for a page (from 0). Pages must be requested in order."""
        while self._next < len(self._entries) and self._entries[self._next][1] <= page:
            level, _, name = self._entries[self._next]
            while self._above and self._above[-1][0] >= level:
                self._above.pop()
            self._above.append((level, " ".join(plain(name).split())))
            self._next += 1
        return heading_path(self._above)


def _contents(pages: Sequence[str | None], count: int, title: str, headings: _Headings) -> DocumentContents:
    units, silent = list[DocumentUnit](), list[int]()
    for number, page in enumerate(pages, start=1):
        heading, text = headings.at(number - 1), _readable(page or "")
        if text:
            units.append(DocumentUnit(text, heading, page=number))
        else:
            silent.append(number)
    warnings = [f"{_pages(silent)} without text: perhaps scanned; text in images is not read"] if silent else []
    if count > len(pages):
        warnings.append(f"only its first {len(pages):,} of {count:,} pages are read")
    return DocumentContents(units, " ".join(plain(title).split())[:200], warnings)


def _pages(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN_PAGES]))
    more = f" and {len(numbers) - _SHOWN_PAGES:,} more" if len(numbers) > _SHOWN_PAGES else ""
    return f"{'page' if len(numbers) == 1 else 'pages'} {shown}{more}"


def _readable(text: str) -> str:
    """Join words that are hyphenated at line ends, and replace ligatures by letters."""
    text = _MARKED_HYPHEN.sub("", text)
    text = _PLAIN_HYPHEN.sub("", text)
    text = _LIGATURE.sub(lambda match: normalize("NFKC", match[0]), text)
    lines = [line.rstrip() for line in plain(text).split("\n")]
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


_MARKED_HYPHEN = re.compile(r"[\ufffe\u00ad\x02]\s*")
_PLAIN_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-[ \t]*\r?\n[ \t]*(?=[a-zäöüßàâçéèêëîïôûùœæñáíóú]{2})")
_EMPTY_LINES = re.compile(r"\n{3,}")
_LIGATURE = re.compile(r"[\ufb00-\ufb06]")
