"""Find dates in English text, absolute and relative to the day of the text, as ranges of days.

The rules are our own, because no library reads periods, and libraries take "May", "we" and "sat" for dates
(`docs/decisions/0016-dates-in-text.md`).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from itertools import chain

from treering.retrieval.text import periods
from treering.retrieval.text.languages import dates_in_english
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
    Reference,
    amount_of,
    direction_of,
    holiday_of,
    month_of,
    place_of,
    span_of,
    unit_of,
    weekday_of,
    words_of,
)

MAX_RANGES = 40
"""Dates read from one text at most: a text with more is a table and contains little about each of them."""


@dataclass(frozen=True, slots=True)
class DateRange:
    """The days from `first` to `last`, both inclusive, and the position of their name: `text[start:end]`."""

    first: date
    last: date
    text: str
    start: int
    end: int

    @property
    def period(self) -> Period:
        """The first and the last day."""
        return self.first, self.last


def date_ranges(text: str, *, said: datetime | None, ahead: bool = False) -> tuple[DateRange, ...]:
    """Return the dates in a text, in order.

    Phrases such as "last Friday" and dates without a year are relative to the day of the text (`said`), and are
    skipped if it is unknown. Weeks begin on Monday, seasons are northern, and "two weeks ago" means the seven days
    around that day. A date without a year means the nearest such date, preferably in the past, or
    the next one if `ahead`.
    """
    return _ranges(text, Reference(said.date() if said else None, ahead=ahead))[:MAX_RANGES]


def asked_ranges(question: str, now: datetime | None) -> tuple[DateRange, ...]:
    """Return the days that a question is about, like `date_ranges`, with these differences.

    A month or day without a year means every year, so it gives several ranges. If the question names exactly one day,
    phrases such as "last week" are relative to it: "What did he do last week, as of 8 May 2023?" Questions may also be
    in the languages of `date_words.json`.
    """
    translated = dates_in_english(question)
    if translated is None:
        return _dates_in_question(question, now)
    placed = ((dates, *translated.place(dates.start, dates.end)) for dates in _dates_in_question(translated.text, now))
    return tuple(replace(dates, text=question[start:end], start=start, end=end) for dates, start, end in placed)


def _dates_in_question(question: str, now: datetime | None) -> tuple[DateRange, ...]:
    absolute = {dates.period for dates in _ranges(question, Reference(None)) if dates.first == dates.last}
    today = now.date() if now else None
    return _ranges(question, Reference(absolute.pop()[0] if len(absolute) == 1 else today, recurring=True))


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A match of a rule: its position, and the periods it may mean."""

    start: int
    end: int
    periods: tuple[Period, ...]


def _ranges(text: str, reference: Reference) -> tuple[DateRange, ...]:
    words = words_of(text)
    rules = (rule for rule in RULES if all(words & some for some in rule.needs))
    apart = _apart([phrase for rule in rules for phrase in _matches(rule, text, reference)])
    if not apart:
        return ()
    joined = _joined(text, apart)
    moved = (phrase for named in joined for phrase in _adjacent_phrases(text, named))
    phrases = [_since(text, phrase, reference) for phrase in chain(joined, moved)]
    ranges = (
        DateRange(first, last, text[phrase.start : phrase.end], phrase.start, phrase.end)
        for phrase in sorted(phrases, key=lambda phrase: (phrase.start, phrase.end))
        for first, last in phrase.periods
    )
    return tuple(ranges)


def _matches(rule: "Rule", text: str, reference: Reference) -> Iterator[_Phrase]:
    for match in rule.found_in(text):
        start, end = _extent(match)
        try:
            named = tuple(rule.read(match, reference))
        except (ValueError, OverflowError):
            continue  # the 31st of June, or before the first year
        if named:
            yield _Phrase(start, end, named)


def _extent(match: re.Match[str]) -> tuple[int, int]:
    groups = match.groupdict()
    start, end = match.span("it" if "it" in groups else 0)
    return (min(start, match.start("way")) if groups.get("way") else start), end


def _apart(phrases: Sequence[_Phrase]) -> list[_Phrase]:
    """Return the phrases in the order of the text; of overlapping ones only the longest."""
    chosen: list[_Phrase] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.start - phrase.end, phrase.start)):
        # The chosen phrases do not overlap, so only the two neighbors can overlap with another one.
        at = bisect_left(chosen, phrase.start, key=lambda other: other.start)
        before_next = at == len(chosen) or phrase.end <= chosen[at].start
        if before_next and (at == 0 or chosen[at - 1].end <= phrase.start):
            chosen.insert(at, phrase)
    return chosen


_FROM = re.compile(r"\b(?:from|between)\s+(?:the\s+)?$", re.IGNORECASE | re.ASCII)
_TO = re.compile(r"\s*(?:-|–|to|until|till|through|and)\s*(?:the\s+)?", re.IGNORECASE | re.ASCII)


_LOOK_BACK = 60  # characters before a date in which words that belong to it may begin


def _leads(pattern: re.Pattern[str], text: str, phrase: _Phrase) -> re.Match[str] | None:
    """Match a pattern right before a phrase, in a window: starting at the beginning would take quadratic time."""
    return pattern.search(text, max(0, phrase.start - _LOOK_BACK), phrase.start)


def _joined(text: str, phrases: Sequence[_Phrase]) -> list[_Phrase]:
    """Join the two dates of "from A to B" and "between A and B"."""
    joined: list[_Phrase] = []
    for phrase in phrases:
        before = joined[-1] if joined else None
        if before and _TO.fullmatch(text, before.end, phrase.start) and _leads(_FROM, text, before):
            joined[-1] = _both(before, phrase)
        else:
            joined.append(phrase)
    return joined


def _both(one: _Phrase, other: _Phrase) -> _Phrase:
    ends = zip(one.periods, other.periods, strict=False)
    return _Phrase(one.start, other.end, tuple(span_of(low, high) for low, high in ends))


_BEFORE = re.compile(
    rf"\b(?:(?:{AMOUNT}\s+)?(?:{UNIT}|{WEEKDAY})s?,?\s+(?P<side>before|prior\s+to|after|following)|"
    rf"week\s+of)\s+(?:the\s+)?$",
    re.IGNORECASE | re.ASCII,
)


def _adjacent_phrases(text: str, named: _Phrase) -> Iterator[_Phrase]:
    """Yield the period in "the week before" or "two days after" followed by a date."""
    match = _leads(_BEFORE, text, named)
    if match:
        try:
            moved = tuple(_beside_period(match, period) for period in named.periods)
        except (ValueError, OverflowError):
            return
        yield _Phrase(match.start(), named.end, moved)


def _beside_period(match: re.Match[str], named: Period) -> Period:
    first, last = named
    if not match["side"]:
        return periods.week(first)
    ahead = match["side"].lower() in {"after", "following"}
    if match["weekday"]:
        weekday = weekday_of(match["weekday"])
        return periods.day(periods.weekday_after(last, weekday) if ahead else periods.weekday_before(first, weekday))
    unit, sign = unit_of(match), 1 if ahead else -1
    near = last if ahead else first
    if match["amount"]:
        least, most = amount_of(match["amount"])
        return span_of(periods.around(near, unit, sign * least), periods.around(near, unit, sign * most))
    if unit == "weekend":
        saturday = periods.weekday_after(near, 5) if ahead else periods.weekday_before(near, 5)
        return periods.weekend(saturday)
    beside = periods.moved(near, "day", sign)
    return span_of(periods.day(beside), periods.day(periods.moved(near, unit, sign)))


_SINCE = re.compile(r"\bsince\s+(?:the\s+)?$", re.IGNORECASE | re.ASCII)


def _since(text: str, phrase: _Phrase, reference: Reference) -> _Phrase:
    """Extend "since March" to the day of the text."""
    if reference.today is None or len(phrase.periods) > 1 or not _leads(_SINCE, text, phrase):
        return phrase
    until = periods.day(reference.today)
    return replace(phrase, periods=tuple(span_of(period, until) for period in phrase.periods))


Found = re.Match[str]
ReadDates = Callable[[Found, Reference], Sequence[Period]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to write a date. `read` raises `ValueError` or `OverflowError` for dates that do not exist."""

    pattern: str
    """A regular expression that ignores case.

    If it has a group `it`, only this group is the date. The text before it shows that it is one: "in May", not "May I".
    """
    read: ReadDates
    needs: tuple[frozenset[str], ...]

    @classmethod
    def of(cls, pattern: str, read: ReadDates, *needs: frozenset[str]) -> "Rule":
        """Make a rule. A text can only match if it has a word (`words_of`) of each set in `needs`."""
        return cls(pattern, read, needs)

    def found_in(self, text: str) -> Iterator[Found]:
        """Yield the matches in a text."""
        return _compiled(self.pattern).finditer(text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern on first use."""
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


def _named_day(match: Found, reference: Reference) -> Sequence[Period]:
    month, first, last = _month(match), int(match["day"]), int(match["to"] or match["day"])
    if month is None:
        return ()
    year = match["year"] or match["later"]
    if (month, first) == (2, 29) and not year:
        last = first = 28  # not in every year
    return reference.in_year(year, match["way"], lambda year: span_of(*_days(year, month, first, last)))


def _days(year: int, month: int, first: int, last: int) -> tuple[Period, Period]:
    return periods.day(date(year, month, first)), periods.day(date(year, month, last))


def _named_month(match: Found, reference: Reference) -> Sequence[Period]:
    month, groups = _month(match), match.groupdict()
    if month is None:
        return ()
    year = groups.get("year") or groups.get("later")
    named = reference.in_year(year, groups.get("way"), lambda year: periods.month(year, month))
    return [_partly(match, period) for period in named]


def _month(match: Found) -> int | None:
    """Return the month, or `None` if the word is probably not a month."""
    groups, name = match.groupdict(), match["month"]
    sure = any(groups.get(group) for group in ("year", "later", "sure", "way")) or name != name.lower()
    return month_of(name) if sure or name not in ALSO_WORDS else None


def _named_year(match: Found, _: Reference) -> Sequence[Period]:
    first, last = int(match["year"]), int(match.groupdict().get("to") or match["year"])
    return [_partly(match, span_of(periods.year(first), periods.year(last)))]


def _partly(match: Found, whole: Period) -> Period:
    groups = match.groupdict()
    if name := groups.get("part"):
        return periods.part(whole, name.lower())
    if portion := groups.get("portion"):
        return periods.part(whole, {"middle": "mid", "end": "late"}.get(portion.lower(), "early"))
    if not (nth := groups.get("nth")):
        return whole
    if groups["share"].lower() == "week":
        return periods.week_of(whole, place_of(nth))
    return periods.half(whole, 1 if nth.lower() in {"second", "last"} else 0)


def _numeric(match: Found, _: Reference) -> Sequence[Period]:
    year, month, day = int(match["year"]), int(match["number"]), match["day"]
    return [periods.day(date(year, month, int(day))) if day else periods.month(year, month)]


def _slashed(match: Found, _: Reference) -> Sequence[Period]:
    """Read 13/05/2023 and 05/13/2023; a date is skipped if either number could be the month."""
    low, high = sorted((int(match["one"]), int(match["other"])))
    if high <= 12 and low != high:
        return ()
    return [periods.day(date(int(match["year"]), low, high))]


def _season(match: Found, reference: Reference) -> Sequence[Period]:
    name, way = match["season"].lower(), match.groupdict().get("way")
    return reference.in_year(match["year"], way, lambda year: periods.season(year, name))


def _holiday(match: Found, reference: Reference) -> Sequence[Period]:
    month, day = holiday_of(match["holiday"])
    return reference.in_year(match["year"], match["way"], lambda year: periods.day(date(year, month, day)))


_NEAR = {
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
    "day after tomorrow": 2,
}


def _near_day(match: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    words = " ".join(match[0].lower().split())
    return [periods.around(reference.today, "day", _NEAR.get(words.removeprefix("the "), 0))]


def _ago(match: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    today, unit, (least, most) = reference.today, unit_of(match), amount_of(match["amount"])
    if match["weekday"]:
        about = periods.moved(today, unit, -least) + timedelta(4)
        return [periods.day(periods.weekday_before(about, weekday_of(match["weekday"])))]
    return [span_of(periods.around(today, unit, -most), periods.around(today, unit, -least))]


def _whole_unit(match: Found, reference: Reference) -> Sequence[Period]:
    today, way, unit = reference.today, match["way"].lower(), unit_of(match)
    if today is None:
        return ()
    if way.endswith("past") and unit != "weekend":
        return [(periods.moved(today, unit, -1), today)]
    return [periods.whole(today, unit, direction_of(way))]


def _several_units(match: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    _, most = amount_of(match["amount"])
    other = periods.moved(reference.today, unit_of(match), most * direction_of(match["way"]))
    return [span_of(periods.day(other), periods.day(reference.today))]


def _weekday(match: Found, reference: Reference) -> Sequence[Period]:
    if reference.today is None:
        return ()
    today, way, weekday = reference.today, direction_of(match["way"]), weekday_of(match["weekday"])
    if way < 0 and "week" not in match.groupdict():
        return [periods.day(periods.weekday_before(today, weekday))]
    monday, _ = periods.whole(today, "week", way)
    return [periods.day(periods.on_weekday(monday, weekday))]


def _day_of_month(match: Found, reference: Reference) -> Sequence[Period]:
    """Read "on the 5th" as the nearest such day of the previous, this or the next month."""
    if reference.today is None or reference.recurring:
        return ()
    today, number = reference.today, int(match["day"])
    months = [periods.whole(today, "month", count) for count in (-1, 0, 1)]
    days = [periods.day(first.replace(day=number)) for first, last in months if 1 <= number <= last.day]
    return [periods.nearest(days, today, ahead=reference.ahead)] if days else ()


# In "And May I ask", the name of a month is a verb.
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
        # A month by itself may be a verb or a person's name, but not after these words.
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
"""The rules; of overlapping matches the longest counts."""
