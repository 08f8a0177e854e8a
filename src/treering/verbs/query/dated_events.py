"""When the events happened that objects record, which may be long before they were written down."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from treering.core.canonical import parse_time
from treering.core.errors import InvalidInput
from treering.core.evidence import Turn
from treering.core.objects import Activity, Object, Source, WorkItem

DATED_TYPES = ("activity", "source", "work_item")
"""Types of objects that record events."""
EVENT_KINDS = ("conversation", "meeting_record")
"""Kinds of sources that record events."""


@dataclass(frozen=True, slots=True)
class DatedEvent:
    """The beginning and end of an event, and the field that contains them."""

    first: datetime
    last: datetime
    dated_by: str


def dated_event_of(item: Object) -> DatedEvent | None:
    """Return the time of the event that an object records, or `None` if it records none.

    Default: the time when the object was created or captured.
    """
    match item:
        case Activity():
            return _activity(item)
        case WorkItem(opened_at=datetime() as opened):
            return DatedEvent(opened, opened, "opened_at")
        case WorkItem():
            return DatedEvent(item.created_at, item.created_at, "created_at")
        case Source() if item.kind in EVENT_KINDS:
            return _dated_event_of_source(item)
        case _:
            return None


def _activity(item: Activity) -> DatedEvent:
    first, last = item.started_at or item.ended_at, item.ended_at or item.started_at
    if first is None or last is None:
        return DatedEvent(item.created_at, item.created_at, "created_at")
    return DatedEvent(min(first, last), max(first, last), "started_at" if item.started_at else "ended_at")


def _dated_event_of_source(item: Source) -> DatedEvent:
    times = [place.at for segment in item.segments if isinstance(place := segment.locator, Turn) and place.at]
    if times:
        return DatedEvent(min(times), max(times), "said")
    dated = _date_in(item.metadata)
    if dated:
        return DatedEvent(*dated, "date")
    return DatedEvent(item.captured_at, item.captured_at, "captured_at")


def _date_in(metadata: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return the time, or the whole day in UTC, in the field `date` of the metadata of a meeting."""
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
    moment = parse_time(text)
    return moment, moment


def _day(text: str) -> tuple[datetime, datetime]:
    day = date.fromisoformat(text)
    return datetime.combine(day, time.min, UTC), datetime.combine(day, time.max, UTC)
