"""Tickets in tables: the CSV exports of Jira and Linear."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue

from treering.sources.reading.loose_json import moment
from treering.verbs.ingest.turns import Message

# A ticket, whichever tracker exported it.


@dataclass(frozen=True, slots=True)
class ExportedTicket:
    """A ticket as it stands in an export. `state` is in the tracker's own word, such as `CLOSED` or `In Progress`."""

    tracker: str
    key: str
    title: str
    state: str
    description: str = ""
    author: str = ""
    opened: datetime | None = None
    updated: datetime | None = None
    comments: tuple[Message, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnreadTicket:
    """A part of an export that is not a ticket, or cannot be read as one, and why."""

    name: str
    why: str


TicketResult = ExportedTicket | UnreadTicket


_JIRA = {"issue key", "summary", "status"}
_LINEAR = {"id", "title", "status", "team"}
_TIMES = ("%d/%b/%y %I:%M %p", "%d/%b/%Y %I:%M %p", "%d/%b/%y %H:%M", "%Y-%m-%d %H:%M", "%d/%m/%Y %H:%M")
_KEPT = ("Issue Type", "Priority", "Labels", "Assignee", "Resolution", "Resolved", "Completed", "Project", "Team")
_MOST_FIELD = 2_000_000
_SEPARATORS = ",;\t|^"
"""What Jira lets people choose from; a program that is set to a comma in numbers takes a semicolon."""

Row = Mapping[str, Sequence[str]]


def read_table(text: str) -> Iterator[TicketResult] | None:
    """Return the tickets of a table; `None`: its first line names other columns. Jira repeats columns.

    Columns are apart by a comma, or by what else Jira puts there: a semicolon, a tab, a bar.
    """
    csv.field_size_limit(_MOST_FIELD)
    lines = text.splitlines(keepends=True)
    told = lines[0].strip("\ufeff\r\n").lower() if lines else ""
    lines = lines[1:] if _SEPARATOR_LINE.fullmatch(told) else lines
    for separator in _SEPARATORS:
        rows = csv.reader(lines, delimiter=separator)
        try:
            columns = [name.strip() for name in next(rows, [])]
        except csv.Error:
            continue
        known = {name.lower() for name in columns}
        if known >= _JIRA or known >= _LINEAR:
            return _tickets(rows, columns, tracker="jira" if known >= _JIRA else "linear")
    return None


_SEPARATOR_LINE = re.compile(r"\"?sep=.\"?")
"""The first line by which a table tells a spreadsheet program its separator."""


def _tickets(rows: "Iterator[list[str]]", columns: Sequence[str], *, tracker: str) -> Iterator[TicketResult]:
    place = 1
    while True:
        place += 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield UnreadTicket(f"row {place}", f"it is not a row of a table ({error})")
            return
        if row:
            yield _ticket(_named(columns, row), place, tracker)


def _named(columns: Sequence[str], row: Sequence[str]) -> Row:
    found: dict[str, list[str]] = defaultdict(list)
    for name, value in zip(columns, row, strict=False):
        if value.strip():
            found[name.lower()].append(value.strip())
    return found


def _ticket(row: Row, place: int, tracker: str) -> TicketResult:
    key, title = _first(row, "issue key" if tracker == "jira" else "id"), _first(row, "summary", "title")
    if not (key and title):
        return UnreadTicket(f"row {place}", "it has no key, or no title")
    metadata: dict[str, JsonValue] = {
        name.lower().replace(" ", "_"): ", ".join(row.get(name.lower(), ())) for name in _KEPT if row.get(name.lower())
    }
    return ExportedTicket(
        tracker,
        key,
        title,
        _first(row, "status"),
        description=_first(row, "description"),
        author=_first(row, "reporter", "creator"),
        opened=time_of(_first(row, "created")),
        updated=time_of(_first(row, "updated", "created")),
        comments=tuple(map(_comment, row.get("comment", ()))),
        metadata=metadata,
    )


def _first(row: Row, *names: str) -> str:
    return next((row[name][0] for name in names if row.get(name)), "")


def _comment(text: str) -> Message:
    """Read a comment as Jira writes it: time, author and text, apart by semicolons."""
    at, _, rest = text.partition(";")
    author, _, said = rest.partition(";")
    when = time_of(at)
    return (
        Message(content=said.strip(), name=author.strip(), at=when) if when and said.strip() else Message(content=text)
    )


def time_of(text: str) -> datetime | None:
    """Read a time as trackers write it, without a zone in UTC."""
    found = moment(text)
    if found is not None:
        return found
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
