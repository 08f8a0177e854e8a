"""The timeline of changes, the work, and a live view of stored and recalled objects."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import groupby
from typing import Literal

from anyio import sleep

from treering.core.audit import ERASED
from treering.core.canonical import parse_time
from treering.core.characters import visible_line
from treering.core.scope import ROOT
from treering.extensions.server.recent_calls import RecentCalls
from treering.extensions.server.web.overview import OBJECTS, OVERVIEW
from treering.extensions.server.web.view import PageView, Rendered, told_event
from treering.verbs.query.recent import RecentChange, RecentReport
from treering.verbs.query.search import SearchReport
from treering.verbs.work_order import FINISHED

_EVENTS = 200
_ENOUGH = 20
_MOST_EVENTS = 20_000
_DECISIONS = 50
_LISTED = 200
_OPEN = ("open", "in_progress", "blocked")
ChangeClass = Literal["came", "changed", "withdrawn"]
WIDTH, HEIGHT = 960, 120
_BARS = 48
_STEPS = (
    *(timedelta(seconds=number) for number in (1, 5, 15)),
    *(timedelta(minutes=number) for number in (1, 5, 15)),
    *(timedelta(hours=number) for number in (1, 6)),
    *(timedelta(days=number) for number in (1, 7, 28, 365)),
)
_KINDS: tuple[ChangeClass, ...] = ("came", "changed", "withdrawn")
_USUAL = 0.8
"""The share of bars whose heights must be distinguishable."""
_TALLER = 3
"""How many times as tall as those a bar may be."""
_WITHDRAWN = frozenset({"stale", "contested", "superseded", "archived", "invalid", "erased", "merged"})
_SHOWN = 30
_SECONDS = 1.0
MOST_ROUNDS = 600
"""A stream ends after this many rounds; the browser then connects again."""
_LONGEST = 40


def timeline(view: PageView) -> Rendered:
    """Show the last changes up to the moment of the page, as bars and as a list by day, and the decisions."""
    overview = view.overview()
    last = min(view.as_of or overview.sequence, overview.sequence)
    changes, first = _changes(view, last) if last else ((), 1)
    by_day = [(day, list(group)) for day, group in groupby(changes, key=lambda change: change.time[:10])]
    return Rendered(
        "timeline.html",
        {
            "overview": overview,
            "drawing": draw_timeline(changes),
            "days": by_day,
            "class_of": class_of,
            "earlier": first - 1,
            "decisions": view.perform(
                OBJECTS, {"type": "knowledge", "kinds": ["decision"]}, descend=True, limit=_DECISIONS, **view.moment
            ),
            "command": ("treering", "log"),
        },
    )


def _changes(view: PageView, last: int) -> tuple[tuple[RecentChange, ...], int]:
    """Return the changes up to the event `last`, and the first event that was examined.

    For a scope more events are examined, because most of them may be about other scopes.
    """
    looked = _EVENTS
    changes = recent_changes(view, last, most=_EVENTS)
    while view.scope != ROOT and len(changes) < _ENOUGH and looked < min(last, _MOST_EVENTS):
        looked *= 10
        changes = recent_changes(view, last, most=_EVENTS, events=looked)
    # If more changes were found than are shown, older ones include those not shown.
    return changes, changes[-1].seq if len(changes) == _EVENTS else max(last - looked + 1, 1)


def recent_changes(view: PageView, last: int, *, most: int, events: int = 0) -> tuple[RecentChange, ...]:
    """Return the changes up to the event `last`, newest first: at most `most`, from the newest `events` of the log."""
    first = view.perform(OVERVIEW, {}, as_of=max(last - (events or most) + 1, 1)).at
    since = {"since": first.isoformat()} if first else {}
    # Reading current objects is much faster than reading them as of an event, even the newest one.
    moment = last if view.as_of else None
    changes = view.query(RecentReport, "recent", {"limit": most, **since}, as_of=moment).changes
    return tuple(change for change in changes if change.seq <= last)


def work(view: PageView) -> Rendered:
    """Show open work, finished work, and the activities."""
    return Rendered(
        "work.html",
        {
            "overview": view.overview(),
            "open": _listed(view, type="work_item", status=_OPEN),
            "done": _listed(view, type="work_item", status=tuple(sorted(FINISHED))),
            "activities": _listed(view, type="activity"),
            "command": ("treering", "query", "--mode", "search", "--option", 'filter={"type": "work_item"}'),
        },
    )


def _listed(view: PageView, **where: object) -> SearchReport:
    return view.query(SearchReport, "search", {}, filter=where, withdrawn=True, limit=_LISTED)


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a bar."""

    x: float
    y: float
    height: float
    width: float
    kind: ChangeClass


@dataclass(frozen=True, slots=True)
class CutBar:
    """A bar that is too tall to be drawn: the position of the cut, the start of its step, and its count."""

    x: float
    width: float
    when: str
    changes: int


@dataclass(frozen=True, slots=True)
class TimelineDrawing:
    """Bars from the first to the last moment, each `step` long."""

    bars: Sequence[Bar]
    cut: Sequence[CutBar]
    first: str
    last: str
    step: str
    highest: int


def class_of(change: RecentChange) -> ChangeClass:
    """Return whether a change added something, withdrew it, or changed it otherwise."""
    if change.event in _WITHDRAWN or change.status in _WITHDRAWN:
        return "withdrawn"
    return "came" if change.event == "created" else "changed"


def draw_timeline(changes: Sequence[RecentChange]) -> TimelineDrawing | None:
    """Draw changes as bars with a suitable time step; `None` if there are none."""
    if not changes:
        return None
    times = [parse_time(change.time) for change in changes]
    first, last = min(times), max(times)
    step = next((step for step in _STEPS if (last - first) / step <= _BARS - 1), _STEPS[-1])
    start = _floor(first, step)
    places = [int((when - start) / step) for when in times]
    counts, sums = Counter(zip(places, map(class_of, changes), strict=True)), Counter(places)
    width = WIDTH / max(max(places) + 1, 12)
    most = _tallest(sums)
    return TimelineDrawing(
        bars=_bars(counts, sums, most, width),
        cut=[
            CutBar(round(place * width, 1), round(width * 0.8, 1), _moment_text(start + place * step, step), count)
            for place, count in sorted(sums.items())
            if count > most
        ],
        first=_moment_text(start, step),
        last=_moment_text(last, step),
        step=_length(step),
        highest=max(sums.values()),
    )


def _bars(counts: Mapping[tuple[int, ChangeClass], int], sums: Mapping[int, int], most: int, width: float) -> list[Bar]:
    bars = []
    for place, whole in sorted(sums.items()):
        top = float(HEIGHT)
        # The parts of a cut bar have the same shares as in the whole bar.
        unit = (HEIGHT - 4) / max(most, whole)
        for kind in _KINDS:
            height = counts.get((place, kind), 0) * unit
            if height:
                top -= height
                bars.append(Bar(round(place * width, 1), round(top, 1), round(height, 1), round(width * 0.8, 1), kind))
    return bars


def _tallest(sums: Mapping[int, int]) -> int:
    """Return the count of the tallest uncut bar, so that a few much taller ones do not flatten the rest."""
    ordered = sorted(sums.values())
    usual = ordered[int(_USUAL * (len(ordered) - 1))]
    return min(ordered[-1], usual * _TALLER)


def _floor(moment: datetime, step: timedelta) -> datetime:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if step >= timedelta(days=1) else midnight + ((moment - midnight) // step) * step


def _moment_text(moment: datetime, step: timedelta) -> str:
    if step >= timedelta(days=1):
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%d %H:%M}" if step >= timedelta(minutes=1) else f"{moment:%Y-%m-%d %H:%M:%S}"


def _length(step: timedelta) -> str:
    seconds = int(step.total_seconds())
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0:
            number = seconds // size
            return f"{number} {name}{'s' if number > 1 else ''}"
    raise AssertionError(step)


@dataclass(frozen=True, slots=True)
class LiveLine:
    """Something that was stored or recalled."""

    time: str
    what: str
    title: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class LivePlace:
    """The position of a live view: the last event of the log, and the last call."""

    sequence: int
    call: int


def live(view: PageView, calls: RecentCalls) -> Rendered:
    """Show the newest changes of the space and the newest calls of this server."""
    overview = view.overview()
    stored = _stored(view, 0, overview.sequence)
    return Rendered(
        "live.html",
        {
            "stored": list(reversed(stored)),
            "recalled": list(reversed(_recalled(view, calls, 0))),
            "place": f"{overview.sequence}-{calls.last}",
            "command": ("treering", "log", "-n", str(_SHOWN)),
        },
    )


def parse_place(text: str) -> LivePlace | None:
    """Read the id of an event that was sent before; none for any other text."""
    sequence, _, call = text.partition("-")
    if sequence.isascii() and sequence.isdigit() and call.isascii() and call.isdigit() and len(text) < _LONGEST:
        return LivePlace(int(sequence), int(call))
    return None


def news(view: PageView, calls: RecentCalls, place: LivePlace | None) -> tuple[list[tuple[str, LiveLine]], LivePlace]:
    """Return the news after a place, oldest first, each with its list (`stored`, `recalled`), and the new place."""
    sequence = view.perform(OVERVIEW, {}).sequence
    after = place or LivePlace(sequence, calls.last)
    last = calls.last
    stored = _stored(view, after.sequence, sequence) if sequence > after.sequence else []
    lines = [("stored", line) for line in stored]
    lines += [("recalled", line) for line in _recalled(view, calls, after.call)]
    return lines, LivePlace(sequence, last)


async def stream(
    look: Callable[[LivePlace | None], Awaitable[tuple[list[tuple[str, LiveLine]], LivePlace]]],
    place: LivePlace | None,
    *,
    ending: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """Send news as server-sent events, each a line of HTML for one of the two lists."""
    yield b"retry: 2000\n\n"
    for _ in range(MOST_ROUNDS):
        if ending():
            return
        lines, place = await look(place)
        for name, line in lines:
            yield f"event: {name}\nid: {place.sequence}-{place.call}\ndata: {_html(line)}\n\n".encode()
        if not lines:
            yield b": nothing new\n\n"
        await sleep(_SECONDS)


def _stored(view: PageView, after: int, last: int) -> list[LiveLine]:
    if not last:
        return []
    changes = recent_changes(view, last, most=_SHOWN)
    return [
        LiveLine(
            change.time,
            f"{told_event(change.event)} by {change.actor}",
            change.type if change.event == ERASED else change.title,
            "" if change.event == ERASED else view.link(f"object/{change.id}"),
        )
        for change in reversed(changes)
        if change.seq > after
    ]


def _recalled(view: PageView, calls: RecentCalls, after: int) -> list[LiveLine]:
    return [
        LiveLine(call.time, call.what, call.text, view.link("", q=call.text) if call.text else "")
        for call in calls.since(after)[-_SHOWN:]
    ]


def _html(line: LiveLine) -> str:
    title = escape(visible_line(line.title)) or "—"
    shown = f'<a href="{escape(line.link)}">{title}</a>' if line.link else title
    return f'<li><span class="when">{escape(line.time[11:19])}</span> {escape(visible_line(line.what))}: {shown}</li>'
