"""Opening spaces on Postgres: what is wrong with an address is said, with no password in it."""

import socket
import subprocess
import sys
import threading
from contextlib import closing

import psycopg
import pytest
from postgres_spaces import new_space, open_target, opened

import treering
from space_parts import decide, note, open_space
from treering.core.errors import Corrupt, InvalidInput, NotFound, Unavailable
from treering.extensions.postgres.connection import schema
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.target import target_of
from treering.spaces.policy_and_anchor import FileAnchor
from treering.system.address import parse_address
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


def target(address, tmp_path):
    return target_of(parse_address(address, named=tmp_path))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://ada:hunter2@db/team", "does not name a space"),
        ("postgresql://ada:hunter2@db/team?space=a%00b", "is not a valid space name"),
        (f"postgresql://ada:hunter2@db/team?space={'x' * 201}", "is not a valid space name"),
        ("postgresql://ada:hunter2@db/team?space=a&pool=many", "is not a number of connections"),
        ("postgresql://ada:hunter2@db/team?space=a&pool=1", "is not a number of connections"),
        ("postgresql://ada:hunter2@db/team?space=a&sslmod=require", "Unknown option 'sslmod'"),
        ("postgresql://ada:hunter2@db/team?space=a&options=-c", "Unknown option 'options'"),
        ("postgresql://ada:hunter2@db/team?space=a&directory=on", "directory of servers, which Treering no longer has"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(tmp_path, address, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        target(address, tmp_path)
    assert caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint} {caught.value.details}"


def test_an_address_may_name_hosts_a_port_encryption_and_connections(tmp_path):
    read = target("postgresql://ada:p%40ss@one:5433,two/team?space=team/acme&sslmode=require&pool=4", tmp_path)
    told = psycopg.conninfo.conninfo_to_dict(read.conninfo)
    assert (read.space, read.connections) == ("team/acme", 4)
    assert (told["host"], told["port"], told["dbname"]) == ("one,two", "5433,", "team")
    assert (told["user"], told["password"], told["sslmode"]) == ("ada", "p@ss", "require")
    assert "p@ss" not in read.shown
    assert "p%40ss" not in read.shown


def test_unreachable_server_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="Cannot reach") as caught:
        PostgresSpace(target(f"postgresql://ada:hunter2@/team?space=a&host={tmp_path}", tmp_path))
    assert "runs" in caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(("database", "user"), [("nowhere", "treering_owner"), ("tests", "nobody_known")])
def test_a_database_or_a_user_that_is_not_there_is_named(server, database, user):
    address = server.url(database, user, space="a")
    with pytest.raises(Unavailable, match=f"{'nowhere' if database == 'nowhere' else 'nobody_known'}.* does not exist"):
        PostgresSpace(target(address, server.folder))


def test_a_space_that_is_not_there_is_only_made_where_that_is_wanted(server):
    space = new_space()
    with pytest.raises(NotFound, match="There is no space") as caught:
        open_target(server, space, create=False)
    assert "init" in caught.value.hint
    open_target(server, space).close()
    open_target(server, space, create=False).close()


@pytest.mark.parametrize(
    ("mark", "error", "said", "hint"),
    [
        ("to:5f:db2", Unavailable, "was moved to the server 'db2'", "treering.servers"),
        ("from:5f", Unavailable, "is an unfinished copy of a move between", "postgres move"),
        ("from:copy", Unavailable, "is an unfinished copy of a move", "treering move"),
        ("5f", Corrupt, "has the move state '5f'", "backup"),
    ],
)
def test_a_space_that_its_database_does_not_serve_is_refused(server, mark, error, said, hint):
    space = new_space()
    with closing(open_target(server, space)) as opened_space:
        with opened_space.write() as transaction:
            transaction.later("UPDATE spaces SET moving = %(mark)s WHERE space = %(space)s", mark=mark)
        with pytest.raises(error, match=said), opened_space.read() as transaction:
            transaction.first("SELECT 1")
    with pytest.raises(error, match=said) as caught, opened(server, space) as ledger:
        ledger.sequence()
    assert hint in caught.value.hint


DIRECTORY = """
CREATE TABLE treering.servers(name text PRIMARY KEY, address text NOT NULL);
CREATE TABLE treering.placements(name text PRIMARY KEY, server text NOT NULL);
CREATE TABLE treering.membership(one boolean PRIMARY KEY DEFAULT true, server text NOT NULL, directory text NOT NULL);
"""
"""Tables of a database that an earlier version made."""


def test_a_server_of_an_earlier_directory_opens_its_spaces_and_makes_new_ones(server, database):
    address = server.url(database, space="old")
    with closing(treering.open_ledger(address)) as ledger:
        make = Builder(SteppingClock())
        ledger.commit(make.patch(make.node("Hive")))
    with psycopg.connect(server.url(database), autocommit=True) as owner:
        owner.execute(DIRECTORY)
        owner.execute("INSERT INTO treering.membership(server, directory) VALUES('db1', 'the directory')")
    with closing(treering.open_ledger(address, create=False)) as ledger:
        assert ledger.verify().seq == 1
    treering.open_ledger(server.url(database, space="new")).close()


def test_a_space_of_an_earlier_directory_is_not_created_there_again(server, database):
    treering.open_ledger(server.url(database, space="other")).close()
    with psycopg.connect(server.url(database), autocommit=True) as owner:
        owner.execute(DIRECTORY)
        owner.execute("INSERT INTO treering.servers(name, address) VALUES('db1', 'postgresql://db1/team')")
        owner.execute("INSERT INTO treering.placements(name, server) VALUES('notes', 'db1')")
    with pytest.raises(InvalidInput, match="has it on postgresql://db1/team"):
        treering.open_ledger(server.url(database, space="notes"))
    treering.open_ledger(server.url(database, space="more")).close()


def test_a_server_that_hangs_holds_up_no_space_of_another_one(server):
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        address = f"postgresql://ada@127.0.0.1:{port}/x?space=y&connect_timeout=30&sslmode=disable"

        def wait_for_it():
            with pytest.raises(Unavailable):
                treering.open_ledger(address)

        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        accepted, _ = silent.accept()
        try:
            with closing(treering.open_ledger(server.url(space=new_space(), application_name="another"))) as ledger:
                assert ledger.sequence() == 0
            assert waiting.is_alive()
        finally:
            accepted.close()
            waiting.join()


def test_two_names_are_two_spaces_of_one_database(server):
    clock = SteppingClock()
    make = Builder(clock)
    with opened(server, new_space(), clock) as one, opened(server, new_space(), clock) as other:
        one.commit(make.patch(make.node("Hive")))
        assert (one.sequence(), other.sequence()) == (1, 0)
        assert list(other.records()) == []


def test_reopened_space_has_its_content(server):
    space, clock = new_space(), SteppingClock()
    make = Builder(clock)
    node = make.node("Hive")
    with opened(server, space, clock) as ledger:
        ledger.commit(make.patch(node))
    with opened(server, space, clock) as ledger:
        assert ledger.get(node.id).name == "Hive"
        assert ledger.verify().seq == 1


def test_a_closed_space_says_that_it_was_closed(server):
    with opened(server, new_space()) as ledger:
        pass
    with pytest.raises(Unavailable, match="was closed"):
        ledger.sequence()


def test_a_file_is_copied_to_postgres_and_back_through_the_public_names(server, tmp_path):
    address, back = server.url(space=new_space()), f"sqlite:{tmp_path / 'back.db'}"
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        known = decide(space, "SQLite", note(space, "We use SQLite."))
        head = space.engine.ledger.verify()
        with closing(treering.open_ledger(address)) as copy:
            copy.load(space.engine.ledger.records())
            assert copy.verify() == head
    with closing(treering.open_ledger(address, create=False)) as copy, closing(treering.open_ledger(back)) as file:
        file.load(copy.records())
    with open_space(back) as space:
        assert space.engine.ledger.verify() == head
        assert space.engine.ledger.get(known).title == "SQLite"
        assert space.query("search", input={"text": "SQLite"}).hits


def test_without_the_driver_the_extra_is_named():
    program = """
import sys
sys.modules["psycopg"] = None
import treering
try:
    treering.open_ledger("postgresql://ada:hunter2@db/x?space=a")
except treering.MissingExtra as error:
    print(error.hint, "hunter2" in f"{error} {error.hint}")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "Install it: pip install 'treering[postgres]'. False\n"


def test_an_anchor_shows_that_a_database_was_put_back(server, tmp_path):
    space, clock, anchor = new_space(), SteppingClock(), FileAnchor(tmp_path / "anchor.json")
    make = Builder(clock)
    with opened(server, space, clock, anchor=anchor) as ledger:
        ledger.commit(make.patch(make.node("Hive")))
        assert anchor.read() == ledger.verify()
    with pytest.raises(Corrupt, match="does not contain audit event 1"), opened(server, new_space(), anchor=anchor):
        pass


def test_a_role_that_does_not_own_the_tables_needs_only_rights_on_them(server):
    open_target(server, new_space()).close()
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as owner:
        owner.execute("CREATE ROLE writer LOGIN")
    address = server.url("tests", "writer", space=new_space())
    with pytest.raises(Unavailable, match="lacks a permission") as caught:
        PostgresSpace(target(address, server.folder))
    assert "treering postgres plan --writer" in caught.value.hint
    with psycopg.connect(server.url("tests"), autocommit=True) as owner:
        owner.execute("GRANT USAGE ON SCHEMA treering TO writer")
        for table in ("space_names", "migrations", *schema.TABLES):
            owner.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON treering.{table} TO writer")
    with closing(treering.open_ledger(address)) as ledger:
        make = Builder(SteppingClock())
        ledger.commit(make.patch(make.node("Hive")))
        assert ledger.verify().seq == 1
