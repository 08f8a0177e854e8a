"""What happened lately, by when it happened and by when it was written down."""

import pytest

from space_parts import note, only_id, open_space, task
from treering.core.errors import InvalidInput

MAY = {"since": "2024-05-01T00:00:00Z", "until": "2024-05-31T23:59:59Z"}


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


def happened(space, **given):
    return space.query("recent", input={"by": "happened", **given}).changes


def activity(space, title, **fields):
    return only_id(space.crystallize("activity", input={"title": title, **fields}), "act:")


def talk(space, *times, kind="conversation", **fields):
    messages = [{"role": "user", "content": f"Message {n}.", "at": at} for n, at in enumerate(times)]
    return note(space, "", kind=kind, origin=f"{kind} {times}", messages=messages, **fields)["source_id"]


def test_activities_are_listed_by_when_they_began(space):
    old = activity(space, "Moved the office", started_at="2024-05-03T09:00:00Z", ended_at="2024-05-04T17:00:00Z")
    activity(space, "Planted a tree", started_at="2023-01-01T09:00:00Z")
    (one,) = happened(space, **MAY)
    assert (one.id, one.time[:10], one.until[:10], one.dated_by) == (old, "2024-05-03", "2024-05-04", "started_at")
    assert (one.event, one.actor) == ("happened", space.engine.author.actor)


def test_conversations_and_meetings_are_listed_by_when_things_were_said(space):
    chat = talk(space, "2024-05-08T10:00:00Z", "2024-05-09T10:00:00Z")
    meeting = talk(space, "2024-05-20T10:00:00Z", kind="meeting_record")
    talk(space, "2024-07-01T10:00:00Z")
    assert [(one.id, one.dated_by) for one in happened(space, **MAY)] == [(meeting, "said"), (chat, "said")]


@pytest.mark.parametrize(
    ("fields", "dated_by"),
    [
        ({"metadata": {"date": "2024-05-20"}}, "date"),
        ({"metadata": {"date": "2024-05-20T10:00:00+02:00"}}, "date"),
        ({"captured_at": "2024-05-20T10:00:00Z"}, "captured_at"),
        ({"metadata": {"date": "last Monday"}, "captured_at": "2024-05-20T10:00:00Z"}, "captured_at"),
    ],
)
def test_a_meeting_whose_words_have_no_times_is_listed_by_its_date(space, fields, dated_by):
    held = note(space, "Ann: we ship. Bob: fine.", kind="meeting_record", origin="minutes", **fields)["source_id"]
    assert [(one.id, one.time[:10], one.dated_by) for one in happened(space, **MAY)] == [(held, "2024-05-20", dated_by)]


def test_what_reaches_into_the_window_belongs_to_it(space):
    long = talk(space, "2024-04-28T10:00:00Z", "2024-06-02T10:00:00Z")
    assert [one.id for one in happened(space, **MAY)] == [long]


def test_work_is_listed_by_when_it_was_opened_and_what_tells_no_time_by_when_it_was_written(space):
    opened, done = task(space, "Mend the fence"), activity(space, "Looked at the fence")
    assert [(one.id, one.dated_by) for one in happened(space)] == [(done, "created_at"), (opened, "opened_at")]


def test_changes_are_listed_by_time_of_writing(space):
    old = activity(space, "Moved the office", started_at="2024-05-03T09:00:00Z")
    assert space.query("recent", input=MAY).status == "empty"
    assert [(one.id, one.event, one.dated_by) for one in space.query("recent").changes] == [(old, "created", "")]


def test_each_thing_is_listed_once_newest_first_and_the_rest_is_counted(space):
    made = [activity(space, f"Day {n}", started_at=f"2024-05-0{n}T09:00:00Z") for n in (3, 1, 2)]
    space.ingest("source", input={"items": [{"text": "No time at all.", "origin": "note"}]})
    report = space.query("recent", input={"by": "happened", "limit": 2})
    assert (report.ids, report.more) == ((made[0], made[2]), 1)


def test_it_can_be_of_some_types_scopes_and_of_the_past(space):
    activity(space, "Moved", started_at="2024-05-03T09:00:00Z")
    then = space.engine.ledger.sequence()
    later = task(space, "Unpack")
    assert [one.id for one in happened(space, types=["work_item"])] == [later]
    past = space.query("recent", input={"by": "happened"}, options={"as_of": then})
    assert [one.title for one in past.changes] == ["Moved"]
    far = task(space, "Far away", scope="/other")
    assert far not in space.query("recent", input={"by": "happened"}).ids
    with pytest.raises(InvalidInput, match="knowledge"):
        happened(space, types=["knowledge"])
