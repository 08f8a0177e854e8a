from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_stage import open_space, seen

import treering.testing.index_questions as index_questions
from treering.core.locator import Turn
from treering.derived.passages import days_of, passages_of
from treering.ports.passages import AskedDays

MAY = AskedDays(date(2023, 5, 1), date(2023, 5, 31))
JUNE = AskedDays(date(2023, 6, 1), date(2023, 6, 30))
SAID = datetime(2023, 5, 8, 12, tzinfo=UTC)


@pytest.fixture
def space():
    opened = open_space()
    yield opened
    opened.ledger.close()


def talk(space, *turns, origin="talk", **fields):
    """Make a conversation of (text, time said)."""
    source = space.make.source(*(text for text, _ in turns), kind="conversation", origin=origin, **fields)
    placed = [
        part.model_copy(update={"locator": Turn(turn=part.position, at=at)})
        for part, (_, at) in zip(source.segments, turns, strict=True)
    ]
    return source.model_copy(update={"segments": tuple(placed)})


def by_days(space, *asked, limit=10, **reach):
    return {hit.key: hit.score for hit in index_questions.by_days(space.index, asked, reach=seen(**reach), limit=limit)}


def test_turns_said_on_a_day_or_speaking_of_it_are_found_by_it(space):
    later = SAID + timedelta(days=60)
    space.commit(talk(space, ("Bees hum.", SAID), ("The bees of May 2023 were many.", later), ("Ants dig.", later)))
    assert by_days(space, MAY) == {1: 1.0, 2: 1.0}
    assert by_days(space, JUNE) == {}
    assert by_days(space) == {}


def test_a_longer_time_counts_by_the_part_of_it_that_is_asked_for(space):
    space.commit(talk(space, ("In May 2023.", None), ("The first half of May 2023 and 2023-05-31.", None)))
    day = AskedDays(date(2023, 5, 31), date(2023, 5, 31), weight=0.5)
    assert by_days(space, day) == {1: pytest.approx(0.5 / 31), 2: 0.5}
    assert by_days(space, day, MAY) == {1: 1.0, 2: 1.0}


def test_the_best_come_first_then_the_newest_and_no_more_than_asked_for(space):
    space.commit(talk(space, ("In 2023.", None), ("Bees.", SAID), ("Ants.", SAID)))
    asked = seen()
    assert [hit.key for hit in index_questions.by_days(space.index, [MAY], reach=asked, limit=10)] == [3, 2, 1]
    assert [hit.key for hit in index_questions.by_days(space.index, [MAY], reach=asked, limit=2)] == [3, 2]


def test_some_turns_have_the_scores_they_have_among_all(space):
    space.commit(talk(space, *[(f"Bee {n}, and in May 2023.", SAID + timedelta(days=20 * n)) for n in range(1_100)]))
    every = by_days(space, MAY, JUNE, limit=5_000)
    assert len(every) == 1_100
    keys = list(range(1, 1_200))
    assert index_questions.on_days(space.index, [MAY, JUNE], keys) == every
    assert index_questions.on_days(space.index, [MAY, JUNE], [2]) == {2: every[2]}
    assert index_questions.on_days(space.index, [], keys) == index_questions.on_days(space.index, [MAY], []) == {}


def test_days_are_found_within_reach_alone(space):
    space.commit(talk(space, ("Bees.", SAID), scope="/a"), talk(space, ("Ants.", SAID), scope="/b", origin="b"))
    assert by_days(space, MAY, scope="/a").keys() == {1}
    assert by_days(space, MAY, where={"scope": "/b"}).keys() == {2}


def test_days_of_what_was_said_otherwise_are_found_as_of_then(space):
    source = talk(space, ("Bees came in May 2023.", None))
    space.commit(source)
    space.reread(source, "Bees came in June 2023.")
    assert (by_days(space, MAY), by_days(space, JUNE)) == ({}, {2: 1.0})
    assert by_days(space, MAY, at=1) == {1: 1.0}


def test_another_time_of_saying_it_gives_other_days(space):
    source = talk(space, ("Bees hum.", SAID))
    space.commit(source)
    [part] = space.ledger.get(source.id).segments
    moved = part.model_copy(update={"locator": Turn(turn=0, at=SAID + timedelta(days=40))})
    space.update(source, segments=(moved,))
    assert (by_days(space, MAY), by_days(space, JUNE)) == ({}, {2: 1.0})
    assert space.index.upkeep.differences() == []


def test_erased_turns_leave_no_day_behind(space):
    source = talk(space, ("Bees came yesterday.", SAID))
    space.commit(source, talk(space, ("Ants.", SAID), origin="other"))
    space.erase(source)
    assert space.database.row("SELECT count(*) FROM passage_days") == (1,)
    assert by_days(space, MAY).keys() == {2}


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM passage_days", "UPDATE passage_days SET last = last + 1", "INSERT INTO passage_days VALUES(9, 1, 2)"],
)
def test_days_that_are_wrong_are_noticed_and_made_anew(space, damage):
    space.commit(talk(space, ("Bees hum.", SAID)))
    with space.database.write() as connection:
        connection.execute(damage)
    assert space.index.upkeep.differences()
    space.index.upkeep.rebuild()
    assert space.index.upkeep.differences() == []
    assert by_days(space, MAY) == {1: 1.0}


DAYS = st.dates(date(2022, 1, 1), date(2024, 12, 31))
ASKED = st.builds(
    lambda one, other, weight: AskedDays(min(one, other), max(one, other), weight),
    DAYS,
    DAYS,
    st.sampled_from([1.0, 0.5]),
)
TEXTS = st.sampled_from(["Yes.", "Last week.", "In 2023.", "In May.", "Yesterday, and last year.", "since 2015"])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(TEXTS, DAYS), min_size=1, max_size=6), st.lists(ASKED, max_size=4))
def test_a_score_is_the_best_weighted_share_of_a_told_period_that_is_asked_for(turns, asked):
    space = open_space()
    source = talk(space, *((text, datetime(day.year, day.month, day.day, tzinfo=UTC)) for text, day in turns))
    space.commit(source)
    wanted = {key: best(passage, asked) for key, passage in enumerate(passages_of(source), start=1)}
    assert by_days(space, *asked) == {key: pytest.approx(score) for key, score in wanted.items() if score}
    space.ledger.close()


def best(passage, asked):
    """Say in Python what the query says in SQL."""
    shares = [
        days.weight * (min(last, days.last) - max(first, days.first) + timedelta(1)) / (last - first + timedelta(1))
        for first, last in days_of(passage)
        for days in asked
    ]
    return max((share for share in shares if share > 0), default=0.0)
