"""Tickets of a file as sources, each by itself: what it asks for and each comment is a turn that can be cited."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO

from pydantic import JsonValue, ValidationError

from treering.core.times import render_time
from treering.edges.sources.folder import read_at_most
from treering.edges.sources.loose_json import parse
from treering.edges.sources.text import decode, segment_inline_text
from treering.edges.sources.tickets.jira_xml import read_rss
from treering.edges.sources.tickets.json_tickets import issues_in, read_issue
from treering.edges.sources.tickets.table_tickets import read_table
from treering.edges.sources.tickets.ticket import ExportedTicket, TicketResult, UnreadTicket
from treering.ports.adapter import Failed, KnowledgeDraft, Skipped, SourceDraft
from treering.ports.format import FileToRead
from treering.tools.inline_items import InlineItem, InlineReader
from treering.tools.turns import Message

MAX_BYTES = 64_000_000
"""Of a file of tickets: it is parsed as a whole."""

_HEAD_BYTES = 64_000
_TITLE_CHARS = 200
_CUES = {
    ".json": (b'"title"',),
    ".csv": (b"status",),
    ".xml": (b"<rss", b"<key"),
    ".rss": (b"<rss", b"<key"),
}
"""By the ending of a file's name: what it has in it where it may hold tickets, in small letters.

Tables and feeds have it in their beginning. The text of an issue, which may be long, comes before its title.
"""
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How UTF-16 begins, in which some shells of Windows write what a command prints."""


@dataclass(frozen=True, slots=True)
class TicketFormat:
    """Reads exports of trackers: a source per ticket, and how it stands as a candidate."""

    name: str = "tickets"

    def claims(self, path: str, /) -> bool:
        """Tell by its name whether a file may hold tickets."""
        return PurePosixPath(path).suffix.lower() in _CUES

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per ticket; `None`: it is not a file of tickets. Raises `OSError`."""
        head = stream.read(_HEAD_BYTES)
        wide = head.startswith(_WIDE)
        if not (wide or file.suffix == ".json" or _may_hold(head, file.suffix)):
            return None
        stream.seek(0)
        data = read_at_most(stream, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            return None
        if wide and file.suffix != ".xml":
            data = data.decode("utf-16", "replace").encode(errors="replace")
        found = _tickets(data, file.suffix) if _may_hold(data, file.suffix) else None
        reader = InlineReader({"text": segment_inline_text}, file.limits, file.redact_secrets)
        return None if found is None else (_reading(one, reader, origin) for one in _each_once(found))


def _may_hold(data: bytes, ending: str) -> bool:
    small = data.lower()
    return all(cue in small for cue in _CUES[ending])


def _tickets(data: bytes, ending: str) -> Iterator[TicketResult] | None:
    if ending == ".csv":
        decoded = decode(data)
        return read_table(decoded.text) if decoded else None
    if ending != ".json":
        return read_rss(data)
    values = issues_in(parse(data.removeprefix(b"\xef\xbb\xbf")))
    return map(read_issue, values, range(len(values))) if values else None


def _each_once(found: Iterator[TicketResult]) -> Iterator[TicketResult]:
    seen: set[str] = set()
    for one in found:
        if isinstance(one, ExportedTicket) and one.key in seen:
            yield UnreadTicket(one.key, "an earlier part of this file has the same key")
            continue
        if isinstance(one, ExportedTicket):
            seen.add(one.key)
        yield one


def _reading(told: TicketResult, reader: InlineReader, origin: str) -> SourceDraft | Skipped | Failed:
    if isinstance(told, UnreadTicket):
        return Failed(f"{origin}#{told.name}", told.why)
    place = f"{origin}#{told.key.removeprefix('#')}"
    try:
        item = _item(told, place)
    except ValidationError:
        return Failed(place, "something in it is nested too deeply, or is not valid Unicode")
    draft = reader.read(item)
    if not isinstance(draft, SourceDraft) or draft.metadata.get("flags") or not told.state:
        return draft
    # How it stands was not read by the reader: it is searched for secrets with all the rest.
    return replace(draft, knowledge=(_stands(told, len(draft.segments) - 1),), screened=False)


def _item(told: ExportedTicket, place: str) -> InlineItem:
    opened: dict[str, JsonValue] = {"created_at": render_time(told.opened)} if told.opened else {}
    asked = Message(
        content="\n\n".join(filter(None, [told.title, told.description])), name=told.author or "author", at=told.opened
    )
    # A turn of its own: what is stated of how it stands goes stale with it.
    stands = [Message(content=f"State: {told.state}", name=told.tracker)] if told.state else []
    return InlineItem(
        kind="conversation",
        origin=place,
        title=_title(told),
        messages=(asked, *told.comments, *stands),
        captured_at=told.updated,
        metadata={**told.metadata, **opened, "tracker": told.tracker, "key": told.key, "state": told.state},
    )


def _stands(told: ExportedTicket, segment: int) -> KnowledgeDraft:
    payload = {"subject": _title(told), "predicate": "state", "value": told.state}
    return KnowledgeDraft("fact", f"{_title(told)} is {told.state}"[:_TITLE_CHARS], payload, segment)


def _title(told: ExportedTicket) -> str:
    title = f"{told.key}: {' '.join(told.title.split())}"
    return title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 1]}…"
