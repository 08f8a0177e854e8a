"""Leases where clocks are wrong: a time of day years ahead keeps nobody out, and waiting has an end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import space_parts
from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import DiscussionSettings
from treering.extensions.discussions.memory import DiscussionMemory
from treering.models.vectoriser import BackgroundVectoriser
from treering.ports.runtime import LONGEST_SECONDS, VECTORS
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.leases import SqliteLeases
from treering.testing.fakes import START, HashingEmbedder, SteppingClock
from treering.verbs.ingest.turns import Message

YEARS = timedelta(days=5 * 365)


@pytest.fixture
def database(tmp_path):
    with space_parts.open_space(str(tmp_path / "space.db")):
        pass
    opened = Database(str(tmp_path / "space.db"))
    yield opened
    opened.close()


@pytest.mark.parametrize("ahead", [YEARS, -YEARS])
def test_a_holder_whose_clock_is_wrong_keeps_others_out_for_the_length_of_its_lease(database, ahead):
    clock = SteppingClock(ahead=ahead)
    SqliteLeases(database, clock).take("work", "wrong", seconds=60)
    clock._ahead = timedelta(0)
    leases = SqliteLeases(database, clock)
    assert not leases.take("work", "right", seconds=60)
    clock.set(START + timedelta(seconds=61))
    assert leases.take("work", "right", seconds=60)


def test_a_process_whose_clock_is_ahead_takes_no_lease_that_is_held(database):
    clock = SteppingClock()
    SqliteLeases(database, clock).take("work", "right", seconds=60)
    clock._ahead = YEARS
    assert not SqliteLeases(database, clock).take("work", "wrong", seconds=60)


def test_lease_from_before_the_machine_started_is_free(database):
    SqliteLeases(database, SteppingClock(START + timedelta(days=40))).take("work", "gone", seconds=60)
    assert SqliteLeases(database, SteppingClock()).take("work", "new", seconds=60)


def test_a_lease_is_over_in_the_moment_its_time_has_passed(database):
    clock = SteppingClock()
    leases = SqliteLeases(database, clock)
    clock.set(START)
    leases.take("work", "ada", seconds=60)
    clock.set(START + timedelta(seconds=60))
    assert leases.holder("work") is None


def test_no_lease_is_longer_than_a_day(database):
    leases = SqliteLeases(database, SteppingClock())
    with pytest.raises(InvalidInput, match="too long"):
        leases.take("work", "greedy", seconds=LONGEST_SECONDS + 1)
    with database.write() as connection:
        connection.execute("INSERT INTO held_leases VALUES('work', 'forger', 1, 0.0, 1e12)")
    assert leases.held()[0].left <= LONGEST_SECONDS


@pytest.mark.parametrize("row", [("1 of them", 0.0, 60.0), (1, "now", 60.0), (1, 0.0, "long")])
def test_a_row_that_something_else_wrote_holds_nothing_and_is_replaced(database, row):
    leases = SqliteLeases(database, SteppingClock())
    with database.write() as connection:
        connection.execute("INSERT INTO held_leases VALUES('work', 'forger', ?, ?, ?)", row)
    assert (leases.holder("work"), leases.held()) == (None, [])
    assert leases.take("work", "ada", seconds=60)
    assert leases.holder("work") == "ada"


def test_who_holds_what_is_listed_and_can_be_taken_away(database):
    leases = SqliteLeases(database, SteppingClock())
    leases.take("b", "ada", seconds=60)
    leases.take("a", "bob", seconds=30)
    assert [(one.name, one.owner) for one in leases.held()] == [("a", "bob"), ("b", "ada")]
    assert 29 < leases.held()[0].left <= 30
    assert leases.clear("a").owner == "bob"
    assert leases.clear("a") is None
    assert leases.take("a", "eve", seconds=30)
    assert not leases.take("a", "bob", seconds=30)


def test_waiting_for_vectors_ends_where_their_maker_makes_none(tmp_path):
    with space_parts.open_space(str(tmp_path / "space.db")) as space:
        space_parts.note(space, "Bees hum.")
        leases = SqliteLeases(space.engine.leases._database, SteppingClock())
        leases.take(VECTORS, "stuck", seconds=LONGEST_SECONDS)
        clock, told = SteppingClock(step=timedelta(seconds=20)), []
        waiting = BackgroundVectoriser(space.engine.index.vectors, leases, HashingEmbedder(), clock)
        with pytest.raises(Unavailable, match=r"process \d+") as caught:
            waiting.finish(lambda *what: told.append(what))
        assert "treering unlock vectors" in caught.value.hint
        assert told
        leases.clear(VECTORS)
        waiting.finish()
        assert not space.engine.index.vectors.lag().pending


def test_a_budget_of_time_does_not_depend_on_the_time_of_day(tmp_path):
    with space_parts.open_space(str(tmp_path / "space.db")) as space:
        space_parts.note(space, "Bees hum.")
        clock = SteppingClock()
        leases = SqliteLeases(space.engine.leases._database, clock)
        embedder = Jumping(clock)
        BackgroundVectoriser(space.engine.index.vectors, leases, embedder, clock, batch=1).finish()
        assert not space.engine.index.vectors.lag().pending


class Jumping(HashingEmbedder):
    """An embedder during whose work the time of day jumps by years."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def embed_documents(self, texts):
        self.clock._ahead += YEARS
        return super().embed_documents(texts)


class Failing(BuiltInGenerator):
    """A generator that fails as long as it is `broken`."""

    broken = True

    def memories(self, chunk, background):
        if self.broken:
            raise Unavailable("The model is away.")
        return super().memories(chunk, background)


def test_a_chunk_that_failed_when_the_clock_was_ahead_is_tried_again(space):
    generator, clock = Failing(), SteppingClock(datetime.now(UTC), ahead=YEARS)
    engine = replace(space.engine, clock=clock)
    settings = DiscussionSettings(max_messages=2, lookback=0)
    talk = DiscussionMemory(engine, settings=settings, generator=generator).open("tea")
    talk.record([Message(role="user", content=f"We decided to drink tea number {number}.") for number in range(4)])
    assert talk.update().failed
    generator.broken = False
    assert not talk.update().done
    clock._ahead = timedelta(0)
    made = talk.update()
    assert (made.done, made.failed, made.waiting) == (2, 0, 0)
