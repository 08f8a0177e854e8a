import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from ledger_processes import acknowledged, read_lines, start

from treering.core.errors import Corrupt, Unavailable
from treering.ports.ledger import Ledger, Selection
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "space.db"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root and the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def opened(path: Path) -> Iterator[SqliteLedger]:
    with closing(Database(str(path))) as database:
        yield SqliteLedger(database, clock=SteppingClock(seed="parent"))


def check_all_there(path: Path, identities: list[str]) -> None:
    with opened(path) as ledger:
        ledger.verify()
        assert ledger.heads(identities).keys() == set(identities)


def kill_writers(path: Path, rounds: int) -> None:
    """Kill writers, each some moment after its first lines were read: however busy the machine is, it has said them."""
    chance, known = random.Random(7), list[str]()
    for number in range(rounds):
        process = start("write", path, number, 100_000)
        said = read_lines(process, chance.randint(0, 4))
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        output, errors = process.communicate()
        assert errors == ""
        known += acknowledged(said + output)
        check_all_there(path, known)


def test_acknowledged_write_survives_a_killed_writer(path: Path) -> None:
    kill_writers(path, rounds=10)


@pytest.mark.torture
def test_acknowledged_writes_survive_kill(path: Path) -> None:
    kill_writers(path, rounds=200)


@pytest.mark.nightly
def test_many_processes_write_and_read_one_space_and_lose_nothing(path: Path, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    with opened(path):
        pass
    writers = [start("write", path, number, 15) for number in range(4)]
    readers = [start("read", path, number, stop) for number in range(2)]
    outputs = [writer.communicate() for writer in writers]
    stop.touch()
    for process, (_, errors) in [*zip(writers, outputs, strict=True), *((it, it.communicate()) for it in readers)]:
        assert (process.returncode, errors) == (0, "")
    known = [identity for output, _ in outputs for identity in acknowledged(output)]
    assert len(known) == 4 * 15 * 2
    check_all_there(path, known)
    with opened(path) as ledger:
        assert ledger.sequence() == 4 * 15 * 3


def test_files_that_may_not_grow_lose_nothing_that_was_acknowledged(path: Path) -> None:
    output, errors = start("fill", path, 1, 400_000).communicate()
    assert errors == ""
    assert output.endswith("unavailable\n")
    check_all_there(path, acknowledged(output))
    with opened(path) as ledger:
        add_node(ledger)


def test_a_full_disk_loses_nothing_that_was_acknowledged(small_disk: Path) -> None:
    output, errors = start("fill", small_disk / "space.db", 1, 0).communicate()
    assert errors == ""
    assert output.endswith("unavailable\n")
    check_all_there(small_disk / "space.db", acknowledged(output))


def test_folder_that_cannot_be_written_is_unavailable(small_disk: Path) -> None:
    path = small_disk / "space.db"
    with opened(path) as ledger:
        add_node(ledger)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Unavailable) as refused, opened(path) as ledger:
        add_node(ledger)
    assert refused.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only files")
def test_file_that_cannot_be_written_is_unavailable(path: Path) -> None:
    fill(path)
    path.chmod(0o400)
    with pytest.raises(Unavailable), opened(path) as ledger:
        add_node(ledger)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.999])
def test_a_truncated_file_is_corrupt(path: Path, part: float) -> None:
    fill(path)
    os.truncate(path, int(path.stat().st_size * part))
    with pytest.raises(Corrupt) as refused, opened(path) as ledger:
        ledger.verify()
    assert refused.value.hint


def test_a_damaged_page_is_found_and_no_foreign_error_comes_out(path: Path) -> None:
    fill(path)
    whole = path.read_bytes()
    found = 0
    for start_of_page in range(0, len(whole), PAGE):
        path.write_bytes(whole[:start_of_page] + os.urandom(PAGE) + whole[start_of_page + PAGE :])
        found += is_damage_found(path)
        for leftover in path.parent.glob("space.db-*"):
            leftover.unlink()
    assert found == len(whole) // PAGE


def is_damage_found(path: Path) -> bool:
    try:
        with opened(path) as ledger:
            for item in ledger.select(Selection(descend=True)):
                ledger.history(item.id)
            list(ledger.records())
            ledger.verify()
    except Corrupt:
        return True
    return False


@pytest.mark.parametrize("content", [b"Dear diary,\n" * 500, b"SQLite format 3\x00" + b"?" * 5000, b"\x00" * 9000])
def test_a_file_that_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(Corrupt) as refused:
        SqliteLedger(Database(str(path)), clock=SteppingClock())
    assert refused.value.hint
    assert path.read_bytes() == content


def test_folder_is_not_a_space(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file" / "space.db"):
        with pytest.raises(Unavailable) as refused:
            SqliteLedger(Database(str(place)), clock=SteppingClock())
        assert refused.value.hint


def add_node(ledger: Ledger) -> None:
    make = Builder(SteppingClock(seed=os.urandom(8).hex()))
    ledger.commit(make.patch(make.node("Another")))


def fill(path: Path) -> None:
    """Make a space with something in every table."""
    make = Builder(SteppingClock())
    with opened(path) as ledger:
        for number in range(8):
            source = make.source(*(f"Text {number} {os.urandom(400).hex()}" for _ in range(3)), origin=f"{number}.md")
            fact = make.fact(source.id, "number", number, make.evidence(source))
            ledger.commit(make.patch(source, fact), idempotency_key=f"{number}")
        ledger.propose(make.patch(make.node("Maybe")))
