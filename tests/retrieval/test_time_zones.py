"""Whose days a question means: those of a time zone, on the days its clocks change as well."""

import zoneinfo
from datetime import UTC, date, datetime, timedelta

import pytest

from treering.core.errors import InvalidInput
from treering.retrieval.search.question import Question
from treering.retrieval.text.time_zones import MACHINE, parse_zone

KIRITIMATI, LOS_ANGELES, BERLIN = "Pacific/Kiritimati", "America/Los_Angeles", "Europe/Berlin"


def asked(text, now, zone):
    return Question.of(text, embedder=None, now=datetime.fromisoformat(now), zone=parse_zone(zone))


@pytest.mark.parametrize(
    ("now", "zone", "day"),
    [
        ("2026-11-28T13:00:00+00:00", LOS_ANGELES, "2026-11-27"),
        ("2026-11-28T05:00:00+00:00", LOS_ANGELES, "2026-11-26"),
        ("2026-11-28T13:00:00+00:00", KIRITIMATI, "2026-11-28"),
        ("2026-11-28T09:59:00+00:00", KIRITIMATI, "2026-11-27"),
        ("2026-11-28T13:00:00+00:00", "+13:00", "2026-11-28"),
        ("2026-11-28T13:00:00+00:00", "utc-0530", "2026-11-27"),
        ("2026-11-28T13:00:00+00:00", "UTC", "2026-11-27"),
        ("2026-10-25T23:30:00+00:00", BERLIN, "2026-10-25"),  # the day had 25 hours
        ("2026-03-29T22:30:00+00:00", BERLIN, "2026-03-29"),  # the day had 23 hours
        ("2026-03-29T21:30:00+00:00", BERLIN, "2026-03-28"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        "what did we say yesterday",
        "was haben wir gestern gesagt",
        "qu'est-ce que nous avons dit hier",
        "¿qué dijimos ayer sobre eso?",
        "che cosa abbiamo detto ieri",
        "o que é que dissemos ontem",
        "wat hebben we gisteren gezegd",
        "昨天我们说了什么",
        "昨日何を話しましたか",
    ],
)
def test_yesterday_is_a_day_of_the_zone(now, zone, day, words):
    (found,) = asked(words, now, zone).understood

    assert (found.first, found.last) == (date.fromisoformat(day), date.fromisoformat(day))


def test_last_monday_and_last_week_are_of_the_zone():
    now = "2026-11-30T05:00:00+00:00"  # still Sunday in Los Angeles

    (monday,) = asked("what was said last Monday", now, LOS_ANGELES).understood
    (week,) = asked("what was said last week", now, LOS_ANGELES).understood
    (later,) = asked("what was said last week", now, BERLIN).understood

    assert (monday.text, monday.first) == ("last Monday", date(2026, 11, 23))
    assert (week.first, week.last) == (date(2026, 11, 16), date(2026, 11, 22))
    assert (later.first, later.last) == (date(2026, 11, 23), date(2026, 11, 29))


@pytest.mark.parametrize("text", ["what was said on 8 May 2023", "what happens in May", "who is Ada"])
def test_dates_that_need_no_day_of_asking_are_not_explained(text):
    assert asked(text, "2026-11-28T13:00:00+00:00", LOS_ANGELES).understood == ()


@pytest.mark.parametrize(
    ("said", "is_other"),
    [
        ("2026-11-27T07:59:00+00:00", True),
        ("2026-11-27T08:00:00+00:00", False),
        ("2026-11-28T07:59:59+00:00", False),
        ("2026-11-28T08:00:00+00:00", True),
    ],
)
def test_turn_is_of_a_day_by_the_clock_of_the_zone(said, is_other):
    question = asked("who spoke yesterday", "2026-11-28T13:00:00+00:00", LOS_ANGELES)

    assert question.is_of_other_day("The audit is on.", datetime.fromisoformat(said)) is is_other


def test_turn_that_mentions_the_day_is_not_of_another():
    question = asked("when was the car sold yesterday", "2026-11-28T13:00:00+00:00", LOS_ANGELES)
    said = datetime.fromisoformat("2026-11-28T12:00:00+00:00")

    assert not question.is_of_other_day("I sold the car yesterday.", said)
    assert question.is_of_other_day("I sold the car today.", said)


def test_long_period_is_looked_for_on_all_utc_days_it_touches():
    (week, *_) = asked("what was said last week", "2026-11-28T13:00:00+00:00", LOS_ANGELES).days
    (utc_week, *_) = asked("what was said last week", "2026-11-28T13:00:00+00:00", "UTC").days

    assert (utc_week.last - utc_week.first).days in {6, 8}
    assert week.first <= date(2026, 11, 16)
    assert week.last >= date(2026, 11, 23)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24), ("2026-01-01", 24)]
)
def test_window_of_a_day_is_as_long_as_the_day(day, hours):
    since, until = parse_zone(BERLIN).window(day, day)

    assert until - since + timedelta(microseconds=1) == timedelta(hours=hours)


def test_window_takes_times_as_they_are():
    since, until = parse_zone(KIRITIMATI).window("2026-11-27T00:00:00Z", None)

    assert (since, until) == (datetime(2026, 11, 27, tzinfo=UTC), None)


@pytest.mark.parametrize("text", ["2026-02-30", "yesterday", "2026-11-27T00:00:00", "9999-12-31"])
def test_window_refuses_what_is_no_day_or_time(text):
    with pytest.raises(InvalidInput):
        parse_zone(LOS_ANGELES).window(None, text)


@pytest.mark.parametrize(
    "text", ["Mars/Phobos", "../etc/passwd", "/etc/localtime", "Europe", "+99:00", "EST5EDT4", "a\0b"]
)
def test_unknown_zone_is_refused_with_an_example(text):
    with pytest.raises(InvalidInput, match="is not a time zone") as caught:
        parse_zone(text)

    assert "+05:30" in caught.value.hint
    assert len(caught.value.hint) < 200


def test_misspelled_zone_is_suggested():
    with pytest.raises(InvalidInput) as caught:
        parse_zone("Europe/Berln")

    assert caught.value.hint.startswith("Did you mean 'Europe/Berlin'?")


def test_system_without_zones_says_what_to_install(monkeypatch):
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    monkeypatch.setattr(zoneinfo, "ZoneInfo", _not_found)

    with pytest.raises(InvalidInput) as caught:
        parse_zone("Europe/Berlin")

    assert "`tzdata`" in caught.value.hint


def _not_found(*_):
    raise zoneinfo.ZoneInfoNotFoundError


def test_zone_of_the_machine_is_named_by_its_offset():
    assert parse_zone("") is MACHINE
    assert parse_zone("-08:00").name(datetime(2026, 11, 28, tzinfo=UTC)) == "UTC-08:00"
    assert parse_zone(BERLIN).name(datetime(2026, 11, 28, tzinfo=UTC)) == BERLIN
