import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from threading import Thread

import client_parts
import pytest

import treering
from treering.client import AgentProfile
from treering.core.errors import Unavailable
from treering.extensions.client import journal as journal_files
from treering.extensions.client.config import Compression
from treering.extensions.client.items.buffering import WriteBuffer
from treering.extensions.client.items.recording import MemoryEntry
from treering.extensions.client.journal import FileJournal, Packer
from treering.ports.runtime import fresh_id
from treering.testing import SteppingClock

HERE = Path(__file__).parent
METADATA = {"timestamp": "2026-01-01T00:00:00Z"}
EVERYTHING = AgentProfile(agent_type="", relevance_threshold=0)
SOON = {"size": 10, "interval": 10_000}
LONG = {"flush_interval": 10_000, "batch_size": 1_000}


@pytest.mark.sampled(1)
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


def test_journals_of_others_are_looked_at_again_after_one_grew(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_files, "LOOK_SECONDS", 3_600)
    one, reading = (FileJournal(tmp_path, Packer(Compression())) for _ in range(2))
    one.append(entry(1).data)
    assert reading.elsewhere() == [entry(1).data]
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", None)
        assert reading.elsewhere() == []
    one.append(entry(2).data)
    assert reading.elsewhere() == [entry(2).data]
    one.close()


def test_journal_of_an_earlier_version_is_read_after_a_while(tmp_path, monkeypatch):
    one, reading = (FileJournal(tmp_path, Packer(Compression())) for _ in range(2))
    monkeypatch.setattr(journal_files, "_mark_changed", lambda folder: None)
    monkeypatch.setattr(journal_files, "LOOK_SECONDS", 0)
    for number in (1, 2):
        one.append(entry(number).data)
        assert reading.elsewhere() == [entry(number).data]
    one.close()


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


def test_a_record_that_was_cut_short_is_omitted(tmp_path):
    journal = FileJournal(tmp_path, Packer(Compression()))
    journal.append(entry(1).data)
    journal.append(entry(2).data)
    journal.close()
    (file,) = tmp_path.glob("*.journal")
    file.write_bytes(file.read_bytes()[:-1])
    again = FileJournal(tmp_path, Packer(Compression()))
    assert again.left() == [entry(1).data]
    again.close()


def test_unreadable_record_is_set_aside(tmp_path):
    journal = FileJournal(tmp_path, Packer(Compression()))
    for number in (1, 2, 3):
        journal.append(entry(number).data)
    journal.close()
    (file,) = tmp_path.glob("*.journal")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    unknown = bytes([77]) + b"of a codec that is not here"
    (tmp_path / "other.journal").write_bytes(_framed(unknown) + _framed(bytes([0]) + b"[]") + _framed(b"\0{}"))
    written = []
    buffer = WriteBuffer(lambda some: written.extend(some) or [], FileJournal(tmp_path, Packer(Compression())), **SOON)
    buffer.flush()
    buffer.close()
    assert [one.id for one in written] == ["src:1"]
    again = FileJournal(tmp_path, Packer(Compression()))
    reasons = sorted(one.reason for one in again.aside())
    assert [
        len(reasons),
        *(any(word in one for one in reasons) for word in ("damaged", "codec 77", "is not an entry")),
    ] == [*(4, True, True, True)]
    assert list(tmp_path.glob("*.journal")) == []
    again.close()


def _framed(record):
    return struct.pack(">II", len(record), zlib.crc32(record)) + record


@pytest.fixture
def poisoned(tmp_path):
    """A space whose journal holds a memory that no ledger takes between two others, and the path of it."""
    path = tmp_path / "memory.db"
    lasting = {"session_ttl": None, "retrieval": {"max_age_seconds": None}}
    config = client_parts.config(backend="sqlite", sqlite={"path": str(path)}, storage=LONG, **lasting)
    clock = SteppingClock()
    first, last = (MemoryEntry(fresh_id("source", clock), text, METADATA, clock.now()) for text in ("First", "Last"))
    deep = {**METADATA, "session_id": "run" + ">x" * 200}
    bad = MemoryEntry(fresh_id("source", clock), "A finding too deep", deep, clock.now())
    journal = FileJournal(Path(f"{path}.journal"), Packer(Compression()))
    for one in (first, bad, last):
        journal.append(one.data)
    journal.close()
    return config, path, bad


def test_what_the_ledger_never_takes_is_set_aside_with_its_reason_and_stops_nobody_else(poisoned, caplog):
    config, path, bad = poisoned
    with client_parts.blocking(config) as client:
        client.store("Another finding")
        client.flush()
        assert len(client_parts.created(path)) == 3
        (aside,) = client.set_aside()
        assert (aside.id, aside.content) == (bad.id, bad.content)
        assert "is not a valid scope" in aside.reason
        assert bad.id in caplog.text
    with client_parts.blocking(config) as client:
        assert [one.id for one in client.set_aside()] == [bad.id]
        assert client.retry_set_aside() == 0
        assert client.delete(bad.id)
        assert client.set_aside() == []


def test_what_was_set_aside_is_written_when_that_can_be_done(poisoned):
    config, path, bad = poisoned
    with client_parts.blocking(config) as client:
        assert len(client.retrieve("first or last", profile=EVERYTHING)) == 2
        (file,) = Path(f"{path}.journal", "set-aside").glob("*.json")
        file.write_text(file.read_text().replace(">x" * 200, ""))
        assert client.retry_set_aside() == 1
        assert client.set_aside() == []
        assert bad.id in client_parts.created(path)
        assert client.retrieve("finding too deep", session_id="run")[0].id == bad.id
        assert list(Path(f"{path}.journal", "set-aside").iterdir()) == []


@pytest.mark.parametrize("writes_later", [True, False])
def test_a_memory_that_no_ledger_takes_is_refused_when_it_is_stored(tmp_path, writes_later):
    storage = {**LONG, "enable_async_writes": writes_later}
    config = client_parts.config(backend="sqlite", sqlite={"path": str(tmp_path / "memory.db")}, storage=storage)
    with client_parts.blocking(config) as client:
        with pytest.raises(treering.InvalidInput, match=r"session_id: .* nests too many contexts"):
            client.store("A finding", {"session_id": "run" + ">x" * 200})
        assert client.retrieve("finding") == []
        assert client.set_aside() == []


def test_locked_journal_is_not_taken_over(tmp_path):
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
        return []

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


def test_leftovers_of_a_crash_block_no_writes(tmp_path):
    written = []
    left = FileJournal(tmp_path, Packer(Compression()))
    for number in range(20):
        left.append(entry(number).data)
    left.close()
    buffer = WriteBuffer(
        lambda entries: written.extend(entries) or [],
        FileJournal(tmp_path, Packer(Compression())),
        size=1,
        interval=10_000,
    )
    buffer.add(entry(20))
    buffer.close()
    assert [one.id for one in written] == [f"src:{number}" for number in range(21)]
