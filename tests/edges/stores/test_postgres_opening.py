"""Opening spaces on Postgres: what is wrong with an address is said, with no password in it."""

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
from treering.edges.address import parse_address
from treering.edges.anchors import FileAnchor
from treering.edges.stores.postgres import schema
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.target import target_of
from treering.testing.builders import Builder
from treering.testing.clocks import SteppingClock


def target(address, tmp_path):
    return target_of(parse_address(address, named=tmp_path))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://ada:hunter2@db/team", "names no space"),
        ("postgresql://ada:hunter2@db/team?space=a%00b", "is no name of a space"),
        (f"postgresql://ada:hunter2@db/team?space={'x' * 201}", "is no name of a space"),
        ("postgresql://ada:hunter2@db/team?space=a&pool=many", "is no number of connections"),
        ("postgresql://ada:hunter2@db/team?space=a&pool=1", "is no number of connections"),
        ("postgresql://ada:hunter2@db/team?space=a&sslmod=require", "has no option 'sslmod'"),
        ("postgresql://ada:hunter2@db/team?space=a&options=-c", "has no option 'options'"),
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


def test_a_server_that_is_away_is_said_to_be_so(tmp_path):
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
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


def test_two_names_are_two_spaces_of_one_database(server):
    clock = SteppingClock()
    make = Builder(clock)
    with opened(server, new_space(), clock) as one, opened(server, new_space(), clock) as other:
        one.commit(make.patch(make.node("Hive")))
        assert (one.sequence(), other.sequence()) == (1, 0)
        assert list(other.records()) == []


def test_a_space_is_found_again_with_what_it_holds(server):
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
    with pytest.raises(Corrupt, match="does not hold the audit event 1"), opened(server, new_space(), anchor=anchor):
        pass


class TestSchemaVersions:
    """Each test has a database of its own."""

    @pytest.fixture
    def connection(self, server):
        name = new_space()
        with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as owner:
            owner.execute(f'CREATE DATABASE "{name}" OWNER treering_owner')
        with psycopg.connect(server.url(name), autocommit=True) as connection:
            yield connection
        with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as owner:
            owner.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def test_what_broke_off_between_two_steps_goes_on_there(self, connection):
        first = schema.VERSIONS[0]
        with pytest.raises(psycopg.errors.UndefinedTable):
            schema.migrate(connection, [[*first[:3], "SELECT broken FROM nowhere", *first[3:]]])
        assert not schema.is_current(connection)
        # A step that was made already would fail here: its table is there.
        schema.migrate(connection)
        assert schema.is_current(connection)

    def test_many_who_open_a_new_database_at_once_make_its_tables_once(self, server, connection):
        address, begin, failed = server.url(connection.info.dbname), threading.Barrier(6), []

        def open_it():
            begin.wait(10)
            try:
                with psycopg.connect(address, autocommit=True) as own:
                    schema.migrate(own)
            except psycopg.Error as error:
                failed.append(error)

        threads = [threading.Thread(target=open_it) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert schema.is_current(connection)

    def test_a_later_version_adds_its_steps_and_makes_no_earlier_one_again(self, connection):
        schema.migrate(connection)
        later = [*schema.VERSIONS, ["CREATE TABLE treering.colours(space bigint)"]]
        assert not schema.is_current(connection, later)
        schema.migrate(connection, later)
        assert schema.is_current(connection, later)

    def test_a_database_of_a_newer_treering_is_refused(self, connection):
        schema.migrate(connection, [*schema.VERSIONS, ["SELECT 1"]])
        for look in (schema.is_current, schema.migrate):
            with pytest.raises(InvalidInput, match="newer Treering") as caught:
                look(connection)
            assert "Upgrade" in caught.value.hint

    def test_every_table_is_keyed_by_the_space_first_and_partitioned_by_it(self, connection):
        schema.migrate(connection)
        keys = connection.execute(
            "SELECT t.relname, p.partstrat, a.attname FROM pg_class t JOIN pg_index i ON i.indrelid = t.oid "
            "JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] "
            "LEFT JOIN pg_partitioned_table p ON p.partrelid = t.oid "
            "WHERE t.relnamespace = 'treering'::regnamespace AND NOT t.relispartition "
            "AND t.relname NOT IN ('space_names', 'migrations', 'servers', 'placements', 'membership')"
        ).fetchall()
        assert {row[0] for row in keys} >= {"objects", "audit", "segments", "jobs", "leases", "spaces"}
        assert {row[1:] for row in keys} == {("h", "space")}


def test_a_role_that_does_not_own_the_tables_needs_only_rights_on_them(server):
    open_target(server, new_space()).close()
    with psycopg.connect(server.url("tests", "postgres"), autocommit=True) as owner:
        owner.execute("CREATE ROLE writer LOGIN")
    address = server.url("tests", "writer", space=new_space())
    with pytest.raises(Unavailable, match="may not do this") as caught:
        PostgresSpace(target(address, server.folder))
    assert "SELECT, INSERT, UPDATE, DELETE" in caught.value.hint
    with psycopg.connect(server.url("tests"), autocommit=True) as owner:
        owner.execute("GRANT USAGE ON SCHEMA treering TO writer")
        for table in ("space_names", "migrations", *schema.TABLES):
            owner.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON treering.{table} TO writer")
    with closing(treering.open_ledger(address)) as ledger:
        make = Builder(SteppingClock())
        ledger.commit(make.patch(make.node("Hive")))
        assert ledger.verify().seq == 1
