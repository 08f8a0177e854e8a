from datetime import UTC, date, datetime, timedelta

import pytest
from index_stage import open_space, seen

import treering.testing.index_contract.stage as index_questions
from treering.core.evidence import Turn
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


def test_some_turns_have_the_scores_they_have_among_all(space):
    space.commit(talk(space, *[(f"Bee {n}, and in May 2023.", SAID + timedelta(days=20 * n)) for n in range(1_100)]))
    every = by_days(space, MAY, JUNE, limit=5_000)
    assert len(every) == 1_100
    keys = list(range(1, 1_200))
    assert index_questions.on_days(space.index, [MAY, JUNE], keys) == every
    assert index_questions.on_days(space.index, [MAY, JUNE], [2]) == {2: every[2]}
    assert index_questions.on_days(space.index, [], keys) == index_questions.on_days(space.index, [MAY], []) == {}


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
def test_rebuild_repairs_wrong_days(space, damage):
    space.commit(talk(space, ("Bees hum.", SAID)))
    with space.database.write() as connection:
        connection.execute(damage)
    assert space.index.upkeep.differences()
    space.index.upkeep.rebuild()
    assert space.index.upkeep.differences() == []
    assert by_days(space, MAY) == {1: 1.0}
