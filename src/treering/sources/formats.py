"""The formats built in: which are known, and in which order they are asked."""

from dataclasses import replace
from functools import cache
from hashlib import sha256

from treering.ports.adapter import Failed, ReadLimits, Skipped, SourceDraft
from treering.ports.format import HEAD_BYTES, DocumentDraft, FileToRead, Format, Formats, Unreadable, allowed_bytes
from treering.sources.code.languages import language_of
from treering.sources.code.outline import OutlineProcess, OutlineStopped
from treering.sources.code.segments import segment_code
from treering.sources.conversations.exports import ConversationFormat, ExportBounds
from treering.sources.documents.formats import DOCUMENTS
from treering.sources.documents.structured import NotebookFormat, OpenApiFormat
from treering.sources.memories.exports import MemoryFormat
from treering.sources.plugins import installed_formats
from treering.sources.reading import markdown
from treering.sources.reading.binary import BinaryFormat
from treering.sources.reading.text import opening, segment_inline_text, segment_text
from treering.sources.text_format import CleanText, Cut, InlineTextFormat, TextFormat
from treering.sources.tickets.sources import TicketFormat


def built_in_formats(*, exports: ExportBounds | None = None) -> Formats:
    """Return the formats built in; `exports` bounds what is read of exports of conversations."""
    return Formats(
        documents=(*DOCUMENTS, MARKDOWN, NotebookFormat(), OpenApiFormat(), CODE, TEXT, BinaryFormat()),
        collections=(MemoryFormat(), TicketFormat(), ConversationFormat(exports or ExportBounds())),
    )


@cache
def formats_here() -> Formats:
    """Return the formats built in and those of packages that are installed here, which are asked first."""
    taken = [*(one.name for one in BUILT_IN.documents), *(one.name for one in BUILT_IN.collections)]
    return replace(BUILT_IN, documents=(*installed_formats(taken), *BUILT_IN.documents))


def _is_markdown(path: str, _head: bytes) -> bool:
    return markdown.is_markdown(path)


def _cut_markdown(clean: CleanText) -> Cut:
    found = markdown.outline(clean.text)
    title = next((heading.name for heading in found.headings if heading.level == 1), "")
    segments = markdown.segments_of(found, clean.place(), max_chars=clean.max_chars)
    return Cut(segments, title=title, language="markdown")


def _is_code(path: str, head: bytes) -> bool:
    return language_of(path, opening(head)) is not None


def _cut_code(clean: CleanText) -> Cut:
    found = _OUTLINES.outline(clean.path, clean.text)
    outline, warning = (None, found.why) if isinstance(found, OutlineStopped) else (found, "")
    segments = segment_code(clean.path, clean.text, outline, commit=clean.commit, max_chars=clean.max_chars)
    return Cut(segments, language=clean.language, outline=outline, warning=warning)


def _is_any(_path: str, _head: bytes) -> bool:
    return True


def _cut_text(clean: CleanText) -> Cut:
    return Cut(segment_text(clean.path, clean.text, commit=clean.commit, max_chars=clean.max_chars))


_OUTLINES = OutlineProcess()
MARKDOWN = InlineTextFormat(
    "markdown", _is_markdown, _cut_markdown, segmenter=markdown.segment_inline_markdown, kind="markdown"
)
CODE = TextFormat("code", _is_code, _cut_code)
TEXT = InlineTextFormat("text", _is_any, _cut_text, segmenter=segment_inline_text)
BUILT_IN = built_in_formats()


# A file's bytes as a source: the one way, whoever found the file.


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
