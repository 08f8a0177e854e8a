"""Databases of older schema versions: migrated when a space is opened, in steps that resume, while others use them."""

import gzip
import random
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from postgres_spaces import new_space

import treering
from treering.core.errors import InvalidInput
from treering.extensions.postgres.connection.schema import VERSIONS, is_current, migrate
from treering.testing.fakes import HashingEmbedder

FIXTURES = Path(__file__).parents[1] / "fixtures"
OLDER = sorted(FIXTURES.glob("postgres_v*.sql.gz"))
ROWS = "-- Rows, to be written by a role that no fence around a space holds."


def as_superuser(server, database="postgres"):
    return psycopg.connect(server.url(database, "postgres"), autocommit=True)


@contextmanager
def new_database(server, like=None):
    """Make a database of its own, empty or like another one; return its name."""
    name = new_space()
    with as_superuser(server) as owner:
        template = f'TEMPLATE "{like}"' if like else ""
        owner.execute(f'CREATE DATABASE "{name}" OWNER treering_owner {template}')
    try:
        yield name
    finally:
        with as_superuser(server) as owner:
            owner.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def connection(server):
    with new_database(server) as name, psycopg.connect(server.url(name), autocommit=True) as connection:
        yield connection


def version_of(path):
    return path.name.partition(".")[0]


@pytest.fixture(scope="module", params=OLDER[:-1], ids=version_of)
def kept(request, server):
    """Put back the database of an older version, to be copied by each test."""
    with put_back(server, request.param) as name:
        yield name


@contextmanager
def put_back(server, path):
    steps, rows = gzip.decompress(path.read_bytes()).decode().split(ROWS)
    with new_database(server) as name:
        with as_superuser(server, name) as connection:
            connection.execute("SET ROLE treering_owner")
            connection.execute(steps)
            connection.execute("RESET ROLE")
            connection.execute(rows)
        yield name


@pytest.fixture
def older(server, kept):
    with new_database(server, kept) as name:
        yield name


def opened(server, database):
    address = server.url(database, space="older")
    return treering.open(address, channel="user", background=False, create=False, embedder=HashingEmbedder())


def require_whole(server, database):
    with opened(server, database) as space:
        report = space.lint(mode="audit")
        assert (report.verified, report.differences) == (True, ())
        assert list(space.engine.index.upkeep.differences()) == []
        decisions = {"filter": {"kind": "decision"}}
        hit = space.query(mode="search", input={"text": "Which store?"}, options=decisions).hits[0]
        assert (hit.title, hit.status) == ("SQLite in WAL mode", "active")
        space.embed_pending()
        assert space.engine.index.vectors.lag().pending == 0
        items = [{"kind": "note", "origin": "new", "title": "new", "text": "Written by a newer version."}]
        assert space.ingest(mode="source", input={"items": items}).counts == {"created": 1}
        assert space.engine.ledger.verify().seq > 0


def made_steps(server, database):
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        return connection.execute("SELECT count(*) FROM treering.migrations").fetchone()[0]


def test_there_is_a_fixture_of_every_schema_version():
    assert [path.name for path in OLDER] == [f"postgres_v{number}.sql.gz" for number in range(1, len(VERSIONS) + 1)]


def test_the_steps_of_a_version_are_never_edited():
    for number, path in enumerate(OLDER, start=1):
        steps = gzip.decompress(path.read_bytes()).decode().split(ROWS)[0]
        for step in (step for version in VERSIONS[:number] for step in version):
            assert step in steps, f"A step that {path.name} was made with is another one now: append a version instead."


@pytest.mark.parametrize("path", OLDER, ids=version_of)
def test_opening_a_space_migrates_a_database_of_any_version(server, path):
    with put_back(server, path) as database:
        require_whole(server, database)


@pytest.mark.sampled(1)
def test_a_migration_that_was_killed_at_any_step_is_ended_by_the_next_process(server, kept):
    program = Path(__file__).parent / "migrating_process.py"
    chance = random.Random(kept)
    for _ in range(2):
        with new_database(server, kept) as database:
            before = made_steps(server, database)
            last = chance.randint(1, 3 * (sum(map(len, VERSIONS)) - before))
            ran = subprocess.run([sys.executable, program, server.url(database), str(last)], check=False)
            assert ran.returncode == -signal.SIGKILL
            assert made_steps(server, database) < sum(map(len, VERSIONS))
            require_whole(server, database)
            assert made_steps(server, database) == sum(map(len, VERSIONS))


@pytest.mark.sampled(1)
def test_a_migration_lets_others_read_and_write_while_it_waits_for_one_that_is_slow(server, older):
    with (
        psycopg.connect(server.url(older)) as slow,
        psycopg.connect(server.url(older), autocommit=True) as other,
        psycopg.connect(server.url(older), autocommit=True) as own,
    ):
        looked_at = ("treering.space_names", "treering.spaces")
        for table in looked_at:
            slow.execute(f"SELECT count(*) FROM {table}")  # in a transaction that goes on
        failed = []

        def go_on():
            try:
                migrate(own)
            except psycopg.Error as error:
                failed.append(error)

        migrating = threading.Thread(target=go_on)
        migrating.start()
        other.execute("SET statement_timeout = '10s'")
        for _ in range(20):
            for table in looked_at:
                other.execute(f"SELECT count(*) FROM {table}")
            other.execute("SELECT pg_sleep(0.05)")
        assert migrating.is_alive()
        slow.rollback()
        migrating.join(60)
        assert (failed, is_current(other)) == ([], True)


def test_roles_keep_their_rights_on_what_a_version_adds(server):
    with put_back(server, OLDER[0]) as older:
        require_same_rights(server, older)


def require_same_rights(server, older):
    role = f"reader_{new_space()}"
    with as_superuser(server, older) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN")
        owner.execute(f"GRANT SELECT ON treering.jobs TO {role}")
        try:
            with psycopg.connect(server.url(older), autocommit=True) as connection:
                migrate(connection)
            rights = "SELECT has_table_privilege(%s, 'treering.promised_work', %s)"
            assert [owner.execute(rights, (role, right)).fetchone() for right in ("SELECT", "INSERT")] == [
                (True,),
                (False,),
            ]
        finally:
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_interrupted_migration_continues_at_its_step(connection):
    first = VERSIONS[0]
    with pytest.raises(psycopg.errors.UndefinedTable):
        migrate(connection, [[*first[:3], "SELECT broken FROM nowhere", *first[3:]]])
    assert not is_current(connection)
    # A step that was made already would fail here: its table is there.
    migrate(connection)
    assert is_current(connection)


def test_concurrent_opening_creates_the_tables_once(server, connection):
    address, begin, failed = server.url(connection.info.dbname), threading.Barrier(6), []

    def open_it():
        begin.wait(10)
        try:
            with psycopg.connect(address, autocommit=True) as own:
                migrate(own)
        except psycopg.Error as error:
            failed.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert is_current(connection)


def test_a_later_version_adds_its_steps_and_makes_no_earlier_one_again(connection):
    migrate(connection)
    later = [*VERSIONS, ["CREATE TABLE treering.colours(space bigint)"]]
    assert not is_current(connection, later)
    migrate(connection, later)
    assert is_current(connection, later)


def test_a_database_of_a_newer_treering_is_refused(connection):
    migrate(connection, [*VERSIONS, ["SELECT 1"]])
    for look in (is_current, migrate):
        with pytest.raises(InvalidInput, match="newer Treering") as caught:
            look(connection)
        assert "Upgrade" in caught.value.hint


def test_every_table_is_keyed_by_the_space_first_and_partitioned_by_it(connection):
    migrate(connection)
    keys = connection.execute(
        "SELECT t.relname, p.partstrat, a.attname FROM pg_class t JOIN pg_index i ON i.indrelid = t.oid "
        "JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] "
        "LEFT JOIN pg_partitioned_table p ON p.partrelid = t.oid "
        "WHERE t.relnamespace = 'treering'::regnamespace AND NOT t.relispartition "
        "AND t.relname NOT IN ('space_names', 'migrations', 'servers', 'placements', 'membership')"
    ).fetchall()
    assert {row[0] for row in keys} >= {"objects", "audit", "segments", "jobs", "leases", "spaces"}
    assert {row[1:] for row in keys} == {("h", "space")}
