"""What a reader of documents finds in a file, as plain values that cross a pipe."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

MOST_CHARS = 20_000_000
"""What is read of one file; the rest is left out with a warning."""


class DocumentDamaged(Exception):
    """A file of the format of which nothing can be read. Its text says why, for a person."""


class NotThatFormat(Exception):
    """A file that is of another format than its name or its beginning told."""


@dataclass(frozen=True, slots=True)
class DocumentUnit:
    """A page, section, slide, range of cells or message: paragraphs apart by an empty line.

    `heading` is its path of headings, or what it is called. `page` counts from 1, where there are pages.
    """

    text: str
    heading: str = ""
    page: int | None = None
    data: bool = False
    """It holds cells, no prose."""


@dataclass(frozen=True, slots=True)
class DocumentContents:
    """What was read of a file."""

    units: Sequence[DocumentUnit]
    title: str = ""
    warnings: Sequence[str] = ()
    address: str = ""
    """Where on the web it says that it was saved from."""
    shown: str = ""
    """What a browser shows of a page, a line for each stretch of text; empty where it is too long, or is not a page."""


def plain(text: str) -> str:
    """Return a text with line feeds only, without characters that nothing shows or no store keeps."""
    return _UNSHOWN.sub("", _LINE_ENDS.sub("\n", text))


def heading_path(above: Sequence[tuple[int, str]]) -> str:
    """Join headings, the highest first, each cut to a length that can be read."""
    return " > ".join(name[:_LONGEST_NAME] for _, name in above if name)


def bounded(contents: DocumentContents) -> DocumentContents:
    """Leave out the units after `MOST_CHARS` characters, and say so."""
    left, kept = MOST_CHARS, list[DocumentUnit]()
    for unit in contents.units:
        left -= len(unit.text)
        if left < 0:
            note = f"only its first {len(kept):,} of {len(contents.units):,} parts are kept: it is too long"
            return replace(contents, units=kept, warnings=(*contents.warnings, note))
        kept.append(unit)
    return contents


class Outliner:
    """Gathers paragraphs under headings, as they come, into units."""

    def __init__(self) -> None:
        self._above: list[tuple[int, str]] = []
        self._paragraphs: list[str] = []
        self._units: list[DocumentUnit] = []
        self.title = ""
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
        """Add a paragraph, or the rows of a table, to the section that is open."""
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


_LONGEST_NAME = 120
_LINE_ENDS = re.compile(r"\r\n?|[\v\f\u2028\u2029\x85]")
_UNSHOWN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff\u00ad]")
