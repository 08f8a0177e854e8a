"""A file's bytes as a source: the one way, whoever found the file."""

from dataclasses import replace
from hashlib import sha256

from treering.edges.sources.formats import BUILT_IN
from treering.ports.adapter import Failed, ReadLimits, Skipped, SourceDraft
from treering.ports.format import HEAD_BYTES, DocumentDraft, FileToRead, Format, Formats, Unreadable, allowed_bytes


def draft_file(
    data: bytes,
    *,
    path: str,
    origin: str,
    commit: str | None,
    limits: ReadLimits,
    redact_secrets: bool = True,
    address: str = "",
    fingerprint: str = "",
    formats: Formats = BUILT_IN,
) -> SourceDraft | Skipped | Failed:
    """Read a file's bytes as a source, by the first format that knows them.

    `path` (POSIX) is what its segments cite and what it is recognised by; `address` is where on the web it was fetched.
    The fingerprint is the one given, else the SHA-256 of the bytes; where an extra is missing it is one that no bytes
    have.
    """
    file = FileToRead(path, limits, commit, redact_secrets, address)
    allowed = 0
    for one in formats.claiming(path, data[:HEAD_BYTES]):
        if len(data) > allowed_bytes(one, limits):
            allowed = max(allowed, allowed_bytes(one, limits))
            continue
        try:
            document = one.read(data, file)
        except RecursionError:
            return Failed(origin, "its text is nested too deeply to be read")
        if isinstance(document, Unreadable):
            return Failed(origin, document.why)
        if document is not None:
            return _source(_bounded(document, one), data, path, origin, fingerprint)
    return Skipped(origin, over_limit(len(data), allowed, limits) if allowed else "no format known here reads it")


def is_read_in_part(fingerprint: str) -> bool:
    """Tell whether a fingerprint is that of a file which an extra would have read more of."""
    return fingerprint.startswith(_NEEDS)


def over_limit(size: int, most: int, limits: ReadLimits) -> str:
    """Say that a file of `size` bytes is larger than is read, naming the limit."""
    name = "max_file_bytes" if most == limits.max_file_bytes else "its format"
    return f"{size:,} bytes are over the limit {name} of {most:,}"


def _bounded(document: DocumentDraft, one: Format) -> DocumentDraft:
    """Leave out the segments that are more than the format allows, with what they state."""
    most = one.limits.max_segments
    if most is None or len(document.segments) <= most:
        return document
    left_out = f"only its first {most:,} of {len(document.segments):,} segments are kept"
    return replace(
        document,
        segments=document.segments[:most],
        knowledge=[stated for stated in document.knowledge if stated.segment < most],
        warnings=[*document.warnings, left_out],
    )


def _source(document: DocumentDraft, data: bytes, path: str, origin: str, fingerprint: str) -> SourceDraft:
    needs = f"{_NEEDS}{document.missing_extra}: " if document.missing_extra else ""
    return SourceDraft(
        kind=document.kind,
        origin=origin,
        title=document.title or path,
        fingerprint=f"{needs}{fingerprint or sha256(data).hexdigest()}",
        content_type=document.content_type,
        segments=document.segments,
        payload=document.payload,
        metadata={**document.metadata, "size": len(data)},
        knowledge=document.knowledge,
        nodes=document.nodes,
        captured_at=document.captured_at,
        warnings=document.warnings,
        cleaned=True,
    )


_NEEDS = "needs "
