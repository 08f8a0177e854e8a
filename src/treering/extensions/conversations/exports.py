"""Files with conversations: from bytes to conversations, one result for each."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from io import BytesIO
from itertools import chain
from typing import BinaryIO

from pydantic import JsonValue

from treering.core.canonical import parse_time, render_time
from treering.extensions.conversations import json_document, json_lines, meetings, slack
from treering.extensions.conversations.conversation import Conversation, Conversations, Parsed, Unread, fitting
from treering.extensions.conversations.memory_exports import drafts, parse_archive
from treering.ports.adapter import Failed, Skipped, SourceDraft
from treering.ports.format import FileToRead, posix_path
from treering.sources.reading.binary import Archive, Refused, ZipBounds, open_archive
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_at_most
from treering.sources.reading.text import segment_inline_text
from treering.verbs.ingest.inline_items import InlineItem, InlineReader
from treering.verbs.ingest.known import AS_OF


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """Limits for reading an export, which is larger than other files and contains many conversations."""

    max_bytes: int = 500_000_000
    """The limit of a file; other content of a zip file is not counted."""
    max_part_bytes: int = 100_000_000
    """Of parts that can only be parsed as a whole: a line, a conversation of a list, a document that is an object."""
    max_text_bytes: int = 20_000_000
    """Of subtitles and plain text."""
    max_conversation_chars: int = 50_000_000
    max_problems: int = 100
    """The maximum number of unreadable parts that are listed."""
    zip: ZipBounds = field(default_factory=ZipBounds)


def read_conversations(data: bytes, name: str) -> Conversations:
    """Read all conversations of a file; `name` is the file name, whose extension determines the format.

    Never raises: parts that cannot be read are listed in `problems`, as is a file without conversations.
    """
    results = parse_export(BytesIO(data), name, ExportBounds())
    if results is None:
        return Conversations((), (f"{name} contains no conversations in a known format",))
    parts = list(results)
    return Conversations(
        tuple(one for one in parts if isinstance(one, Conversation)),
        tuple(f"{one.place}: {one.why}" for one in parts if isinstance(one, Unread)),
    )


def parse_export(stream: BinaryIO, name: str, bounds: ExportBounds) -> Iterator[Parsed] | None:
    """Return the conversations and unreadable parts of a file; `None` if it is not a file of conversations.

    `stream` must be seekable. Lines are read one by one; of a list, one conversation at a time is decoded. Raises the
    `OSError` of the stream.
    """
    head = stream.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf")
    stream.seek(0)
    ending = posix_path(name).suffix.lower()
    # The beginning only avoids reading other files; it is not certain.
    read = next((read for endings, begins, read in _READERS if ending in endings and begins(head)), None)
    results = read(stream, name, bounds) if read else None
    return None if results is None else _bounded(_each_once(results), bounds.max_problems)


_MEMBER = re.compile(r"(?:[^/]+/){0,3}conversations(?:-\d+)?\.json")


def _document(stream: BinaryIO, _name: str, bounds: ExportBounds) -> Iterator[Parsed] | None:
    data = read_at_most(stream, bounds.max_bytes + 1)
    return json_document.read(data, most_bytes=bounds.max_part_bytes) if len(data) <= bounds.max_bytes else None


def _lines(stream: BinaryIO, _name: str, bounds: ExportBounds) -> Iterator[Parsed] | None:
    return json_lines.read(stream, most_bytes=bounds.max_part_bytes)


def _zip(stream: BinaryIO, _name: str, bounds: ExportBounds) -> Iterator[Parsed] | None:
    archive = open_archive(stream, bounds.zip)
    if isinstance(archive, Refused):
        return None
    members = [name for name in archive.names if _MEMBER.fullmatch(name)]
    if members:
        return _members(archive, members, bounds)
    return slack.read(archive) if slack.claims(archive.names) else None


def _members(archive: Archive, names: list[str], bounds: ExportBounds) -> Iterator[Parsed]:
    for name in names:
        data = archive.read(name)
        conversations = (
            None if isinstance(data, Refused) else json_document.read(data, most_bytes=bounds.max_part_bytes)
        )
        if conversations is None:
            yield Unread(name, data.why if isinstance(data, Refused) else "it contains no conversations")
        else:
            yield from conversations


def _text(
    stream: BinaryIO, name: str, bounds: ExportBounds, *, read: Callable[[str, str], Conversation | None]
) -> Iterator[Parsed] | None:
    data = read_at_most(stream, bounds.max_text_bytes + 1)
    decoded = decode(data) if len(data) <= bounds.max_text_bytes else None
    if decoded is None:
        return None
    conversation = read(decoded.text, name)
    if conversation is None:
        return None
    warning = decoded.warning()
    return iter([replace(conversation, notes=(*conversation.notes, warning)) if warning else conversation])


def _each_once(results: Iterator[Parsed]) -> Iterator[Parsed]:
    """Add a number to repeated ids; two conversations with the same global name cannot both be valid."""
    seen: dict[str, int] = {}
    for one in results:
        if isinstance(one, Unread):
            yield one
            continue
        seen[one.id] = times = seen.get(one.id, 0) + 1
        if times == 1:
            yield one
        elif one.known_as:
            yield Unread(one.id, "an earlier conversation of this file has the same id")
        else:
            yield replace(one, id=f"{one.id}-{times}")


def _bounded(results: Iterator[Parsed], most: int) -> Iterator[Parsed]:
    problems = 0
    for one in results:
        problems += isinstance(one, Unread)
        if isinstance(one, Conversation) or problems <= most:
            yield one
    if problems > most:
        yield Unread("the rest", f"could not read {problems - most:,} more parts")


_HEAD_BYTES = 256_000
"""The number of bytes of a file that are examined before it is read."""
_MEMBERS = re.compile(rb'"(?:mapping|chat_messages|messages|loglines|conversations|role|sender|content|from)"\s*:')
_CUE = re.compile(rb"\d\s*-->\s*\d")
_TURN = re.compile(rb":[ \t*\r\n]")

_Reader = Callable[[BinaryIO, str, ExportBounds], Iterator[Parsed] | None]
_READERS: tuple[tuple[tuple[str, ...], Callable[[bytes], bool], _Reader], ...] = (
    ((".json",), lambda head: head.lstrip()[:1] in {b"[", b"{"} and bool(_MEMBERS.search(head)), _document),
    ((".jsonl", ".ndjson"), lambda head: bool(_MEMBERS.search(head)), _lines),
    ((".zip",), lambda head: head.startswith(b"PK"), _zip),
    ((".vtt",), lambda head: b"WEBVTT" in head[:16], partial(_text, read=meetings.read_vtt)),
    ((".srt",), lambda head: bool(_CUE.search(head)), partial(_text, read=meetings.read_srt)),
    (
        (".txt", ".md", ".transcript"),
        lambda head: bool(_TURN.search(head)),
        partial(_text, read=meetings.read_speaker_text),
    ),
)
"""The readers, each with the endings of file names and a test of the beginning of a file."""


def may_be_read(name: str) -> bool:
    """Return whether a file of this name may contain conversations."""
    ending = posix_path(name).suffix.lower()
    return any(ending in endings for endings, _, _ in _READERS)


@dataclass(frozen=True, slots=True)
class ConversationFormat:
    """Reads exports of conversations and files of one: a source per conversation."""

    bounds: ExportBounds = field(default_factory=lambda: ExportBounds())
    name: str = "conversations"

    def claims(self, path: str, /) -> bool:
        """Return whether a file of this name may contain conversations."""
        return may_be_read(path)

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per conversation, or memory in a zip file; `None` if it has neither. Raises `OSError`."""
        parts = parse_export(stream, file.path, self.bounds)
        conversations = None if parts is None else (self._reading(part, file, origin) for part in parts)
        memories = parse_archive(stream, self.bounds.zip) if file.suffix == ".zip" else None
        return conversations if memories is None else chain(conversations or (), drafts(memories, file, origin))

    def _reading(self, part: Parsed, file: FileToRead, origin: str) -> SourceDraft | Skipped | Failed:
        if isinstance(part, Unread):
            return Failed(f"{origin}#{fitting(part.place)}", part.why)
        place = part.known_as or (f"{origin}#{part.id}" if part.id else origin)
        if not part.messages:
            return Skipped(place, "it contains no messages")
        item = InlineItem(
            kind=part.kind,
            origin=place,
            title=part.title,
            messages=part.messages,
            captured_at=_until(part),
            metadata={**part.metadata, **_begun(part)},
        )
        limits = replace(file.limits, max_file_bytes=self.bounds.max_conversation_chars)
        draft = InlineReader({"text": segment_inline_text}, limits, file.redact_secrets).read(item)
        return replace(draft, warnings=[*part.notes, *draft.warnings]) if isinstance(draft, SourceDraft) else draft


def _until(conversation: Conversation) -> datetime | None:
    until = conversation.metadata.get(AS_OF)
    return parse_time(until) if isinstance(until, str) else None


def _begun(conversation: Conversation) -> dict[str, JsonValue]:
    return {"created_at": render_time(conversation.created)} if conversation.created else {}
