"""Formats whose files are parsed in a child process: their units are cleaned of secrets and cut into segments."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from treering.core.errors import InvalidInput
from treering.core.injection import instruction_flags
from treering.core.locator import Locator, Page, Section
from treering.core.redaction import Redacted
from treering.edges.sources.binary import BinaryFormat
from treering.edges.sources.documents.contents import DocumentContents, DocumentUnit
from treering.edges.sources.documents.document_process import DocumentProcess
from treering.edges.sources.documents.text_fragments import ShownPage
from treering.edges.sources.lines import Piece, is_blank, pack
from treering.edges.sources.web_addresses import parse_address
from treering.ports.adapter import SegmentDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable

_SEGMENT_CHARS = 1_200


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format that `documents` reads.

    Where none of its `packages` is installed, a file of it is kept as a stub, and its warning names the extra.
    """

    name: str
    claims: Callable[[str, bytes], bool]
    suffixes: frozenset[str]
    kind: str
    packages: tuple[str, ...] = ()
    limits: FormatLimits = field(default_factory=lambda: FormatLimits(max_bytes=50_000_000, max_segments=100_000))

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a file in the child process."""
        if self.packages and not any(map(find_spec, self.packages)):
            return self._stub(data, file)
        found = _DOCUMENTS.read(self.name, data, linked=bool(file.address) and self.kind == "web")
        if found is None or (isinstance(found, Unreadable) and file.suffix not in self.suffixes):
            return None
        return found if isinstance(found, Unreadable) else self._document(found, data, file)

    def _stub(self, data: bytes, file: FileToRead) -> DocumentDraft | Unreadable:
        stub = BinaryFormat().read(data, file)
        needed = f'its text is not read: that needs pip install "treering[{self.name}]"'
        return (
            stub
            if isinstance(stub, Unreadable)
            else replace(stub, kind=self.kind, missing_extra=self.name, warnings=(needed,))
        )

    def _document(self, found: DocumentContents, data: bytes, file: FileToRead) -> DocumentDraft | Unreadable:
        text = _JoinedUnits.of(found.units)
        cleaned = file.cleaned("\n".join(text.lines))
        segments = list(text.segments(cleaned, most=file.limits.max_segment_chars))
        warnings = [f"{one.kind} at {text.place_of(one.line - 1)}: redacted" for one in cleaned.findings]
        flags, address = instruction_flags(cleaned.text), _address(found)
        segments = _linked(segments, file.address or address, found.shown)
        if not segments:
            stub = BinaryFormat().read(data, file)
            return stub if isinstance(stub, Unreadable) else replace(stub, kind=self.kind, warnings=found.warnings)
        return DocumentDraft(
            "structured" if all(unit.data for unit in found.units) else "text",
            segments=segments,
            title=file.cleaned(found.title).text,
            kind=self.kind,
            payload={"url": address} if address else {},
            metadata={"flags": list(flags)} if flags else {},
            warnings=[*found.warnings, *warnings],
        )


def _linked(segments: list[SegmentDraft], address: str, shown: str) -> list[SegmentDraft]:
    """Give each passage of a page with an address the link that leads to it, where a browser finds it."""
    if not address or not shown:
        return segments
    page = ShownPage(shown)
    return [replace(one, locator=_with_link(one.locator, address, page.fragment(one.text))) for one in segments]


def _with_link(place: Locator, address: str, fragment: str) -> Locator:
    if not fragment or not isinstance(place, Section):
        return place
    return place.model_copy(update={"link": f"{address}{fragment}"})


def _address(found: DocumentContents) -> str:
    """Return where a document was saved from; empty where that is not an address of the web that may be kept."""
    try:
        return parse_address(found.address).text if found.address else ""
    except InvalidInput:
        return ""


@dataclass(frozen=True, slots=True)
class _JoinedUnits:
    """Units as the lines of one text, so that a secret that goes over a page is found."""

    units: Sequence[DocumentUnit]
    lines: Sequence[str]
    starts: Sequence[int]
    """The first line of each unit."""

    @classmethod
    def of(cls, units: Sequence[DocumentUnit]) -> "_JoinedUnits":
        lines, starts = list[str](), list[int]()
        for unit in units:
            starts.append(len(lines))
            lines += [*unit.text.split("\n"), ""]
        return cls(units, lines, starts)

    def place_of(self, line: int) -> str:
        unit = self.units[bisect_right(self.starts, line) - 1]
        return f"page {unit.page}" if unit.page else unit.heading or "its text"

    def segments(self, cleaned: Redacted, *, most: int) -> list[SegmentDraft]:
        lines = cleaned.text.split("\n")  # redacting keeps the number of lines
        offsets, made, ends = _offsets(lines), list[SegmentDraft](), [*self.starts, len(lines)][1:]
        for unit, start, end in zip(self.units, self.starts, ends, strict=True):
            cuts = [at for at in range(start + 1, end) if is_blank(lines[at - 1]) and not is_blank(lines[at])]
            for piece in pack(lines, cuts, start=start, end=end, target=min(_SEGMENT_CHARS, most), most=most):
                place = _place(unit, piece, 1 + bisect_right(cuts, piece.start), offsets)
                made.append(SegmentDraft(place, piece.text, unit.heading, "data" if unit.data else "prose"))
        return made


def _place(unit: DocumentUnit, piece: Piece, paragraph: int, offsets: Sequence[int]) -> Locator:
    if unit.page is not None:
        return Page(page=unit.page, paragraph=paragraph)
    return Section(heading=unit.heading, offset=offsets[piece.start] + piece.column)


def _offsets(lines: Sequence[str]) -> list[int]:
    offsets, at = list[int](), 0
    for line in lines:
        offsets.append(at)
        at += len(line) + 1
    return offsets


_DOCUMENTS = DocumentProcess()
