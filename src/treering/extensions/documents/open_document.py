"""OpenDocument files (odt, ods, odp): sections, ranges of sheets, slides."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

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

_NS = "urn:oasis:names:tc:opendocument:xmlns:"
_OFFICE, _TEXT, _TABLE, _DRAW = (f"{{{_NS}{name}:1.0}}" for name in ("office", "text", "table", "drawing"))
_PRESENTATION = f"{{{_NS}presentation:1.0}}"
_PARAGRAPHS = frozenset({f"{_TEXT}p", f"{_TEXT}h"})
_SKIPPED = frozenset({f"{_TEXT}tracked-changes", f"{_TEXT}table-of-content", f"{_OFFICE}annotation"})
_MOST_REPEATED = 100
_MOST_SPACES = 100


def read(package: Package) -> DocumentContents:
    """Read a file. Raises `NotThatFormat` for another kind of zip file with a `content.xml`."""
    root = package.xml("content.xml")
    if root.tag != f"{_OFFICE}document-content":
        raise NotThatFormat
    if _is_encrypted(package):
        raise DocumentDamaged("it is encrypted and needs a password")
    body = root.find(f"{_OFFICE}body")
    for kind in body if body is not None else ():
        match kind.tag.rpartition("}")[2]:
            case "spreadsheet":
                return DocumentContents(list(_sheets(kind)))
            case "presentation":
                return DocumentContents(list(_slides(kind)))
            case "text":
                return _text_document(kind)
    raise NotThatFormat


def _is_encrypted(package: Package) -> bool:
    name = "META-INF/manifest.xml"
    return name in package.names and b"encryption-data" in package.read(name)


def _text_document(body: Element) -> DocumentContents:
    outliner = Outliner()
    for block in _blocks(body):
        if block.tag == f"{_TABLE}table":
            outliner.paragraph("\n".join(row.text for row in _rows(block, [MOST_CELLS])))
        elif block.tag == f"{_TEXT}h":
            outliner.heading(_number(block, f"{_TEXT}outline-level", 10), _text_of(block))
        elif block.get(f"{_TEXT}style-name") == "Title":
            outliner.heading(0, _text_of(block))
        else:
            outliner.paragraph(_text_of(block))
    return DocumentContents(outliner.units(), outliner.title)


def _blocks(inside: Element) -> Iterator[Element]:
    for child in inside:
        if child.tag in _PARAGRAPHS or child.tag == f"{_TABLE}table":
            yield child
        elif child.tag not in _SKIPPED:
            yield from _blocks(child)


def _sheets(body: Element) -> Iterator[DocumentUnit]:
    left = [MOST_CELLS]
    for table in body.iter(f"{_TABLE}table"):
        yield from ranges(table.get(f"{_TABLE}name", "")[:100], _rows(table, left))


def _rows(table: Element, left: list[int]) -> Iterator[CellRow]:
    number = 1
    for row in table.iter(f"{_TABLE}table-row"):
        cells, column = dict[int, str](), 1
        for cell in row:
            text = _cell(cell)
            repeated = _number(cell, f"{_TABLE}number-columns-repeated", 16_384)
            if text:
                cells |= dict.fromkeys(range(column, column + min(repeated, _MOST_REPEATED)), text)
            column += repeated
        left[0] -= 1 + len(cells)
        if left[0] < 0:
            return
        repeated = _number(row, f"{_TABLE}number-rows-repeated", 1_048_576)
        yield CellRow(number, cells)
        number += repeated


def _cell(cell: Element) -> str:
    if not cell.tag.endswith("table-cell"):
        return ""
    text = "\n".join(_text_of(paragraph) for paragraph in cell if paragraph.tag in _PARAGRAPHS)
    formula = cell.get(f"{_TABLE}formula", "").partition("=")[2]
    return shown(text or cell.get(f"{_OFFICE}value", ""), formula)


def _slides(body: Element) -> Iterator[DocumentUnit]:
    for number, page in enumerate(body.iter(f"{_DRAW}page"), start=1):
        title, paragraphs = "", list[str]()
        for part in page:
            text = "\n".join(_text_of(paragraph) for paragraph in part.iter() if paragraph.tag in _PARAGRAPHS).strip()
            if part.get(f"{_PRESENTATION}class") == "title" and not title:
                title = " ".join(text.split())
            notes = "Notes: " if part.tag == f"{_PRESENTATION}notes" else ""
            paragraphs += [f"{notes}{text}"] if text else []
        if paragraphs:
            name = f"Slide {number}: {title}"[:200] if title else f"Slide {number}"
            yield DocumentUnit(plain("\n\n".join(paragraphs)), name)


def _text_of(element: Element) -> str:
    return "".join(_parts(element))


def _parts(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        match child.tag:
            case "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}s":
                yield " " * _number(child, f"{_TEXT}c", _MOST_SPACES)
            case "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}tab":
                yield "\t"
            case "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}line-break":
                yield "\n"
            case tag if tag not in _SKIPPED:
                yield from _parts(child)
        yield child.tail or ""


def _number(element: Element, name: str, most: int) -> int:
    value = element.get(name, "")
    return max(1, min(int(value), most)) if value.isdecimal() and len(value) < 10 else 1
