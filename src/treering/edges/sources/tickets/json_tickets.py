"""Issues as GitHub and GitLab print them: `gh issue list --json …`, their REST interfaces, `glab issue list`.

`gh issue view` and `glab issue view` print one as an object.
"""

import re
from collections.abc import Sequence

from pydantic import JsonValue

from treering.edges.sources.loose_json import Record, first_moment, first_words, listed, record, words
from treering.edges.sources.tickets.ticket import ExportedTicket, TicketResult, UnreadTicket
from treering.tools.turns import Message

_UPDATED = ("updatedAt", "updated_at", "closedAt", "closed_at", "createdAt", "created_at")
_OPENED = ("createdAt", "created_at")
_KEPT = ("url", "html_url", "web_url", "closedAt", "closed_at", "stateReason", "state_reason", "due_date", "weight")


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
        comments=tuple(filter(None, map(_comment, _comments(found)))),
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


def _comment(value: object) -> Message | None:
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
    told: dict[str, JsonValue] = {name: words(found.get(name)) for name in _KEPT}
    told |= {"labels": [*filter(None, names)], "assignees": [*filter(None, people)]}
    told["milestone"] = words(found.get("milestone")) or first_words(record(found.get("milestone")), "title")
    return {name: value for name, value in told.items() if value}
