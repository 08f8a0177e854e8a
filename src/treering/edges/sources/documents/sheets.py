"""Spreadsheets (xlsx): ranges of each sheet, with values as they were last computed and their formulas."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from xml.etree.ElementTree import Element

from treering.edges.sources.documents.cells import MOST_CELLS, CellRow, ranges, shown
from treering.edges.sources.documents.contents import DocumentContents, DocumentUnit
from treering.edges.sources.documents.package import Package

_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MAIN = "xl/workbook.xml"
_NAMED = re.compile(r"([A-Z]{1,3})(\d{1,7})$")
_DATES = frozenset({*range(14, 23), *range(45, 48)})
"""The numbers of formats of dates and times that every program knows (ECMA-376 part 1, 18.8.30)."""
_NO_DATE = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)
_LAST_DAY = 2_958_466


def read(package: Package) -> DocumentContents:
    """Read a file, its sheets in order; hidden ones, too. Macros are never looked at."""
    workbook, named = package.xml(_MAIN), package.relations(_MAIN)
    book = _Workbook(_strings(package), _date_styles(package), _epoch(workbook))
    units = list[DocumentUnit]()
    for sheet in workbook.iter(f"{_S}sheet"):
        part = named.get(sheet.get(f"{_R}id", ""), "")
        if part in package.names:
            units += ranges(sheet.get("name", "")[:100], book.rows(package.xml(part)))
    left_out = [f"only its first {MOST_CELLS:,} cells are read"] if book.left[0] <= 0 else []
    return DocumentContents(units, warnings=left_out)


@dataclass(frozen=True, slots=True)
class _Workbook:
    strings: Sequence[str]
    dated: frozenset[int]
    """The styles that show dates."""
    epoch: datetime
    left: list[int] = field(default_factory=lambda: [MOST_CELLS])

    def rows(self, sheet: Element) -> Iterator[CellRow]:
        for at, row in enumerate(sheet.iter(f"{_S}row"), start=1):
            if self.left[0] <= 0:
                return
            self.left[0] -= len(row)
            number = row.get("r", "")
            cells = {column: text for column, cell in self._placed(row) if (text := self._shown(cell))}
            yield CellRow(int(number) if number.isdecimal() and len(number) < 8 else at, cells)

    def _placed(self, row: Element) -> Iterator[tuple[int, Element]]:
        column = 0
        for cell in row.iter(f"{_S}c"):
            named = _NAMED.match(cell.get("r", ""))
            column = _column(named[1]) if named else column + 1
            yield column, cell

    def _shown(self, cell: Element) -> str:
        formula = cell.find(f"{_S}f")
        return shown(self._value(cell), formula.text or "" if formula is not None else "")

    def _value(self, cell: Element) -> str:
        kind, found = cell.get("t", "n"), cell.find(f"{_S}v")
        value = (found.text or "") if found is not None else ""
        match kind:
            case "s":
                at = int(value) if value.isdecimal() else -1
                return self.strings[at] if 0 <= at < len(self.strings) else ""
            case "inlineStr":
                return "".join(part.text or "" for part in cell.iter(f"{_S}t"))
            case "b":
                return {"1": "TRUE", "0": "FALSE"}.get(value, value)
            case "n":
                return self._number(value, cell.get("s", ""))
        return value

    def _number(self, value: str, style: str) -> str:
        try:
            number = float(value)
        except ValueError:
            return value
        if style.isdecimal() and int(style) in self.dated and 0 <= number < _LAST_DAY:
            return _moment(self.epoch, number)
        return f"{number:.12g}" if "." in value else value


def _column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - ord("A") + 1
    return column


def _moment(epoch: datetime, number: float) -> str:
    try:
        moment = epoch + timedelta(seconds=round(number * 86_400))
    except OverflowError:
        return f"{number:.12g}"
    if number < 1:
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%Y-%m-%d") if number == int(number) else moment.strftime("%Y-%m-%d %H:%M:%S")


def _strings(package: Package) -> list[str]:
    if "xl/sharedStrings.xml" not in package.names:
        return []
    return [
        "".join(part.text or "" for part in entry.iter(f"{_S}t"))
        for entry in package.xml("xl/sharedStrings.xml").iter(f"{_S}si")
    ]


def _date_styles(package: Package) -> frozenset[int]:
    if "xl/styles.xml" not in package.names:
        return frozenset()
    styles = package.xml("xl/styles.xml")
    own = _own_formats(styles)
    used = styles.find(f"{_S}cellXfs")
    formats = [one.get("numFmtId", "") for one in used] if used is not None else []
    return frozenset(
        at for at, name in enumerate(formats) if own.get(name) or (name.isdecimal() and int(name) in _DATES)
    )


def _own_formats(styles: Element) -> Mapping[str, bool]:
    return {
        one.get("numFmtId", ""): _DATE.search(_NO_DATE.sub("", one.get("formatCode", ""))) is not None
        for one in styles.iter(f"{_S}numFmt")
    }


def _epoch(workbook: Element) -> datetime:
    settings = workbook.find(f"{_S}workbookPr")
    since_1904 = settings is not None and settings.get("date1904") in ("1", "true")
    return datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - cells have no time zone
