"""Presentations (pptx): a unit per slide, with its tables and its notes."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from treering.edges.sources.documents.contents import DocumentContents, DocumentUnit, plain
from treering.edges.sources.documents.package import Package

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MAIN = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
_NUMBERS = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})


def read(package: Package) -> DocumentContents:
    """Read a file, its slides in the order they are shown."""
    named = package.relations(_MAIN)
    parts = [named.get(entry.get(f"{_R}id", "")) for entry in package.xml(_MAIN).iter(f"{_P}sldId")]
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
            said = "\n".join(text for kind, text in _shapes(package.xml(note)) if kind not in _NUMBERS).strip()
            paragraphs += [f"Notes: {said}"] if said else []
    return DocumentUnit(plain("\n\n".join(paragraphs)), f"Slide {number}: {name}"[:200] if name else f"Slide {number}")


def _shapes(slide: Element) -> Iterator[tuple[str, str]]:
    """Yield what each shape is for, and its text."""
    for shape in slide.iter(f"{_P}sp"):
        placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        yield placeholder.get("type", "") if placeholder is not None else "", _paragraphs(shape)
    for table in slide.iter(f"{_A}tbl"):
        rows = [[" ".join(_paragraphs(cell).split()) for cell in row.iter(f"{_A}tc")] for row in table.iter(f"{_A}tr")]
        yield "table", "\n".join(" | ".join(row) for row in rows)


def _paragraphs(element: Element) -> str:
    return "\n".join(_text(paragraph) for paragraph in element.iter(f"{_A}p"))


def _text(paragraph: Element) -> str:
    return "".join("\n" if one.tag == f"{_A}br" else one.text or "" for one in paragraph.iter() if one.tag in _SAYING)


_SAYING = frozenset({f"{_A}t", f"{_A}br"})
