"""Tickets of a file as sources, each by itself: what it asks for and each comment is a turn that can be cited."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from pydantic import JsonValue, ValidationError

from treering.core.canonical import render_time
from treering.extensions.conversations.table_tickets import ExportedTicket, TicketResult, UnreadTicket, read_table
from treering.extensions.documents.html_text import text_of_html
from treering.ports.adapter import Failed, KnowledgeDraft, Skipped, SourceDraft
from treering.ports.format import FileToRead, posix_path
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_at_most
from treering.sources.reading.loose_json import Record, first_moment, first_words, listed, parse, record, words
from treering.sources.reading.text import segment_inline_text
from treering.verbs.ingest.inline_items import InlineItem, InlineReader
from treering.verbs.ingest.turns import Message

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
        return posix_path(path).suffix.lower() in _CUES

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
        return Failed(place, "part of it is nested too deeply, or is not valid Unicode")
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


# Tickets as Jira writes them in XML: the RSS of its issue navigator.


_KEPT_OF_XML = ("type", "priority", "resolution", "assignee", "resolved", "due", "fixVersion", "link")


def read_rss(data: bytes) -> Iterator[TicketResult] | None:
    """Return the tickets of a document; `None`: it holds none, is damaged, or has a DOCTYPE, as none of these has."""
    parser = XMLParser(target=_WithoutDoctype())  # noqa: S314 - without a document type nothing expands
    try:
        parser.feed(data)
        root = parser.close()
    except (ParseError, ValueError, LookupError):
        return None
    items = root.findall("./channel/item")
    return map(_ticket, items, range(len(items))) if any(one.find("key") is not None for one in items) else None


class _WithoutDoctype(TreeBuilder):
    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Refuse: none of these documents has one, attacks by entities do."""
        del name, public, system
        raise ValueError("a document type")


def _ticket(item: Element, place: int) -> TicketResult:
    key, title = _text(item, "key"), _text(item, "summary") or _text(item, "title")
    if not (key and title):
        return UnreadTicket(f"item {place + 1}", "it has no key, or no summary")
    labels: list[JsonValue] = [text for one in item.findall("./labels/label") if (text := (one.text or "").strip())]
    metadata: dict[str, JsonValue] = {name: text for name in _KEPT_OF_XML if (text := _text(item, name))}
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
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else None


# Issues as GitHub and GitLab print them: `gh issue list --json …`, their REST interfaces, `glab issue list`.


_UPDATED = ("updatedAt", "updated_at", "closedAt", "closed_at", "createdAt", "created_at")
_OPENED = ("createdAt", "created_at")
_KEPT_OF_JSON = (
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


def issues_in(value: object) -> Sequence[object]:
    """Return the issues of a file: those of a list, by its first ones, or the one that it is itself."""
    if _is_issue(value):
        return [value]
    found = record(value)
    values = listed(value) or listed(found.get("issues")) or listed(found.get("items"))
    first = values[:_LOOKED_AT]
    return values if first and 2 * sum(map(_is_issue, first)) >= len(first) else ()


def read_issue(value: object, place: int) -> TicketResult:
    """Read one issue of a list."""
    if not _is_issue(value):
        return UnreadTicket(f"item {place + 1}", "it is not an issue of a form known here")
    found = record(value)
    is_gitlab = "iid" in found
    number = found.get("iid" if is_gitlab else "number")
    return ExportedTicket(
        "gitlab" if is_gitlab else "github",
        f"#{number}",
        words(found.get("title")),
        words(found.get("state")),
        description=first_words(found, "body", "description"),
        author=_name(found.get("author") or found.get("user")),
        opened=first_moment(found, *_OPENED),
        updated=first_moment(found, *_UPDATED),
        comments=tuple(filter(None, map(_json_comment, _comments(found)))),
        metadata=_metadata(found),
    )


_LOOKED_AT = 20


def _is_issue(value: object) -> bool:
    found = record(value)
    number = found.get("iid", found.get("number"))
    numbered = isinstance(number, int) and not isinstance(number, bool)
    return numbered and bool(words(found.get("title")).strip()) and _is_told(found)


def _is_told(found: Record) -> bool:
    """Tell whether what has a number and a title is an issue: other things, such as chapters, have them too."""
    state = words(found.get("state"))
    described = "body" in found or "description" in found or "labels" in found
    return (
        bool(state and described)
        or state.lower() in _STATES
        or _ISSUE_URL.search(first_words(found, *_URLS)) is not None
    )


_STATES = frozenset({"open", "opened", "reopened", "closed", "merged", "locked"})
_URLS = ("url", "html_url", "web_url")
_ISSUE_URL = re.compile(r"^https?://[^/\s]+/[^\s?#]+/(?:issues|pull|merge_requests|work_items)/\d+(?:[?#]|\Z)")


def _comments(found: Record) -> Sequence[object]:
    lists = (found.get(name) for name in ("comments", "notes", "Notes"))
    return [one for one in next((one for one in lists if isinstance(one, list)), ()) if not record(one).get("system")]


def _json_comment(value: object) -> Message | None:
    found = record(value)
    text = first_words(found, "body", "note")
    if not text.strip():
        return None
    return Message(
        content=text,
        name=_name(found.get("author") or found.get("user")),
        at=first_moment(found, *_OPENED),
        id=first_words(found, "id", "url"),
    )


def _name(value: object) -> str:
    return words(value) or first_words(record(value), "login", "username", "name")


def _metadata(found: Record) -> dict[str, JsonValue]:
    names = [words(one) or first_words(record(one), "name", "title") for one in listed(found.get("labels"))]
    people = [_name(one) for one in listed(found.get("assignees"))]
    told: dict[str, JsonValue] = {name: words(found.get(name)) for name in _KEPT_OF_JSON}
    told |= {"labels": [*filter(None, names)], "assignees": [*filter(None, people)]}
    told["milestone"] = words(found.get("milestone")) or first_words(record(found.get("milestone")), "title")
    return {name: value for name, value in told.items() if value}
