"""Tickets of a file as sources, one for each: its description and each comment are turns that can be cited."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError

from pydantic import JsonValue, ValidationError

from treering.core.canonical import render_time
from treering.core.patch import shortened
from treering.extensions.conversations.beads import is_bead, read_bead
from treering.extensions.conversations.conversation import Unread
from treering.extensions.conversations.foreign_memories import ForeignMemory, LeftOut
from treering.extensions.conversations.loose_json import Record, first_moment, first_words, listed, parse, record, words
from treering.extensions.conversations.memory_exports import draft_memory
from treering.extensions.conversations.table_tickets import ExportedTicket, TicketResult, read_table
from treering.extensions.documents.contents import DocumentDamaged, parse_xml
from treering.extensions.documents.html_text import text_of_html
from treering.ports.adapter import Failed, KnowledgeDraft, Skipped, SourceDraft
from treering.ports.format import FileToRead, posix_path
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_at_most
from treering.sources.reading.text import segment_inline_text
from treering.verbs.ingest.inline_items import InlineItem, InlineReader
from treering.verbs.ingest.turns import Message

MAX_BYTES = 64_000_000
"""The maximum size of a file of tickets, which is parsed as a whole."""

_HEAD_BYTES = 64_000
_TITLE_CHARS = 200
_CUES = {
    ".json": (b'"title"',),
    ".jsonl": (b'"issue_type"', b'"title"'),
    ".csv": (b"status",),
    ".xml": (b"<rss", b"<key"),
    ".rss": (b"<rss", b"<key"),
}
"""Strings that a file of tickets contains, in lower case, by the ending of its name.

Tables and feeds contain them at the beginning. In JSON, the text of an issue, which may be long, precedes its title.
"""
_WIDE = (b"\xff\xfe", b"\xfe\xff")
"""The byte order marks of UTF-16, in which some Windows shells write the output of a command."""


Exported = TicketResult | ForeignMemory | LeftOut
"""A part of an export; beads also exports memories and deleted issues."""


@dataclass(frozen=True, slots=True)
class TicketFormat:
    """Reads exports of trackers: a source per ticket, with its state as a candidate."""

    name: str = "tickets"

    def claims(self, path: str, /) -> bool:
        """Return whether a file of this name may contain tickets."""
        return posix_path(path).suffix.lower() in _CUES

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per ticket; `None` if it is not a file of tickets. Raises `OSError`."""
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
        tickets = _tickets(data, file.suffix) if _may_hold(data, file.suffix) else None
        reader = InlineReader({"text": segment_inline_text}, file.limits, file.redact_secrets)
        return None if tickets is None else (_reading(one, reader, origin) for one in _each_once(tickets))


def _may_hold(data: bytes, ending: str) -> bool:
    small = data.lower()
    return all(cue in small for cue in _CUES[ending])


def _tickets(data: bytes, ending: str) -> Iterator[Exported] | None:
    if ending == ".csv":
        decoded = decode(data)
        return read_table(decoded.text) if decoded else None
    if ending not in (".json", ".jsonl"):
        return read_rss(data)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if ending == ".jsonl":
        value: object = [parse(line) for line in data.splitlines() if line.strip()]
    else:
        value = parse(data)
    for claims, read in _FORMS:
        if values := issues_in(value, claims):
            return map(read, values, range(len(values)))
    return None


def _each_once(tickets: Iterator[Exported]) -> Iterator[Exported]:
    seen: set[str] = set()
    for one in tickets:
        if isinstance(one, ExportedTicket) and one.key in seen:
            yield Unread(one.key, "an earlier part of this file has the same key")
        else:
            yield one
        if isinstance(one, ExportedTicket):
            seen.add(one.key)


def _reading(ticket: Exported, reader: InlineReader, origin: str) -> SourceDraft | Skipped | Failed:
    if isinstance(ticket, ForeignMemory | LeftOut):
        return draft_memory(ticket, reader, origin)
    if isinstance(ticket, Unread):
        return Failed(f"{origin}#{ticket.place}", ticket.why)
    place = f"{origin}#{ticket.key.removeprefix('#')}"
    try:
        item = _item(ticket, place)
    except ValidationError:
        return Failed(place, "part of it is nested too deeply, or is not valid Unicode")
    draft = reader.read(item)
    if not isinstance(draft, SourceDraft) or draft.metadata.get("flags") or not ticket.state:
        return draft
    # The reader did not see the candidate, which is therefore screened for secrets later.
    return replace(draft, knowledge=(_state_of(ticket, len(draft.segments) - 1),), screened=False)


def _item(ticket: ExportedTicket, place: str) -> InlineItem:
    opened: dict[str, JsonValue] = {"created_at": render_time(ticket.opened)} if ticket.opened else {}
    request = Message(
        content="\n\n".join(filter(None, [ticket.title, ticket.description])),
        name=ticket.author or "author",
        at=ticket.opened,
    )
    # A separate turn, so that the candidate becomes stale with it.
    state = [Message(content=f"State: {ticket.state}", name=ticket.tracker)] if ticket.state else []
    return InlineItem(
        kind="conversation",
        origin=place,
        title=_title(ticket),
        messages=(request, *ticket.comments, *state),
        captured_at=ticket.updated,
        metadata={**ticket.metadata, **opened, "tracker": ticket.tracker, "key": ticket.key, "state": ticket.state},
    )


def _state_of(ticket: ExportedTicket, segment: int) -> KnowledgeDraft:
    payload = {"subject": _title(ticket), "predicate": "state", "value": ticket.state}
    return KnowledgeDraft("fact", f"{_title(ticket)} is {ticket.state}"[:_TITLE_CHARS], payload, segment)


def _title(ticket: ExportedTicket) -> str:
    return shortened(f"{ticket.key}: {' '.join(ticket.title.split())}", _TITLE_CHARS)


_XML_METADATA = ("type", "priority", "resolution", "assignee", "resolved", "due", "fixVersion", "link")


def read_rss(data: bytes) -> Iterator[TicketResult] | None:
    """Return the tickets of Jira's RSS; `None` if there are none, or if it is damaged or has a DOCTYPE."""
    try:
        root = parse_xml(data)
    except (DocumentDamaged, ParseError, ValueError, LookupError):
        return None
    items = root.findall("./channel/item")
    return map(_ticket, items, range(len(items))) if any(one.find("key") is not None for one in items) else None


def _ticket(item: Element, place: int) -> TicketResult:
    key, title = _text(item, "key"), _text(item, "summary") or _text(item, "title")
    if not (key and title):
        return Unread(f"item {place + 1}", "it has no key, or no summary")
    labels: list[JsonValue] = [text for one in item.findall("./labels/label") if (text := (one.text or "").strip())]
    metadata: dict[str, JsonValue] = {name: text for name in _XML_METADATA if (text := _text(item, name))}
    return ExportedTicket(
        "jira",
        key,
        title,
        _text(item, "status"),
        description=text_of_html(_text(item, "description")),
        author=_text(item, "reporter"),
        opened=_time(_text(item, "created")),
        updated=_time(_text(item, "updated") or _text(item, "created")),
        comments=tuple(filter(None, map(_xml_comment, item.findall("./comments/comment")))),
        metadata={**metadata, **({"labels": labels} if labels else {})},
    )


def _xml_comment(found: Element) -> Message | None:
    text = text_of_html(found.text or "")
    if not text.strip():
        return None
    return Message(
        content=text, name=found.get("author", ""), at=_time(found.get("created", "")), id=found.get("id", "")
    )


def _text(item: Element, name: str) -> str:
    return (item.findtext(name) or "").strip()


def _time(text: str) -> datetime | None:
    try:
        time = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return time if time.tzinfo else None


_UPDATED = ("updatedAt", "updated_at", "closedAt", "closed_at", "createdAt", "created_at")
_OPENED = ("createdAt", "created_at")
_JSON_METADATA = (
    "url",
    "html_url",
    "web_url",
    "closedAt",
    "closed_at",
    "stateReason",
    "state_reason",
    "due_date",
    "weight",
)


def issues_in(value: object, claims: Callable[[object], bool]) -> Sequence[object]:
    """Return the issues of a file: a list, judged by its first elements, or a single one."""
    if claims(value):
        return [value]
    document = record(value)
    values = listed(value) or listed(document.get("issues")) or listed(document.get("items"))
    first = values[:_LOOKED_AT]
    return values if first and 2 * sum(map(claims, first)) >= len(first) else ()


def read_issue(value: object, place: int) -> TicketResult:
    """Read one issue of a list."""
    if not _is_issue(value):
        return Unread(f"item {place + 1}", "it is not an issue of a form known here")
    issue = record(value)
    is_gitlab = "iid" in issue
    number = issue.get("iid" if is_gitlab else "number")
    return ExportedTicket(
        "gitlab" if is_gitlab else "github",
        f"#{number}",
        words(issue.get("title")),
        words(issue.get("state")),
        description=first_words(issue, "body", "description"),
        author=_name(issue.get("author") or issue.get("user")),
        opened=first_moment(issue, *_OPENED),
        updated=first_moment(issue, *_UPDATED),
        comments=tuple(filter(None, map(_json_comment, _comments(issue)))),
        metadata=_metadata(issue),
    )


_LOOKED_AT = 20


def _is_issue(value: object) -> bool:
    issue = record(value)
    number = issue.get("iid", issue.get("number"))
    numbered = isinstance(number, int) and not isinstance(number, bool)
    return numbered and bool(words(issue.get("title")).strip()) and _is_ticket(issue)


def _is_ticket(issue: Record) -> bool:
    """Return whether a record with number and title is an issue, and not for instance a chapter."""
    state = words(issue.get("state"))
    described = "body" in issue or "description" in issue or "labels" in issue
    return (
        bool(state and described)
        or state.lower() in _STATES
        or _ISSUE_URL.search(first_words(issue, *_URLS)) is not None
    )


_STATES = frozenset({"open", "opened", "reopened", "closed", "merged", "locked"})
_URLS = ("url", "html_url", "web_url")
_ISSUE_URL = re.compile(r"^https?://[^/\s]+/[^\s?#]+/(?:issues|pull|merge_requests|work_items)/\d+(?:[?#]|\Z)")


_FORMS: tuple[tuple[Callable[[object], bool], Callable[[object, int], Exported]], ...] = (
    (_is_issue, read_issue),
    (is_bead, read_bead),
)
"""Formats of issues in JSON, with their tests and readers."""


def _comments(found: Record) -> Sequence[object]:
    lists = (found.get(name) for name in ("comments", "notes", "Notes"))
    return [one for one in next((one for one in lists if isinstance(one, list)), ()) if not record(one).get("system")]


def _json_comment(value: object) -> Message | None:
    comment = record(value)
    text = first_words(comment, "body", "note")
    if not text.strip():
        return None
    return Message(
        content=text,
        name=_name(comment.get("author") or comment.get("user")),
        at=first_moment(comment, *_OPENED),
        id=first_words(comment, "id", "url"),
    )


def _name(value: object) -> str:
    return words(value) or first_words(record(value), "login", "username", "name")


def _metadata(found: Record) -> dict[str, JsonValue]:
    names = [words(one) or first_words(record(one), "name", "title") for one in listed(found.get("labels"))]
    people = [_name(one) for one in listed(found.get("assignees"))]
    metadata: dict[str, JsonValue] = {name: words(found.get(name)) for name in _JSON_METADATA}
    metadata |= {"labels": [*filter(None, names)], "assignees": [*filter(None, people)]}
    metadata["milestone"] = words(found.get("milestone")) or first_words(record(found.get("milestone")), "title")
    return {name: value for name, value in metadata.items() if value}
