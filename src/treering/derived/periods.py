"""Arithmetic of periods: days, weeks, weekends, months, seasons and years as a first and a last day.

Weeks begin on Monday; seasons are those of the northern hemisphere. What lies outside the calendar of Python (years 1
to 9999) raises `ValueError` or `OverflowError`.
"""

from calendar import monthrange
from datetime import date, timedelta
from typing import Literal

Period = tuple[date, date]
"""A first and a last day, both within; the first is never after the last."""

Unit = Literal["day", "week", "weekend", "month", "year"]

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The first month of each season."""

_SATURDAY = 5
_WEEK = 7
_YEAR = 12
_THIRDS = ((1, 10), (11, 20), (21, 31))


def day(at: date) -> Period:
    """Return a day as a period."""
    return at, at


def month(year: int, number: int) -> Period:
    """Return a month (1 to 12)."""
    return date(year, number, 1), date(year, number, monthrange(year, number)[1])


def year(number: int) -> Period:
    """Return a year."""
    return date(number, 1, 1), date(number, 12, 31)


def season(year_: int, name: str) -> Period:
    """Return the season that begins in a year."""
    first = date(year_, SEASONS[name], 1)
    return first, month(*_moved_month(first, 2))[1]


def week(at: date) -> Period:
    """Return the week, Monday to Sunday, of a day."""
    return on_weekday(at, 0), on_weekday(at, _WEEK - 1)


def weekend(at: date) -> Period:
    """Return the Saturday and Sunday of the week of a day."""
    return on_weekday(at, _SATURDAY), on_weekday(at, _WEEK - 1)


def on_weekday(at: date, weekday: int) -> date:
    """Return a weekday (0 for Monday) in the week of a day."""
    return at + timedelta(weekday - at.weekday())


def weekday_before(at: date, weekday: int) -> date:
    """Return the last such weekday before a day."""
    return at - timedelta((at.weekday() - weekday - 1) % _WEEK + 1)


def weekday_after(at: date, weekday: int) -> date:
    """Return the first such weekday after a day."""
    return at + timedelta((weekday - at.weekday() - 1) % _WEEK + 1)


def around(at: date, unit: Unit, count: int) -> Period:
    """Return what is some units from a day (negative: before it): as wide as such words are meant.

    A day is itself, a week the seven days about that day, a month the 31 days about it, a year the calendar year.
    """
    match unit:
        case "day":
            return day(at + timedelta(count))
        case "week":
            return _about(at + timedelta(weeks=count), 3)
        case "weekend":
            return weekend(at + timedelta(weeks=count))
        case "month":
            return _about(moved(at, "month", count), 15)
        case "year":
            return year(at.year + count)


def whole(at: date, unit: Unit, count: int) -> Period:
    """Return the calendar week, weekend, month or year that is some units from that of a day."""
    match unit:
        case "day":
            return day(at + timedelta(count))
        case "week":
            return week(at + timedelta(weeks=count))
        case "weekend":
            return weekend(at + timedelta(weeks=count))
        case "month":
            return month(*_moved_month(at, count))
        case "year":
            return year(at.year + count)


def moved(at: date, unit: Unit, count: int) -> date:
    """Return the day some units later (negative: earlier); the last of a month that is too short."""
    match unit:
        case "day":
            return at + timedelta(count)
        case "week" | "weekend":
            return at + timedelta(weeks=count)
        case "month" | "year":
            to, number = _moved_month(at, count * (_YEAR if unit == "year" else 1))
            return date(to, number, min(at.day, monthrange(to, number)[1]))


def part(of: Period, name: str) -> Period:
    """Return a part of a month or a year: `early`, `mid` or `late`."""
    third = {"early": 0, "mid": 1, "late": 2}[name]
    first, last = of
    if first.month != last.month:
        return month(first.year, 1 + 4 * third)[0], month(first.year, 4 + 4 * third)[1]
    begin, end = _THIRDS[third]
    return first.replace(day=begin), first.replace(day=min(end, last.day))


def half(of: Period, number: int) -> Period:
    """Return the first (0) or the second (1) half of a month or a year."""
    first, last = of
    middle = first + timedelta((last - first).days // 2)
    return (middle + timedelta(1), last) if number else (first, middle)


def week_of(of: Period, number: int) -> Period:
    """Return the days of a month's first (0) to fourth (3) week; of its last seven days for -1."""
    first, last = of
    if number < 0:
        return last - timedelta(_WEEK - 1), last
    return first + timedelta(number * _WEEK), first + timedelta(number * _WEEK + _WEEK - 1)


def _about(at: date, days: int) -> Period:
    return at - timedelta(days), at + timedelta(days)


def _moved_month(at: date, count: int) -> tuple[int, int]:
    index = at.year * _YEAR + at.month - 1 + count
    return index // _YEAR, index % _YEAR + 1
