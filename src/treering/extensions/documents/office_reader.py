"""Readers of office files and books, chosen by the parts of a file. Run in a child process with limits."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from posixpath import dirname, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from treering.extensions.documents import open_document
from treering.extensions.documents.contents import (
    MOST_CELLS,
    CellRow,
    DocumentContents,
    DocumentDamaged,
    DocumentUnit,
    NotThatFormat,
    Outliner,
    Package,
    plain,
    ranges,
    shown,
)
from treering.extensions.documents.html_text import outline_html

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DOCUMENT = "word/document.xml"
_TITLE = re.compile(r"title$", re.IGNORECASE)
_HEADING = re.compile(r"heading ?(\d)$", re.IGNORECASE)
_SKIPPED = frozenset({
    f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}delText", f"{_W}pPr", f"{_W}rPr",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
})  # fmt: skip
_APART = {"word/footnotes.xml": "Footnotes", "word/endnotes.xml": "Endnotes", "word/comments.xml": "Comments"}
_LEVEL_OF_TITLE = 0


def read_word(package: Package) -> DocumentContents:
    """Read a Word file (docx): paragraphs and tables under headings, notes and comments; no deleted text."""
    outliner, levels = Outliner(), _levels(package)
    for block in _blocks(package.xml(_DOCUMENT)):
        if block.tag == f"{_W}tbl":
            outliner.paragraph("\n".join(_rows(block)))
        elif (level := _level(block, levels)) is not None:
            outliner.heading(level, _text(block))
        else:
            outliner.paragraph(_text(block))
    for part, name in _APART.items():
        if part in package.names:
            outliner.heading(1, name)
            for paragraph in package.xml(part).iter(f"{_W}p"):
                outliner.paragraph(_text(paragraph))
    return DocumentContents(outliner.units(), outliner.title)


def _levels(package: Package) -> Mapping[str, int]:
    """Return the level of each heading style."""
    if "word/styles.xml" not in package.names:
        return {}
    levels = dict[str, int]()
    for style in package.xml("word/styles.xml").iter(f"{_W}style"):
        name = style.find(f"{_W}name")
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        level = _level_named(name.get(f"{_W}val", "") if name is not None else "")
        if level is None and outline is not None:
            level = _level_set(outline)
        if level is not None:
            levels[style.get(f"{_W}styleId", "")] = level
    return levels


def _level_named(name: str) -> int | None:
    heading = _HEADING.match(name)
    if heading:
        return int(heading[1])
    return _LEVEL_OF_TITLE if _TITLE.fullmatch(name) else None


def _level_set(outline: Element) -> int | None:
    value = outline.get(f"{_W}val", "")
    return int(value) + 1 if value in set("012345678") else None


def _level(paragraph: Element, levels: Mapping[str, int]) -> int | None:
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    outline = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    if outline is not None:
        return _level_set(outline)
    return levels.get(style.get(f"{_W}val", "")) if style is not None else None


def _blocks(inside: Element) -> Iterator[Element]:
    """Yield paragraphs and tables in order, including those in content controls."""
    for child in inside:
        if child.tag in (f"{_W}p", f"{_W}tbl"):
            yield child
        elif child.tag not in _SKIPPED:
            yield from _blocks(child)


def _rows(table: Element) -> Iterator[str]:
    for row in table.iter(f"{_W}tr"):
        cells = [" ".join(_text(cell).split()) for cell in row.iter(f"{_W}tc")]
        if any(cells):
            yield " | ".join(cells)


def _text(element: Element) -> str:
    return "".join(_parts(element))


def _parts(element: Element) -> Iterator[str]:
    for child in element:
        if child.tag == f"{_W}t":
            yield child.text or ""
        elif child.tag == f"{_W}tab":
            yield "\t"
        elif child.tag in (f"{_W}br", f"{_W}cr"):
            yield "\n"
        elif child.tag not in _SKIPPED:
            yield from _parts(child)
            if child.tag == f"{_W}p":
                yield "\n"


_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_PRESENTATION = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
_NUMBERS = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})
_TEXT_TAGS = frozenset({f"{_A}t", f"{_A}br"})


def read_slides(package: Package) -> DocumentContents:
    """Read a presentation (pptx): a unit per slide, in order, with its tables and notes."""
    named = package.relations(_PRESENTATION)
    parts = [named.get(entry.get(f"{_R}id", "")) for entry in package.xml(_PRESENTATION).iter(f"{_P}sldId")]
    slides = [_slide(package, part, at) for at, part in enumerate(parts, start=1) if part in package.names]
    title = slides[0].heading.partition(": ")[2] if slides else ""
    return DocumentContents([slide for slide in slides if slide.text], title)


def _slide(package: Package, part: str | None, number: int) -> DocumentUnit:
    name, paragraphs = "", list[str]()
    for kind, text in _shapes(package.xml(part or "")):
        if kind in _TITLES and not name:
            name = " ".join(text.split())
        if kind not in _NUMBERS and text.strip():
            paragraphs.append(text.strip())
    for note in package.relations(part or "").values():
        if note.startswith("ppt/notesSlides/") and note in package.names:
            text = "\n".join(text for kind, text in _shapes(package.xml(note)) if kind not in _NUMBERS).strip()
            paragraphs += [f"Notes: {text}"] if text else []
    return DocumentUnit(plain("\n\n".join(paragraphs)), f"Slide {number}: {name}"[:200] if name else f"Slide {number}")


def _shapes(slide: Element) -> Iterator[tuple[str, str]]:
    """Yield the purpose and the text of each shape."""
    for shape in slide.iter(f"{_P}sp"):
        placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        yield placeholder.get("type", "") if placeholder is not None else "", _paragraphs(shape)
    for table in slide.iter(f"{_A}tbl"):
        rows = [[" ".join(_paragraphs(cell).split()) for cell in row.iter(f"{_A}tc")] for row in table.iter(f"{_A}tr")]
        yield "table", "\n".join(" | ".join(row) for row in rows)


def _paragraphs(element: Element) -> str:
    return "\n".join(_paragraph_text(paragraph) for paragraph in element.iter(f"{_A}p"))


def _paragraph_text(paragraph: Element) -> str:
    texts = (one for one in paragraph.iter() if one.tag in _TEXT_TAGS)
    return "".join("\n" if one.tag == f"{_A}br" else one.text or "" for one in texts)


_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_WORKBOOK = "xl/workbook.xml"
_NAMED = re.compile(r"([A-Z]{1,3})(\d{1,7})$")
_DATES = frozenset({*range(14, 23), *range(45, 48)})
"""The numbers of built-in formats of dates and times (ECMA-376 part 1, 18.8.30)."""
_NO_DATE = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATE = re.compile(r"[ymdhs]", re.IGNORECASE)
_LAST_DAY = 2_958_466


def read_sheets(package: Package) -> DocumentContents:
    """Read a spreadsheet (xlsx): ranges of each sheet in order, with stored values and formulas; no macros."""
    workbook, named = package.xml(_WORKBOOK), package.relations(_WORKBOOK)
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
    """The styles of dates."""
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
        kind, element = cell.get("t", "n"), cell.find(f"{_S}v")
        value = (element.text or "") if element is not None else ""
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


_CONTAINER = "META-INF/container.xml"


def read_epub(package: Package) -> DocumentContents:
    """Read a book (epub): the sections of its chapters, in order."""
    book = next((one.get("full-path", "") for one in _named(package.xml(_CONTAINER), "rootfile")), "")
    if book not in package.names:
        raise NotThatFormat
    if "META-INF/encryption.xml" in package.names and b"content" in package.read("META-INF/encryption.xml"):
        warnings = ["parts of it may be protected and are not read"]
    else:
        warnings = []
    listing, outliner = package.xml(book), Outliner()
    chapters = list(_chapters(listing, dirname(book)))
    for chapter in chapters:
        if chapter in package.names:
            outline_html(package.read(chapter).decode("utf-8", "replace"), outliner)
    if not any(chapter in package.names for chapter in chapters):
        raise DocumentDamaged("none of its chapters exists")
    title = next(("".join(one.itertext()) for one in _named(listing, "title")), "") or outliner.title
    return DocumentContents(outliner.units(), " ".join(title.split())[:200], warnings)


def _chapters(listing: Element, folder: str) -> Iterator[str]:
    files = {item.get("id", ""): item.get("href", "") for item in _named(listing, "item")}
    for place in _named(listing, "itemref"):
        file = unquote(files.get(place.get("idref", ""), ""))
        if file:
            yield normpath(f"{folder}/{file}") if folder else normpath(file)


def _named(element: Element, name: str) -> Iterator[Element]:
    return (one for one in element.iter() if one.tag.rpartition("}")[2] == name)


_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_BY_PART: Mapping[str, Callable[[Package], DocumentContents]] = {
    "word/document.xml": read_word,
    "ppt/presentation.xml": read_slides,
    "xl/workbook.xml": read_sheets,
    "META-INF/container.xml": read_epub,
    "content.xml": open_document.read,
}


def read(data: bytes) -> DocumentContents:
    """Read a file with the reader for its parts. Raises `DocumentDamaged`, `NotThatFormat`."""
    if data.startswith(_OLD_OFFICE):
        raise DocumentDamaged(
            "it is encrypted with a password, or in a binary format from before 2007: save it in the current format"
        )
    package = Package(data)
    for part, reader in _BY_PART.items():
        if part in package.names:
            return reader(package)
    raise NotThatFormat
