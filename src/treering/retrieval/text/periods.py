"""Calendar arithmetic: days, weeks, weekends, months, seasons and years as a first and a last day.

Weeks begin on Monday, and seasons are northern. Dates outside Python's calendar (years 1 to 9999) raise `ValueError` or
`OverflowError`.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal

Period = tuple[date, date]
"""The first and the last day, both inclusive; the first is never after the last."""

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
    """Return the last date before a day that falls on a weekday (0 for Monday)."""
    return at - timedelta((at.weekday() - weekday - 1) % _WEEK + 1)


def weekday_after(at: date, weekday: int) -> date:
    """Return the first date after a day that falls on a weekday (0 for Monday)."""
    return at + timedelta((weekday - at.weekday() - 1) % _WEEK + 1)


def around(at: date, unit: Unit, count: int) -> Period:
    """Return the period `count` units after a day (negative: before it), as wide as people mean it.

    A day is one day, a week the 7 days around the day, a month the 31 days around it, a year the calendar year.
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
    """Return the calendar week, weekend, month or year `count` units after the one that contains a day."""
    match unit:
        case "week":
            return week(at + timedelta(weeks=count))
        case "month":
            return month(*_moved_month(at, count))
        case _:
            return around(at, unit, count)


def moved(at: date, unit: Unit, count: int) -> date:
    """Return the day `count` units later (negative: earlier), or the last day of the month if that is shorter."""
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
    """Return a week of a month: 0 to 3 for the first to the fourth, -1 for its last seven days."""
    first, last = of
    if number < 0:
        return last - timedelta(_WEEK - 1), last
    return first + timedelta(number * _WEEK), first + timedelta(number * _WEEK + _WEEK - 1)


def _about(at: date, days: int) -> Period:
    return at - timedelta(days), at + timedelta(days)


def _moved_month(at: date, count: int) -> tuple[int, int]:
    index = at.year * _YEAR + at.month - 1 + count
    return index // _YEAR, index % _YEAR + 1


_NUMBERS: Final = {
    **dict.fromkeys(("a", "an", "one"), 1),
    **{word: n for n, word in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine"), start=2)},
    **{word: n for n, word in enumerate(("ten", "eleven", "twelve"), start=10)},
}
_VAGUE: Final = {"couple": (2, 3), "few": (2, 5), "several": (3, 8)}
_MONTHS: Final = {
    "sept": 9,
    **{name[:3]: number for number, name in enumerate(MONTHS, start=1)},
    **{name: number for number, name in enumerate(MONTHS, start=1)},
}
_ORDINALS: Final = ("first", "second", "third", "fourth", "last")
_HOLIDAYS: Final = {
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "new years eve": (12, 31),
    "new years day": (1, 1),
    "valentine": (2, 14),
    "halloween": (10, 31),
}
_WAYS: Final = {"last": -1, "past": -1, "this": 0, "next": 1, "coming": 1}

ALSO_WORDS: Final = frozenset({"may", "march", "mar", "jan", "dec"})
"""Names of months that are also other words in lower case."""

_TO = r"(?:-|–|—|to|until|till|through|and)"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:\s*(?:-|–|to)\s*(?P<to>\d{1,2})(?:st|nd|rd|th)?)?"
YEAR = r"[12]\d{3}\b(?!-|[.,]\d)"
RECENT_YEAR = r"(?:19|20)\d{2}\b(?![-/]|[.,]\d)"
LATER = (
    rf"(?:(?=\s*{_TO}\s*(?:the\s+)?(?:(?:{MONTH})\b\.?\s+{_NTH}|{_NTH}\s+(?:of\s+)?(?:{MONTH})\b\.?|(?:{MONTH})\b\.?)"
    rf"(?:,|\s+of)?\s+(?P<later>{YEAR})))?"
)
"""The year after the second of two dates, which applies to both: "June and August 2022"."""
PART = (
    r"(?:(?:(?P<part>early|mid|late)|(?:the\s+)?(?P<portion>beginning|start|middle|end)\s+of|"
    r"(?:the\s+)?(?P<nth>first|second|third|fourth|last)\s+(?P<share>half|week)\s+of)[\s-]+(?:the\s+)?)"
)
WAY = r"(?P<way>this\s+past|this\s+coming|last|past|this|next|coming)"
AMOUNT = rf"(?P<amount>\d{{1,4}}|(?:a\s+)?couple(?:\s+of)?|(?:a\s+)?few|several|{'|'.join(_NUMBERS)})"
UNIT = r"(?P<unit>day|weekend|week|month|year)"
WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)}|tues|thurs)"
SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
HOLIDAY = r"(?P<holiday>christmas(?:\s+eve|\s+day)?|new\s+year['’]?s\s+(?:eve|day)|valentine['’]?s?\s+day|halloween)"
# Units that show that a number before them is an amount and not a year.
NOT_COUNTED = (
    r"(?!\s*%|\s+(?:people|words|steps|miles|meters|metres|feet|dollars|euros|users|lines|calories|times|pieces)\b)"
)

NUMBERS: Final = frozenset({"0"})
YEARS: Final = frozenset({"0000"})
MONTH_WORDS: Final = frozenset(_MONTHS)
WEEKDAY_WORDS: Final = frozenset({*WEEKDAYS, "tues", "thurs"})
SEASON_WORDS: Final = frozenset(SEASONS)
HOLIDAY_WORDS: Final = frozenset({"christmas", "new", "valentine", "valentines", "halloween"})
NEAR_WORDS: Final = frozenset({"yesterday", "today", "tomorrow", "tonight", "night", "morning", "afternoon", "evening"})
UNIT_WORDS: Final = frozenset(
    word for unit in ("day", "weekend", "week", "month", "year") for word in (unit, f"{unit}s")
)
WAY_WORDS: Final = frozenset(_WAYS)
AGO_WORDS: Final = frozenset({"ago", "back"})
PART_WORDS: Final = frozenset({"early", "mid", "late", "beginning", "start", "middle", "end", "half", "week"})

_WORD = re.compile(r"[a-z]+|\d+", re.ASCII)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, with "0" if it has a number and "0000" if one has four digits."""
    words = frozenset(_WORD.findall(text.lower()))
    numbers = [word for word in words if word[0].isdigit()]
    return (
        words
        | (NUMBERS if numbers else frozenset())
        | (YEARS if any(len(number) == 4 for number in numbers) else frozenset())
    )


def amount_of(words: str) -> tuple[int, int]:
    """Return the smallest and the largest number that words or digits may mean: "a few" is two to five."""
    text = words.lower()
    vague = next((bounds for word, bounds in _VAGUE.items() if word in text), None)
    if vague:
        return vague
    number = int(text) if text.isdigit() else _NUMBERS[text]
    return number, number


def month_of(name: str) -> int:
    """Return the number of a month, 1 for January."""
    return _MONTHS[name.lower()]


def weekday_of(name: str) -> int:
    """Return the number of a weekday, 0 for Monday."""
    return next(number for number, day in enumerate(WEEKDAYS) if day.startswith(name.lower()[:3]))


def holiday_of(name: str) -> tuple[int, int]:
    """Return the month and day of a holiday."""
    plain = " ".join(name.lower().replace("'", "").replace("’", "").split())
    return next(at for known, at in _HOLIDAYS.items() if plain.startswith(known))


def direction_of(way: str) -> int:
    """Return -1 for "last", 0 for "this", 1 for "next"."""
    return _WAYS[way.lower().split()[-1]]


def place_of(ordinal: str) -> int:
    """Return 0 for "first" to 3 for "fourth", and -1 for "last"."""
    return (0, 1, 2, 3, -1)[_ORDINALS.index(ordinal.lower())]


_YEARS_BACK = 20
"""Years before the current one in which a question without a year may mean a date."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The day that relative phrases refer to, if known. `recurring`: a date without a year means every year.

    `ahead`: it means the next one.
    """

    today: date | None
    recurring: bool = False
    ahead: bool = False

    def in_year(self, named: str | None, way: str | None, of: Callable[[int], Period]) -> Sequence[Period]:
        """Return a yearly period in the named year, or in the year that is probably meant.

        `way` chooses the last, the next or this year's; without it the nearest period counts, preferably a past one.
        """
        if named:
            return [of(int(named))]
        if self.today is None:
            return ()
        year = self.today.year
        if self.recurring and not way:
            return [of(year + count) for count in range(-_YEARS_BACK, 2)]
        return [_meant([of(year + count) for count in (-2, -1, 0, 1, 2)], way, self.today, ahead=self.ahead)]


def unit_of(match: re.Match[str]) -> Unit:
    """Return the unit in a match of `UNIT`."""
    units: Sequence[Unit] = ("day", "weekend", "week", "month", "year")
    return next(unit for unit in units if unit == match["unit"].lower())


def span_of(one: Period, other: Period) -> Period:
    """Return the shortest period that contains two others."""
    return min(one[0], other[0]), max(one[1], other[1])


def _meant(near: Sequence[Period], way: str | None, today: date, *, ahead: bool) -> Period:
    if not way:
        return nearest(near, today, ahead=ahead)
    if direction_of(way) < 0:
        return [period for period in near if period[1] < today][-1]
    if direction_of(way) > 0:
        return next(period for period in near if period[0] > today)
    return next((period for period in near if period[0] <= today <= period[1]), near[2])


def nearest(near: Sequence[Period], today: date, *, ahead: bool) -> Period:
    """Return the period that is probably meant. `ahead`: the next one that is not over, if there is one."""
    coming = [period for period in near if period[1] >= today] if ahead else []
    return min(coming or near, key=lambda period: _distance(period, today))


def _distance(period: Period, today: date) -> int:
    """Return the days between a period and a day; future days count twice, because people mostly mention the past."""
    first, last = period
    return 2 * (first - today).days if first > today else max(0, (today - last).days)
