import threading
import time
from datetime import timedelta

import pytest

from treering.models.vectoriser import BackgroundVectoriser
from treering.ports.passages import Reach
from treering.ports.runtime import VECTORS, check_interrupt
from treering.ports.search import Lag, TextRequest
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.leases import SqliteLeases
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.builders import Builder
from treering.testing.fakes import START, HashingEmbedder, SteppingClock

PATIENCE = 30


class Slow(HashingEmbedder):
    """An embedder whose every batch lasts `seconds` on a test's clock, and in which another asks for the lease."""

    def __init__(self, clock, leases, seconds):
        super().__init__()
        self.clock, self.leases, self.seconds = clock, leases, seconds
        self.given_away = []

    def embed_documents(self, texts):
        self.clock.set(self.clock.now() + timedelta(seconds=self.seconds))
        self.given_away.append(self.leases.take(VECTORS, "another", seconds=60))
        return super().embed_documents(texts)


class Breaking(HashingEmbedder):
    """An embedder that fails while `broken`."""

    broken = True

    def embed_documents(self, texts):
        if self.broken:
            raise RuntimeError("no memory left")
        return super().embed_documents(texts)


class Held(HashingEmbedder):
    """An embedder that notes what it is given, and can be held up before it answers."""

    def __init__(self):
        super().__init__()
        self.batches = []
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def embed_documents(self, texts):
        self.batches.append(list(texts))
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        return super().embed_documents(texts)


class Space:
    """One opening of a space, as one process has it."""

    def __init__(self, path, clock):
        self.clock = clock
        database = Database(str(path))
        self.index = SqliteIndex(database, model_id="hashing/64", dimension=64)
        self.leases = SqliteLeases(database, clock)
        self.ledger = SqliteLedger(database, clock=clock, followers=[self.index])

    def add(self, *texts, origin="o"):
        make = Builder(self.clock)
        self.ledger.commit(make.patch(make.source(*texts, origin=origin)))


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def open_space(tmp_path, clock):
    opened = []

    def open_it():
        opened.append(Space(tmp_path / "space.db", clock))
        return opened[-1]

    yield open_it
    for space in opened:
        space.ledger.close()


@pytest.fixture
def space(open_space):
    space = open_space()
    space.add("Bees hum.", "Ants dig.", "Moths fly by night.")
    return space


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_embeds_behind_everyday_work_and_ends_when_nothing_waits(space, clock):
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, HashingEmbedder(), clock)
    vectoriser.start()
    until(lambda: space.index.vectors.lag().pending == 0)
    until(lambda: "treering-vectoriser" not in {thread.name for thread in threading.enumerate()})
    space.add("Wasps sting.", origin="2")
    vectoriser.start()
    until(lambda: space.index.vectors.lag() == Lag(0, 4))
    vectoriser.stop()
    assert vectoriser.last_error is None


def test_starting_it_while_it_works_sees_to_what_came_since(space, clock):
    embedder = Held()
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock)
    vectoriser.start()
    assert embedder.begun.wait(PATIENCE)
    space.add("Wasps sting.", origin="2")
    vectoriser.start()
    embedder.go_on.set()
    until(lambda: space.index.vectors.lag() == Lag(0, 4))
    vectoriser.stop()


def test_finishing_embeds_everything_at_once_in_batches_of_like_length_and_tells_how_far_it_is(space, clock):
    embedder, told = Held(), []
    embedder.go_on.set()
    BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, batch=2).finish(
        lambda *step: told.append(step)
    )
    assert space.index.vectors.lag() == Lag(0, 3)
    assert embedder.batches == [["Ants dig.", "Bees hum."], ["Moths fly by night."]]
    assert told[-1] == ("embedding", 3, 3)


def test_what_was_asked_for_is_embedded_before_what_waits_longer(space, clock):
    embedder = Held()
    embedder.go_on.set()
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, batch=1)
    [found] = space.index.text.search([TextRequest(Reach("/"), 1, words=("night",))])
    vectoriser.prefer([found.words[0].key])
    vectoriser.finish()
    assert embedder.batches[0] == ["Moths fly by night."]
    assert space.index.vectors.lag() == Lag(0, 3)


def test_a_space_of_an_older_version_gets_quick_vectors_before_those_of_the_encoder(tmp_path, clock, space):
    quick = HashingEmbedder(32)
    index = SqliteIndex(Database(str(tmp_path / "space.db")), model_id="hashing/64", dimension=64, quick=quick)
    encoder = Breaking()
    vectoriser = BackgroundVectoriser(index.vectors, space.leases, encoder, clock, quick=(index.quick, quick))
    assert index.quick.lag() == Lag(3, 3)
    with pytest.raises(RuntimeError, match="no memory left"):
        vectoriser.finish()
    assert index.quick.lag() == Lag(0, 3)
    encoder.broken = False
    vectoriser.finish()
    assert index.quick.lag() == Lag(0, 0)


def test_it_stops_after_the_batch_it_is_at_which_is_kept(space, clock):
    embedder = Held()
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, batch=1)
    vectoriser.start()
    assert embedder.begun.wait(PATIENCE)
    stopping = threading.Thread(target=vectoriser.stop)
    stopping.start()
    until(vectoriser._stopping.is_set)
    embedder.go_on.set()
    stopping.join(PATIENCE)
    assert space.index.vectors.lag() == Lag(2, 3)
    assert len(embedder.batches) == 1


def test_it_ends_with_its_budget_and_goes_on_when_it_is_started_again(space, tmp_path):
    clock = SteppingClock(step=timedelta(seconds=10))
    vectoriser = BackgroundVectoriser(
        space.index.vectors, space.leases, HashingEmbedder(), clock, budget_seconds=50, batch=1
    )
    vectoriser.start()
    vectoriser.stop()
    left = space.index.vectors.lag().pending
    assert 0 < left <= 3
    for _ in range(3):
        vectoriser.start()
        until(lambda: vectoriser._thread is None)
    assert space.index.vectors.lag().pending < left


def test_an_error_behind_the_scenes_is_kept_and_finishing_raises_it(space, clock):
    embedder = Breaking()
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock)
    vectoriser.start()
    until(lambda: vectoriser.last_error is not None)
    assert "no memory left" in str(vectoriser.last_error)
    with pytest.raises(RuntimeError, match="no memory left"):
        vectoriser.finish()
    embedder.broken = False
    vectoriser.finish()
    assert vectoriser.last_error is None
    assert space.index.vectors.lag() == Lag(0, 3)


def test_after_an_error_another_process_need_not_wait_for_the_lease(space, open_space, clock):
    with pytest.raises(RuntimeError):
        BackgroundVectoriser(space.index.vectors, space.leases, Breaking(), clock).finish()
    other = open_space()
    assert other.leases.take(VECTORS, "somebody", seconds=1)


def test_finishing_waits_for_the_process_that_is_at_it_and_embeds_nothing_twice(space, open_space, clock):
    busy, idle = Held(), Held()
    first = BackgroundVectoriser(space.index.vectors, space.leases, busy, clock)
    first.start()
    assert busy.begun.wait(PATIENCE)
    told = threading.Event()
    other = open_space()
    second = BackgroundVectoriser(other.index.vectors, other.leases, idle, clock)
    waiting = threading.Thread(target=second.finish, args=(lambda *_: told.set(),))
    waiting.start()
    assert told.wait(PATIENCE)
    busy.go_on.set()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert space.index.vectors.lag() == Lag(0, 3)
    assert idle.batches == []
    first.stop()


def test_finishing_takes_over_from_a_process_that_died(space):
    assert space.leases.take(VECTORS, "died", seconds=5)
    # Nobody gives that lease back; time goes by.
    space.clock.set(START + timedelta(minutes=1))
    BackgroundVectoriser(space.index.vectors, space.leases, HashingEmbedder(), space.clock).finish()
    assert space.index.vectors.lag() == Lag(0, 3)


def test_a_lease_is_renewed_while_batch_after_batch_is_embedded(space, clock):
    embedder = Slow(clock, space.leases, seconds=30)
    BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, lease_seconds=60, batch=1).finish()
    assert embedder.given_away == [False, False, False]
    assert space.index.vectors.lag() == Lag(0, 3)


def test_whoever_loses_the_lease_in_a_slow_batch_embeds_no_other(space, clock):
    embedder = Slow(clock, space.leases, seconds=61)
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, lease_seconds=60, batch=1)
    vectoriser.start()
    until(lambda: space.leases.holder(VECTORS) == "another")
    vectoriser.stop()
    assert embedder.given_away == [True]
    assert space.index.vectors.lag() == Lag(2, 3)
    assert space.leases.holder(VECTORS) == "another"


def test_who_found_another_at_work_takes_over_when_that_one_is_gone(space, clock):
    assert space.leases.take(VECTORS, "gone", seconds=60)
    embedder = Held()
    embedder.go_on.set()
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, lease_seconds=0.06)
    vectoriser.start()
    assert not embedder.begun.wait(0.2)
    clock.set(clock.now() + timedelta(seconds=61))
    until(lambda: space.index.vectors.lag().pending == 0)
    vectoriser.stop()


def test_work_that_nobody_waits_for_rests_before_each_batch_but_the_first_while_others_are_busy(
    space, clock, monkeypatch
):
    monkeypatch.setattr("treering.models.vectoriser._LOOKS_AT_LOAD", 0.01)
    embedder, rests = Held(), []
    embedder.go_on.set()

    def is_busy():
        rests.append(len(embedder.batches))
        clock.set(clock.now() + timedelta(seconds=16))
        return True

    def vectoriser():
        return BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, is_busy=is_busy, batch=1)

    vectoriser().work_alone()
    assert space.index.vectors.lag() == Lag(0, 3)
    assert rests == [1, 1, 2, 2]
    space.add("Wasps sting.", "Owls hoot.", origin="p")
    vectoriser().finish()
    assert space.index.vectors.lag() == Lag(0, 5)
    assert len(rests) == 4


def test_who_works_alone_leaves_what_waits_to_the_process_that_is_at_it(space, clock):
    assert space.leases.take(VECTORS, "another", seconds=60)
    BackgroundVectoriser(space.index.vectors, space.leases, HashingEmbedder(), clock).work_alone()
    assert space.index.vectors.lag() == Lag(3, 3)
    assert space.leases.holder(VECTORS) == "another"


def test_who_works_alone_ends_after_the_batch_in_which_its_lease_is_taken_away(space, clock):
    class Unlocked(HashingEmbedder):
        def embed_documents(self, texts):
            space.leases.clear(VECTORS)
            return super().embed_documents(texts)

    BackgroundVectoriser(space.index.vectors, space.leases, Unlocked(), clock, batch=1).work_alone()
    assert space.index.vectors.lag() == Lag(2, 3)
    assert space.leases.holder(VECTORS) is None


def test_a_turn_makes_so_many_batches_and_leaves_the_rest(space, clock):
    embedder = Held()
    embedder.go_on.set()
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, embedder, clock, batch=1)
    vectoriser.take_turn(2)
    assert space.index.vectors.lag() == Lag(1, 3)
    assert space.leases.holder(VECTORS) is None
    vectoriser.take_turn(2)
    assert space.index.vectors.lag() == Lag(0, 3)


def test_progress_is_reported_within_a_round(space, clock):
    reports = []
    slow = Slow(clock, space.leases, seconds=5)
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, slow, clock, batch=1)
    vectoriser.work_alone(lambda _what, done, total: reports.append((done, total)))
    assert reports == [(1, 3), (2, 3), (3, 3), (3, 3)]


class Tables:
    """Tables that are due once, and note who holds the lease while they are prepared."""

    def __init__(self, leases):
        self.leases, self.is_due, self.holders = leases, True, []
        self.stop = lambda: None

    def has_tables_to_prepare(self):
        return self.is_due

    def prepare_tables(self):
        self.holders.append(self.leases.holder(VECTORS))
        self.stop()
        check_interrupt()
        self.is_due = False


def test_background_work_prepares_tables_although_no_text_waits(open_space, clock):
    space = open_space()
    tables = Tables(space.leases)
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, HashingEmbedder(), clock, tables=tables)
    assert vectoriser.has_tables_to_prepare()
    vectoriser.work_alone()
    assert not vectoriser.has_tables_to_prepare()
    assert [holder is not None for holder in tables.holders] == [True]


def test_embedding_that_is_waited_for_prepares_no_tables(open_space, clock):
    space = open_space()
    space.add("one text")
    tables = Tables(space.leases)
    BackgroundVectoriser(space.index.vectors, space.leases, HashingEmbedder(), clock, tables=tables).finish()
    assert space.index.vectors.lag().pending == 0
    assert tables.is_due


def test_preparing_tables_ends_when_it_is_stopped(open_space, clock):
    space = open_space()
    space.add("one text")
    tables = Tables(space.leases)
    vectoriser = BackgroundVectoriser(space.index.vectors, space.leases, HashingEmbedder(), clock, tables=tables)
    tables.stop = vectoriser.ask_to_stop
    vectoriser.work_alone()
    assert tables.is_due
    assert space.index.vectors.lag().pending == 1
    assert space.leases.holder(VECTORS) is None
