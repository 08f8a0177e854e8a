"""`query` in mode `recent`: what changed or happened in a window of time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import Field

from treering.core.audit import LINK_EVENTS, AuditEvent
from treering.core.canonical import parse_time, render_time
from treering.core.errors import InvalidInput
from treering.core.evidence import Turn
from treering.core.filters import EVERYTHING, Compare
from treering.core.objects import Activity, Knowledge, Object, ObjectType, Source, WorkItem, title_of
from treering.ports.ledger import Altered, Head, Selection, head_of
from treering.retrieval.text.dates import asked_ranges
from treering.retrieval.text.time_zones import TimeZone, Window, is_day
from treering.verbs.current_objects import current_objects
from treering.verbs.envelope import READS, Call, Mode, Report, UnderstoodDays, Value
from treering.verbs.query.branch_work import applies_to, scope_of
from treering.verbs.query.brief import repository_of
from treering.verbs.query.browsing import HistoryEntry, change_of, subject_of
from treering.verbs.query.flagged import flagged
from treering.verbs.read_reports import altered_warnings, scope_warnings
from treering.verbs.reading import DayOptions, ReadOptions, zone_of
from treering.verbs.scoped_ledger import whole

# When what an object tells of happened, which may be long before it was written down.


DATED_TYPES = ("activity", "source", "work_item")
"""Types of objects that tell of something that happened."""

TOLD_KINDS = ("conversation", "meeting_record")
"""Kinds of sources that tell of something that happened; the others are only read at some time."""


@dataclass(frozen=True, slots=True)
class DatedEvent:
    """From when to when something happened, and which field says so."""

    first: datetime
    last: datetime
    dated_by: str


def dated_event_of(item: Object) -> DatedEvent | None:
    """Return when what an object records happened; `None` for one that records no event.

    Where it says nothing itself, it is when it was written down (`created_at`) or captured (`captured_at`).
    """
    match item:
        case Activity():
            return _activity(item)
        case WorkItem(opened_at=datetime() as opened):
            return DatedEvent(opened, opened, "opened_at")
        case WorkItem():
            return DatedEvent(item.created_at, item.created_at, "created_at")
        case Source() if item.kind in TOLD_KINDS:
            return _dated_event_of_source(item)
        case _:
            return None


def _activity(item: Activity) -> DatedEvent:
    first, last = item.started_at or item.ended_at, item.ended_at or item.started_at
    if first is None or last is None:
        return DatedEvent(item.created_at, item.created_at, "created_at")
    return DatedEvent(min(first, last), max(first, last), "started_at" if item.started_at else "ended_at")


def _dated_event_of_source(item: Source) -> DatedEvent:
    said = [place.at for segment in item.segments if isinstance(place := segment.locator, Turn) and place.at]
    if said:
        return DatedEvent(min(said), max(said), "said")
    dated = _date_in(item.metadata)
    if dated:
        return DatedEvent(*dated, "date")
    return DatedEvent(item.captured_at, item.captured_at, "captured_at")


def _date_in(metadata: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return the time, or the whole day in UTC, that the metadata of a meeting name as its `date`."""
    text = metadata.get("date")
    if not isinstance(text, str):
        return None
    readings: tuple[Callable[[str], tuple[datetime, datetime]], ...] = (_moment, _day)
    for read in readings:
        try:
            return read(text)
        except (InvalidInput, ValueError):
            continue
    return None


def _moment(text: str) -> tuple[datetime, datetime]:
    found = parse_time(text)
    return found, found


def _day(text: str) -> tuple[datetime, datetime]:
    day = date.fromisoformat(text)
    return datetime.combine(day, time.min, UTC), datetime.combine(day, time.max, UTC)


_TICK = timedelta(microseconds=1)
_MOST_AT_ONCE = 10_000
MOST_COUNTED = 100
"""So many changes beyond the limit are looked for: to count all would be to read the whole log."""
_BEGINNING = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)


class RecentInput(Value):
    """A time window; the defaults are the beginning and now."""

    since: str | None = Field(default=None, description="ISO time, or a day, also in words such as yesterday.")
    until: str | None = Field(default=None, description="ISO time, or a day, which is included.")
    about: str = Field(
        default="", description="Only one object, file or folder, its dependents and its rules: an id or a path."
    )
    types: tuple[ObjectType, ...] = Field(default=(), description="Object types; empty: all.")
    limit: int = Field(default=50, ge=1, le=1000)
    by: Literal["written", "happened"] = Field(
        default="written",
        description="`written`: changes. `happened`: events and messages, by start time.",
    )


class RecentChange(HistoryEntry):
    """A change with its effects, or an event with its first author."""

    id: str
    type: str
    title: str
    current: bool = True
    """Whether the changed object is current."""
    note: str = ""
    """Why it is not current in the requested tree. The log covers all branches."""
    until: str = ""
    """The end of the event, if it lasted."""
    dated_by: str = ""
    """The field with the time of the event, such as `started_at`, `said` or `date`."""


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change as it is shown; or all that one ingest read or one merge joined, as one."""

    change: RecentChange
    read: tuple[str, ...] = ()
    """Titles of the sources that the ingest read, if it is one."""
    joined: tuple[RecentChange, ...] = ()
    """The changes of entries known here and elsewhere that the merge joined, if it is one."""


def told_changes(changes: Iterable[RecentChange]) -> Sequence[ToldChange]:
    """Return the changes without links, which come with what they link; those of one ingest or merge are one.

    Knowledge that was read from a file comes with its file.
    """
    told: dict[str, ToldChange] = {}
    newest = ""  # the key of the ingest that goes on
    for number, one in enumerate(changes):
        if one.event in LINK_EVENTS:
            continue
        if one.event == JOINED:
            merge = told.get(one.patch_id, ToldChange(one))
            told[one.patch_id] = replace(merge, joined=(*merge.joined, one))
            continue
        is_read = one.reason.startswith(_INGEST) and (one.type != "knowledge" or one.event == "created")
        if not is_read:
            told[str(number)] = ToldChange(one)
        elif one.type == "source":
            ingest = told.get(newest)
            if ingest and (ingest.change.reason, ingest.change.actor) == (one.reason, one.actor):
                told.pop(newest)  # its place is that of its oldest change
            else:
                ingest = ToldChange(one)
            newest = str(number)
            told[newest] = replace(ingest, read=(*ingest.read, one.title))
    return list(told.values())


def merge_in_words(joined: Sequence[RecentChange]) -> str:
    """Return what a merge or sync did to entries that were known here and elsewhere; sources come with these."""
    reason = joined[0].reason
    place = next((reason.removeprefix(start) for start in _MERGES if reason.startswith(start)), "")
    # Both copies of an entry are joined.
    number = len({one.title for one in joined if one.type != "source"} or {one.title for one in joined})
    return f"merged {number:,} {'entry' if number == 1 else 'entries'}{f' from {place}' if place else ''}"


JOINED = "joined"
"""The event of an entry that a merge combined with the same one from elsewhere."""
_INGEST = "Ingest "
_MERGES = ("Synced with ", "Merged ")
"""How the reasons of merges begin; the other space follows."""


class RecentReport(Report):
    """Changes, newest first."""

    changes: tuple[RecentChange, ...]
    more: int = 0
    """Changes in the window beyond the limit, counted up to `MOST_COUNTED`."""

    @property
    def how_many_more(self) -> str:
        """How many there are beyond the limit, as people read it."""
        return f"{self.more} {'or ' * (self.more == MOST_COUNTED)}more"

    def numbered_places(self) -> Mapping[int, str]:
        """Return the changed objects as `told_changes` lists them."""
        return {at: one.change.id for at, one in enumerate(told_changes(self.changes), start=1)}


def recent(call: Call, given: RecentInput, options: DayOptions) -> RecentReport:
    """List what changed or happened in a window of time, the base of reports."""
    altered: Altered = {}
    zone = zone_of(call, options)
    given = _with_days(given, zone, call.engine.clock.now())
    window = zone.window(given.since, given.until)
    if given.by == "written":
        shown, heads, total = _written(call, given, options, window)
    else:
        shown, heads, total = _happened(call, given, options, window, altered)
    current = current_objects(call, heads, options.moment())
    kept = tuple(
        change.model_copy(update={"current": change.id in current, "note": current.note(change.id)}) for change in shown
    )
    return RecentReport(
        verb="query",
        mode="recent",
        scope=call.scope,
        status="ok" if kept else "empty",
        warnings=(
            *scope_warnings(call, options, (head.scope for head in heads)),
            *flagged((change.id, (change.title, change.reason)) for change in kept),
            *altered_warnings(altered),
        ),
        ids=tuple(dict.fromkeys(change.id for change in kept)),
        changes=kept,
        understood=tuple(_days_of_window(given, zone, call.engine.clock.now())),
        more=total - len(kept),
    )


def _with_days(given: RecentInput, zone: TimeZone, now: datetime) -> RecentInput:
    """Return a window whose ends in words, such as `3 days ago`, are replaced by the days they mean."""
    days = {}
    for name, text in (("since", given.since), ("until", given.until)):
        if not text or _is_time(text):
            continue
        here = zone.local(now)
        ranges = asked_ranges(text, here) or asked_ranges(f"last {text}", here)  # "monday"
        if not ranges:
            raise InvalidInput(
                f"{name} is {text[:_MAX_WHEN_CHARS]!r}, which is no day or time.",
                hint="Write yesterday, monday, 3 days ago, 2026-01-31 or 2026-01-31T12:00:00Z.",
            )
        days[name] = (ranges[0].first if name == "since" else ranges[-1].last).isoformat()
    return given.model_copy(update=days)


_MAX_WHEN_CHARS = 80


def _is_time(text: str) -> bool:
    return text[:4].isdecimal() and text[4:5] == "-"


def _about(call: Call, name: str) -> frozenset[str] | None:
    """Return the ids of an object or files, of what rests on them and of rules for them; `None` for everything."""
    if not name:
        return None
    ledger = call.engine.ledger
    found, path = _files_below(call, name)
    if not found:
        item, _ = subject_of(call, name, ReadOptions(descend=True))
        found, path = [item.id], item.origin.partition("#")[2] if isinstance(item, Source) else ""
    rules = _rules_for(call, path) if path else ()
    return frozenset([*found, *(other for one in found for other in ledger.dependents(one)), *rules])


def _files_below(call: Call, name: str) -> tuple[list[str], str]:
    """Return the ids of the files in a folder of the repository, and its path; nothing if it is no folder."""
    repository, path = repository_of(call, {}), PurePosixPath(name).as_posix()
    if repository is None:
        return [], ""
    below = Compare("origin", "prefix", f"{repository.origin}#{'' if path == '.' else f'{path}/'}")
    found = call.engine.ledger.select(Selection(scope=call.scope, descend=True, types=("source",), where=below))
    return [one.id for one in found], path


def _rules_for(call: Call, path: str) -> Iterator[str]:
    """Yield the ids of the rules, past ones too, for a file or folder or for part of a folder."""
    where = Compare("kind", "in", ("constraint", "preference"))
    for item in call.engine.ledger.select(Selection(scope=call.scope, descend=True, types=("knowledge",), where=where)):
        scope = scope_of(item) if isinstance(item, Knowledge) else ""
        if scope and (path == "." or applies_to(scope, path) or scope.startswith(f"{path}/")):
            yield item.id


def _days_of_window(given: RecentInput, zone: TimeZone, now: datetime) -> Iterator[UnderstoodDays]:
    """Name the zone of the days that a window begins or ends with."""
    for name, text in (("since", given.since), ("until", given.until)):
        if text and is_day(text):
            day = date.fromisoformat(text)
            yield UnderstoodDays(text=f"{name} {text}", first=day, last=day, time_zone=zone.name(now))


def _written(
    call: Call, given: RecentInput, options: DayOptions, window: Window
) -> tuple[Sequence[RecentChange], list[Head], int]:
    """Return what was written in the window, newest first, the heads of what it changed, and how much it is in all."""
    most = given.limit + MOST_COUNTED
    found = list(islice(_changes(call, given, options, window, at_once=most), most))
    shown = found[: given.limit]
    kept = [
        RecentChange(**change_of(event).model_dump(), id=head.id, type=head.type, title=head.title)
        for event, head in shown
    ]
    heads = {head.id: head for _, head in shown}
    return kept, list(heads.values()), len(found)


def _changes(
    call: Call, given: RecentInput, options: DayOptions, window: Window, *, at_once: int
) -> Iterator[tuple[AuditEvent, Head]]:
    """Return the events of the window about objects in sight, newest first, with the heads of those objects.

    The log is read backwards, in stretches that grow: the window may hold all of it.
    """
    ledger = call.engine.ledger
    since, until = window
    about = _about(call, given.about)
    moment = options.moment()
    last = ledger.sequence(moment)
    # An event of the very moment `since` belongs to the window.
    first = ledger.sequence(since - _TICK) if since and since > _BEGINNING else 0
    while last > first:
        before = max(last - at_once, first)
        events = [one for one in whole(ledger).events(after=before, limit=last - before) if _within(one, since, until)]
        heads = ledger.heads((event.target for event in events), as_of=moment)
        for event in reversed(events):
            head = heads.get(event.target)
            if about is not None and event.target not in about:
                continue
            if head and (not given.types or head.type in given.types):
                yield event, head
        last, at_once = before, min(2 * at_once, _MOST_AT_ONCE)


def _happened(
    call: Call, given: RecentInput, options: DayOptions, window: Window, altered: Altered
) -> tuple[Sequence[RecentChange], list[Head], int]:
    """Return what happened in the window, what began last first, the heads of it, and how much it is in all."""
    since, until = window
    undated = set(given.types) - set(DATED_TYPES)
    if undated:
        raise InvalidInput(
            f"Objects of type {', '.join(sorted(undated))} have no time at which they happened.",
            hint=f"Request {', '.join(DATED_TYPES)}, or omit `by`.",
        )
    found = [
        (item, event)
        for item in _dated(call, given.types or DATED_TYPES, options, altered)
        if (event := dated_event_of(item)) and _overlaps(event, since, until)
    ]
    found.sort(key=lambda one: (one[1].first, one[1].last, one[0].id), reverse=True)
    kept = found[: given.limit]
    return [_told(call, item, event) for item, event in kept], [head_of(item) for item, _ in kept], len(found)


def _dated(call: Call, types: Iterable[str], options: DayOptions, altered: Altered) -> Iterator[Object]:
    for kind in types:
        where = Compare("kind", "in", TOLD_KINDS) if kind == "source" else EVERYTHING
        selection = Selection(
            scope=call.scope, descend=options.descend, types=(kind,), where=where, as_of=options.moment()
        )
        yield from call.engine.ledger.select(selection, altered=altered)


def _overlaps(event: DatedEvent, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or event.last >= since) and (until is None or event.first <= until)


def _told(call: Call, item: Object, event: DatedEvent) -> RecentChange:
    """Show something that happened, with the event that wrote it down."""
    written = whole(call.engine.ledger).events_of(item.id)[0]
    ended = render_time(event.last) if event.last > event.first else ""
    change = change_of(written).model_dump() | {
        "time": render_time(event.first),
        "event": "happened",
        "status": item.status,
    }
    return RecentChange(
        **change, id=item.id, type=item.type, title=title_of(item), until=ended, dated_by=event.dated_by
    )


def _within(event: AuditEvent, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or event.timestamp >= since) and (until is None or event.timestamp <= until)


RECENT = Mode(
    "recent",
    "Changes or events in a time window.",
    RecentInput,
    DayOptions,
    RecentReport,
    recent,
    rights=READS,
)
