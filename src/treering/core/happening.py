"""When what an object tells of happened, which may be long before it was written down."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from treering.core.errors import InvalidInput
from treering.core.locator import Turn
from treering.core.objects import Activity, Object, Source, WorkItem
from treering.core.times import parse_time

DATED_TYPES = ("activity", "source", "work_item")
"""Types of objects that tell of something that happened."""

TOLD_KINDS = ("conversation", "meeting_record")
"""Kinds of sources that tell of something that happened; the others are only read at some time."""


@dataclass(frozen=True, slots=True)
class Happening:
    """From when to when something happened, and which field says so."""

    first: datetime
    last: datetime
    dated_by: str


def happening_of(item: Object) -> Happening | None:
    """Tell when what an object tells of happened; `None` for one that tells of nothing that happens.

    Where it says nothing itself, it is when it was written down (`created_at`) or captured (`captured_at`).
    """
    match item:
        case Activity():
            return _activity(item)
        case WorkItem(opened_at=datetime() as opened):
            return Happening(opened, opened, "opened_at")
        case WorkItem():
            return Happening(item.created_at, item.created_at, "created_at")
        case Source() if item.kind in TOLD_KINDS:
            return _told(item)
        case _:
            return None


def _activity(item: Activity) -> Happening:
    first, last = item.started_at or item.ended_at, item.ended_at or item.started_at
    if first is None or last is None:
        return Happening(item.created_at, item.created_at, "created_at")
    return Happening(min(first, last), max(first, last), "started_at" if item.started_at else "ended_at")


def _told(item: Source) -> Happening:
    said = [place.at for segment in item.segments if isinstance(place := segment.locator, Turn) and place.at]
    if said:
        return Happening(min(said), max(said), "said")
    dated = _date_in(item.metadata)
    if dated:
        return Happening(*dated, "date")
    return Happening(item.captured_at, item.captured_at, "captured_at")


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
