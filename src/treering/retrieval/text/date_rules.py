"""How English names days and periods: a rule for each form, read against a day or without one.

Where the pattern of a rule has a group `it`, that is the phrase; what stands before it only makes sure that it is a
date ("in May", but not "May I").
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

from treering.retrieval.text import periods
from treering.retrieval.text.periods import (
    AGO_WORDS,
    ALSO_WORDS,
    AMOUNT,
    DAY,
    HOLIDAY,
    HOLIDAY_WORDS,
    LATER,
    MONTH,
    MONTH_WORDS,
    NEAR_WORDS,
    NOT_COUNTED,
    NUMBERS,
    PART,
    PART_WORDS,
    RECENT_YEAR,
    SEASON,
    SEASON_WORDS,
    UNIT,
    UNIT_WORDS,
    WAY,
    WAY_WORDS,
    WEEKDAY,
    WEEKDAY_WORDS,
    YEAR,
    YEARS,
    Period,
    Unit,
    amount_of,
    direction_of,
    holiday_of,
    month_of,
    place_of,
    weekday_of,
)

_YEARS_BACK = 20
"""What names no year in a question is meant in so many years, the present one and the next."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The day a phrase is read against, if there is one. `recurring`: what names no year is meant in every year."""

    today: date | None
    recurring: bool = False

    def in_year(self, named: str | None, way: str | None, of: Callable[[int], Period]) -> Sequence[Period]:
        """Return what comes once a year in the year that is named, or in the one that is meant.

        That is the last, the next or this year's where `way` says so; else the nearest, rather of the past.
        """
        if named:
            return [of(int(named))]
        if self.today is None:
            return ()
        year = self.today.year
        if self.recurring and not way:
            return [of(year + count) for count in range(-_YEARS_BACK, 2)]
        return [_meant([of(year + count) for count in (-2, -1, 0, 1, 2)], way, self.today)]


Found = re.Match[str]
ReadDates = Callable[[Found, Reference], Sequence[Period]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A form of naming dates. `read` raises `ValueError` or `OverflowError` for what is in no calendar."""

    pattern: str
    """Capitals do not matter to it."""
    read: ReadDates
    needs: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, pattern: str, read: ReadDates, *needs: frozenset[str]) -> "Rule":
        """Make a rule. A text without one of each of `needs` (`words_of`) has no match."""
        return cls(pattern, read, needs)

    def found_in(self, text: str) -> Iterator[Found]:
        """Return where a text names dates in this form."""
        return _compiled(self.pattern).finditer(text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile the pattern of a rule when a text may have a match of it."""
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


def unit_of(found: Found) -> Unit:
    """Return the unit that a phrase counts in."""
    units: Sequence[Unit] = ("day", "weekend", "week", "month", "year")
    return next(unit for unit in units if unit == found["unit"].lower())


def span_of(one: Period, other: Period) -> Period:
    """Return the period from the first to the last day of two."""
    return min(one[0], other[0]), max(one[1], other[1])


def _meant(near: Sequence[Period], way: str | None, today: date) -> Period:
    if not way:
        return min(near, key=lambda period: _distance(period, today))
    if direction_of(way) < 0:
        return [period for period in near if period[1] < today][-1]
    if direction_of(way) > 0:
        return next(period for period in near if period[0] > today)
    return next((period for period in near if period[0] <= today <= period[1]), near[2])


def _distance(period: Period, today: date) -> int:
    """Return the days between a period and a day; those to come count twice, for people tell more of the past."""
    first, last = period
    return 2 * (first - today).days if first > today else max(0, (today - last).days)


def _named_day(found: Found, reference: Reference) -> Sequence[Period]:
    month, first, last = _month(found), int(found["day"]), int(found["to"] or found["day"])
    if month is None:
        return ()
    year = found["year"] or found["later"]
    if (month, first) == (2, 29) and not year:
        last = first = 28  # not in every year
    return reference.in_year(year, found["way"], lambda year: span_of(*_days(year, month, first, last)))


def _days(year: int, month: int, first: int, last: int) -> tuple[Period, Period]:
    return periods.day(date(year, month, first)), periods.day(date(year, month, last))


def _named_month(found: Found, reference: Reference) -> Sequence[Period]:
    month, groups = _month(found), found.groupdict()
    if month is None:
        return ()
    year = groups.get("year") or groups.get("later")
    named = reference.in_year(year, groups.get("way"), lambda year: periods.month(year, month))
    return [_partly(found, period) for period in named]


def _month(found: Found) -> int | None:
    """Return the month that is named, unless the word may as well be another."""
    groups, name = found.groupdict(), found["month"]
    sure = any(groups.get(group) for group in ("year", "later", "sure", "way")) or name != name.lower()
    return month_of(name) if sure or name not in ALSO_WORDS else None


def _named_year(found: Found, _: Reference) -> Sequence[Period]:
    first, last = int(found["year"]), int(found.groupdict().get("to") or found["year"])
    return [_partly(found, span_of(periods.year(first), periods.year(last)))]


def _partly(found: Found, whole: Period) -> Period:
    groups = found.groupdict()
    if name := groups.get("part"):
        return periods.part(whole, name.lower())
    if portion := groups.get("portion"):
        return periods.part(whole, {"middle": "mid", "end": "late"}.get(portion.lower(), "early"))
    if not (nth := groups.get("nth")):
        return whole
    if groups["share"].lower() == "week":
        return periods.week_of(whole, place_of(nth))
    return periods.half(whole, 1 if nth.lower() in {"second", "last"} else 0)


def _numeric(found: Found, _: Reference) -> Sequence[Period]:
    year, month, day = int(found["year"]), int(found["number"]), found["day"]
    return [periods.day(date(year, month, int(day))) if day else periods.month(year, month)]


def _slashed(found: Found, _: Reference) -> Sequence[Period]:
    """Read 13/05/2023 and 05/13/2023; where either could be the month nobody can tell."""
    low, high = sorted((int(found["one"]), int(found["other"])))
    if high <= 12 and low != high:
        return ()
    return [periods.day(date(int(found["year"]), low, high))]


def _season(found: Found, reference: Reference) -> Sequence[Period]:
    name, way = found["season"].lower(), found.groupdict().get("way")
    return reference.in_year(found["year"], way, lambda year: periods.season(year, name))


def _holiday(found: Found, reference: Reference) -> Sequence[Period]:
    month, day = holiday_of(found["holiday"])
    return reference.in_year(found["year"], found["way"], lambda year: periods.day(date(year, month, day)))


_NEAR = {
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
    "day after tomorrow": 2,
}


def _near_day(found: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    words = " ".join(found[0].lower().split())
    return [periods.around(reference.today, "day", _NEAR.get(words.removeprefix("the "), 0))]


def _ago(found: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    today, unit, (least, most) = reference.today, unit_of(found), amount_of(found["amount"])
    if found["weekday"]:
        about = periods.moved(today, unit, -least) + timedelta(4)
        return [periods.day(periods.weekday_before(about, weekday_of(found["weekday"])))]
    return [span_of(periods.around(today, unit, -most), periods.around(today, unit, -least))]


def _whole_unit(found: Found, reference: Reference) -> Sequence[Period]:
    today, way, unit = reference.today, found["way"].lower(), unit_of(found)
    if today is None:
        return ()
    if way.endswith("past") and unit != "weekend":
        return [(periods.moved(today, unit, -1), today)]
    return [periods.whole(today, unit, direction_of(way))]


def _several_units(found: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    _, most = amount_of(found["amount"])
    other = periods.moved(reference.today, unit_of(found), most * direction_of(found["way"]))
    return [span_of(periods.day(other), periods.day(reference.today))]


def _weekday(found: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    today, way, weekday = reference.today, direction_of(found["way"]), weekday_of(found["weekday"])
    if way < 0 and "week" not in found.groupdict():
        return [periods.day(periods.weekday_before(today, weekday))]
    monday, _ = periods.whole(today, "week", way)
    return [periods.day(periods.on_weekday(monday, weekday))]


def _day_of_month(found: Found, reference: Reference) -> Sequence[Period]:
    """Read "on the 5th": of this month, or of the one before or after it where that is nearer."""
    if reference.today is None or reference.recurring:
        return ()
    today, number = reference.today, int(found["day"])
    months = [periods.whole(today, "month", count) for count in (-1, 0, 1)]
    days = [periods.day(first.replace(day=number)) for first, last in months if 1 <= number <= last.day]
    return [min(days, key=lambda day: _distance(day, today))] if days else ()


# "And May I ask": a name of a month may begin a sentence about somebody.
_NO_VERB = r"(?!\s+(?:i|we|you|he|she|they|it|god)\b)"
_IN = r"in|of|since|until|till|by|during|around|every"
_IN_A_YEAR = r"in|of|since|until|till|from|by|before|after|during|around|about|year|than"

RULES: Sequence[Rule] = (
    Rule.of(
        rf"(?<![\w./:-])(?:{WAY}\s+|(?P<sure>on|by|since|until|from|between|the)\s+)?(?P<it>{DAY}\s+(?:of\s+)?"
        rf"(?P<month>{MONTH})\b\.?(?:(?:,|\s+of)?\s*(?P<year>{YEAR}))?){LATER}",
        _named_day,
        MONTH_WORDS,
        NUMBERS,
    ),
    Rule.of(
        rf"\b(?:{WAY}\s+|(?P<sure>on|{_IN}|from|between)\s+)?(?P<it>(?P<month>{MONTH})\b\.?\s+(?:the\s+)?{DAY}\b"
        rf"(?![:%]|[./]\d)(?:,?\s*(?P<year>{YEAR}))?){LATER}",
        _named_day,
        MONTH_WORDS,
        NUMBERS,
    ),
    Rule.of(rf"\b{PART}?(?P<month>{MONTH})\b\.?(?:,|\s+of)?\s+(?P<year>{YEAR})", _named_month, MONTH_WORDS, YEARS),
    Rule.of(
        rf"\b{PART}(?P<month>{MONTH})\b(?!\.?(?:,|\s+of)?\s+\d){_NO_VERB}{LATER}", _named_month, MONTH_WORDS, PART_WORDS
    ),
    Rule.of(
        # A month alone may be a verb or somebody's name, but not after these.
        rf"\b(?:{WAY}|(?P<sure>{_IN})|from|to|before|after|between|and)\s+(?:the\s+month\s+of\s+)?"
        rf"(?P<it>(?P<month>{MONTH})\b)(?!\.?(?:,|\s+of)?\s+\d){_NO_VERB}{LATER}",
        _named_month,
        MONTH_WORDS,
    ),
    Rule.of(
        rf"\b(?:(?:{_IN_A_YEAR})\s+(?:the\s+year\s+)?|between\s+)(?P<it>{PART}?(?P<year>{RECENT_YEAR})"
        rf"(?:\s*(?:-|–|to|and|until)\s*(?P<to>{RECENT_YEAR}))?){NOT_COUNTED}",
        _named_year,
        YEARS,
    ),
    Rule.of(rf"\b(?P<it>{PART}(?P<year>{RECENT_YEAR})){NOT_COUNTED}", _named_year, YEARS, PART_WORDS),
    Rule.of(
        r"(?<![\w./-])(?P<year>[12]\d{3})-(?P<number>\d{2})(?:-(?P<day>\d{2}))?(?=T\d|\b)(?![-/]|\.\d)", _numeric, YEARS
    ),
    Rule.of(r"(?<![\w./-])(?P<year>[12]\d{3})/(?P<number>\d{1,2})/(?P<day>\d{1,2})\b(?![-/]|\.\d)", _numeric, YEARS),
    Rule.of(
        r"(?<![\w./-])(?P<one>\d{1,2})[/.](?P<other>\d{1,2})[/.](?P<year>[12]\d{3})\b(?![-/]|\.\d)", _slashed, YEARS
    ),
    Rule.of(
        rf"\b(?:{WAY}\s+|(?:in|during|over|since|of|for|until|by)\s+(?:the\s+)?)(?P<it>{SEASON}\b"
        rf"(?:(?:\s+of|,)?\s+(?P<year>{RECENT_YEAR}))?)",
        _season,
        SEASON_WORDS,
    ),
    Rule.of(rf"\b(?P<it>{SEASON}(?:\s+of|,)?\s+(?P<year>{RECENT_YEAR}))", _season, SEASON_WORDS, YEARS),
    Rule.of(
        rf"\b(?:{WAY}|on|at|for|over|during|since|until|by|before|after)\s+"
        rf"(?P<it>{HOLIDAY}\b(?:,?\s+(?:of\s+)?(?P<year>{RECENT_YEAR}))?)",
        _holiday,
        HOLIDAY_WORDS,
    ),
    Rule.of(
        r"\b(?:(?:the\s+)?day\s+before\s+yesterday|yesterday|last\s+night|today|tonight|this\s+(?:morning|afternoon|evening)"
        r"|(?:the\s+)?day\s+after\s+tomorrow|tomorrow)\b",
        _near_day,
        NEAR_WORDS,
    ),
    Rule.of(rf"\b(?:{WEEKDAY}\s+)?{AMOUNT}\s+{UNIT}s?\s+(?:ago|back)\b", _ago, AGO_WORDS, UNIT_WORDS),
    Rule.of(
        rf"\b(?:earlier\s+|later\s+|early\s+|late\s+)?{WAY}\s+{UNIT}\b(?!\s+(?:of|before|after)\b|['’])",
        _whole_unit,
        WAY_WORDS,
        UNIT_WORDS,
    ),
    Rule.of(rf"\b{WAY}\s+{AMOUNT}\s+{UNIT}s\b(?!\s+of\b)", _several_units, WAY_WORDS, UNIT_WORDS),
    Rule.of(rf"\b{WAY}\s+{WEEKDAY}\b", _weekday, WAY_WORDS, WEEKDAY_WORDS),
    Rule.of(rf"\b{WEEKDAY}\s+(?:of\s+)?{WAY}\s+(?P<week>week)\b", _weekday, WAY_WORDS, WEEKDAY_WORDS),
    Rule.of(
        r"\bon\s+(?P<it>the\s+(?P<day>\d{1,2})(?:st|nd|rd|th))\b(?=\s*(?:[.,;:!?)]|$)|\s+(?:and|at|we|i|to|for)\b)",
        _day_of_month,
        NUMBERS,
    ),
)
"""Where several match at one place, the longest counts."""
