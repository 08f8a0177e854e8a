"""Word files (docx): paragraphs and tables under their headings, then notes and comments."""

import re
from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element

from treering.edges.sources.documents.contents import DocumentContents, Outliner
from treering.edges.sources.documents.package import Package

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MAIN = "word/document.xml"
_TITLE = re.compile(r"title$", re.IGNORECASE)
_HEADING = re.compile(r"heading ?(\d)$", re.IGNORECASE)
_SKIPPED = frozenset({
    f"{_W}del", f"{_W}moveFrom", f"{_W}instrText", f"{_W}delText", f"{_W}pPr", f"{_W}rPr",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
})  # fmt: skip
_APART = {"word/footnotes.xml": "Footnotes", "word/endnotes.xml": "Endnotes", "word/comments.xml": "Comments"}
_LEVEL_OF_TITLE = 0


def read(package: Package) -> DocumentContents:
    """Read a file. Deleted text of tracked changes is left out."""
    outliner, levels = Outliner(), _levels(package)
    for block in _blocks(package.xml(_MAIN)):
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
    """Return the level of each style that is one of headings."""
    if "word/styles.xml" not in package.names:
        return {}
    found = dict[str, int]()
    for style in package.xml("word/styles.xml").iter(f"{_W}style"):
        name = style.find(f"{_W}name")
        outline = style.find(f"{_W}pPr/{_W}outlineLvl")
        level = _level_named(name.get(f"{_W}val", "") if name is not None else "")
        if level is None and outline is not None:
            level = _level_set(outline)
        if level is not None:
            found[style.get(f"{_W}styleId", "")] = level
    return found


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
    """Yield paragraphs and tables in order, out of content controls and the like, too."""
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
