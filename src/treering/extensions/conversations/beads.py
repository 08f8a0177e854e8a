"""Exports of beads: its issues as tickets, the memories that `bd remember` stores, and deleted issues as skipped."""

from collections.abc import Sequence

from pydantic import JsonValue

from treering.extensions.conversations.table_tickets import ExportedTicket, TicketResult, UnreadTicket
from treering.sources.memory import ForeignMemory, LeftOut, under_headings
from treering.sources.reading.loose_json import Record, first_moment, first_words, listed, moment, record, words
from treering.verbs.ingest.turns import Message

_TEXTS = ("design", "acceptance_criteria", "notes")
_METADATA = ("issue_type", "assignee", "owner", "external_ref", "spec_id", "started_at", "closed_at", "close_reason")
_DELETED = "tombstone"


def is_bead(value: object) -> bool:
    """Return whether this is a record of beads."""
    found = record(value)
    return _is_issue(found) or _is_memory(found)


def read_bead(value: object, place: int) -> TicketResult | ForeignMemory | LeftOut:
    """Read one record of an export."""
    found = record(value)
    if _is_memory(found):
        return ForeignMemory(
            "beads", f"memory-{words(found.get('key'))}", words(found.get("value")), about="the project"
        )
    if not _is_issue(found):
        return UnreadTicket(f"item {place + 1}", "it is neither an issue nor a memory of beads")
    if words(found.get("status")) == _DELETED:
        reason = words(found.get("delete_reason"))
        return LeftOut(words(found.get("id")), f"it was deleted in beads{f': {reason}' if reason else ''}")
    return _issue(found)


def _is_memory(found: Record) -> bool:
    return found.get("_type") == "memory" and bool(words(found.get("key")) and words(found.get("value")).strip())


def _is_issue(found: Record) -> bool:
    named = words(found.get("id")) and words(found.get("title")).strip()
    return bool(named and words(found.get("issue_type")) and words(found.get("status")))


def _issue(found: Record) -> ExportedTicket:
    parts = [("", words(found.get("description")))]
    parts += [(name.replace("_", " "), words(found.get(name))) for name in _TEXTS]
    parts += [("depends on", ", ".join(_dependencies(found))), ("close reason", words(found.get("close_reason")))]
    return ExportedTicket(
        "beads",
        words(found.get("id")),
        words(found.get("title")),
        words(found.get("status")),
        description=under_headings(parts),
        author=first_words(found, "created_by", "owner"),
        opened=moment(found.get("created_at")),
        updated=first_moment(found, "updated_at", "closed_at", "created_at"),
        comments=tuple(filter(None, map(_comment, listed(found.get("comments"))))),
        metadata=_metadata(found),
    )


def _dependencies(found: Record) -> Sequence[str]:
    """Return the ids of the issues that this one depends on, with the type unless that is `blocks`."""
    edges = [record(one) for one in listed(found.get("dependencies"))]
    named = [(first_words(one, "depends_on_id", "id"), first_words(one, "type", "dependency_type")) for one in edges]
    return [key if type_ in ("", "blocks") else f"{key} ({type_})" for key, type_ in named if key]


def _comment(value: object) -> Message | None:
    found = record(value)
    text = words(found.get("text"))
    if not text.strip():
        return None
    at = moment(found.get("created_at"))
    number = found.get("id")
    return Message(content=text, name=words(found.get("author")), at=at, id="" if number is None else str(number))


def _metadata(found: Record) -> dict[str, JsonValue]:
    metadata: dict[str, JsonValue] = {name: words(found.get(name)) for name in _METADATA}
    priority = found.get("priority")
    metadata["priority"] = f"P{priority}" if isinstance(priority, int) else ""
    metadata["labels"] = [*filter(None, map(words, listed(found.get("labels"))))]
    return {name: value for name, value in metadata.items() if value}
