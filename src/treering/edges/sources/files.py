"""A file's bytes as a source: the one way, whoever found the file."""

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Literal

from treering.core.injection import instruction_flags
from treering.core.redaction import redact
from treering.edges.sources import markdown
from treering.edges.sources.code.languages import language_of
from treering.edges.sources.code.outline import CodeOutline
from treering.edges.sources.code.segments import segment_code
from treering.edges.sources.generated import generated_hint, is_vendored
from treering.edges.sources.lines import in_file, pack, split_lines
from treering.edges.sources.statements import is_markdown, statements
from treering.edges.sources.text import decode, role_of, segment_text
from treering.ports.adapter import Failed, ReadLimits, SegmentDraft, Skipped, SourceDraft


def draft_file(
    data: bytes, *, path: str, origin: str, commit: str | None, limits: ReadLimits, redact_secrets: bool = True
) -> SourceDraft | Skipped | Failed:
    """Read a file's bytes as a source; `path` (POSIX) is what its segments cite and what it is recognised by.

    The fingerprint is the SHA-256 of the bytes. A binary file becomes a stub without segments, a generated
    one (lock file, minified, marked as generated, bulk data) a stub of its first lines. Secrets are replaced
    and reported in the warnings; text shaped like instructions is named in `metadata["flags"]`.
    """
    if len(data) > limits.max_file_bytes:
        return Skipped(origin, over_limit(len(data), limits))
    decoded = decode(data)
    if decoded is None:
        return _binary_stub(data, path, origin)
    redacted = redact("\n".join(split_lines(decoded.text))) if redact_secrets else None
    text = redacted.text if redacted else "\n".join(split_lines(decoded.text))
    found = [f"{finding.kind} at line {finding.line}: redacted" for finding in redacted.findings] if redacted else []
    try:
        reading = _read(_File(path, text, commit, limits.max_segment_chars))
    except RecursionError:
        return Failed(origin, "its text is nested too deeply to be read")
    return SourceDraft(
        kind="markdown" if is_markdown(path) else "file",
        origin=origin,
        title=reading.title or path,
        fingerprint=sha256(data).hexdigest(),
        content_type=_content_type(path),
        segments=reading.segments,
        metadata=_metadata(path, reading) | {"size": len(data), "encoding": decoded.encoding} | _flags(text),
        knowledge=() if reading.hint else statements(path, text, reading.segments),
        warnings=tuple(filter(None, [decoded.warning(), *found, reading.note()])),
    )


def over_limit(size: int, limits: ReadLimits) -> str:
    """Say that a file of `size` bytes is larger than is read, naming the limit."""
    return f"{size:,} bytes are over the limit max_file_bytes of {limits.max_file_bytes:,}"


_STUB_LINES, _STUB_CHARS = 20, 1_000
_MOST_IMPORTS = 200
_LONGEST_SUMMARY = 300
_MEDIA = mimetypes.MimeTypes()  # the table of the language, not of the machine
_SIGNATURES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b": "application/gzip",
    b"\x28\xb5\x2f\xfd": "application/zstd",
    b"SQLite format 3": "application/vnd.sqlite3",
    b"\x7fELF": "application/x-executable",
    b"MZ": "application/x-msdownload",
    b"\0asm": "application/wasm",
}


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    text: str
    commit: str | None
    most: int


@dataclass(frozen=True, slots=True)
class _Reading:
    segments: Sequence[SegmentDraft]
    title: str = ""
    outline: CodeOutline | None = None
    hint: str | None = None
    language: str = ""

    def note(self) -> str:
        return f"{self.hint}: only its first lines are kept" if self.hint else ""


def _read(file: _File) -> _Reading:
    language = language_of(file.path, file.text)
    hint = generated_hint(file.path, file.text, code=language is not None)
    if hint:
        return _Reading(_first_lines(file), hint=hint, language=language.name if language else "")
    if is_markdown(file.path):
        return _read_markdown(file)
    if language:
        segments, outline = segment_code(file.path, file.text, commit=file.commit, max_chars=file.most)
        return _Reading(segments, outline=outline, language=language.name)
    return _Reading(segment_text(file.path, file.text, commit=file.commit, max_chars=file.most))


def _read_markdown(file: _File) -> _Reading:
    found = markdown.outline(file.text)
    segments = markdown.segments_of(found, in_file(file.path, file.commit), max_chars=file.most)
    title = next((heading.name for heading in found.headings if heading.level == 1), "")
    return _Reading(segments, title=title, language="markdown")


def _first_lines(file: _File) -> list[SegmentDraft]:
    lines = split_lines(file.text)[:_STUB_LINES]
    most = min(_STUB_CHARS, file.most)
    pieces = pack(lines, range(len(lines)), start=0, end=len(lines), target=most, most=most)
    place = in_file(file.path, file.commit)
    return [SegmentDraft(place(piece, ""), piece.text, role="data") for piece in pieces][:1]


def _content_type(path: str) -> Literal["text", "markdown", "structured"]:
    if is_markdown(path):
        return "markdown"
    return "structured" if role_of(path) == "data" else "text"


def _metadata(path: str, reading: _Reading) -> dict[str, Any]:
    """Describe the file; what does not hold is left out."""
    outline = reading.outline
    described: dict[str, Any] = {
        "language": reading.language or PurePosixPath(path).suffix.lower().removeprefix("."),
        "generated": reading.hint,
        "vendored": is_vendored(path),
    }
    if outline:
        described |= {
            "symbols": len(outline.symbols),
            "imports": list(outline.imports[:_MOST_IMPORTS]),
            "summary": outline.module_doc[:_LONGEST_SUMMARY],
        }
    return {name: value for name, value in described.items() if value}


def _flags(text: str) -> dict[str, Any]:
    flags = instruction_flags(text)
    return {"flags": list(flags)} if flags else {}


def _binary_stub(data: bytes, path: str, origin: str) -> SourceDraft:
    digest = sha256(data).hexdigest()
    return SourceDraft(
        kind="file",
        origin=origin,
        title=path,
        fingerprint=digest,
        content_type="binary_stub",
        payload={"size": len(data), "sha256": digest, "media_type": _media_type(path, data)},
        metadata={"size": len(data)},
    )


def _media_type(path: str, data: bytes) -> str:
    by_signature = next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), None)
    return _MEDIA.guess_type(PurePosixPath(path).name)[0] or by_signature or "application/octet-stream"
