"""Spaces behind PgBouncer in transaction mode, which runs each transaction in any of a few sessions of the server.

The suites of ledger and index run behind it with `TREERING_TEST_POSTGRES=postgresql://USER@POOLER/DATABASE`.
"""

import shutil
import subprocess
import time
from contextlib import closing
from threading import Thread

import psycopg
import pytest
from postgres_spaces import new_space, open_target

from space_parts import note, open_space
from treering.extensions.postgres.connection.schema import TABLES

SESSIONS = 2


@pytest.fixture(scope="module")
def pooler(server):
    """PgBouncer before the tests' server, in a folder of its own."""
    if not (program := shutil.which("pgbouncer")):
        pytest.skip("there is no program pgbouncer")
    before = server.beside()
    settings = before.folder / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={server.folder}\n[pgbouncer]\npool_mode = transaction\n"
        f"auth_type = trust\nauth_file = {before.folder / 'users'}\n"
        f"unix_socket_dir = {before.folder}\nlisten_addr =\nlisten_port = 5432\ndefault_pool_size = {SESSIONS}\n"
    )
    (before.folder / "users").write_text('"treering_owner" ""\n')
    process = subprocess.Popen([program, settings], user=server._user, stderr=subprocess.DEVNULL)
    while not (before.folder / ".s.PGSQL.5432").exists():
        assert process.poll() is None
        time.sleep(0.01)
    yield before
    process.terminate()
    process.wait()
    shutil.rmtree(before.folder)


def test_space_is_created_and_used_behind_a_pooler(pooler, database):
    with open_space(pooler.url(database, space="bees")) as space:
        for number in range(6):
            evidence = note(space, f"Bees hum in hive_{number}.", origin=f"{number}.md")
            [hit, *_] = space.query("search", input={"text": f"hive_{number}"}).hits
            assert hit.object_id == evidence["source_id"]
        assert space.lint("audit").verified


def test_writers_share_the_sessions_of_a_pooler(pooler):
    names, failed = [new_space() for _ in range(3 * SESSIONS)], []

    def work(name):
        try:
            with open_space(pooler.url(space=name)) as space:
                for number in range(4):
                    note(space, f"Bees hum in {name}.", origin=f"{number}.md")
                hits = space.query("search", input={"text": "bees"}).hits
                assert all(name in hit.text for hit in hits)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test fails by it
            failed.append(error)

    threads = [Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_no_session_of_a_pooler_remembers_a_space(pooler):
    with open_space(pooler.url(space=new_space())) as space:
        note(space, "Bees hum.", origin="a.md")
        for _ in range(2 * SESSIONS):
            with psycopg.connect(pooler.url()) as connection:
                for table in TABLES:
                    assert connection.execute(f"SELECT count(*) FROM treering.{table}").fetchone() == (0,)


def test_statements_are_prepared_without_a_pooler_alone(server, pooler):
    for place, prepares in ((server, True), (pooler, False)):
        with closing(open_target(place, new_space())) as space:
            connection = space._primary._pool.take(timeout=5)
            assert connection.prepares is prepares
            space._primary._pool.put_back(connection)
