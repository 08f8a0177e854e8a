"""`query` in mode `recent`: what changed or happened in a window of time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from treering.core.audit import ERASED, LINK_EVENTS, AuditEvent
from treering.core.canonical import kind_of, render_time
from treering.core.counting import counted_things
from treering.core.errors import InvalidInput
from treering.core.filters import EVERYTHING, Compare
from treering.core.objects import Knowledge, Object, ObjectType, Source, title_of
from treering.core.scope import is_within
from treering.ports.ledger import Altered, Head, Ledger, Selection, head_of
from treering.retrieval.text.dates import asked_ranges
from treering.retrieval.text.time_zones import TimeZone, Window, is_day
from treering.verbs.current_objects import current_objects
from treering.verbs.envelope import READS, Call, Mode, Report, UnderstoodDays, Value
from treering.verbs.query.branch_work import applies_to, scope_of
from treering.verbs.query.brief import repository_of
from treering.verbs.query.browsing import HistoryEntry, change_of, subject_of
from treering.verbs.query.dated_events import DATED_TYPES, EVENT_KINDS, DatedEvent, dated_event_of
from treering.verbs.query.flagged import flagged
from treering.verbs.read_reports import altered_warnings, scope_warnings
from treering.verbs.reading import DayOptions, ReadOptions, moment_of, nothing_recorded, selection_of, zone_of
from treering.verbs.scoped_ledger import scope_of_patch, whole

_TICK = timedelta(microseconds=1)
_MAX_EVENTS_PER_BATCH = 10_000
MOST_COUNTED = 100
"""Changes beyond the limit that are counted: counting all would read the whole log."""
_MAX_WHEN_CHARS = 80
_INGEST = "Ingest "
_MERGES = ("Synced with ", "Merged ")
"""The beginnings of the reasons of merges; the other space follows."""
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
    """A change with its effects, or an event with its first author.

    Of an erased object there is only its erasure, without a title.
    """

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
    """A change as it is shown; the changes of one ingest, merge or erasure are one."""

    change: RecentChange
    read: tuple[str, ...] = ()
    """Titles of the sources that the ingest read, if it is one."""
    joined: tuple[RecentChange, ...] = ()
    """The changes of entries known here and elsewhere that the merge joined, if it is one."""
    erased: tuple[RecentChange, ...] = ()
    """The erased objects, if it is an erasure."""


def told_changes(changes: Iterable[RecentChange]) -> Sequence[ToldChange]:
    """Return the changes without links; the changes of one ingest, merge or erasure are one.

    Knowledge that was read from a file is left out, too: its file is listed.
    """
    shown: dict[str, ToldChange] = {}
    newest = ""  # the key of the current ingest
    for number, one in enumerate(changes):
        if one.event in LINK_EVENTS:
            continue
        if one.event == JOINED:
            merge = shown.get(one.patch_id, ToldChange(one))
            shown[one.patch_id] = replace(merge, joined=(*merge.joined, one))
            continue
        if one.event == ERASED:
            key = f"{ERASED} {one.patch_id}"
            erasure = shown.get(key, ToldChange(one))
            shown[key] = replace(erasure, erased=(*erasure.erased, one))
            continue
        is_extracted = one.event == "created" or one.status == "candidate"
        is_read = one.reason.startswith(_INGEST) and (one.type != "knowledge" or is_extracted)
        if not is_read:
            shown[str(number)] = ToldChange(one)
        elif one.type == "source":
            ingest = shown.get(newest)
            if ingest and (ingest.change.reason, ingest.change.actor) == (one.reason, one.actor):
                shown.pop(newest)  # it is listed at its oldest change
            else:
                ingest = ToldChange(one)
            newest = str(number)
            shown[newest] = replace(ingest, read=(*ingest.read, one.title))
    return list(shown.values())


def merge_in_words(joined: Sequence[RecentChange]) -> str:
    """Return a sentence about the entries that a merge or sync joined; sources count only if there are no others."""
    reason = joined[0].reason
    place = next((reason.removeprefix(start) for start in _MERGES if reason.startswith(start)), "")
    # Both copies of an entry are joined.
    number = len({one.title for one in joined if one.type != "source"} or {one.title for one in joined})
    return f"merged {number:,} {'entry' if number == 1 else 'entries'}{f' from {place}' if place else ''}"


def erasure_in_words(erased: Iterable[RecentChange]) -> str:
    """Return the number of objects of each type that were erased, such as `erased 1 source, 2 statements`."""
    counts = Counter(one.type.replace("_", " ") for one in erased)
    return f"{ERASED} {', '.join(counted_things(number, type_) for type_, number in counts.items())}"


JOINED = "joined"
"""The event of an entry that a merge combined with the same one from elsewhere."""


class RecentReport(Report):
    """Changes, newest first."""

    changes: tuple[RecentChange, ...]
    more: int = 0
    """Changes in the window beyond the limit, counted up to `MOST_COUNTED`."""

    @property
    def how_many_more(self) -> str:
        """The number of changes beyond the limit, in words."""
        return f"{self.more} {'or ' * (self.more == MOST_COUNTED)}more"

    def numbered_places(self) -> Mapping[int, str]:
        """Return the changed objects as `told_changes` lists them."""
        changes = enumerate(told_changes(self.changes), start=1)
        return {at: one.change.id for at, one in changes if not one.erased}


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
    moment = moment_of(call, options)
    current = current_objects(call, heads, moment)
    changes = tuple(
        change.model_copy(update={"current": change.id in current, "note": current.note(change.id)}) for change in shown
    )
    return RecentReport(
        verb="query",
        mode="recent",
        scope=call.scope,
        status="ok" if changes else "empty",
        warnings=(
            *filter(None, [nothing_recorded(call, moment)]),
            *scope_warnings(call, options, (head.scope for head in heads)),
            *flagged((change.id, (change.title, change.reason)) for change in changes),
            *altered_warnings(altered),
        ),
        ids=tuple(dict.fromkeys(change.id for change in changes if change.event != ERASED)),
        changes=changes,
        understood=tuple(_days_of_window(given, zone, call.engine.clock.now())),
        more=total - len(changes),
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


def _is_time(text: str) -> bool:
    return text[:4].isdecimal() and text[4:5] == "-"


def _about(call: Call, name: str) -> frozenset[str] | None:
    """Return the ids of an object or of files, their dependents and the rules for them; `None` for everything."""
    if not name:
        return None
    ledger = call.engine.ledger
    ids, path = _files_below(call, name)
    if not ids:
        item, _ = subject_of(call, name, ReadOptions(descend=True))
        ids, path = [item.id], item.origin.partition("#")[2] if isinstance(item, Source) else ""
    rules = _rules_for(call, path) if path else ()
    return frozenset([*ids, *(other for one in ids for other in ledger.dependents(one)), *rules])


def _files_below(call: Call, name: str) -> tuple[list[str], str]:
    """Return the ids of the files in a folder of the repository, and its path; nothing if it is no folder."""
    repository, path = repository_of(call, {}), PurePosixPath(name).as_posix()
    if repository is None:
        return [], ""
    below = Compare("origin", "prefix", f"{repository.origin}#{'' if path == '.' else f'{path}/'}")
    files = call.engine.ledger.select(Selection(scope=call.scope, descend=True, types=("source",), where=below))
    return [one.id for one in files], path


def _rules_for(call: Call, path: str) -> Iterator[str]:
    """Yield the ids of the rules, past ones too, for a file or folder or for part of a folder."""
    where = Compare("kind", "in", ("constraint", "preference"))
    for item in call.engine.ledger.select(Selection(scope=call.scope, descend=True, types=("knowledge",), where=where)):
        scope = scope_of(item) if isinstance(item, Knowledge) else ""
        if scope and (path == "." or applies_to(scope, path) or scope.startswith(f"{path}/")):
            yield item.id


def _days_of_window(given: RecentInput, zone: TimeZone, now: datetime) -> Iterator[UnderstoodDays]:
    """Yield the days that a window begins or ends with, with their time zone."""
    for name, text in (("since", given.since), ("until", given.until)):
        if text and is_day(text):
            day = date.fromisoformat(text)
            yield UnderstoodDays(text=f"{name} {text}", first=day, last=day, time_zone=zone.name(now))


def _written(
    call: Call, given: RecentInput, options: DayOptions, window: Window
) -> tuple[Sequence[RecentChange], list[Head], int]:
    """Return the changes in the window, newest first, the heads of their objects, and the number of changes."""
    most = given.limit + MOST_COUNTED
    counted = list(islice(_changes(call, given, options, window, at_once=most), most))
    shown = counted[: given.limit]
    changes = [written_change(event, head) for event, head in shown]
    heads = {head.id: head for event, head in shown if event.event_type != ERASED}
    return changes, list(heads.values()), len(counted)


def changes_back(call: Call, given: RecentInput, options: DayOptions) -> Iterator[tuple[AuditEvent, Head]]:
    """Return all changes in a window of time, newest first, with the heads of the changed objects.

    The log is read lazily.
    """
    zone = zone_of(call, options)
    given = _with_days(given, zone, call.engine.clock.now())
    window = zone.window(given.since, given.until)
    return _changes(call, given, options, window, at_once=MOST_COUNTED)


def written_change(event: AuditEvent, head: Head) -> RecentChange:
    """Show a change of an object."""
    return RecentChange(**change_of(event).model_dump(), id=head.id, type=head.type, title=head.title)


def _changes(
    call: Call, given: RecentInput, options: DayOptions, window: Window, *, at_once: int
) -> Iterator[tuple[AuditEvent, Head]]:
    """Return the events of the window about objects in sight, newest first, with the heads of those objects.

    The scope of an erased object is unknown: its erasure is in sight at and above the scopes of all patches that wrote
    or erased it.
    The log is read backwards in growing batches: the window may contain all of it.
    """
    ledger = call.engine.ledger
    scope_of = cache(partial(scope_of_patch, whole(ledger)))

    def is_seen(scope: str) -> bool:
        return scope == call.scope or (options.descend and is_within(scope, call.scope))

    since, _ = window
    about = _about(call, given.about)
    moment = moment_of(call, options)
    last = ledger.sequence(moment)
    # An event at exactly `since` is in the window.
    first = ledger.sequence(since - _TICK) if since and since > _BEGINNING else 0
    while last > first:
        before = max(last - at_once, first)
        logged = whole(ledger).events(after=before, limit=last - before)
        events = [one for one in logged if _overlaps(window, one.timestamp, one.timestamp)]
        heads = ledger.heads((event.target for event in events), as_of=moment)
        for event in reversed(events):
            if about is not None and event.target not in about:
                continue
            head = heads.get(event.target)
            if event.event_type == ERASED:
                scopes = map(scope_of, _patches_of_erased(whole(ledger), event))
                scope = next((one for one in scopes if is_seen(one)), None)
                head = None if scope is None else _head_of_erased(event, scope)
            if head and (not given.types or head.type in given.types):
                yield event, head
        last, at_once = before, min(2 * at_once, _MAX_EVENTS_PER_BATCH)


def _patches_of_erased(ledger: Ledger, erasure: AuditEvent) -> Iterator[str]:
    """Yield the ids of the patches that erased and wrote an object."""
    yield erasure.patch_id
    yield from (event.patch_id for event in ledger.events_of(erasure.target))


def _head_of_erased(event: AuditEvent, scope: str) -> Head:
    """Return a head with the id and type of an erased object; nothing else is known of it."""
    identity = event.target
    return Head(identity, kind_of(identity), "", "", scope, 0, "", event.channel, event.timestamp)


def _happened(
    call: Call, given: RecentInput, options: DayOptions, window: Window, altered: Altered
) -> tuple[Sequence[RecentChange], list[Head], int]:
    """Return the events in the window, the latest first, the heads of their objects, and the number of events."""
    undated = set(given.types) - set(DATED_TYPES)
    if undated:
        raise InvalidInput(
            f"Objects of type {', '.join(sorted(undated))} have no time at which they happened.",
            hint=f"Request {', '.join(DATED_TYPES)}, or omit `by`.",
        )
    events = [
        (item, event)
        for item in _dated(call, given.types or DATED_TYPES, options, altered)
        if (event := dated_event_of(item)) and _overlaps(window, event.first, event.last)
    ]
    events.sort(key=lambda one: (one[1].first, one[1].last, one[0].id), reverse=True)
    shown = events[: given.limit]
    return [_change(call, item, event) for item, event in shown], [head_of(item) for item, _ in shown], len(events)


def _dated(call: Call, types: Iterable[str], options: DayOptions, altered: Altered) -> Iterator[Object]:
    for kind in types:
        where = Compare("kind", "in", EVENT_KINDS) if kind == "source" else EVERYTHING
        yield from call.engine.ledger.select(selection_of(call, options, kind, where), altered=altered)


def _overlaps(window: Window, first: datetime, last: datetime) -> bool:
    since, until = window
    return (since is None or last >= since) and (until is None or first <= until)


def _change(call: Call, item: Object, event: DatedEvent) -> RecentChange:
    """Return an event as a change, with the author who recorded it."""
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


RECENT = Mode.of("recent", "Changes or events in a time window.", recent, rights=READS)
