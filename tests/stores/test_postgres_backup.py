"""Backups of a database by its own programs: what they put back verifies, and is the space of that moment."""

import shutil
import sys
import threading
from contextlib import closing

import psycopg
import pytest
from postgres_spaces import new_space

import treering
from treering.core.errors import Corrupt
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server's programs are run as another user")


@pytest.fixture
def fill(server):
    """Commit a source and a node to a space, and return the head of its log."""
    make = Builder(SteppingClock())

    def commit(name):
        with closing(treering.open_ledger(server.url(space=name))) as ledger:
            source = make.source("3 hives.", origin=f"{make.node('N').id}.md")
            ledger.commit(make.patch(source, make.fact(f"Ada {source.id}", "hives", 3, make.evidence(source))))
            return ledger.verify()

    return commit


def head_of(address):
    with closing(treering.open_ledger(address, create=False)) as ledger:
        return ledger.verify()


def test_a_dump_made_under_writers_is_put_back_and_passes_lint_audit(server, fill, tmp_path):
    quiet, busy = new_space(), new_space()
    before, known = fill(quiet), fill(busy)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            fill(busy)

    writer = threading.Thread(target=write)
    writer.start()
    dump = server.folder / f"{quiet}.dump"
    try:
        server.run("pg_dump", "--format=custom", "--schema=treering", f"--file={dump}", "tests")
    finally:
        stop.set()
        writer.join()
    database = f"restored_{quiet}"
    server.run("createdb", "--owner=treering_owner", database)
    server.run("pg_restore", "--exit-on-error", f"--dbname={database}", dump)
    assert head_of(server.url(database, space=quiet)) == before
    assert head_of(server.url(database, space=busy)).seq >= known.seq
    copy = f"sqlite:{tmp_path / 'copy.db'}"
    treering.move(server.url(database, space=quiet), copy, embedder=HashingEmbedder())
    with treering.open(copy, background=False, embedder=HashingEmbedder()) as space:
        assert space.lint("audit").verified
    fill(quiet)
    assert head_of(server.url(database, space=quiet)) == before


@pytest.mark.nightly
def test_a_base_backup_and_the_log_go_back_to_a_moment_before_a_mistake(server, fill, tmp_path):
    name, restored = new_space(), server.beside()
    try:
        fill(name)
        server.run("pg_basebackup", "--wal-method=none", "--checkpoint=fast", f"--pgdata={restored.folder / 'data'}")
        wanted = fill(name)
        with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_create_restore_point(%s)", (name,))
        mistake = fill(name)
        with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_switch_wal()")
        settings = {
            "restore_command": f"cp {server.folder}/data/pg_wal/%f %p",
            "recovery_target_name": name,
            "recovery_target_action": "promote",
        }
        with (restored.folder / "data" / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in settings.items())
        (restored.folder / "data" / "recovery.signal").touch()
        restored.start()
        assert head_of(restored.url(space=name)) == wanted
        # Nothing in the database says that it is an older state. An anchor does.
        anchor = tmp_path / "head.json"
        with closing(treering.open_ledger(server.url(space=name), anchor=anchor)):
            anchor.write_text(mistake.model_dump_json())
        with pytest.raises(Corrupt, match="anchor"):
            treering.open_ledger(restored.url(space=name), anchor=anchor)
    finally:
        restored.stop()
        shutil.rmtree(restored.folder, ignore_errors=True)
