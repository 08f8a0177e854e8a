import subprocess
import sys
from pathlib import Path
from threading import Thread

import client_parts
import pytest

import treering
from treering.core.errors import Unavailable
from treering.edges.memory_codecs import Packer
from treering.edges.memory_journal import FileJournal
from treering.memories.client.buffering import WriteBuffer
from treering.memories.client.config import Compression
from treering.memories.client.recording import MemoryEntry
from treering.testing import SteppingClock

HERE = Path(__file__).parent
LONG = {"flush_interval": 10_000, "batch_size": 1_000}


@pytest.mark.parametrize("kill_after", [1, 3, 9, 30])
def test_what_store_returned_an_id_for_survives_kill_9(tmp_path, kill_after):
    path = tmp_path / "memory.db"
    acknowledged = []
    command = [sys.executable, str(HERE / "client_worker.py"), str(path), "one"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE) as process:
        for line in process.stdout:
            acknowledged.append(line.strip())
            if len(acknowledged) == kill_after:
                process.kill()
    acknowledged = [one for one in acknowledged if len(one) > 20]
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)})
    with client_parts.blocking(config) as client:
        assert len(client.retrieve("alignment one", top_k=3)) >= min(3, kill_after)
    written = client_parts.created(path)
    assert set(acknowledged) <= set(written)
    assert len(written) == len(set(written))
    assert list(Path(f"{path}.journal").glob("*.journal")) == []


def test_what_is_buffered_is_in_the_ledger_after_a_flush(tmp_path):
    path = tmp_path / "memory.db"
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage=LONG)
    with client_parts.blocking(config) as client:
        memory_id = client.store("Alignment run")
        assert client_parts.created(path) == []
        client.flush()
        assert client_parts.created(path) == [memory_id]


def test_without_asynchronous_writes_a_memory_is_in_the_ledger_at_once(tmp_path):
    path = tmp_path / "memory.db"
    storage = {**LONG, "enable_async_writes": False}
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage=storage)
    with client_parts.blocking(config) as client:
        assert client_parts.created(path) == []
        memory_id = client.store("Alignment run")
        assert client_parts.created(path) == [memory_id]


def test_many_clients_write_one_space_at_once(tmp_path):
    path = tmp_path / "memory.db"
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage={"batch_size": 3})
    stored, failures = [], []

    def use(name):
        try:
            with client_parts.blocking(config) as client:
                stored.extend(client.store(f"Alignment {n} of {name}") for n in range(5))
                client.retrieve("alignment")
        except treering.TreeringError as error:
            failures.append(error)

    threads = [Thread(target=use, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(client_parts.created(path)) == sorted(stored)


def entry(number):
    clock = SteppingClock()
    return MemoryEntry(f"src:{number}", "text " * number, {"n": number}, clock.now())


@pytest.mark.parametrize("algorithm", ["gzip", "zstd", "lz4"])
def test_a_journal_is_read_whatever_packed_it(tmp_path, algorithm):
    entries = [entry(1).data, entry(2_000).data]
    writing = FileJournal(tmp_path, Packer(Compression(algorithm=algorithm)))
    for one in entries:
        writing.append(one)
    writing.close()
    reading = FileJournal(tmp_path, Packer(Compression(enabled=False)))
    assert reading.left() == entries
    reading.close()


def test_only_long_records_that_shrink_are_packed():
    packer = Packer(Compression(algorithm="gzip", min_size_bytes=100))
    short, long, random = b"a" * 99, b"a" * 100, bytes(range(256)) * 1
    assert packer.pack(short)[0] == 0
    assert packer.pack(long)[0] == 1
    assert packer.pack(random)[0] == 0
    assert [packer.unpack(packer.pack(data)) for data in (short, long, random)] == [short, long, random]


def test_a_record_that_was_cut_short_is_left_out(tmp_path):
    journal = FileJournal(tmp_path, Packer(Compression()))
    journal.append(entry(1).data)
    journal.append(entry(2).data)
    journal.close()
    (file,) = tmp_path.glob("*.journal")
    file.write_bytes(file.read_bytes()[:-1])
    again = FileJournal(tmp_path, Packer(Compression()))
    assert again.left() == [entry(1).data]
    again.close()


def test_a_journal_that_somebody_holds_is_left_to_them(tmp_path):
    holding = FileJournal(tmp_path, Packer(Compression()))
    holding.append(entry(1).data)
    other = FileJournal(tmp_path, Packer(Compression()))
    assert other.left() == []
    holding.close()
    assert other.left() == [entry(1).data]
    other.close()


def test_what_cannot_be_written_stays_and_is_written_later(tmp_path):
    written, refusing = [], [True]

    def write(entries):
        if refusing[0]:
            raise Unavailable("The disk is full.", hint="Free space.")
        written.extend(entries)

    journal = FileJournal(tmp_path, Packer(Compression()))
    buffer = WriteBuffer(write, journal, size=10, interval=10_000)
    buffer.add(entry(1))
    with pytest.raises(Unavailable, match="disk is full"):
        buffer.flush()
    buffer.add(entry(2))
    assert len(list(tmp_path.glob("*.journal"))) == 2
    refusing[0] = False
    buffer.flush()
    assert [one.id for one in written] == ["src:1", "src:2"]
    assert list(tmp_path.glob("*.journal")) == []
    buffer.close()


def test_what_a_crash_left_is_not_written_twice(tmp_path):
    path = tmp_path / "memory.db"
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage=LONG)
    with client_parts.blocking(config) as client:
        client.store("Alignment run")
        (file,) = Path(f"{path}.journal").glob("*.journal")
        left = file.read_bytes()
    (file.parent / "left.journal").write_bytes(left)
    with client_parts.blocking(config) as client:
        assert len(client.retrieve("alignment run")) == 1
    assert len(client_parts.created(path)) == 1


def test_what_a_crash_left_keeps_nobody_from_storing(tmp_path):
    written = []
    left = FileJournal(tmp_path, Packer(Compression()))
    for number in range(20):
        left.append(entry(number).data)
    left.close()
    buffer = WriteBuffer(written.extend, FileJournal(tmp_path, Packer(Compression())), size=1, interval=10_000)
    buffer.add(entry(20))
    buffer.close()
    assert [one.id for one in written] == [f"src:{number}" for number in range(21)]
