import os
import signal
import sys

import pytest
from pydantic_core import to_json

from treering.ports.adapter import Failed, ReadLimits, Skipped, SourceDraft
from treering.sources import drafts
from treering.sources.drafts import Drafting, FileToDraft
from treering.sources.formats import built_in_formats, formats_here
from treering.sources.reading.bounded_process import BoundedProcess
from treering.system.machine import usable_cores

TEXTS = {
    "adr/0001-store.md": "# 1. Store\n\n## Status\n\nAccepted\n\n## Decision\n\nWe use SQLite.\n",
    "app.py": "import os\n\n\ndef retry_limit(self):\n    '''Return the limit.'''\n    return os.cpu_count()\n",
    "prod.env": "password = 'k2J8xQ4mZ7wL9vB3'\n",
    "data.json": '{"a": [1, 2, 3]}\n',
    "été.txt": "Die Brücke wurde nicht mit der alten Straße gebaut, und das war gut.\n",
    "image.png": "\x89PNG\r\n\x1a\n\x00",
}


@pytest.fixture
def child(monkeypatch):
    """A child of its own, which gets all but the first file."""
    process = BoundedProcess(drafts.__name__)
    monkeypatch.setattr(drafts, "_CHILD", process)
    monkeypatch.setattr(drafts, "_FEW_FILES", 1)
    monkeypatch.setattr(drafts, "_GROUPS_READ_HERE", 0)
    monkeypatch.setattr(drafts, "_GROUP_FILES", 3)
    return process


def files(texts=TEXTS):
    return [FileToDraft(text.encode(), path, f"repo:x#{path}", path, about="repo:x") for path, text in texts.items()]


def drafted(items, *, in_child, formats=None, **limits):
    drafting = Drafting(ReadLimits(in_child=in_child, **limits), True, formats or formats_here())
    return [(type(one), to_json(one)) for one in drafting.readings(items)]


def test_a_child_drafts_what_is_drafted_here(child):
    items = [*files(), Skipped("repo:x#link", "a link"), *files()]
    here = drafted(items, in_child=False)
    assert child._child is None
    assert drafted(items, in_child=True) == here
    assert any(kind is SourceDraft and b'"knowledge":[{' in one for kind, one in here)
    running = child._child.process
    if sys.platform != "win32":
        os.kill(running.pid, signal.SIGINT)  # Ctrl-C reaches all processes of a terminal
    assert drafted(items, in_child=True) == here
    assert child._child.process is running


def test_a_file_that_the_child_skips_stays_in_its_place(child):
    here = drafted(files(), in_child=False, max_file_bytes=60)
    assert {kind for kind, _ in here} == {SourceDraft, Skipped}
    assert drafted(files(), in_child=True, max_file_bytes=60) == here


@pytest.mark.parametrize("formats", [formats_here(), built_in_formats()])
def test_few_files_and_other_formats_start_no_child(child, monkeypatch, formats):
    monkeypatch.setattr(drafts, "_FEW_FILES", 100 if formats is formats_here() else 0)
    assert len(drafted(files(), in_child=True, formats=formats)) == len(TEXTS)
    assert child._child is None


@pytest.mark.parametrize("groups", [1, 2, 9])
def test_the_first_groups_are_drafted_while_the_child_starts(child, monkeypatch, groups):
    monkeypatch.setattr(drafts, "_GROUPS_READ_HERE", groups)
    items = [*files(), Skipped("repo:x#link", "a link"), *files()]
    assert drafted(items, in_child=True) == drafted(items, in_child=False)


def test_a_child_starts_before_expected_files_are_read(child):
    Drafting(ReadLimits(in_child=True), True, formats_here(), expected=1).prepare()
    assert child._child is None
    expecting = Drafting(ReadLimits(in_child=True), True, formats_here(), expected=2)
    expecting.prepare()
    running = child._child.process
    assert [(type(one), to_json(one)) for one in expecting.readings(files())] == drafted(files(), in_child=False)
    assert child._child.process is running


def test_a_file_that_ends_the_child_fails_alone(child, monkeypatch):
    monkeypatch.setattr(drafts, "_CHILD", BoundedProcess("dying_drafts"))
    items = files({"1.txt": "One.", "2.txt": "Two.", "bad.txt": "abort"})
    assert [kind for kind, _ in drafted(items, in_child=True)] == [SourceDraft, SourceDraft, Failed]


def test_a_file_that_ends_the_child_among_others_is_drafted_alone(child, monkeypatch):
    monkeypatch.setattr(drafts, "_CHILD", BoundedProcess("dying_drafts"))
    items = files({"1.txt": "One.", "2.txt": "Two.", "bad.txt": "abort among others"})
    assert drafted(items, in_child=True) == drafted(items, in_child=False)


def test_an_abandoned_reading_ends_the_running_question(child, monkeypatch):
    monkeypatch.setattr(drafts, "_CHILD", BoundedProcess("dying_drafts"))
    items = files({"1.txt": "One.", "2.txt": "Two.", "3.txt": "Three.", "4.txt": "Four.", "bad.txt": "sleep"})
    readings = Drafting(ReadLimits(in_child=True), True, formats_here()).readings(items * 4)
    assert next(readings)
    assert next(readings)
    readings.close()
    assert drafts._CHILD._child is None


def test_files_are_drafted_here_if_no_child_starts(child, monkeypatch):
    monkeypatch.setattr(drafts, "_CHILD", BoundedProcess("no_such_module"))
    assert drafted(files(), in_child=True) == drafted(files(), in_child=False)


@pytest.mark.skipif(usable_cores() == 1, reason="a child needs a second core")
def test_terms_of_the_child_are_those_of_the_index(child, open_space, tmp_path):
    for path, text in TEXTS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    space = open_space()
    space.ingest("path", input={"path": str(tmp_path)})
    assert child._child
    assert space.lint("reindex").differences == ()
