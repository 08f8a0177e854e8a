"""How the file of a space comes to be, and what is refused in its place."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

import treering
from treering.core.errors import Corrupt, NotFound
from treering.stores.sqlite import files
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import SteppingClock

only_posix = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture
def open_umask():
    """A umask that takes nothing away, so that only what asks for a narrow mode gets one."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def no_links(monkeypatch):
    """A file system without hard links."""

    def refuse(*_args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(files.os, "link", refuse)


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize("create", [True, False])
def test_a_file_of_no_bytes_is_damage_and_no_new_space(tmp_path, create):
    path = tmp_path / "space.db"
    path.touch()
    with pytest.raises(Corrupt, match="0 bytes") as refused:
        treering.open(f"sqlite:{path}", create=create)
    assert "backup" in refused.value.hint
    assert path.stat().st_size == 0
    assert list(tmp_path.iterdir()) == [path]


def test_emptied_file_is_not_a_new_space(open_space, tmp_path):
    path = tmp_path / "space.db"
    space = open_space(f"sqlite:{path}")
    space.ingest("source", input={"text": "Bees hum."})
    space.close()
    os.truncate(path, 0)
    with pytest.raises(Corrupt):
        open_space(f"sqlite:{path}")


def test_a_log_without_its_file_is_not_read_into_a_new_space(open_space, tmp_path):
    path, log = tmp_path / "space.db", tmp_path / "space.db-wal"
    space = open_space(f"sqlite:{path}")
    space.ingest("source", input={"text": "Bees hum."})
    kept = log.read_bytes()
    space.close()
    path.unlink()
    log.write_bytes(kept)
    for create in (True, False):
        with pytest.raises(Corrupt, match="its log") as refused:
            open_space(f"sqlite:{path}", create=create)
        assert refused.value.hint
    assert log.read_bytes() == kept
    assert not path.exists()


def test_files_that_hold_nothing_beside_a_missing_space_do_no_harm(open_space, tmp_path):
    for name in ("space.db-wal", "space.db-shm"):
        (tmp_path / name).touch()
    open_space(f"sqlite:{tmp_path / 'space.db'}").ingest("source", input={"text": "Bees hum."})


def test_where_none_is_to_be_made_none_is(tmp_path):
    with pytest.raises(NotFound):
        Database(str(tmp_path / "sub" / "space.db"), create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_leads_nowhere_yet_leads_to_the_new_space(tmp_path):
    link, place = tmp_path / "link.db", tmp_path / "place" / "space.db"
    link.symlink_to(place)
    Database(str(link)).close()
    assert link.is_symlink()
    assert place.is_file()


def test_making_leaves_nothing_beside_the_new_file(tmp_path):
    Database(str(tmp_path / "space.db")).close()
    assert [path.name for path in tmp_path.iterdir()] == ["space.db"]


MAKER = """
import sys
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import SteppingClock
for number in range(20):
    SqliteLedger(Database(f"{sys.argv[1]}/{number}.db"), clock=SteppingClock(seed=sys.argv[2])).close()
"""


def test_processes_that_make_the_same_spaces_at_once_all_get_them(tmp_path):
    makers = [
        subprocess.Popen([sys.executable, "-c", MAKER, str(tmp_path), str(number)], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert [maker.communicate(timeout=120)[1] for maker in makers] == [""] * 4
    # Where two close a space at the same moment, SQLite may leave its log beside it.
    made = {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()}
    assert made == {f"{number}.db" for number in range(20)}


def test_threads_that_make_one_space_without_links_get_one_file(tmp_path, no_links):
    together = Barrier(6)

    def make(path):
        together.wait(30)
        database = Database(path)
        inode = Path(path).stat().st_ino
        database.close()
        return inode

    with ThreadPoolExecutor(6) as pool:
        for number in range(10):
            path = str(tmp_path / f"{number}.db")
            assert len(set(pool.map(make, [path] * 6))) == 1


@pytest.mark.parametrize("step", ["write_new", "publish"])
def test_a_space_whose_making_was_cut_short_is_made_the_next_time(tmp_path, monkeypatch, step):
    path = str(tmp_path / "space.db")

    def cut_short(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, step, cut_short)
    with pytest.raises(KeyboardInterrupt):
        Database(path)
    monkeypatch.undo()
    ledger = SqliteLedger(Database(path), clock=SteppingClock())
    assert ledger.sequence() == 0
    ledger.close()


def test_a_file_whose_maker_died_before_its_tables_is_an_empty_space(tmp_path):
    path = str(tmp_path / "space.db")
    Database(path).close()
    ledger = SqliteLedger(Database(path), clock=SteppingClock())
    assert ledger.verify().seq == 0
    ledger.close()


@only_posix
def test_a_new_space_and_its_folder_are_for_their_owner_alone(open_space, tmp_path, open_umask):
    path = tmp_path / "a" / "b" / "space.db"
    space = open_space(f"sqlite:{path}", anchor=tmp_path / "c" / "head.json")
    space.ingest("source", input={"text": "Bees hum."})
    space.export(tmp_path / "d" / "export")
    found = {place: mode(place) for place in tmp_path.rglob("*")}
    assert {"space.db", "space.db-wal", "space.db-shm", "head.json", "events.jsonl"} <= {place.name for place in found}
    assert {place: bits for place, bits in found.items() if bits != (0o700 if place.is_dir() else 0o600)} == {}


@only_posix
def test_a_file_is_for_its_owner_alone_at_the_moment_it_appears(tmp_path, open_umask, monkeypatch):
    seen = []
    publish = files.publish

    def watched(new, file):
        seen.append(mode(new))
        publish(new, file)

    monkeypatch.setattr(files, "publish", watched)
    Database(str(tmp_path / "space.db")).close()
    assert seen == [0o600]


@only_posix
def test_what_is_there_keeps_its_mode(open_space, tmp_path):
    path, anchor = tmp_path / "space.db", tmp_path / "head.json"
    open_space(f"sqlite:{path}", anchor=anchor).ingest("source", input={"text": "Bees hum."})
    for place in (path, anchor):
        place.chmod(0o640)
    open_space(f"sqlite:{path}", anchor=anchor).ingest("source", input={"text": "Bees sting."})
    assert (mode(path), mode(anchor)) == (0o640, 0o640)
