"""Values in a clause: times, dates, amounts, codes and names."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta

from treering.extensions.statements.statement import StatedValue
from treering.extensions.statements.words import LanguageWords
from treering.retrieval.text import periods
from treering.retrieval.text.analysis import stem
from treering.retrieval.text.periods import MONTHS, WEEKDAYS, Period

_NUMBERS = dict(
    zip("one two three four five six seven eight nine ten eleven twelve".split(), range(1, 13), strict=True)
)
_HOUR = rf"\d{{1,2}}|{'|'.join(_NUMBERS)}"
_NUMBERS |= dict(
    zip("thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(), range(13, 20), strict=True)
)
_NUMBERS |= dict(
    zip("twenty thirty forty fifty sixty seventy eighty ninety hundred".split(), range(20, 101, 10), strict=True)
)
_SPELLED = "|".join(word for word in _NUMBERS if word != "one")
_NUMBERS |= {"a": 1, "an": 1, "half a": 0}
_DAY_FORMS = {form: day for day in WEEKDAYS for form in (day, f"{day}s", day[:3], day[:4])}
_DAY_FORMS |= {"tues": "tuesday", "weds": "wednesday", "thurs": "thursday"}
_FOREIGN_DAYS = dict(
    zip("montag dienstag mittwoch donnerstag freitag samstag sonntag".split(), WEEKDAYS, strict=True)
) | dict(zip("lunes martes miércoles jueves viernes sábado domingo".split(), WEEKDAYS, strict=True))
_DAY_FORMS |= _FOREIGN_DAYS
_MONTH_FORMS = {form: number for number, month in enumerate(MONTHS, 1) for form in (month, month[:3])}
_MONTH_FORMS |= {"sept": 9, "märz": 3, "mai": 5, "juni": 6, "juli": 7, "oktober": 10, "dezember": 12}
_MONTH_FORMS |= dict(
    zip(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
        range(1, 13),
        strict=True,
    )
)
_DAY = "|".join(
    sorted((form for form in _DAY_FORMS if form not in {"sun", "sat", "mon", "wed"}), key=len, reverse=True)
)
_MONTH = "|".join(sorted(_MONTH_FORMS, key=len, reverse=True))
_AMOUNT = r"\d+|half an?|an?|" + "|".join(word for word in _NUMBERS if len(word) > 2)

_ADDRESS = (
    r"\b\d{1,4}[a-z]? (?:[^\W\d_][\w'’-]*\.? ){1,3}(?:street|st|road|rd|lane|avenue|ave|square|court|drive|"
    r"way|close|quay|terrace|place|boulevard|row|hill|park)\b|"
    r"\b[^\W\d_][\w-]*(?:stra(?:ß|ss)e|weg|gasse|platz|allee) \d{1,4}[a-z]?\b|"
    r"\b(?:calle|avenida|plaza) [^\W\d_][\w ]{2,30}? \d{1,4}\b"
)

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("address", _ADDRESS),
        ("host", r"\b[\w.+-]+@[\w-]+\.[\w.-]+\b|\b[a-z][\w-]{2,}(?:\.[a-z][\w-]+)+\b"),
        ("iso", r"\b\d{4}-\d\d-\d\d\b"),
        ("month", rf"\b(?:the )?(\d{{1,2}})(?:st|nd|rd|th|\.)?(?: of)? ({_MONTH})\b(?:,? \d{{4}}\b)?"),
        ("month_first", rf"\b({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b"),
        ("ordinal", r"\b(\d{1,2})(?:st|nd|rd|th)\b"),
        (
            "every",
            r"\b(?:every (?:day|morning|evening|night|week|month|year|second \w+)|daily|weekly|monthly|"
            r"(?:once|twice) an? (?:day|week|month|year))\b",
        ),
        ("relative", rf"\bin (?:about )?({_AMOUNT}) (day|week|month|year)s?\b"),
        ("ago", rf"\b({_AMOUNT}) (day|week|month|year)s? ago\b"),
        (
            "near",
            r"\b(?:the day after tomorrow|tomorrow|today|tonight|yesterday|next week|next month|next year|"
            r"this weekend|next weekend|this week|weekdays?|weekends?|morgen|heute|mañana|hoy)\b",
        ),
        ("weekday", rf"\b(?:(next|this|last|every|every second|on|from) )?({_DAY})\b"),
        ("month_alone", rf"\b(?:in|since|until|from|by|till|mid|early|late|end of) ({_MONTH})\b"),
        ("time", rf"\b({_HOUR})(?:[:.](\d\d))? ?(am|pm|uhr|h|ish|o'?clock)\b|\b(\d{{1,2}}):(\d\d)\b"),
        (
            "at",
            rf"\b(?:at|um|a las|till|until|around|from|before|after|by) (?!one\b)({_HOUR})"
            r"(?![\d:.,%€$-]|\d| (?:euro|per|%|people|of|day|week|month|year|hour|minute))\b",
        ),
        ("noon", r"\b(?:noon|midnight|half past \w+|quarter (?:to|past) \w+)\b"),
        (
            "money",
            r"[€$£]\s?\d[\d.,]*\d|[€$£]\s?\d|\b\d[\d.,]* ?(?:€|\$|£|euros?|dollars?|pounds?|bucks|eur|usd|k)(?!\w)",
        ),
        (
            "code",
            r"\b(?=[\w-]*\d)[A-Za-z\d]+(?:[-/][A-Za-z\d]+)+\b|\b\d{3,}(?: \d{3,})+\b|"
            r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{5,}\b",
        ),
        ("model", r"\b[A-Z]{1,3}\d{1,4}\b|\b\d{1,2}[a-f]\b"),
        ("number", r"\b\d+(?:[.,]\d+)*(?: ?(?:%|g|mg|kg|km|m|cm|ml|l|gb|mb))?(?!\w)"),
        ("word", rf"\b(?:{_SPELLED})\b"),
    )
)
_NUMERIC = frozenset({"address", "iso", "month", "month_first", "ordinal", "money", "code", "model", "number"})
_SPELLED_PATTERNS = tuple((kind, pattern) for kind, pattern in _PATTERNS if kind not in _NUMERIC)
"""The patterns of values that need no digit: nine of ten clauses have none."""
_DIGIT = re.compile(r"\d")
_HINT = re.compile(
    rf"\d|\w[.@]\w|\b(?:{_DAY}|{_MONTH}|{'|'.join(_NUMBERS)}|to\w*|yesterday|noon|midnight|next|this|last|week\w*|morgen|heute|mañana"
    r"|hoy)\b"
)
"""Characters that every value except a name contains, in lower case."""
_PAST = re.compile(
    r"\b(?:was|were|did|had|used|went|came|\w{3,}(?<!ne)ed|got|took|made|bought|sold|met|sent|paid|left|saw|flew|won|"
    r"lost|passed|died|war|hatte|fui|fue)\b"
)
_NOT_PAST = re.compile(
    r"\b(?:is|are|am|\w+'re|\w+'m|will|\w+'ll|can|could|shall|should|would|may|might|must|to|until|booked|scheduled|moved|"
    r"postponed|planned|due|need|for)\b"
)
_MONTHS_TRIED = 4
_FRIDAY = 4
_MAX_BEFORE = 300
"""Characters in front of a value in which its verb or its noun is looked for."""
_NOUN = re.compile(r"(?<!\S)([^\W\d_][\w'’]+) $")
_CAPITALIZED = re.compile(r"[^\W\d_a-zà-ÿ][\w'’]*(?:[ -][^\W\d_a-zà-ÿ][\w'’]*)*")


def values_in(text: str, words: LanguageWords, *, at: datetime | None) -> tuple[tuple[StatedValue, ...], str]:
    """Return the values of a clause and the clause without them; names stay in it.

    The tense of the verb before a date decides whether `Friday` is the last or the next one.
    """
    values: list[StatedValue] = []
    rest = text
    patterns = _PATTERNS if _DIGIT.search(text) else _SPELLED_PATTERNS
    for kind, pattern in patterns if _HINT.search(text.casefold()) else ():
        for match in pattern.finditer(rest):
            before = text[max(0, match.start() - _MAX_BEFORE) : match.start()]
            is_label = kind == "number" and match[0].isdigit() and _is_numbered(before, words)
            values += [_value("label" if is_label else kind, match, at, past=is_past(before))]
            rest = f"{rest[: match.start()]}{' ' * len(match[0])}{rest[match.end() :]}"
    return (*values, *_names(rest, words)), rest


def _is_numbered(before: str, words: LanguageWords) -> bool:
    """Return whether a number after a text identifies one of several objects: `sample 7`."""
    noun = _NOUN.search(before)
    return noun is not None and not (noun[1].casefold() in words.small or stem(noun[1].casefold()) in words.verbs)


def is_past(text: str) -> bool:
    """Return whether the last verb of a text in front of a date is in the past tense."""
    plain = text.casefold().replace("’", "'")
    past = max((match.start() for match in _PAST.finditer(plain)), default=None)
    return past is not None and _NOT_PAST.search(plain, past) is None


def _value(kind: str, match: re.Match[str], at: datetime | None, *, past: bool) -> StatedValue:
    text = match[0].strip()
    folded = text.casefold()
    said = at.date() if at else None
    match kind:
        case "time" | "at" | "noon":
            return StatedValue("time", text, _time_key(match))
        case "money":
            return StatedValue("amount", text, re.sub(r"[^\d]", "", folded))
        case "label":
            return StatedValue("label", text, folded)
        case "number":
            return StatedValue("amount", text, re.sub(r"(?<=\d)[.,](?=\d{3}\b)", "", folded))
        case "word":
            return StatedValue("amount", text, str(_NUMBERS[folded]))
        case "address":
            return StatedValue("address", text, re.sub(r"[\s.]+", " ", folded))
        case "code" | "model" | "host":
            return StatedValue("code", text, re.sub(r"\s", "", folded))
        case _:
            days = _days(kind, match, said, past=past) if said else None
            key = folded.removeprefix("on ").removeprefix("the ")
            return StatedValue("date", text, str(days[0]) if days else key, *(days or (None, None)))


def _time_key(match: re.Match[str]) -> str:
    """Return a time by the clock of twelve hours: `3` in the afternoon is `15:00`."""
    numbers = [group.casefold() for group in match.groups() if group]
    if not numbers:
        return match[0].casefold()
    hour = int(numbers[0]) if numbers[0].isdigit() else _NUMBERS[numbers[0]]
    minute = next((part for part in numbers[1:] if part.isdigit()), "00")
    return f"{hour % 12 or 12}:{minute}"


def _days(kind: str, match: re.Match[str], said: date, *, past: bool) -> Period | None:
    """Return first and last day that a date means, seen from the day it was said."""
    try:
        return _resolved(kind, match, said, past=past)
    except (ValueError, OverflowError):
        return None


def _resolved(kind: str, match: re.Match[str], said: date, *, past: bool) -> Period | None:
    match kind:
        case "iso":
            return periods.day(date.fromisoformat(match[0]))
        case "month" | "month_first":
            number, month = (match[1], match[2]) if kind == "month" else (match[2], match[1])
            year = re.search(r"\d{4}$", match[0])
            if year:
                return periods.day(date(int(year[0]), _MONTH_FORMS[month.casefold()], int(number)))
            return periods.day(_nearest_year(_MONTH_FORMS[month.casefold()], int(number), said, past=past))
        case "month_alone":
            first = _nearest_year(_MONTH_FORMS[match[1].casefold()], 1, said, past=past)
            return periods.whole(first, "month", 0)
        case "relative" | "ago":
            return _moved(said, match[2].casefold(), match[1].casefold(), sign=-1 if kind == "ago" else 1)
        case "weekday":
            if (match[1] or "").casefold().startswith("every") or match[2].casefold() in {
                f"{day}s" for day in WEEKDAYS
            }:
                return None
            return periods.day(_weekday(match, said, past=past))
        case "ordinal":
            return periods.day(_day_of_month(int(match[1]), said, past=past))
        case "near":
            return _near(match[0].casefold(), said)
        case _:
            return None


def _near(word: str, said: date) -> Period | None:
    steps = {"tomorrow": 1, "morgen": 1, "mañana": 1, "today": 0, "tonight": 0, "heute": 0, "hoy": 0, "yesterday": -1}
    steps["the day after tomorrow"] = 2
    if word in steps:
        return periods.day(said + timedelta(days=steps[word]))
    match word:
        case "this weekend" | "next weekend":
            return periods.whole(said, "weekend", word.startswith("next") and said.weekday() <= _FRIDAY)
        case "this week" | "next week":
            return periods.whole(said, "week", word.startswith("next"))
        case "next month":
            return periods.whole(said, "month", 1)
        case "next year":
            return periods.whole(said, "year", 1)
        case _:
            return None


def _weekday(match: re.Match[str], said: date, *, past: bool) -> date:
    wanted = WEEKDAYS.index(_DAY_FORMS[match[2].casefold()])
    is_before = past or (match[1] or "").casefold() == "last"
    return periods.weekday_before(said, wanted) if is_before else periods.weekday_after(said, wanted)


def _day_of_month(day: int, said: date, *, past: bool) -> date:
    step = -1 if past else 1
    month = said
    for _ in range(_MONTHS_TRIED):
        with suppress(ValueError):
            found = month.replace(day=day)
            if found <= said if past else found >= said:
                return found
        month = periods.moved(month.replace(day=1), "month", step)
    raise ValueError(day)


def _nearest_year(month: int, day: int, said: date, *, past: bool) -> date:
    here = date(said.year, month, day)
    if past and here > said:
        return date(said.year - 1, month, day)
    return here if past or here >= said - timedelta(days=60) else date(said.year + 1, month, day)


def _moved(said: date, unit: str, amount: str, *, sign: int) -> Period:
    """Return the day some days or weeks later, or the whole month some months or years later."""
    count = sign * (int(amount) if amount.isdigit() else _NUMBERS.get(amount, 1))
    match unit:
        case "day":
            return periods.day(said + timedelta(days=count))
        case "week":
            return periods.day(said + timedelta(weeks=count))
        case "month":
            return periods.whole(said, "month", count)
        case _:
            return periods.whole(said, "month", sign * 6 if amount.startswith("half") else 12 * count)


def _names(text: str, words: LanguageWords) -> Iterator[StatedValue]:
    """Return capitalized words that are no function words; the first word of a clause only if it is no plain word."""
    for match in _CAPITALIZED.finditer(text):
        parts = [part for part in re.split(r"[ -]", match[0]) if part.casefold().replace("’", "'") not in words.small]
        if parts and text[: match.start()].strip(" \"'“‘(-*>"):
            name = " ".join(parts)
            yield StatedValue("name", name, name.casefold().removesuffix("'s").removesuffix("’s"))
