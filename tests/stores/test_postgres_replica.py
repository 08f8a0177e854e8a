"""Reads of a replica, a real one that streams: how late they are is told, and they are never later than is allowed."""

import sys
import time
from contextlib import contextmanager

import psycopg
import pytest
from postgres_spaces import new_space, target_in

import postgres_server
from space_parts import note, open_space
from treering.core.errors import InvalidInput
from treering.extensions.postgres.connection.replica import Replica
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.target import target_of
from treering.ports.runtime import LateReads, late_reads
from treering.system.address import parse_address

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server's programs are run as another user")

PATIENCE = 60


@pytest.fixture(scope="module")
def replica(server):
    started = server.replica()
    yield started
    postgres_server.remove(started)


def run(server, sql):
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as connection:
        return connection.execute(sql).fetchone()


@contextmanager
def standing_still(replica):
    """Have the replica take in nothing."""
    run(replica, "SELECT pg_wal_replay_pause()")
    try:
        yield
    finally:
        run(replica, "SELECT pg_wal_replay_resume()")


def caught_up(server, replica):
    """Wait until the replica has all that is committed now."""
    (end,) = run(server, "SELECT pg_current_wal_lsn()")
    deadline = time.monotonic() + PATIENCE
    while not run(replica, f"SELECT pg_last_wal_replay_lsn() >= '{end}'")[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def address(server, replica, space, **options):
    return server.url(space=space, replica=str(replica.folder), **options)


def found(space, **options):
    report = space.query("search", input={"text": "bees"}, options={"limit": 5, **options})
    return sorted(hit.text for hit in report.hits), report.replica


@pytest.fixture
def place(server, replica):
    """A space with one text that the replica has, too."""
    name = new_space()
    with open_space(server.url(space=name)) as space:
        note(space, "Bees hum.", origin="1")
    caught_up(server, replica)
    return name


def test_a_replica_answers_and_reports_how_late_it_may_be(server, replica, place):
    with open_space(address(server, replica, place)) as space:
        texts, told = found(space)
        assert texts == ["Bees hum."]
        assert told.sequence == space.engine.ledger.sequence()
        assert told.behind == 0
        assert 0 < told.seconds < 5


def test_an_answer_of_now_mentions_no_replica(server, place):
    with open_space(server.url(space=place)) as space:
        report = space.query("search", input={"text": "bees"})
        assert report.replica is None
        assert "replica" not in report.model_dump()


def test_a_replica_that_is_behind_reports_by_how_much(server, replica, place):
    with (
        open_space(address(server, replica, place, replica_lag="600")) as space,
        open_space(server.url(space=place)) as other,
    ):
        found(space)
        before = other.engine.ledger.sequence()
        with standing_still(replica):
            note(other, "Bees fly.", origin="2")
            time.sleep(0.6)  # then the primary is asked again how far it is
            texts, told = found(space)
        assert (texts, told.sequence) == (["Bees hum."], before)
        assert told.behind == other.engine.ledger.sequence() - before
        assert told.seconds >= 0.6


def test_primary_answers_if_the_replica_is_too_late(server, replica, place):
    with (
        open_space(address(server, replica, place, replica_lag="0.3")) as space,
        open_space(server.url(space=place)) as other,
    ):
        found(space)
        with standing_still(replica):
            note(other, "Bees fly.", origin="2")
            time.sleep(0.6)
            assert found(space) == (["Bees fly.", "Bees hum."], None)


def test_process_reads_its_own_writes(server, replica, place):
    with open_space(address(server, replica, place, replica_lag="600")) as space:
        found(space)
        with standing_still(replica):
            note(space, "Bees fly.", origin="2")
            assert found(space) == (["Bees fly.", "Bees hum."], None)
        caught_up(server, replica)
        texts, told = found(space)
        assert texts == ["Bees fly.", "Bees hum."]
        assert told is not None


def test_whoever_names_an_event_reads_a_state_with_it(server, replica, place):
    with (
        open_space(address(server, replica, place, replica_lag="600")) as space,
        open_space(server.url(space=place)) as other,
    ):
        found(space)
        with standing_still(replica):
            note(other, "Bees fly.", origin="2")
            written = other.engine.ledger.sequence()
            assert found(space)[0] == ["Bees hum."]
            assert found(space, at_least=written) == (["Bees fly.", "Bees hum."], None)
            # The tables in memory have seen more than the replica has: the primary answers what it cannot.
            assert found(space)[0] == ["Bees fly.", "Bees hum."]


def test_writes_and_what_decides_about_them_are_asked_of_the_primary(server, replica, place):
    with (
        open_space(address(server, replica, place, replica_lag="600")) as space,
        open_space(server.url(space=place)) as other,
        standing_still(replica),
    ):
        note(other, "Bees fly.", origin="2")
        written = other.engine.ledger.sequence()
        items = [{"text": "Bees fly.", "origin": "2"}]
        assert space.ingest("source", input={"items": items}).counts == {"unchanged": 1}
        assert other.engine.ledger.sequence() == written


def test_a_space_that_the_replica_does_not_have_yet_is_read_at_the_primary(server, replica):
    name = new_space()
    with standing_still(replica), open_space(server.url(space=name)) as other:
        note(other, "Bees hum.", origin="1")
        with open_space(address(server, replica, name, replica_lag="600")) as space:
            assert found(space) == (["Bees hum."], None)


def test_primary_answers_if_the_replica_is_down(server, tmp_path, place, caplog):
    gone = server.url(space=place, replica=str(tmp_path))
    with open_space(gone) as space:
        assert found(space) == (["Bees hum."], None)
        assert found(space) == (["Bees hum."], None)
    assert caplog.text.count("does not respond") == 1


def test_the_reads_of_one_call_never_go_back(server, replica, place):
    space = PostgresSpace(target_in(server, place, replica=str(replica.folder)))
    try:
        with late_reads() as late:
            late.saw(10**6)
            with space.read() as transaction:
                transaction.first("SELECT 1")
        assert late.told is None
    finally:
        space.close()


class TestBound:
    """How old an answer may be, with a clock and a counter of the test's own."""

    @pytest.fixture
    def seconds(self):
        return [0.0]

    @pytest.fixture
    def judging(self, tmp_path, seconds):
        target = target_of(parse_address("postgresql://db/team?space=a&replica=copy", named=tmp_path))
        return Replica(target, most_seconds=10, clock=lambda: seconds[0])

    def test_it_is_the_time_since_the_primary_was_where_the_replica_is(self, judging, seconds):
        judging.note_primary(1.0, 5)
        judging.note_primary(3.0, 5)
        judging.note_primary(4.0, 8)
        seconds[0] = 6.0
        judged = judging._judged(7, LateReads(0))
        assert (judged.seconds, judged.behind) == (3.0, 1)
        assert judging._judged(8, LateReads(0)).seconds == 2.0

    def test_a_replica_of_which_nothing_is_known_is_too_late(self, judging):
        assert judging._judged(7, LateReads(0)) is None
        judging.note_primary(0.0, 8)
        assert judging._judged(7, LateReads(0)) is None

    def test_the_primary_is_asked_now_and_then_and_left_alone_when_it_is_away(self, judging, seconds):
        assert judging.begin_sample() == 0.0
        assert judging.begin_sample() is None
        seconds[0] = 1.0
        assert judging.begin_sample() == 1.0
        judging.note_no_primary()
        seconds[0] = 5.0
        assert judging.begin_sample() is None


@pytest.mark.parametrize(
    ("option", "hosts", "ports"),
    [
        ("copy", "copy", "5433"),
        ("one:6000,two", "one,two", "6000,5433"),
        ("[::1]:6000", "::1", "6000"),
        ("/run/copy", "/run/copy", "5433"),
    ],
)
def test_a_replica_is_named_by_its_host(tmp_path, option, hosts, ports):
    read = target_of(
        parse_address(f"postgresql://ada:p%40ss@db:5433/team?space=a&replica={option}&replica_lag=2.5", named=tmp_path)
    )
    told = psycopg.conninfo.conninfo_to_dict(read.replica)
    assert (told["host"], told["port"], told["user"], told["password"]) == (hosts, ports, "ada", "p@ss")
    assert read.replica_seconds == 2.5
    assert "p@ss" not in read.shown


@pytest.mark.parametrize("option", ["replica=a b", "replica=postgresql://ada@db/x", "replica=a,,b", "replica_lag=soon"])
def test_a_replica_that_cannot_be_meant_is_refused(tmp_path, option):
    with pytest.raises(InvalidInput, match=r"is not a (valid )?(host|number of seconds)") as caught:
        target_of(parse_address(f"postgresql://db/team?space=a&{option.replace('@', '%40')}", named=tmp_path))
    assert caught.value.hint
