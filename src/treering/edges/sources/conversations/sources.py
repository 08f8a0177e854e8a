"""Conversations of a file as sources, each by itself."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import BinaryIO

from pydantic import JsonValue

from treering.core.times import parse_time, render_time
from treering.edges.sources.conversations.conversation import Conversation, Parsed, Unread, fitting
from treering.edges.sources.conversations.exports import ExportBounds, parse_export
from treering.edges.sources.conversations.recognise import may_be_read
from treering.edges.sources.text import segment_inline_text
from treering.ports.adapter import Failed, ReadLimits, Skipped, SourceDraft
from treering.ports.format import FileToRead
from treering.tools.conversation_exports import AS_OF
from treering.tools.inline_items import InlineItem, InlineReader


@dataclass(frozen=True, slots=True)
class ConversationFormat:
    """Reads exports of conversations and files of one: a source per conversation."""

    bounds: ExportBounds
    name: str = "conversations"

    def claims(self, path: str, /) -> bool:
        """Tell by its name whether a file may hold conversations."""
        return may_be_read(path)

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per conversation; `None`: it is not a file of conversations. Raises `OSError`."""
        return ExportReader(origin, file.limits, self.bounds, file.redact_secrets).read(stream, file.path)


@dataclass(frozen=True, slots=True)
class ExportReader:
    """Reads a file of conversations; `origin` is the file's."""

    origin: str
    limits: ReadLimits
    bounds: ExportBounds
    redact_secrets: bool = True

    def read(self, stream: BinaryIO, name: str) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per conversation; `None`: it is not a file of conversations. Raises `OSError`."""
        found = parse_export(stream, name, self.bounds)
        return None if found is None else map(self._reading, found)

    def _reading(self, told: Parsed) -> SourceDraft | Skipped | Failed:
        match told:
            case Conversation() if not told.messages:
                return Skipped(self._origin(told), "nobody says anything in it")
            case Conversation():
                return self._source(told)
            case Unread(place, why):
                return Failed(f"{self.origin}#{fitting(place)}", why)

    def _source(self, told: Conversation) -> SourceDraft | Skipped | Failed:
        item = InlineItem(
            kind=told.kind,
            origin=self._origin(told),
            title=told.title,
            messages=told.messages,
            captured_at=_until(told),
            metadata={**told.metadata, **_begun(told)},
        )
        limits = replace(self.limits, max_file_bytes=self.bounds.max_conversation_chars)
        draft = InlineReader({"text": segment_inline_text}, limits, self.redact_secrets).read(item)
        return replace(draft, warnings=[*told.notes, *draft.warnings]) if isinstance(draft, SourceDraft) else draft

    def _origin(self, told: Conversation) -> str:
        return told.known_as or (f"{self.origin}#{told.id}" if told.id else self.origin)


def _until(told: Conversation) -> datetime | None:
    until = told.metadata.get(AS_OF)
    return parse_time(until) if isinstance(until, str) else None


def _begun(told: Conversation) -> dict[str, JsonValue]:
    return {"created_at": render_time(told.created)} if told.created else {}
