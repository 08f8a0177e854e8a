"""Dates in English text as ranges of days: named ones, and those relative to the day something was said.

Our own rules: no library reads periods, and those there are take "May", "we" and "sat" for dates
(`docs/decisions/0016-dates-in-text.md`).
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import chain

from treering.retrieval.text import periods
from treering.retrieval.text.date_rules import RULES, Reference, Rule, span_of, unit_of
from treering.retrieval.text.periods import AMOUNT, UNIT, WEEKDAY, Period, amount_of, weekday_of, words_of

MAX_RANGES = 40
"""Dates read of one text at most: a text of nothing but dates is a table, and says little of each."""


@dataclass(frozen=True, slots=True)
class DateRange:
    """Days from `first` to `last`, both within, and where a text (`text[start:end]`) names them."""

    first: date
    last: date
    text: str
    start: int
    end: int

    @property
    def period(self) -> Period:
        """The days alone."""
        return self.first, self.last


def date_ranges(text: str, *, said: datetime | None) -> tuple[DateRange, ...]:
    """Return what dates a text names, in its order.

    Phrases such as "last Friday" and dates without a year are read against the day it was said; without one they
    name nothing. Weeks begin on Monday, seasons are the northern ones, and "two weeks ago" are the seven days about
    that day. Where the year is open, it is that of the nearest such date, rather one of the past.
    """
    return _ranges(text, Reference(said.date() if said else None))[:MAX_RANGES]


def asked_ranges(question: str, now: datetime | None) -> tuple[DateRange, ...]:
    """Return the days that a question is about, as `date_ranges` does, but for two things.

    A month or day without a year is meant in every year, and so gives several ranges. And where the question names
    one single day, phrases such as "last week" are read against that: "What did he do last week, as of 8 May 2023?"
    """
    absolute = {found.period for found in _ranges(question, Reference(None)) if found.first == found.last}
    today = now.date() if now else None
    return _ranges(question, Reference(absolute.pop()[0] if len(absolute) == 1 else today, recurring=True))


@dataclass(frozen=True, slots=True)
class _Phrase:
    """What a rule found: where, and the periods it may mean."""

    start: int
    end: int
    periods: tuple[Period, ...]


def _ranges(text: str, reference: Reference) -> tuple[DateRange, ...]:
    words = words_of(text)
    rules = (rule for rule in RULES if all(words & some for some in rule.needs))
    apart = _apart([phrase for rule in rules for phrase in _found(rule, text, reference)])
    if not apart:
        return ()
    joined = _joined(text, apart)
    moved = (phrase for named in joined for phrase in _beside(text, named))
    told = [_since(text, phrase, reference) for phrase in chain(joined, moved)]
    ranges = (
        DateRange(first, last, text[phrase.start : phrase.end], phrase.start, phrase.end)
        for phrase in sorted(told, key=lambda phrase: (phrase.start, phrase.end))
        for first, last in phrase.periods
    )
    return tuple(ranges)


def _found(rule: Rule, text: str, reference: Reference) -> Iterator[_Phrase]:
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
    """Choose the longest where phrases overlap; return them in the order of the text."""
    chosen: list[_Phrase] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.start - phrase.end, phrase.start)):
        # Those chosen do not overlap: only the two neighbours can overlap with one more.
        at = bisect_left(chosen, phrase.start, key=lambda other: other.start)
        before_next = at == len(chosen) or phrase.end <= chosen[at].start
        if before_next and (at == 0 or chosen[at - 1].end <= phrase.start):
            chosen.insert(at, phrase)
    return chosen


_FROM = re.compile(r"\b(?:from|between)\s+(?:the\s+)?$", re.IGNORECASE | re.ASCII)
_TO = re.compile(r"\s*(?:-|–|to|until|till|through|and)\s*(?:the\s+)?", re.IGNORECASE | re.ASCII)


_LOOK_BACK = 60  # characters before a date in which words that belong to it may begin


def _leads(pattern: re.Pattern[str], text: str, phrase: _Phrase) -> re.Match[str] | None:
    """Find what ends right before a phrase. Not from the text's beginning: that takes the square of a long text."""
    return pattern.search(text, max(0, phrase.start - _LOOK_BACK), phrase.start)


def _joined(text: str, phrases: Sequence[_Phrase]) -> list[_Phrase]:
    """Make one phrase of "from A to B" and "between A and B"."""
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


def _beside(text: str, named: _Phrase) -> Iterator[_Phrase]:
    """Read "the week before" and "two days after" before a date that is named; the date itself counts too."""
    found = _leads(_BEFORE, text, named)
    if found:
        try:
            moved = tuple(_beside_period(found, period) for period in named.periods)
        except (ValueError, OverflowError):
            return
        yield _Phrase(found.start(), named.end, moved)


def _beside_period(found: re.Match[str], named: Period) -> Period:
    first, last = named
    if not found["side"]:
        return periods.week(first)
    ahead = found["side"].lower() in {"after", "following"}
    if found["weekday"]:
        weekday = weekday_of(found["weekday"])
        return periods.day(periods.weekday_after(last, weekday) if ahead else periods.weekday_before(first, weekday))
    unit, sign = unit_of(found), 1 if ahead else -1
    near = last if ahead else first
    if found["amount"]:
        least, most = amount_of(found["amount"])
        return span_of(periods.around(near, unit, sign * least), periods.around(near, unit, sign * most))
    if unit == "weekend":
        saturday = periods.weekday_after(near, 5) if ahead else periods.weekday_before(near, 5)
        return periods.weekend(saturday)
    beside = periods.moved(near, "day", sign)
    return span_of(periods.day(beside), periods.day(periods.moved(near, unit, sign)))


_SINCE = re.compile(r"\bsince\s+(?:the\s+)?$", re.IGNORECASE | re.ASCII)


def _since(text: str, phrase: _Phrase, reference: Reference) -> _Phrase:
    """Let "since March" last until the day it is said."""
    if reference.today is None or len(phrase.periods) > 1 or not _leads(_SINCE, text, phrase):
        return phrase
    until = periods.day(reference.today)
    return replace(phrase, periods=tuple(span_of(period, until) for period in phrase.periods))
