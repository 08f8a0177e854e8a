"""Records: values under names of their own, and logs of them."""

import os
import subprocess
import sys
from pathlib import Path

import client_parts
import pytest
from log_worker import CALLS

from treering import Conflict
from treering.extensions.client.record_names import RecordCollection, RecordDraft
from treering.extensions.client.records import RecordEntry, RecordLog

NOTES = RecordCollection(("notes", "a b"))


@pytest.fixture
def records(client):
    return client.records


def keep(records, key, text, **value):
    records.keep([RecordDraft(NOTES.name(key), value, text)], reason="test")


def test_a_value_comes_back_as_it_was_under_any_key(records):
    for key in ("plain", "with space/and: more", "~", "..", "long" * 100):
        keep(records, key, "text", deep=[{"key": key, "none": None}])

    for key in ("plain", "with space/and: more", "~", "..", "long" * 100):
        assert records.get([NOTES.name(key)])[NOTES.name(key)].value == {"deep": [{"key": key, "none": None}]}


def test_a_record_that_is_replaced_keeps_its_id_and_is_found_by_its_new_text(records, client):
    keep(records, "pet", "the dog is called Rex")
    before = records.get([NOTES.name("pet")])[NOTES.name("pet")]
    keep(records, "pet", "the parrot is called Rex")
    after = records.get([NOTES.name("pet")])[NOTES.name("pet")]

    assert (after.id, after.revision) == (before.id, 2)
    assert [one.text for one in records.search(NOTES, "parrot", limit=3)] == ["the parrot is called Rex"]
    assert [memory.content for memory in client.retrieve("parrot called")] == ["the parrot is called Rex"]


def test_a_writer_that_expects_another_revision_changes_nothing(records):
    keep(records, "pet", "the dog")
    drafts = [RecordDraft(NOTES.name(key), text="the cat", expected_revision=0) for key in ("other", "pet")]

    with pytest.raises(Conflict):
        records.write(drafts, reason="test")
    assert [one.key for one in records.all_of(NOTES)] == ["pet"]


def test_records_below_a_key_are_those_of_whole_parts(records):
    for key in ("a", "a/b", "ab", "c"):
        keep(records, key, "text")

    assert [one.key for one in records.all_of(NOTES, below="a")] == ["a", "a/b"]
    assert records.count(NOTES) == 4


def test_used_record_name_is_reported_and_reusable(records):
    keep(records, "pet", "the dog")
    records.remove([NOTES.name("pet")], reason="test")

    assert records.used([NOTES.name("pet"), NOTES.name("never")]) == {NOTES.name("pet")}
    keep(records, "pet", "the cat")
    assert [one.text for one in records.all_of(NOTES)] == ["the cat"]


def test_what_belongs_to_a_session_is_retrieved_with_it_and_not_with_another(records, client):
    log = RecordLog(records, RecordCollection(("log",), session_id="monday"))
    log.append([RecordEntry({}, "the dog is called Rex")], reason="test")

    assert len(client.retrieve("dog called", session_id="monday")) == 1
    assert len(client.retrieve("dog called")) == 1
    assert client.retrieve("dog called", session_id="tuesday") == []


def test_the_last_entries_of_a_log_are_read_without_the_others(records):
    log = RecordLog(records, RecordCollection(("log",)))
    log.append([RecordEntry({"number": number}) for number in range(20)], reason="test")

    assert [one.value["number"] for one in log.entries(2)] == [18, 19]
    assert log.pop(reason="test").value == {"number": 19}
    log.append([RecordEntry({"number": "new"})], reason="test")
    assert [one.value["number"] for one in log.entries(2)] == [18, "new"]


def test_an_empty_log_has_nothing_to_pop(records):
    log = RecordLog(records, RecordCollection(("log",)))
    log.clear(reason="test")

    assert log.pop(reason="test") is None
    assert log.entries() == []


@pytest.mark.nightly
def test_processes_that_append_to_one_log_lose_nothing_and_keep_each_call_together(tmp_path):
    file, names, count = str(tmp_path / "memory.db"), ("a", "b", "c", "d"), 10
    worker = Path(__file__).with_name("log_worker.py")
    path = os.pathsep.join(filter(None, sys.path))
    running = [
        subprocess.Popen([sys.executable, worker, file, name, str(count)], env={**os.environ, "PYTHONPATH": path})
        for name in names
    ]
    assert [one.wait(120) for one in running] == [0] * len(names)

    with client_parts.blocking(client_parts.config(backend="sqlite", sqlite={"path": file})) as client:
        kept = [one.value for one in RecordLog(client.records, CALLS).entries()]
    assert len(kept) == 2 * count * len(names)
    for first, second in zip(kept[::2], kept[1::2], strict=True):
        assert {**first, "part": 1} == second
    for name in names:
        assert [one["call"] for one in kept[::2] if one["by"] == name] == list(range(count))
