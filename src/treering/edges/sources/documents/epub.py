"""Books (epub): the sections of their chapters, in the order they are read."""

from collections.abc import Iterator
from posixpath import dirname, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from treering.edges.sources.documents.contents import DocumentContents, DocumentDamaged, NotThatFormat, Outliner
from treering.edges.sources.documents.html_text import outline_html
from treering.edges.sources.documents.package import Package

_CONTAINER = "META-INF/container.xml"


def read(package: Package) -> DocumentContents:
    """Read a book."""
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
        raise DocumentDamaged("none of its chapters is there")
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
