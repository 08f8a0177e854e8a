"""The contents of documents as plain values that can cross a pipe, and links to passages of a page."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from posixpath import dirname, normpath
from urllib.parse import quote
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from treering.sources.reading.binary import Archive, Refused, ZipBounds, open_archive

_LONGEST_NAME = 120
_LINE_ENDS = re.compile(r"\r\n?|[\v\f\u2028\u2029\x85]")
_UNSHOWN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff\u00ad]")
_BOUNDS = ZipBounds(max_members=20_000, max_bytes=200_000_000)
_MOST_XML_BYTES = 60_000_000
MOST_CELLS = 1_000_000
_RANGE_CHARS = 1_000
_LONGEST_CELL = 2_000
_LONGEST_COLUMN_NAMES = 300
_EDGE_WORDS = (4, 8, 16)
"""Number of words that identify the beginning or end of a passage; the smallest unambiguous one is used."""
_SHORT = 12
"""Passages of up to this number of words are named as a whole."""
_PREFIX_WORDS = 4
_LONGEST_PART = 200
MOST_SHOWN = 500_000
"""Passages are not searched for in pages with more characters."""
MOST_CHARS = 20_000_000
"""Maximum characters read of a file; the rest is omitted with a warning."""


class DocumentDamaged(Exception):
    """A file of the format of which nothing can be read. Its text is the reason, for display."""


class NotThatFormat(Exception):
    """A file that is of another format than its name or beginning suggests."""


@dataclass(frozen=True, slots=True)
class DocumentUnit:
    """A page, section, slide, range of cells or message: paragraphs separated by empty lines.

    `heading` is its path of headings, or its name. `page` counts from 1, if there are pages.
    """

    text: str
    heading: str = ""
    page: int | None = None
    data: bool = False
    """Whether it contains cells, not prose."""


@dataclass(frozen=True, slots=True)
class DocumentContents:
    """The contents of a file."""

    units: Sequence[DocumentUnit]
    title: str = ""
    warnings: Sequence[str] = ()
    address: str = ""
    """The web address that it states it was saved from."""
    encoding: str = ""
    """The encoding of its text; empty for a file that is not text."""
    shown: str = ""
    """The text that a browser shows of a page, one line per run; empty if it is too long, or no page."""


def plain(text: str) -> str:
    """Return a text with line feeds only, without characters that are invisible or cannot be stored."""
    return _UNSHOWN.sub("", _LINE_ENDS.sub("\n", text))


def heading_path(above: Sequence[tuple[int, str]]) -> str:
    """Join headings, highest first, each cut to a readable length."""
    return " > ".join(name[:_LONGEST_NAME] for _, name in above if name)


def bounded(contents: DocumentContents) -> DocumentContents:
    """Omit the units after `MOST_CHARS` characters, with a warning."""
    left, units = MOST_CHARS, list[DocumentUnit]()
    for unit in contents.units:
        left -= len(unit.text)
        if left < 0:
            note = f"only its first {len(units):,} of {len(contents.units):,} parts are indexed: it is too long"
            return replace(contents, units=units, warnings=(*contents.warnings, note))
        units.append(unit)
    return contents


class Outliner:
    """Collects paragraphs under headings into units."""

    def __init__(self) -> None:
        self._above: list[tuple[int, str]] = []
        self._paragraphs: list[str] = []
        self._units: list[DocumentUnit] = []
        self.title: str = ""
        """The first heading of the highest level."""

    def heading(self, level: int, name: str) -> None:
        """Begin a section."""
        name = " ".join(name.split())
        if not name:
            return
        self._close()
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        if level <= 1 and not self.title:
            self.title = name[:_LONGEST_NAME]
        self._above.append((level, name))

    def paragraph(self, text: str) -> None:
        """Add a paragraph, or the rows of a table, to the current section."""
        text = text.strip()
        if text:
            self._paragraphs.append(text)

    def units(self) -> list[DocumentUnit]:
        """Return the sections."""
        self._close()
        return self._units

    def _close(self) -> None:
        name = heading_path(self._above)
        if self._paragraphs:
            self._units.append(DocumentUnit(plain("\n\n".join(self._paragraphs)), name))
        self._paragraphs = []


class Package:
    """The parts of a document by name."""

    def __init__(self, data: bytes) -> None:
        """Open a file. Raises `NotThatFormat`, `DocumentDamaged`."""
        archive = open_archive(BytesIO(data), _BOUNDS)
        if isinstance(archive, Refused):
            raise DocumentDamaged(archive.why)
        self._archive: Archive = archive
        self.names: frozenset[str] = frozenset(archive.names)

    def read(self, name: str) -> bytes:
        """Return a part. Raises `DocumentDamaged`."""
        if name not in self.names:
            raise DocumentDamaged(f"its part {name[:80]!r} is missing")
        data = self._archive.read(name)
        if isinstance(data, Refused):
            raise DocumentDamaged(f"its part {name[:80]!r}: {data.why}")
        if len(data) > _MOST_XML_BYTES:
            raise DocumentDamaged(f"its part {name[:80]!r} exceeds the limit of {_MOST_XML_BYTES:,} bytes")
        return data

    def xml(self, name: str) -> Element:
        """Return a part as parsed XML. Raises `DocumentDamaged`."""
        data = self.read(name)
        try:
            return parse_xml(data)
        except (ParseError, ValueError, LookupError) as error:
            raise DocumentDamaged(f"its part {name[:80]!r} is not valid XML") from error

    def relations(self, name: str) -> Mapping[str, str]:
        """Return the parts that a part of an Office Open XML file refers to, by the ids of the references."""
        folder, _, file = name.rpartition("/")
        listed = f"{folder}/_rels/{file}.rels"
        if listed not in self.names:
            return {}
        return {
            relation.get("Id", ""): self._target(dirname(name), relation.get("Target", ""))
            for relation in self.xml(listed)
            if relation.get("TargetMode") != "External"
        }

    def _target(self, folder: str, target: str) -> str:
        return target[1:] if target.startswith("/") else normpath(f"{folder}/{target}")


def parse_xml(data: bytes) -> Element:
    """Parse XML. Raises `DocumentDamaged` for a document type, and `ParseError`, `ValueError` or `LookupError`."""
    parser = XMLParser(target=_NoEntities())  # noqa: S314 - without a document type nothing expands
    parser.feed(data)
    root: Element = parser.close()
    return root


class _NoEntities(TreeBuilder):
    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Refuse document types: office files have none, entity attacks do."""
        del name, public, system
        raise DocumentDamaged("its XML declares a document type, which is refused as a possible attack")


@dataclass(frozen=True, slots=True)
class CellRow:
    """A row (from 1) of a sheet: the displayed cells by column (from 1)."""

    number: int
    cells: Mapping[int, str]

    @property
    def text(self) -> str:
        """The cells that are not empty, in order."""
        return " | ".join(self.cells[at] for at in sorted(self.cells))


def shown(value: str, formula: str = "") -> str:
    """Return the text of a cell: its value, and its formula."""
    value = " ".join(plain(value).split())[:_LONGEST_CELL]
    formula = " ".join(plain(formula).split())[:_LONGEST_CELL]
    return (f"{value} (={formula})" if value else f"={formula}") if formula else value


def ranges(sheet: str, rows: Iterable[CellRow]) -> Iterator[DocumentUnit]:
    """Split the rows of a sheet into ranges of about a thousand characters."""
    batch, size, columns = list[CellRow](), 0, ""
    for row in rows:
        if not row.cells:
            continue
        if batch and size + len(row.text) > _RANGE_CHARS:
            yield _range(sheet, batch, columns)
            columns = columns or batch[0].text[:_LONGEST_COLUMN_NAMES]
            batch, size = [], 0
        batch.append(row)
        size += len(row.text) + 1
    if batch:
        yield _range(sheet, batch, columns)


def column_name(number: int) -> str:
    """Return the letters of a column (from 1)."""
    name = ""
    while number > 0:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def _range(sheet: str, rows: list[CellRow], columns: str) -> DocumentUnit:
    first, last = (pick(at for row in rows for at in row.cells) for pick in (min, max))
    name = f"{sheet}!{column_name(first)}{rows[0].number}:{column_name(last)}{rows[-1].number}"
    lines = [*([f"Columns: {columns}"] if columns else []), *(row.text for row in rows)]
    return DocumentUnit("\n".join(lines), name, data=True)


def text_directive(start: str, end: str = "", *, prefix: str = "") -> str:
    """Return the text fragment of a URL (WICG) that leads to a text, from `start` to `end`, after `prefix`."""
    parts = [f"{_encoded(prefix)}-" if prefix else "", _encoded(start), _encoded(end)]
    return f"#:~:text={','.join(part for part in parts if part)}"


class ShownPage:
    """The text that a browser shows of a page, to find passages in. `shown` has one line per run of text.

    The beginning or end in a link must be within one line. Like browsers, it ignores case and accents.
    """

    def __init__(self, shown: str) -> None:
        self._words: list[str] = []
        self._line_of: list[int] = []
        self._places: list[int] = []
        """The position of each word in `_text`."""
        place, folded = 1, list[str]()
        for number, line in enumerate(shown.split("\n") if len(shown) <= MOST_SHOWN else []):
            for word in line.split():
                folded.append(_folded(word))
                self._words.append(word)
                self._line_of.append(number)
                self._places.append(place)
                place += len(folded[-1]) + 1
        self._text = f" {' '.join(folded)} "

    def fragment(self, passage: str) -> str:
        """Return the fragment that leads to a passage; empty unless it is on the page exactly once, in one piece."""
        words = passage.split()
        for tried in (words, [word for word in words if word != "|"]):  # the separator of table cells
            if (span := self._span(tried)) is not None:
                return self._directive(*span)
        return ""

    def _span(self, words: Sequence[str]) -> tuple[int, int] | None:
        """Return the index of the first word and the index after the last one."""
        whole = _folded(" ".join(words))
        at = self._text.find(f" {whole} ") if whole else -1
        if at < 0 or self._text.find(whole, at + 2) >= 0:
            return None
        first = bisect_left(self._places, at + 1)
        return first, bisect_left(self._places, at + 1 + len(whole))

    def _directive(self, first: int, last: int) -> str:
        starts, ends = self._edges(first, last)
        for prefix in ("", self._before(first)):
            for start in starts:
                if self._begins(prefix, start, first):
                    end = next((one for one in ends if self._ends(one, start, first, last)), None)
                    return "" if end is None else text_directive(start, end, prefix=prefix)
        return ""

    def _edges(self, first: int, last: int) -> tuple[list[str], list[str]]:
        """Return possible beginnings and ends of a passage for a link, shortest first."""
        one_line = self._line_of[first] == self._line_of[last - 1]
        whole = " ".join(self._words[first:last])
        if one_line and last - first <= _SHORT and len(whole) <= _LONGEST_PART:
            return [whole], [""]
        first_line = bisect_right(self._line_of, self._line_of[first]) - first
        last_line = last - bisect_left(self._line_of, self._line_of[last - 1])
        half = (last - first) // 2  # within one line, beginning and end may not overlap
        starts = (" ".join(self._words[first : first + count]) for count in _counts(half if one_line else first_line))
        ends = (" ".join(self._words[last - count : last]) for count in _counts(half if one_line else last_line))
        return [one for one in starts if len(one) <= _LONGEST_PART], [one for one in ends if len(one) <= _LONGEST_PART]

    def _before(self, first: int) -> str:
        """Return the last words before a word, in its line or the line above."""
        if not first:
            return ""
        line = bisect_left(self._line_of, self._line_of[first - 1])
        return " ".join(self._words[max(line, first - _PREFIX_WORDS) : first])

    def _begins(self, prefix: str, start: str, first: int) -> bool:
        """Return whether the first `start` after `prefix` is the intended one."""
        before = f"{_folded(prefix)} " if prefix else ""
        at = self._text.find(before + _folded(start))
        return len(prefix) <= _LONGEST_PART and at == self._places[first] - len(before)

    def _ends(self, end: str, start: str, first: int, last: int) -> bool:
        """Return whether the first `end` after the beginning is the intended one."""
        if not end:
            return True
        folded = _folded(end)
        stop = self._places[last - 1] + len(_folded(self._words[last - 1]))
        return self._text.find(folded, self._places[first] + len(_folded(start))) == stop - len(folded)


def _counts(most: int) -> list[int]:
    return sorted({min(count, most) for count in _EDGE_WORDS if most})


def _encoded(text: str) -> str:
    """Percent-encode a text, including the characters with a meaning in a directive."""
    return quote(text, safe="").replace("-", "%2D")


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
