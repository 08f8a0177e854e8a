"""Copies of rows in the free space of pages, which SQLite does not overwrite."""

import os
import random
import subprocess
import sys

import apsw
import pytest

from treering.stores.sqlite.free_space import clear_free_space, is_log_empty, is_worth_clearing

PAGE = 4096


def database(path):
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "WAL")
    connection.pragma("secure_delete", "ON")
    connection.execute("CREATE TABLE kept(n); CREATE TABLE words(word TEXT PRIMARY KEY, more TEXT) WITHOUT ROWID")
    return connection


def fill_and_delete(connection, secret):
    """Insert rows in an order in which SQLite splits pages; delete those with a secret word, and return the others."""
    chance = random.Random(1)
    rows = []
    for number in range(500):
        word = f"{chance.randrange(5)}-{chance.getrandbits(60)} {'plain' if number % 5 else secret}"
        rows.append((word, "x" * chance.randrange(600)))
    with connection:
        connection.executemany("INSERT INTO words VALUES(?, ?)", rows)
    connection.execute("DELETE FROM words WHERE word LIKE ?", (f"%{secret}",))
    return [row for row in rows if secret not in row[0]]


def clear(connection):
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("BEGIN IMMEDIATE")
    try:
        return clear_free_space(connection)
    finally:
        connection.execute("INSERT INTO kept VALUES(1); COMMIT")


def test_copies_of_deleted_rows_are_overwritten(tmp_path):
    path = tmp_path / "a.db"
    connection = database(path)
    rows = fill_and_delete(connection, "zygomorphic")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert b"zygomorphic" in path.read_bytes(), "SQLite leaves copies"
    assert clear(connection)
    assert b"zygomorphic" not in path.read_bytes()
    assert sorted(connection.execute("SELECT * FROM words")) == sorted(rows)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("writer", [0, 1], ids=["the same connection", "another one"])
def test_cached_pages_bring_nothing_back(tmp_path, writer):
    path = tmp_path / "a.db"
    connections = (database(path), apsw.Connection(str(path)))
    fill_and_delete(connections[0], "zygomorphic")
    assert len(connections[1].execute("SELECT * FROM words").fetchall()) == 400
    assert clear(connections[0])
    connections[writer].execute("UPDATE words SET more = replace(more, 'x', 'y')")  # without moving rows
    connections[writer].wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert b"zygomorphic" not in path.read_bytes()


def test_spaces_between_rows_are_overwritten(tmp_path):
    path = tmp_path / "a.db"
    connection = database(path)
    connection.pragma("secure_delete", "OFF")
    connection.executemany("INSERT INTO words VALUES(?, ?)", [(f"{n} {'plover' * (n % 3)}", "") for n in range(50)])
    connection.execute("DELETE FROM words WHERE word LIKE '%plover%'")
    assert clear(connection)
    assert b"plover" not in path.read_bytes()
    assert connection.execute("SELECT count(*) FROM words").fetchall() == [(17,)]


def test_free_pages_with_content_are_not_cleared(tmp_path):
    path = tmp_path / "a.db"
    connection = database(path)
    connection.pragma("secure_delete", "OFF")
    connection.executemany("INSERT INTO kept VALUES(?)", [("plover" * 500,)] * 50)
    connection.execute("DELETE FROM kept")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    before = path.read_bytes()
    assert not is_worth_clearing(connection), "most pages are free"
    assert not clear(connection)
    assert path.read_bytes() == before


def test_the_log_is_empty_until_someone_writes(tmp_path):
    connection = database(tmp_path / "a.db")
    assert not is_log_empty(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert is_log_empty(connection)
    connection.execute("INSERT INTO kept VALUES(1)")
    assert not is_log_empty(connection)


@pytest.mark.parametrize(
    ("place", "value"),
    [(5, 1), (3, 0xFFFF), (1, 4090), (1, 3000)],
    ids=["rows in the header", "too many rows", "a block beyond the page", "a block with too great a length"],
)
def test_damaged_pages_are_reported_and_not_cleared(tmp_path, place, value):
    path = tmp_path / "a.db"
    connection = database(path)
    connection.executemany("INSERT INTO kept VALUES(?)", [("\xff" * 1_000,)] * 9)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    page = bytearray(path.read_bytes())
    at = next(start for start in range(PAGE, len(page), PAGE) if page[start] == 13 and page[start + 4] > 1)
    page[at + place : at + place + 2] = value.to_bytes(2, "big")
    path.write_bytes(page)
    with pytest.raises(apsw.CorruptError):
        clear(connection)
    assert path.read_bytes() == bytes(page)


@pytest.mark.parametrize("script", ["PRAGMA auto_vacuum=FULL; VACUUM", ""])
def test_files_with_unknown_pages_are_rewritten(tmp_path, script):
    connection = apsw.Connection(str(tmp_path / "a.db") if script else ":memory:")
    connection.execute(f"{script}; CREATE TABLE kept(n)")
    assert not is_worth_clearing(connection)


LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'rb+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, (1 << 30) + 2)"
"""Locks the bytes that SQLite locks for reading: https://sqlite.org/src/file/src/os.h."""


@pytest.mark.skipif(os.name != "posix", reason="locks of processes")
def test_clearing_releases_no_locks_of_the_process(tmp_path):
    path = tmp_path / "a.db"
    connection = database(path)
    assert clear(connection)
    tried = subprocess.run([sys.executable, "-c", LOCK, str(path)], check=False, capture_output=True, timeout=60)
    assert b"BlockingIOError" in tried.stderr
