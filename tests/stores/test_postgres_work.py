"""Background work on Postgres: shared out among processes, taken over from those that died, fair between spaces."""

from contextlib import closing, contextmanager

import psycopg
import pytest
from postgres_spaces import new_space, open_target, target_in

from treering.extensions.postgres.connection.schema import FINDING, QUEUES
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.vector_queue import PostgresVectorClaims
from treering.extensions.postgres.ledger.jobs import PostgresBacklog, PostgresLeases
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.extensions.postgres.opening import WaitingSpaces
from treering.extensions.postgres.space_worker import SpaceWorker
from treering.models.vectoriser import BackgroundVectoriser
from treering.ports.runtime import MEMORIES, VECTORS
from treering.ports.search import Lag
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock


class Noting(HashingEmbedder):
    """An embedder that notes what it embeds, and for whom."""

    def __init__(self, name, noted):
        super().__init__()
        self.name, self.noted = name, noted

    def embed_documents(self, texts):
        self.noted += [(self.name, text) for text in texts]
        return super().embed_documents(texts)


class Process:
    """A space as one process has it open."""

    def __init__(self, space, name="", noted=None, batch=32):
        embedder = Noting(name, [] if noted is None else noted)
        self.clock = SteppingClock()
        self.index = PostgresIndex(space, model_id=embedder.model_id, dimension=embedder.dimension)
        self.ledger = PostgresLedger(space, clock=self.clock, server_time=False, followers=[self.index])
        self.claims = PostgresVectorClaims(space, embedder.model_id, embedder.dimension)
        self.backlog = PostgresBacklog(space)
        self.leases = PostgresLeases(space)
        self.vectoriser = BackgroundVectoriser(
            self.index.vectors, self.leases, embedder, self.clock, claims=self.claims, batch=batch
        )

    def add(self, count, about="bees"):
        make = Builder(self.clock)
        texts = [f"{about} {word(number)}." for number in range(count)]
        self.ledger.commit(make.patch(make.source(*texts, origin=make.node("x").id)))


def word(number):
    """Return a word of letters alone."""
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:04}")


@contextmanager
def process(server, space, *given, **options):
    with closing(open_target(server, space)) as opened:
        yield Process(opened, *given, **options)


def lapse(server, table):
    """Have all claims be as old as those of a process that died long ago."""
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
        connection.execute(f"UPDATE treering.{table} SET claimed_until = 0")


def test_two_processes_share_the_texts_of_one_space_and_embed_each_once(server):
    space, noted = new_space(), []
    with process(server, space, "one", noted) as one, process(server, space, "other", noted) as other:
        one.add(200)
        theirs = other.claims.claim("another", 50, seconds=60)
        assert len(theirs) == 50
        one.vectoriser.take_turn(100)
        assert one.index.vectors.lag() == Lag(50, 200)
        other.claims.give_back("another")
        other.vectoriser.take_turn(100)
        assert one.index.vectors.lag() == Lag(0, 200)
    assert [name for name, _ in noted] == ["one"] * 150 + ["other"] * 50
    assert {text for _, text in noted[150:]} == {each.text for each in theirs}
    assert len({text for _, text in noted}) == 200


def test_one_process_in_the_background_is_enough_for_a_space_and_servers_share_its_texts(server):
    space, noted = new_space(), []
    with process(server, space, "one", noted) as one, process(server, space, "other", noted) as other:
        one.add(5)
        assert one.leases.take(VECTORS, "at it", seconds=60)
        other.vectoriser.work_alone()
        assert one.index.vectors.lag() == Lag(5, 5)
        other.vectoriser.take_turn(100)
        assert one.index.vectors.lag() == Lag(0, 5)
        one.add(5, about="ants")
        one.leases.clear(VECTORS)
        one.vectoriser.work_alone()
        assert one.index.vectors.lag() == Lag(0, 10)


def test_a_claim_takes_no_more_than_it_asks_for_where_the_server_expects_few_rows(server):
    with process(server, new_space()) as opened:
        opened.add(1)
        with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
            connection.execute("ANALYZE treering.vector_queue")
        opened.add(200, about="ants")
        assert len(opened.claims.claim("one", 50, seconds=60)) == 50


def test_a_claim_waits_for_no_other_that_is_being_made(server):
    with process(server, new_space()) as opened:
        opened.add(3)
        with closing(open_target(server, new_space())), opened.claims._space.beside() as transaction:
            held = transaction.column("SELECT text_id FROM vector_queue WHERE space = %(space)s LIMIT 1 FOR UPDATE")
            assert len(held) == 1
            assert len(opened.claims.claim("other", 10, seconds=60)) == 2


def test_claims_of_a_dead_process_are_taken_over(server):
    space = new_space()
    with process(server, space) as dead, process(server, space) as living:
        dead.add(5)
        assert len(dead.claims.claim("dead", 5, seconds=60)) == 5
        assert living.claims.claim("living", 5, seconds=60) == []
        assert living.claims.claimed_by_others("living") == 5
        lapse(server, "vector_queue")
        living.vectoriser.finish()
        assert living.index.vectors.lag() == Lag(0, 5)


def test_a_claim_that_is_renewed_does_not_lapse_and_one_that_is_given_back_is_free(server):
    with process(server, new_space()) as opened:
        opened.add(2)
        opened.claims.claim("one", 2, seconds=60)
        lapse(server, "vector_queue")
        opened.claims.renew("one", seconds=60)
        assert opened.claims.claim("other", 2, seconds=60) == []
        opened.claims.give_back("one")
        assert len(opened.claims.claim("other", 2, seconds=60)) == 2


def test_a_commit_waits_for_no_lease_and_no_claim(server):
    space = new_space()
    with process(server, space) as opened, closing(open_target(server, space, wait_seconds=0.6)) as impatient:
        opened.add(1)
        with impatient.write():  # a writer that takes its time
            assert PostgresLeases(opened.claims._space).take("work", "ada", seconds=60)
            assert len(opened.claims.claim("ada", 5, seconds=60)) == 1
            opened.backlog.promise(MEMORIES, "one", "ada", seconds=60)


class TestBacklog:
    def test_promised_work_is_claimed_by_one_at_a_time_the_oldest_first(self, server):
        with process(server, new_space()) as opened:
            backlog = opened.backlog
            for key in ("first", "second"):
                backlog.promise(MEMORIES, key, "dead", seconds=0)
            one, other = (backlog.claim(MEMORIES, name, seconds=60) for name in ("one", "other"))
            assert (one.key, other.key) == ("first", "second")
            assert backlog.claim(MEMORIES, "third", seconds=60) is None
            assert backlog.claim("else", "third", seconds=60) is None
            backlog.done(one)
            assert backlog.waiting() == 1

    def test_work_that_is_promised_again_while_someone_is_at_it_is_done_again(self, server):
        with process(server, new_space()) as opened:
            claim = opened.backlog.promise(MEMORIES, "one", "ada", seconds=60)
            opened.backlog.promise(MEMORIES, "one", "bob", seconds=0)
            opened.backlog.done(claim)
            again = opened.backlog.claim(MEMORIES, "cyd", seconds=60)
            assert again.times == 2
            opened.backlog.done(again)
            assert opened.backlog.waiting() == 0

    def test_work_that_is_postponed_is_left_to_whoever_comes_later(self, server):
        with process(server, new_space()) as opened:
            claim = opened.backlog.promise(MEMORIES, "one", "ada", seconds=60)
            opened.backlog.postpone(claim, seconds=60)
            assert opened.backlog.claim(MEMORIES, "bob", seconds=60) is None
            opened.backlog.postpone(claim, seconds=-1)
            assert opened.backlog.claim(MEMORIES, "bob", seconds=60).key == "one"


class TestSpacesWithWork:
    @pytest.fixture
    def names(self, server):
        with closing(WaitingSpaces(target_in(server, "any"))) as waiting:
            yield waiting.names

    def test_spaces_with_unclaimed_work_are_listed(self, server, names):
        embedding, promising, idle = new_space(), new_space(), new_space()
        with process(server, embedding) as one, process(server, promising) as two, process(server, idle):
            one.add(2)
            two.backlog.promise(MEMORIES, "one", "dead", seconds=0)
            assert {embedding, promising, idle} & set(names()) == {embedding, promising}
            one.claims.claim("ada", 2, seconds=60)
            assert embedding not in names()
            one.claims.give_back("ada")
            one.vectoriser.finish()
            two.backlog.done(two.backlog.claim(MEMORIES, "ada", seconds=60))
            assert not {embedding, promising} & set(names())

    def test_the_look_across_spaces_shows_queues_and_names_and_nothing_else(self, server):
        with process(server, new_space()) as opened, psycopg.connect(server.url()) as connection:
            opened.add(1)
            count = "SELECT count(*) FROM treering."
            for table in ("space_names", *QUEUES, "objects", "passages", "audit"):
                assert connection.execute(count + table).fetchone() == (0,), table
            connection.execute(f"SET LOCAL {FINDING} = 'on'")
            for table in ("objects", "revisions", "passages", "passage_texts", "audit", "jobs", "leases", "spaces"):
                assert connection.execute(count + table).fetchone() == (0,), table
            assert connection.execute(count + "vector_queue").fetchone() > (0,)
            assert connection.execute("UPDATE treering.vector_queue SET priority = 0").rowcount == 0
            assert connection.execute("DELETE FROM treering.space_names").rowcount == 0

    def test_a_busy_space_gets_one_turn_like_each_small_one(self, server):
        busy, *small = spaces = [new_space() for _ in range(4)]
        for space, count in zip(spaces, (120, 2, 2, 2), strict=True):
            with process(server, space) as opened:
                opened.add(count)
        noted, turns = [], []

        @contextmanager
        def lend(name):
            turns.append(name)
            with process(server, name, name, noted, batch=10) as opened:
                yield opened.vectoriser.take_turn

        with closing(WaitingSpaces(target_in(server, "any"))) as waiting:
            worker = SpaceWorker(lambda: [name for name in waiting.names() if name in spaces], lend, steps=2)
            assert worker.go_round() == 4
            assert turns == spaces
            assert [name for name, _ in noted].count(busy) == 20
            assert all([name for name, _ in noted].count(name) == 2 for name in small)
            while worker.go_round():
                pass
        assert len(noted) == len(set(noted)) == 126

    def test_a_space_that_cannot_be_worked_on_keeps_no_other_from_its_turn(self, server, caplog):
        from treering.core.errors import Corrupt

        served = []

        @contextmanager
        def lend(name):
            if name == "broken":
                raise Corrupt("Its rows were changed.", hint="Restore it.")
            yield lambda _steps: served.append(name)

        worker = SpaceWorker(lambda: ["broken", "whole"], lend)
        assert [worker.go_round(), worker.go_round()] == [1, 1]
        assert served == ["whole", "whole"]
        assert caplog.text.count("Its rows were changed.") == 1
