"""Questions and windows of time mean days of whoever asks."""

import time
from datetime import datetime, timedelta

import pytest

import treering
from treering import DiscussionSearch, Message
from treering.core.errors import InvalidInput
from treering.retrieval.text.time_zones import parse_zone

ZONES = ("America/Los_Angeles", "Pacific/Kiritimati", "UTC")
TALK = {
    "postponed": "The reef audit was postponed.",
    "lead": "The reef audit got a new lead.",
    "diver": "The reef audit needs a diver.",
    "on": "The reef audit is on.",
}


@pytest.fixture
def space(monkeypatch):
    monkeypatch.delenv("TREERING_TIMEZONE", raising=False)
    with treering.open(":memory:", background=False) as opened:
        yield opened


def talked(space, midnight):
    """Say something two days before a midnight, half an hour and 20 hours into the day before, and after it."""
    hours = dict(zip(TALK, (-36, -23.5, -4, 0.1), strict=True))
    talk = space.discussions().open("reef")
    talk.append(
        [
            Message(role="user", name="Ada", content=TALK[name], at=midnight + timedelta(hours=at))
            for name, at in hours.items()
        ]
    )
    return talk


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("yesterday", {"lead", "diver"}),
        ("today", {"on"}),
        ("two days ago", {"postponed"}),
        ("the day before yesterday", {"postponed"}),
    ],
)
def test_search_prefers_turns_of_the_day_of_the_zone(space, zone, words, named):
    midnight = datetime.fromisoformat("2026-11-28").replace(tzinfo=parse_zone(zone).rules)
    talk = talked(space, midnight)
    options = DiscussionSearch(what="turns", mode="hybrid", asked_at=midnight + timedelta(hours=5), timezone=zone)

    hits = talk.search(f"what about the reef audit {words}", options)
    found = [hit.text for hit in hits]

    assert set(found[: len(named)]) == {TALK[name] for name in named}
    assert [days.time_zone for days in hits.understood] == [zone]


@pytest.mark.parametrize("zone", ZONES)
def test_date_of_a_discussion_search_is_a_day_of_the_zone(space, zone):
    talk = talked(space, datetime.fromisoformat("2026-11-28").replace(tzinfo=parse_zone(zone).rules))

    found = talk.search("reef audit", DiscussionSearch(what="turns", date_prefix="2026-11-27", timezone=zone))

    assert {hit.text for hit in found} == {TALK["lead"], TALK["diver"]}


def test_answer_states_the_days_it_understood(space):
    space.ingest("source", input={"text": "The reef audit needs a diver."})

    found = space.query("search", input={"text": "reef audit yesterday"}, options={"timezone": "+05:30"})
    pack = space.query("context", input={"task": "reef audit last week"}, options={"timezone": ZONES[1]})
    plain = space.query("search", input={"text": "reef audit"})

    (day,), (week,) = found.understood, pack.understood
    assert (day.text, day.time_zone, day.first) == ("yesterday", "UTC+05:30", day.last)
    assert (week.time_zone, week.last - week.first) == (ZONES[1], timedelta(days=6))
    assert "understood" not in plain.model_dump(mode="json")


def test_window_of_days_is_in_the_zone(space):
    space.crystallize("work_item", input={"title": "Find a diver", "opened_at": "2026-11-28T05:00:00Z"})

    def happened(day, zone):
        given = {"since": day, "until": day, "by": "happened", "types": ["work_item"]}
        return space.query("recent", input=given, options={"timezone": zone})

    assert [len(happened("2026-11-27", zone).changes) for zone in ZONES] == [1, 0, 0]
    assert [len(happened("2026-11-28", zone).changes) for zone in ZONES] == [0, 1, 1]
    assert (
        happened("2026-11-28", ZONES[0]).understood[0].sentence
        == '"since 2026-11-28" is 2026-11-28 (America/Los_Angeles).'
    )


def test_unknown_zone_of_a_read_is_refused(space):
    with pytest.raises(InvalidInput, match=r"options.timezone.*is not a time zone"):
        space.query("search", input={"text": "reef"}, options={"timezone": "Europe/Berln"})
    with pytest.raises(InvalidInput, match="is not a time zone"):
        DiscussionSearch(timezone="Mars/Phobos")


def test_setting_names_the_zone(monkeypatch):
    monkeypatch.setenv("TREERING_TIMEZONE", ZONES[1])
    with treering.open(":memory:", background=False) as space:
        space.ingest("source", input="The reef audit needs a diver.")
        (day,) = space.query("search", input="diver yesterday").understood

    assert day.time_zone == ZONES[1]


def test_unknown_zone_in_the_setting_is_refused(monkeypatch):
    monkeypatch.setenv("TREERING_TIMEZONE", "Mars/Phobos")

    with pytest.raises(InvalidInput, match="TREERING_TIMEZONE: 'Mars/Phobos' is not a time zone"):
        treering.open(":memory:")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows sets no zone by TZ.")
def test_zone_of_the_machine_is_the_default(space, monkeypatch):
    monkeypatch.setenv("TZ", "XYZ-13")
    time.tzset()
    try:
        (day,) = space.query("search", input="reef audit yesterday").understood
    finally:
        monkeypatch.undo()
        time.tzset()

    assert day.time_zone == "UTC+13:00"
