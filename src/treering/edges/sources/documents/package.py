"""The zip file that an office document is: its size is checked before anything is unpacked, and nothing is fetched."""

from collections.abc import Mapping
from io import BytesIO
from posixpath import dirname, normpath
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from treering.edges.sources.conversations.archive import Archive, Refused, ZipBounds, open_archive
from treering.edges.sources.documents.contents import DocumentDamaged, NotThatFormat

_BOUNDS = ZipBounds(max_members=20_000, max_bytes=200_000_000)
_MOST_XML_BYTES = 60_000_000


class Package:
    """The parts of a document by name."""

    def __init__(self, data: bytes) -> None:
        """Open a file. Raises `NotThatFormat`, `DocumentDamaged`."""
        archive = open_archive(BytesIO(data), _BOUNDS)
        if isinstance(archive, Refused):
            raise DocumentDamaged(archive.why)
        self._archive: Archive = archive
        self.names = frozenset(archive.names)

    def read(self, name: str) -> bytes:
        """Return a part. Raises `DocumentDamaged`."""
        if name not in self.names:
            raise DocumentDamaged(f"its part {name[:80]!r} is missing")
        data = self._archive.read(name)
        if isinstance(data, Refused):
            raise DocumentDamaged(f"its part {name[:80]!r}: {data.why}")
        if len(data) > _MOST_XML_BYTES:
            raise DocumentDamaged(f"its part {name[:80]!r} is over the limit of {_MOST_XML_BYTES:,} bytes")
        return data

    def xml(self, name: str) -> Element:
        """Return a part as parsed XML. Raises `DocumentDamaged`."""
        parser = XMLParser(target=_NoEntities())  # noqa: S314 - no document types, in a process with bounds
        try:
            parser.feed(self.read(name))
            root = parser.close()
        except (ParseError, ValueError, LookupError) as error:
            raise DocumentDamaged(f"its part {name[:80]!r} is not XML that can be read") from error
        if not isinstance(root, Element):
            raise DocumentDamaged(f"its part {name[:80]!r} is empty")
        return root

    def relations(self, name: str) -> Mapping[str, str]:
        """Return the parts that a part of an Office Open XML file names, by the name it gives them."""
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


def require(package: Package, name: str) -> None:
    """Raise `NotThatFormat` where a document lacks the part that makes it one."""
    if name not in package.names:
        raise NotThatFormat


class _NoEntities(TreeBuilder):
    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Refuse: office files declare no document type, attacks by entities do."""
        del name, public, system
        raise DocumentDamaged("its XML declares a document type, as attacks do")
