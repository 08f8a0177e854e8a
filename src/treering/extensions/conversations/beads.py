"""Exports of beads: its issues as tickets, the memories that `bd remember` stores, and deleted issues as skipped."""

from collections.abc import Sequence

from pydantic import JsonValue

from treering.extensions.conversations.conversation import Unread
from treering.extensions.conversations.foreign_memories import ForeignMemory, LeftOut, under_headings
from treering.extensions.conversations.loose_json import (
    Record,
    first_moment,
    first_words,
    listed,
    moment,
    record,
    words,
)
from treering.extensions.conversations.table_tickets import ExportedTicket, TicketResult
from treering.verbs.ingest.turns import Message

_TEXTS = ("design", "acceptance_criteria", "notes")
_METADATA = ("issue_type", "assignee", "owner", "external_ref", "spec_id", "started_at", "closed_at", "close_reason")
_DELETED = "tombstone"


def is_bead(value: object) -> bool:
    """Return whether this is a record of beads."""
    row = record(value)
    return _is_issue(row) or _is_memory(row)


def read_bead(value: object, place: int) -> TicketResult | ForeignMemory | LeftOut:
    """Read one record of an export."""
    row = record(value)
    if _is_memory(row):
        return ForeignMemory("beads", f"memory-{words(row.get('key'))}", words(row.get("value")), about="the project")
    if not _is_issue(row):
        return Unread(f"item {place + 1}", "it is neither an issue nor a memory of beads")
    if words(row.get("status")) == _DELETED:
        reason = words(row.get("delete_reason"))
        return LeftOut(words(row.get("id")), f"it was deleted in beads{f': {reason}' if reason else ''}")
    return _issue(row)


def _is_memory(row: Record) -> bool:
    return row.get("_type") == "memory" and bool(words(row.get("key")) and words(row.get("value")).strip())


def _is_issue(row: Record) -> bool:
    named = words(row.get("id")) and words(row.get("title")).strip()
    return bool(named and words(row.get("issue_type")) and words(row.get("status")))


def _issue(row: Record) -> ExportedTicket:
    parts = [("", words(row.get("description")))]
    parts += [(name.replace("_", " "), words(row.get(name))) for name in _TEXTS]
    parts += [("depends on", ", ".join(_dependencies(row))), ("close reason", words(row.get("close_reason")))]
    return ExportedTicket(
        "beads",
        words(row.get("id")),
        words(row.get("title")),
        words(row.get("status")),
        description=under_headings(parts),
        author=first_words(row, "created_by", "owner"),
        opened=moment(row.get("created_at")),
        updated=first_moment(row, "updated_at", "closed_at", "created_at"),
        comments=tuple(filter(None, map(_comment, listed(row.get("comments"))))),
        metadata=_metadata(row),
    )


def _dependencies(row: Record) -> Sequence[str]:
    """Return the ids of the issues that this one depends on, with the type unless that is `blocks`."""
    edges = [record(one) for one in listed(row.get("dependencies"))]
    named = [(first_words(one, "depends_on_id", "id"), first_words(one, "type", "dependency_type")) for one in edges]
    return [key if type_ in ("", "blocks") else f"{key} ({type_})" for key, type_ in named if key]


def _comment(value: object) -> Message | None:
    row = record(value)
    text = words(row.get("text"))
    if not text.strip():
        return None
    at = moment(row.get("created_at"))
    number = row.get("id")
    return Message(content=text, name=words(row.get("author")), at=at, id="" if number is None else str(number))


def _metadata(row: Record) -> dict[str, JsonValue]:
    metadata: dict[str, JsonValue] = {name: words(row.get(name)) for name in _METADATA}
    priority = row.get("priority")
    metadata["priority"] = f"P{priority}" if isinstance(priority, int) and not isinstance(priority, bool) else ""
    metadata["labels"] = [*filter(None, map(words, listed(row.get("labels"))))]
    return {name: value for name, value in metadata.items() if value}
