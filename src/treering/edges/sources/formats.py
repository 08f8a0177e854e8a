"""The formats built in: which are known, and in which order they are asked."""

from dataclasses import replace
from functools import cache

from treering.edges.sources import markdown
from treering.edges.sources.binary import BinaryFormat
from treering.edges.sources.code.languages import language_of
from treering.edges.sources.code.outline_process import OutlineProcess, OutlineStopped
from treering.edges.sources.code.segments import segment_code
from treering.edges.sources.conversations.exports import ExportBounds
from treering.edges.sources.conversations.sources import ConversationFormat
from treering.edges.sources.documents.formats import DOCUMENTS
from treering.edges.sources.memories.sources import MemoryFormat
from treering.edges.sources.notebook import NotebookFormat
from treering.edges.sources.openapi import OpenApiFormat
from treering.edges.sources.plugins import installed_formats
from treering.edges.sources.text import opening, segment_inline_text, segment_text
from treering.edges.sources.text_format import CleanText, Cut, InlineTextFormat, TextFormat
from treering.edges.sources.tickets.sources import TicketFormat
from treering.ports.format import Formats


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
