"""Changes over time as bars: how many came, changed and were withdrawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from treering.core.times import parse_time
from treering.tools.recent import RecentChange

ChangeClass = Literal["came", "changed", "withdrawn"]
WIDTH, HEIGHT = 960, 120
_BARS = 48
_STEPS = (
    *(timedelta(minutes=number) for number in (1, 5, 15)),
    *(timedelta(hours=number) for number in (1, 6)),
    *(timedelta(days=number) for number in (1, 7, 28, 365)),
)
_WITHDRAWN = frozenset({"stale", "contested", "superseded", "archived", "invalid", "erased", "merged"})


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a bar."""

    x: float
    y: float
    height: float
    width: float
    kind: ChangeClass


@dataclass(frozen=True, slots=True)
class TimelineDrawing:
    """Bars from the first to the last moment, each `step` long."""

    bars: Sequence[Bar]
    first: str
    last: str
    step: str
    highest: int


def class_of(change: RecentChange) -> ChangeClass:
    """Tell whether a change brought something, withdrew it, or changed it otherwise."""
    if change.event in _WITHDRAWN or change.status in _WITHDRAWN:
        return "withdrawn"
    return "came" if change.event == "created" else "changed"


def draw_timeline(changes: Sequence[RecentChange]) -> TimelineDrawing | None:
    """Draw changes as bars of a length that suits them; `None` where there are none."""
    if not changes:
        return None
    times = [parse_time(change.time) for change in changes]
    first, last = min(times), max(times)
    step = next((step for step in _STEPS if (last - first) / step <= _BARS - 1), _STEPS[-1])
    start = _floor(first, step)
    counts: dict[tuple[int, ChangeClass], int] = {}
    for when, change in zip(times, changes, strict=True):
        place = (int((when - start) / step), class_of(change))
        counts[place] = counts.get(place, 0) + 1
    number = int((last - start) / step) + 1
    return TimelineDrawing(_bars(counts, number), _told(start, step), _told(last, step), _length(step), _most(counts))


def _bars(counts: dict[tuple[int, ChangeClass], int], number: int) -> list[Bar]:
    width = WIDTH / max(number, 12)
    unit = (HEIGHT - 4) / _most(counts)
    bars = []
    for place in range(number):
        top = float(HEIGHT)
        for kind in ("came", "changed", "withdrawn"):
            height = counts.get((place, kind), 0) * unit
            if height:
                top -= height
                bars.append(Bar(round(place * width, 1), round(top, 1), round(height, 1), round(width * 0.8, 1), kind))
    return bars


def _most(counts: dict[tuple[int, ChangeClass], int]) -> int:
    sums: dict[int, int] = {}
    for (place, _), count in counts.items():
        sums[place] = sums.get(place, 0) + count
    return max(sums.values())


def _floor(moment: datetime, step: timedelta) -> datetime:
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight if step >= timedelta(days=1) else midnight + ((moment - midnight) // step) * step


def _told(moment: datetime, step: timedelta) -> str:
    return moment.strftime("%Y-%m-%d" if step >= timedelta(days=1) else "%Y-%m-%d %H:%M")


def _length(step: timedelta) -> str:
    minutes = int(step.total_seconds() // 60)
    for size, name in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes % size == 0:
            number = minutes // size
            return f"{number} {name}{'s' if number > 1 else ''}"
    raise AssertionError(step)
