"""Time zones for the days that a question or a time window names. Everything stored is in UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from treering.core.canonical import parse_time
from treering.core.errors import InvalidInput

_OFFSET = re.compile(r"(?:UTC|GMT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>[0-5]\d))?", re.IGNORECASE)
_MAX_OFFSET_HOURS = 23
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_SHOWN_CHARS = 80

Window = tuple[datetime | None, datetime | None]
"""The first and the last moment of a time window; an open end is `None`."""


def is_day(text: str) -> bool:
    """Return whether a text is written as a day, such as 2026-01-31."""
    return _DAY.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone; without rules the zone of the machine, from the variable `TZ` or the system."""

    rules: tzinfo | None = None

    def local(self, moment: datetime) -> datetime:
        """Convert a moment to this zone."""
        return moment.astimezone(self.rules)

    def begin(self, day: date) -> datetime:
        """Return the first moment of a day, in UTC. Raises `OverflowError` outside the calendar."""
        return datetime.combine(day, time.min, self.rules).astimezone(UTC)

    def end(self, day: date) -> datetime:
        """Return the last microsecond of a day, in UTC. Raises `OverflowError` outside the calendar."""
        return self.begin(day + timedelta(days=1)) - timedelta(microseconds=1)

    def name(self, moment: datetime) -> str:
        """Return the name of the zone, such as `Europe/Berlin`, or its offset at a moment, such as `UTC-08:00`."""
        key = getattr(self.rules, "key", "")
        return key or f"UTC{self.local(moment).isoformat()[-6:]}".replace("UTC+00:00", "UTC")

    def window(self, since: str | None, until: str | None) -> Window:
        """Parse the ends of a time window: ISO times, or days of this zone, which count as a whole.

        Raises `InvalidInput` for anything else.
        """
        return self._moment(since, last=False), self._moment(until, last=True)

    def _moment(self, text: str | None, *, last: bool) -> datetime | None:
        if not text:
            return None
        if not is_day(text):
            return parse_time(text)
        try:
            day = date.fromisoformat(text)
            return self.end(day) if last else self.begin(day)
        except (ValueError, OverflowError) as error:
            raise InvalidInput(
                f"{text!r} is not a valid day.", hint="Write 2026-01-31, or a time with its zone."
            ) from error


UTC_ZONE = TimeZone(UTC)
MACHINE = TimeZone()
"""The machine's own time zone."""


def parse_zone(text: str) -> TimeZone:
    """Parse a time zone, such as `Europe/Berlin` or `+05:30`; an empty text is the zone of the machine.

    Raises `InvalidInput` if the zone is unknown or the system has no time zone database.
    """
    if not text:
        return MACHINE
    if text.upper() in {"UTC", "GMT", "Z"}:
        return UTC_ZONE
    if match := _OFFSET.fullmatch(text):
        return TimeZone(_offset(text, match))
    import zoneinfo  # imported late: few processes need it, and it slows down hooks of coding agents

    try:
        return TimeZone(zoneinfo.ZoneInfo(text))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(f"{text[:_MAX_SHOWN_CHARS]!r} is not a time zone.", hint=_hint(text)) from error


def _hint(text: str) -> str:
    from difflib import get_close_matches
    from zoneinfo import available_timezones

    names = sorted(available_timezones())
    if not names:
        return "This system has no database of time zones: install the package `tzdata`, or give an offset: +05:30."
    close = get_close_matches(text[:_MAX_SHOWN_CHARS], names, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    return f"{meant}Give a name such as Europe/Berlin, or an offset such as +05:30."


def _offset(text: str, match: re.Match[str]) -> timezone:
    hours, minutes = int(match["hours"]), int(match["minutes"] or 0)
    if hours > _MAX_OFFSET_HOURS:
        raise InvalidInput(f"{text!r} is not a time zone.", hint="An offset is at most 23:59, such as +05:30.")
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if match["sign"] == "-" else span)
