"""Files that hold conversations: from bytes to what was said, one result for each conversation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import BinaryIO

from treering.edges.sources.conversations import json_document, json_lines, slack, speaker_text, subtitles
from treering.edges.sources.conversations.archive import Archive, Refused, ZipBounds, open_archive
from treering.edges.sources.conversations.conversation import Conversation, Conversations, Parsed, Unread
from treering.edges.sources.conversations.recognise import HEAD_BYTES, reading_of
from treering.edges.sources.folder import read_at_most
from treering.edges.sources.text import decode


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """How much is read of an export. An export is far larger than other files, and its conversations are many."""

    max_bytes: int = 500_000_000
    """Of a file; what a zip file holds besides conversations does not count."""
    max_part_bytes: int = 100_000_000
    """Of what can only be parsed as a whole: a line, a conversation of a list, a document that is one object."""
    max_text_bytes: int = 20_000_000
    """Of subtitles and plain text."""
    max_conversation_chars: int = 50_000_000
    max_problems: int = 100
    """How many parts that cannot be read are named one by one."""
    zip: ZipBounds = field(default_factory=ZipBounds)


def read_conversations(data: bytes, name: str) -> Conversations:
    """Read all conversations of a file; `name` is the file's, by whose ending it is recognised.

    Never raises: what cannot be read is named in `problems`, also that a file holds no conversations at all.
    """
    found = parse_export(BytesIO(data), name, ExportBounds())
    if found is None:
        return Conversations((), (f"{name} holds no conversations of a form known here",))
    told = list(found)
    return Conversations(
        tuple(one for one in told if isinstance(one, Conversation)),
        tuple(f"{one.place}: {one.why}" for one in told if isinstance(one, Unread)),
    )


def parse_export(stream: BinaryIO, name: str, bounds: ExportBounds) -> Iterator[Parsed] | None:
    """Return the conversations of a file and what of it could not be read; `None`: it is not a file of conversations.

    `stream` can seek. Lines are read one by one; of a list one conversation at a time is more than bytes.
    Raises `OSError` where the stream does.
    """
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    match reading_of(name, head):
        case "json":
            found = _document(stream, bounds)
        case "json lines":
            found = json_lines.read(stream, most_bytes=bounds.max_part_bytes)
        case "zip":
            found = _zip(stream, bounds)
        case "":
            return None
        case reading:
            found = _text(stream, name, reading, bounds)
    return None if found is None else _bounded(_each_once(found), bounds.max_problems)


_MEMBER = re.compile(r"(?:[^/]+/){0,3}conversations(?:-\d+)?\.json")


def _document(stream: BinaryIO, bounds: ExportBounds) -> Iterator[Parsed] | None:
    data = read_at_most(stream, bounds.max_bytes + 1)
    return json_document.read(data, most_bytes=bounds.max_part_bytes) if len(data) <= bounds.max_bytes else None


def _zip(stream: BinaryIO, bounds: ExportBounds) -> Iterator[Parsed] | None:
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
        found = None if isinstance(data, Refused) else json_document.read(data, most_bytes=bounds.max_part_bytes)
        if found is None:
            yield Unread(name, data.why if isinstance(data, Refused) else "it holds no conversations")
        else:
            yield from found


def _text(stream: BinaryIO, name: str, reading: str, bounds: ExportBounds) -> Iterator[Parsed] | None:
    data = read_at_most(stream, bounds.max_text_bytes + 1)
    decoded = decode(data) if len(data) <= bounds.max_text_bytes else None
    if decoded is None:
        return None
    conversation = _spoken(decoded.text, name, reading)
    if conversation is None:
        return None
    warning = decoded.warning()
    return iter([replace(conversation, notes=(*conversation.notes, warning)) if warning else conversation])


def _spoken(text: str, name: str, reading: str) -> Conversation | None:
    if reading == "vtt" and subtitles.are_vtt(text):
        return subtitles.read(text, name, "vtt")
    if reading == "srt" and subtitles.are_srt(text):
        return subtitles.read(text, name, "srt")
    if reading == "speaker text" and speaker_text.is_speech(text, name):
        return speaker_text.read(text, name)
    return None


def _each_once(found: Iterator[Parsed]) -> Iterator[Parsed]:
    """Tell conversations of one id apart by their order; two of a name that is unique everywhere cannot both be."""
    seen: dict[str, int] = {}
    for one in found:
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


def _bounded(found: Iterator[Parsed], most: int) -> Iterator[Parsed]:
    problems = 0
    for one in found:
        problems += isinstance(one, Unread)
        if isinstance(one, Conversation) or problems <= most:
            yield one
    if problems > most:
        yield Unread("the rest", f"{problems - most:,} more parts could not be read")
