"""What was acknowledged by a ledger on Postgres is there, whoever is killed: its writers or the server."""

import random
import tempfile
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from cutting_proxy import CuttingProxy
from ledger_processes import acknowledged, read_lines, start
from postgres_spaces import new_space, open_target, opened

import postgres_server
from postgres_server import needs_own_server
from treering.core.errors import Corrupt, Unavailable
from treering.core.patch import AddLink, Link, Update
from treering.extensions.postgres.connection import pools
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.target import target_of
from treering.extensions.postgres.ledger.jobs import PostgresLeases
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.system.address import parse_address
from treering.testing.builders import ADA, Builder
from treering.testing.fakes import SteppingClock


@pytest.fixture(scope="module")
def mortal(server):
    """A server that tests may kill."""
    started = postgres_server.new_server()
    yield started
    postgres_server.remove(started)


def check_all_there(server, space, identities):
    with opened(server, space) as ledger:
        ledger.verify()
        assert ledger.heads(identities).keys() == set(identities)


def kill_writers(server, rounds):
    space, chance, known = new_space(), random.Random(7), []
    for number in range(rounds):
        process = start("write", server.url(space=space), number, 100_000)
        said = read_lines(process, chance.randint(0, 4))
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        output, errors = process.communicate()
        assert errors == ""
        known += acknowledged(said + output)
        check_all_there(server, space, known)


def test_acknowledged_write_survives_a_killed_writer(server):
    kill_writers(server, rounds=4)


@pytest.mark.torture
def test_acknowledged_writes_survive_kill(server):
    kill_writers(server, rounds=100)


def kill_the_server(server, kills, each):
    """Kill a server under its writers, who repeat what found none; everything is there, once."""
    space = new_space()
    writers = [start("insist", server.url(space=space), number, each) for number in range(3)]
    said = [read_lines(writer, 2) for writer in writers]
    for _ in range(kills):
        time.sleep(0.1)
        server.kill()
        server.start()
    outputs = [writer.communicate(timeout=300) for writer in writers]
    assert [(writer.returncode, errors) for writer, (_, errors) in zip(writers, outputs, strict=True)] == [(0, "")] * 3
    known = [one for first, (rest, _) in zip(said, outputs, strict=True) for one in acknowledged(first + rest)]
    assert len(known) == 3 * each
    check_all_there(server, space, known)
    with opened(server, space) as ledger:
        assert ledger.sequence() == 3 * each


@pytest.mark.nightly
def test_a_server_that_is_killed_under_its_writers_loses_and_doubles_nothing(mortal):
    kill_the_server(mortal, kills=2, each=60)


@pytest.mark.torture
def test_a_server_that_is_killed_many_times_loses_and_doubles_nothing(mortal):
    kill_the_server(mortal, kills=40, each=2_000)


@pytest.mark.nightly
def test_many_processes_write_and_read_one_space_and_lose_nothing(server, tmp_path):
    space, stop = new_space(), tmp_path / "stop"
    with opened(server, space):
        pass
    address = server.url(space=space)
    writers = [start("write", address, number, 8) for number in range(4)]
    readers = [start("read", address, number, stop) for number in range(2)]
    outputs = [writer.communicate() for writer in writers]
    stop.touch()
    for process, (_, errors) in [*zip(writers, outputs, strict=True), *((it, it.communicate()) for it in readers)]:
        assert (process.returncode, errors) == (0, "")
    known = [identity for output, _ in outputs for identity in acknowledged(output)]
    assert len(known) == 4 * 8 * 2
    check_all_there(server, space, known)
    with opened(server, space) as ledger:
        assert ledger.sequence() == 4 * 8 * 3


def test_many_threads_of_one_process_write_and_read_and_none_is_turned_away(server):
    failed = []
    with opened(server, new_space()) as ledger:

        def work(number):
            make = Builder(SteppingClock(seed=str(number)))
            try:
                for step in range(5):
                    node = make.node(f"Node {number} {step}")
                    ledger.commit(make.patch(node))
                    assert ledger.get(node.id)
            except Exception as error:  # noqa: BLE001 - whatever it is, the test fails by it
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert ledger.verify().seq == ledger.sequence()


def test_a_writer_that_stops_half_way_holds_up_writers_for_a_bounded_time_and_no_reader(server):
    space, clock = new_space(), SteppingClock()
    make = Builder(clock)
    with (
        closing(open_target(server, space)) as stuck,
        closing(open_target(server, space, wait_seconds=1)) as waiting,
    ):
        ledger = PostgresLedger(waiting, clock=clock)
        with stuck.write() as transaction:
            transaction.rows("SELECT 1")
            with pytest.raises(Unavailable, match="locked by other writers"):
                ledger.commit(make.patch(make.node("Hive")))
            assert ledger.sequence() == 0
        ledger.commit(make.patch(make.node("Hive")))


def test_an_open_space_goes_on_when_its_server_was_begun_again(mortal):
    clock = SteppingClock()
    make = Builder(clock)
    with opened(mortal, new_space(), clock) as ledger:
        ledger.commit(make.patch(make.node("Before")))
        mortal.kill()
        mortal.start()
        assert ledger.sequence() == 1
        ledger.commit(make.patch(make.node("Behind")))
        assert ledger.verify().seq == 2


@pytest.mark.nightly
def test_without_a_server_a_call_ends_in_bounded_time(mortal, caplog):
    clock, space = SteppingClock(), new_space()
    make = Builder(clock)
    with closing(open_target(mortal, space, wait_seconds=1)) as opened_space:
        ledger = PostgresLedger(opened_space, clock=clock)
        mortal.stop()
        try:
            for call in (ledger.sequence, lambda: ledger.commit(make.patch(make.node("Hive")))):
                with pytest.raises(Unavailable) as caught:
                    call()
                assert caught.value.hint
        finally:
            mortal.start()
        # The pool looks for the server again in growing pauses, which may be longer than this space waits.
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(Unavailable):
                assert ledger.sequence() == 0
                return
        pytest.fail("the space does not come back with its server")


def test_calls_in_an_outage_do_not_wait_their_whole_time(mortal, monkeypatch):
    monkeypatch.setattr(pools, "_OUTAGE_SECONDS", 1.0)
    ended = []
    with closing(open_target(mortal, new_space(), wait_seconds=3600)) as space:
        ledger = PostgresLedger(space, clock=SteppingClock())

        def call():
            with pytest.raises(Unavailable):
                ledger.sequence()
            ended.append(space._primary._pool._is_down)

        mortal.stop()
        try:
            calls = [threading.Thread(target=call, daemon=True) for _ in range(12)]
            for thread in calls:
                thread.start()
            for thread in calls:
                thread.join(60)
            assert ended == [True] * 12
        finally:
            mortal.start()


ENDINGS = {
    "a server that is shut down": "PERFORM pg_terminate_backend(pg_backend_pid());",
    "a coordinator of Citus that lost its worker": "RAISE 'could not commit' USING ERRCODE = 'internal_error';",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_commit_fails_if_the_connection_is_lost_before_it(mortal, ending):
    """A trigger acts in the middle of the commit."""
    space, clock = new_space(), SteppingClock()
    make = Builder(clock)
    with opened(mortal, space, clock) as ledger, psycopg.connect(mortal.url(), autocommit=True) as owner:
        owner.execute(
            f"CREATE FUNCTION treering.end_it() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN {ending} RETURN NULL; END$$"
        )
        owner.execute(
            "CREATE CONSTRAINT TRIGGER ending AFTER INSERT ON treering.audit DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION treering.end_it()"
        )
        try:
            with pytest.raises(Unavailable, match="during a commit; nothing was changed"):
                ledger.commit(make.patch(make.node("Hive")))
        finally:
            owner.execute("DROP TRIGGER ending ON treering.audit")
            owner.execute("DROP FUNCTION treering.end_it()")
        assert ledger.sequence() == 0
        ledger.commit(make.patch(make.node("Hive")))


@needs_own_server
def test_a_commit_that_was_done_is_reported_as_done_though_its_answer_was_lost(server):
    """The answer to the commit never arrives: the ledger looks what became of it."""
    clock = SteppingClock()
    make = Builder(clock)
    with tempfile.TemporaryDirectory() as folder, closing(CuttingProxy(Path(folder), server.folder)) as proxy:
        address = f"postgresql://{postgres_server.OWNER}@/tests?host={folder}&space={new_space()}"
        with closing(PostgresSpace(target_of(parse_address(address, named=Path(folder))))) as space:
            ledger = PostgresLedger(space, clock=clock)
            node = make.node("Hive")
            proxy.cut.set()
            assert ledger.commit(make.patch(node)).sequence == 1
            assert not proxy.cut.is_set()
            assert ledger.get(node.id).name == "Hive"
            assert ledger.sequence() == 1


def test_leases_are_held_by_the_servers_time_over_all_connections(server):
    space = new_space()
    with closing(open_target(server, space)) as one, closing(open_target(server, space)) as other:
        first, second = PostgresLeases(one), PostgresLeases(other)
        assert first.take("work", "ada", seconds=60)
        assert not second.take("work", "bob", seconds=60)
        assert second.holder("work") == "ada"
        assert first.take("work", "ada", seconds=0)
        assert second.take("work", "bob", seconds=60)


PARTITIONS = [pytest.param(table, marks=needs_own_server) for table in ("objects_0", "audit_3")]


class TestRowLevelSecurity:
    """The second fence: a query that forgets the space sees no other one."""

    @pytest.fixture
    def spaces(self, server):
        clock = SteppingClock()
        make = Builder(clock)
        with closing(open_target(server, new_space())) as one, closing(open_target(server, new_space())) as other:
            for space in (one, other):
                PostgresLedger(space, clock=clock).commit(make.patch(make.source("Secret words.")))
            yield one, other

    @pytest.mark.parametrize(
        "table", ["objects", "revisions", "texts", "segments", "audit", "patches", "spaces", *PARTITIONS]
    )
    def test_a_query_without_its_space_sees_that_space_alone(self, spaces, table):
        one, other = spaces
        with one.read() as mine, other.read() as theirs:
            sql = f"SELECT DISTINCT space FROM {table}"
            assert len(mine.rows(sql)) <= 1
            assert set(mine.rows(sql)).isdisjoint(theirs.rows(sql))

    def test_names_of_other_spaces_are_not_seen(self, spaces):
        with spaces[0].read() as transaction:
            assert transaction.rows("SELECT name FROM space_names") == []

    def test_a_row_of_another_space_is_neither_written_nor_changed(self, spaces):
        one, other = spaces
        with other.read() as theirs:
            foreign = theirs.first("SELECT space FROM spaces")
        insert = "INSERT INTO texts(space, hash, body) VALUES(%(foreign)s, '', '')"
        with pytest.raises(Unavailable, match="row-level security"), one.write() as transaction:
            transaction.later(insert, foreign=foreign)
        with one.write() as transaction:
            transaction.later("UPDATE audit SET target = 'gone' WHERE space = %(foreign)s", foreign=foreign)
            transaction.later("DELETE FROM objects WHERE space = %(foreign)s", foreign=foreign)
        assert PostgresLedger(other, clock=SteppingClock()).verify().seq == 1

    def test_connection_without_a_space_sees_nothing(self, spaces, server):
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT count(*) FROM treering.objects").fetchone() == (0,)


EDITS = {
    "a word of a segment": "UPDATE texts SET body = 'Ada has 9 hives.' WHERE body = 'Ada has 3 hives.'",
    "a missing text": "DELETE FROM texts",
    "a missing segment": "DELETE FROM segments",
    "the place of a segment": "UPDATE segments SET place = '{}'",
    "a segment that seems to have vanished": "UPDATE segments SET vanished = 1",
    "an object's content": "UPDATE revisions r SET body = (SELECT body FROM revisions v WHERE v.space = r.space "
    "AND v.id = r.id AND v.revision = 2) WHERE id LIKE 'node:%' AND revision = 1",
    "an object's state": "UPDATE objects SET status = 'archived' WHERE type = 'node'",
    "a missing object": "DELETE FROM objects WHERE type = 'node'",
    "a missing revision": "DELETE FROM revisions WHERE id LIKE 'node:%' AND revision = 1",
    "a revision that is not an object": "UPDATE revisions SET body = '{}' WHERE id LIKE 'node:%'",
    "a revision that is not text": "UPDATE revisions SET body = '\\xff00' WHERE id LIKE 'node:%'",
    "a revision moved in time": "UPDATE revisions SET seq = 1 WHERE id LIKE 'node:%' AND revision = 2",
    "what knowledge rests on": "DELETE FROM dependencies",
    "what objects refer to": "DELETE FROM referrers",
    "a missing link": "DELETE FROM links",
    "a link cut short": "UPDATE links SET removed = added",
    "a missing patch": "DELETE FROM patches WHERE status = 'applied'",
    "a row of a patch": "UPDATE patches SET status = 'rejected' WHERE status = 'proposed'",
    "what a key stands for": "UPDATE receipts SET body = body || '\\x00'",
    "an event's time": "UPDATE audit SET timestamp = '2020-01-01T00:00:00.000000Z' WHERE seq = 2",
    "a missing event": "DELETE FROM audit WHERE seq = 2",
    "a cut tail": "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
    "the end of the log": "UPDATE spaces SET sequence = sequence - 1",
    "a policy nobody set": "UPDATE spaces SET policy_seq = NULL",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_behind_the_ledgers_back_does_not_verify(server, edit):
    clock = SteppingClock()
    make = Builder(clock)
    with closing(open_target(server, new_space())) as space:
        ledger = PostgresLedger(space, clock=clock, server_time=False)
        fill(ledger, make)
        ledger.verify()
        with space.write() as transaction:
            transaction.later(EDITS[edit].replace("%'", "%%'"))
        with pytest.raises(Corrupt):
            ledger.verify()


def fill(ledger, make):
    """Write something into every table."""
    source, node = make.source("Ada has 3 hives.", "x" * 600), make.node("Hive")
    fact = make.fact("Ada", "hives", 3, make.evidence(source))
    link = AddLink(link=Link(type="about", source=fact.id, target=node.id))
    ledger.commit(make.patch(source, node, fact, link), idempotency_key="first")
    ledger.commit(make.patch(Update(id=node.id, expected_revision=1, changes={"summary": "Bees live there."})))
    ledger.propose(make.patch(make.node("Maybe")))
    policy = ledger.policy.model_copy(update={"newer_supersedes": False})
    ledger.change_policy(policy, by=ADA)
