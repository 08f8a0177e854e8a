"""Formats that are text: from bytes over a text without secrets to segments, and what a text tells of itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from treering.core.injection import instruction_flags
from treering.core.redaction import SecretFinding
from treering.edges.sources.code.languages import language_of
from treering.edges.sources.code.outline import CodeOutline
from treering.edges.sources.generated import generated_hint, is_vendored
from treering.edges.sources.lines import Place, in_file, pack, split_lines
from treering.edges.sources.manifests import is_manifest, package_of
from treering.edges.sources.statements import statements
from treering.edges.sources.text import decode, role_of
from treering.ports.adapter import ContentType, SegmentDraft
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits
from treering.ports.segmenter import Segmenter


@dataclass(frozen=True, slots=True)
class CleanText:
    """A file's text, without secrets, with its lines ended by line feeds."""

    path: str
    text: str
    commit: str | None
    max_chars: int
    """The most characters of a segment."""
    language: str = ""
    """Of the code it is; empty where it is none."""

    def place(self) -> Place:
        """Return what locates its segments."""
        return in_file(self.path, self.commit)


@dataclass(frozen=True, slots=True)
class Cut:
    """A text in segments, and what its format tells of it."""

    segments: Sequence[SegmentDraft]
    title: str = ""
    language: str = ""
    outline: CodeOutline | None = None
    hint: str | None = None
    """Why only its first lines are kept."""
    warning: str = ""
    """What a person should know of how it was cut."""

    def note(self) -> str:
        """Say that only the first lines are kept; empty where all are."""
        return f"{self.hint}: only its first lines are kept" if self.hint else ""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format whose files are text, cut by `cut`.

    A generated file (lock file, minified, marked as generated, bulk data) becomes a stub of its first lines. Secrets
    are replaced and reported in the warnings. Bytes that are no text are not of the format.
    """

    name: str
    claims: Callable[[str, bytes], bool]
    cut: Callable[[CleanText], Cut]
    kind: str = "file"
    limits: FormatLimits = field(default_factory=FormatLimits)

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | None:
        """Read a file. Raises `RecursionError` for a text nested too deeply."""
        decoded = decode(data)
        if decoded is None:
            return None
        redacted = file.cleaned("\n".join(split_lines(decoded.text)))
        cut = self._cut(file, redacted.text)
        return DocumentDraft(
            content_type=self._content_type(file.path),
            segments=cut.segments,
            title=cut.title,
            kind=self.kind,
            metadata=_metadata(file, cut, redacted.text) | {"encoding": decoded.encoding} | _flags(redacted.text),
            knowledge=() if cut.hint else statements(file.path, redacted.text, cut.segments),
            warnings=tuple(
                filter(None, [decoded.warning(), *map(_warning, redacted.findings), cut.note(), cut.warning])
            ),
        )

    def _cut(self, file: FileToRead, text: str) -> Cut:
        language = language_of(file.path, text)
        name = language.name if language else ""
        clean = CleanText(file.path, text, file.commit, file.limits.max_segment_chars, name)
        hint = generated_hint(file.path, text, code=language is not None)
        return Cut(_first_lines(clean), language=name, hint=hint) if hint else self.cut(clean)

    def _content_type(self, path: str) -> ContentType:
        if self.kind == "markdown":
            return "markdown"
        return "structured" if role_of(path) == "data" else "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineTextFormat(TextFormat):
    """A format that also cuts texts that are no files."""

    segmenter: Segmenter


_STUB_LINES, _STUB_CHARS = 20, 1_000
_MOST_IMPORTS = 200
_LONGEST_SUMMARY = 300


def _first_lines(clean: CleanText) -> list[SegmentDraft]:
    lines = split_lines(clean.text)[:_STUB_LINES]
    most = min(_STUB_CHARS, clean.max_chars)
    pieces = pack(lines, range(len(lines)), start=0, end=len(lines), target=most, most=most)
    return [SegmentDraft(clean.place()(piece, ""), piece.text, role="data") for piece in pieces][:1]


def _metadata(file: FileToRead, cut: Cut, text: str) -> dict[str, Any]:
    """Describe the file; what does not hold is left out."""
    described: dict[str, Any] = {
        "language": cut.language or PurePosixPath(file.path).suffix.lower().removeprefix("."),
        "generated": cut.hint,
        "vendored": is_vendored(file.path),
        "package": package_of(file.path, text) if is_manifest(file.path) else "",
    }
    if cut.outline:
        described |= {
            "symbols": len(cut.outline.symbols),
            "imports": list(cut.outline.imports[:_MOST_IMPORTS]),
            "summary": cut.outline.module_doc[:_LONGEST_SUMMARY],
        }
    return {name: value for name, value in described.items() if value}


def _flags(text: str) -> dict[str, Any]:
    flags = instruction_flags(text)
    return {"flags": list(flags)} if flags else {}


def _warning(finding: SecretFinding) -> str:
    return f"{finding.kind} at line {finding.line}: redacted"
