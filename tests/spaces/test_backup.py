"""Copies of a space made while it is used: whole, checked, and put in place at once."""

import os
import stat
import subprocess
import sys

import apsw
import pytest

from space_parts import decide, note, records
from treering.core.errors import Conflict, Corrupt, InvalidInput, Unavailable

WORD = "zygomorphic"


@pytest.fixture(params=["file", "memory"])
def space(request, open_space, tmp_path):
    """A space with a few notes and one that was erased."""
    address = ":memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'space' / 'space.db'}"
    space = open_space(address, channel="user", actor="ada")
    decide(space, "Bees hum", note(space, "Bees hum at noon.", origin="bees.md"))
    gone = note(space, f"The {WORD} quarterdeck.", origin="gone.md")
    space.erase([gone["source_id"]])
    return space


def test_a_backup_is_a_space_that_holds_the_same(space, open_space, tmp_path):
    head = space.backup(tmp_path / "copy.db")
    copy = open_space(f"sqlite:{tmp_path / 'copy.db'}", channel="user")
    assert records(copy) == records(space)
    assert copy.lint("audit").head == head == space.engine.ledger.verify()
    assert copy.lint("audit").differences == ()
    assert copy.query("search", input={"text": "bees hum"}).hits
    note(copy, "Written to the copy.", origin="copy.md")
    assert len(records(copy)) > len(records(space))


@pytest.mark.nightly
def test_a_backup_is_made_while_others_write_and_holds_all_that_was_acknowledged_before(open_space, tmp_path):
    path = tmp_path / "space.db"
    open_space(f"sqlite:{path}")
    command = [sys.executable, "-c", WRITER, f"sqlite:{path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        space = open_space(f"sqlite:{path}")
        for number in range(4):
            known = writer.stdout.readline().strip()
            space.backup(tmp_path / f"{number}.db")
            copy = open_space(f"sqlite:{tmp_path / f'{number}.db'}")
            assert known in copy.engine.ledger.heads([known])
            assert copy.lint("audit").verified
        writer.kill()


WRITER = """
import sys
import treering
from treering.testing.fakes import HashingEmbedder

with treering.open(sys.argv[1], background=False, embedder=HashingEmbedder()) as space:
    for number in range(100_000):
        report = space.ingest("source", input={"text": f"Note {number}", "origin": f"note:{number}"})
        print(report.items[0].source_id, flush=True)
"""


def test_backup_contains_no_leases_of_running_processes(open_space, tmp_path):
    space = open_space(tmp_path / "space.db")
    assert space.engine.leases.take("vectors", "a server", seconds=60)
    space.backup(tmp_path / "copy.db")
    assert not open_space(tmp_path / "copy.db").engine.leases.held()
    assert [one.name for one in space.engine.leases.held()] == ["vectors"]


def test_a_backup_holds_nothing_of_what_was_erased_and_not_overwritten_yet(open_space, tmp_path):
    path = tmp_path / "space.db"
    space = open_space(f"sqlite:{path}", channel="user")
    gone = note(space, f"The {WORD} quarterdeck.", origin="gone.md")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    list(reader.execute("SELECT * FROM objects"))
    assert space.erase([gone["source_id"]]).remaining
    space.backup(tmp_path / "copy.db")
    reader.close()
    assert WORD.encode() not in (tmp_path / "copy.db").read_bytes()


def test_a_file_that_is_there_is_replaced_only_when_asked(space, open_space, tmp_path):
    target = tmp_path / "copy.db"
    target.write_text("mine")
    with pytest.raises(Conflict, match="already exists") as refused:
        space.backup(target)
    assert "--force" in refused.value.hint
    assert target.read_text() == "mine"
    space.backup(target, replace=True)
    assert records(open_space(f"sqlite:{target}")) == records(space)


def test_a_space_that_is_in_use_is_not_replaced(space, open_space, tmp_path):
    target = tmp_path / "copy.db"
    other = open_space(f"sqlite:{target}")
    note(other, "Not to be lost.")
    before = records(other)
    with pytest.raises(Conflict, match="in use"):
        space.backup(target, replace=True)
    assert records(other) == before


def test_a_space_is_not_its_own_backup(open_space, tmp_path):
    path = tmp_path / "space.db"
    space = open_space(f"sqlite:{path}")
    note(space, "Bees hum.")
    (tmp_path / "link.db").symlink_to(path)
    for name in ("space.db", "link.db"):
        with pytest.raises(InvalidInput):
            space.backup(tmp_path / name, replace=True)
    assert space.lint("audit").verified


def test_a_space_that_does_not_verify_makes_no_backup(open_space, tmp_path):
    path = tmp_path / "space.db"
    space = open_space(f"sqlite:{path}")
    note(space, "Bees hum.")
    other = apsw.Connection(str(path))
    other.execute("UPDATE audit SET hash = 'x'")
    other.close()
    with pytest.raises(Corrupt):
        space.backup(tmp_path / "copies" / "copy.db")
    assert list((tmp_path / "copies").iterdir()) == []


def test_anchor_detects_an_old_copy(open_space, tmp_path):
    path, anchor = tmp_path / "space.db", tmp_path / "head.json"
    space = open_space(f"sqlite:{path}", anchor=anchor)
    note(space, "Bees hum.")
    space.backup(tmp_path / "old.db")
    note(space, "Bees sting.")
    space.backup(tmp_path / "new.db")
    open_space(f"sqlite:{tmp_path / 'new.db'}", anchor=anchor)
    with pytest.raises(Corrupt, match="anchor"):
        open_space(f"sqlite:{tmp_path / 'old.db'}", anchor=anchor)


def test_a_place_that_cannot_be_written_is_named(space, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable):
        space.backup(tmp_path / "file" / "copy.db")


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_backup_is_for_its_owner_alone(space, tmp_path):
    before = os.umask(0)
    try:
        space.backup(tmp_path / "copies" / "copy.db")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "copies", tmp_path / "copies" / "copy.db")]
    assert modes == [0o700, 0o600]


def test_progress_is_reported_in_bytes(space, tmp_path):
    told = []
    space.with_progress(lambda *said: told.append(said)).backup(tmp_path / "copy.db")
    what, done, total = told[-1]
    assert what == "Copying the space"
    assert done == total > 0


LEFT = f".copy.db.{'0' * 32}.new"
KILLED = """
import os, signal, sys
from pathlib import Path
import treering
from treering.stores.sqlite.ledger import backup

backup._verified = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
treering.open(sys.argv[1], background=False).backup(Path(sys.argv[2]))
"""


def killed_backup(address, target):
    subprocess.run([sys.executable, "-c", KILLED, address, str(target)], check=False, timeout=120)
    return [*target.parent.glob(".*.new")]


@pytest.mark.parametrize("where", [".", "elsewhere"])
def test_a_copy_that_a_kill_left_goes_when_the_space_is_opened_next(open_space, tmp_path, where):
    address, target = f"sqlite:{tmp_path / 'space.db'}", tmp_path / where / "copy.db"
    with open_space(address, channel="user") as space:
        note(space, f"The {WORD} quarterdeck.")
    (left,) = killed_backup(address, target)
    assert WORD.encode() in left.read_bytes()
    open_space(address).close()
    assert not left.exists()


def test_an_erasure_reaches_what_a_killed_backup_left_and_names_what_it_does_not(open_space, tmp_path):
    address, target = f"sqlite:{tmp_path / 'space.db'}", tmp_path / "elsewhere" / "copy.db"
    with open_space(address, channel="user") as space:
        gone = [note(space, f"The {WORD} quarterdeck.", origin=f"{one}.md")["source_id"] for one in range(2)]
        (left,) = killed_backup(address, target)
        assert space.erase(gone[:1]).clean
        assert not left.exists()
        (left,) = killed_backup(address, target)
        # A disk that is not there now comes back with what is on it.
        target.parent.rename(tmp_path / "not mounted")
        assert str(left) in " ".join(space.erase(gone[1:]).remaining)
        (tmp_path / "not mounted").rename(target.parent)
        assert space.engine.ledger.compact() == ()
        assert not left.exists()


def test_a_backup_that_is_being_made_is_not_mistaken_for_one_that_was_left(open_space, tmp_path):
    address = f"sqlite:{tmp_path / 'space.db'}"
    with open_space(address, channel="user") as space:
        note(space, "Bees hum.")
        seen = []

        def look(_done, _total):
            open_space(address).close()
            seen.extend(tmp_path.glob(".copy.db.*.new"))

        space.engine.ledger.back_up(tmp_path / "copy.db", replace=False, copied=look)
    assert seen
    with open_space(f"sqlite:{tmp_path / 'copy.db'}") as copy:
        assert copy.lint("audit").verified


def test_only_what_is_named_as_an_unfinished_copy_is_removed(open_space, tmp_path):
    address = f"sqlite:{tmp_path / 'space.db'}"
    open_space(address).close()
    others = [tmp_path / name for name in ("precious.txt", ".space.db.new", ".space.db.12.new", LEFT)]
    with apsw.Connection(str(tmp_path / "space.db")) as planted:
        planted.execute("CREATE TABLE copies_begun(file TEXT PRIMARY KEY) WITHOUT ROWID")
        for file in others:
            file.write_text("kept")
            planted.execute("INSERT INTO copies_begun VALUES(?)", (str(file),))
    planted.close()
    open_space(address).close()
    assert [file.exists() for file in others] == [True, True, True, False]
