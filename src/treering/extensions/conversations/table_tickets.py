"""Tickets in tables: the CSV exports of Jira and Linear."""

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue

from treering.extensions.conversations.conversation import Unread
from treering.extensions.conversations.loose_json import moment
from treering.verbs.ingest.turns import Message


@dataclass(frozen=True, slots=True)
class ExportedTicket:
    """A ticket of an export. `state` is the tracker's term, such as `CLOSED` or `In Progress`."""

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


TicketResult = ExportedTicket | Unread


_JIRA = {"issue key", "summary", "status"}
_LINEAR = {"id", "title", "status", "team"}
_TIMES = ("%d/%b/%y %I:%M %p", "%d/%b/%Y %I:%M %p", "%d/%b/%y %H:%M", "%Y-%m-%d %H:%M", "%d/%m/%Y %H:%M")
_KEPT = ("Issue Type", "Priority", "Labels", "Assignee", "Resolution", "Resolved", "Completed", "Project", "Team")
_MOST_FIELD = 2_000_000
_SEPARATORS = ",;\t|^"
"""The separators that Jira offers; spreadsheet programs with decimal commas need a semicolon."""

Row = Mapping[str, Sequence[str]]


def read_table(text: str) -> Iterator[TicketResult] | None:
    """Return the tickets of a table; `None` if its first line has other columns. Jira repeats columns.

    Columns are separated by a comma, or by another separator that Jira offers: a semicolon, a tab, a bar.
    """
    csv.field_size_limit(_MOST_FIELD)
    lines = text.splitlines(keepends=True)
    first = lines[0].strip("\ufeff\r\n").lower() if lines else ""
    lines = lines[1:] if _SEPARATOR_LINE.fullmatch(first) else lines
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
"""The first line in which a table declares its separator to a spreadsheet program."""


def _tickets(rows: Iterator[list[str]], columns: Sequence[str], *, tracker: str) -> Iterator[TicketResult]:
    place = 1
    try:
        for place, row in enumerate(rows, start=2):
            if row:
                yield _ticket(_named(columns, row), place, tracker)
    except csv.Error as error:
        yield Unread(f"row {place + 1}", f"it is not a row of a table ({error})")


def _named(columns: Sequence[str], row: Sequence[str]) -> Row:
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in zip(columns, row, strict=False):
        if value.strip():
            values[name.lower()].append(value.strip())
    return values


def _ticket(row: Row, place: int, tracker: str) -> TicketResult:
    key, title = _first(row, "issue key" if tracker == "jira" else "id"), _first(row, "summary", "title")
    if not (key and title):
        return Unread(f"row {place}", "it has no key, or no title")
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
    """Read a comment of Jira: time, author and text, separated by semicolons."""
    at, _, rest = text.partition(";")
    author, _, content = rest.partition(";")
    when = time_of(at)
    if when and content.strip():
        return Message(content=content.strip(), name=author.strip(), at=when)
    return Message(content=text)


def time_of(text: str) -> datetime | None:
    """Read a time in a format of trackers, in UTC if it has no zone."""
    time = moment(text)
    if time is not None:
        return time
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
