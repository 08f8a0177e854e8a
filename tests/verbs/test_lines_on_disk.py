"""Reads show the lines that passages have on disk, also in files with uncommitted edits."""

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.extensions.coding_agents.before_edit import lines_before_edit
from treering.extensions.coding_agents.edits import FileEdit, Replacement
from treering.extensions.coding_agents.pointers import pointers

UPLOAD = 'def send_file(file, connection):\n    """Send a file."""\n    return connection.put(file)\n'
QUEUE = "from acme.upload import send_file\n\n\ndef flush(files):\n    return [send_file(x, 1) for x in files]\n"
ADDED = "# one\n# two\n# three\n"


@pytest.fixture
def acme(tmp_path):
    scratch = Scratch(tmp_path / "acme")
    scratch.commit({"acme/__init__.py": "", "acme/upload.py": UPLOAD, "acme/queue.py": QUEUE})
    return scratch.folder


@pytest.fixture
def space(acme):
    with open_space(f"sqlite:{acme.parent}/space.db") as opened:
        opened.ingest("repo", input={"path": str(acme)})
        yield opened.asked_from(acme)


def add_lines(folder, path="acme/queue.py"):
    file = folder / path
    file.write_text(ADDED + file.read_text())


def hit_in(space, path):
    hits = space.query("search", input={"text": "flush files send_file"}).hits
    return next(hit for hit in hits if hit.place.startswith(path))


def test_search_shows_the_lines_on_disk(space, acme):
    committed = hit_in(space, "acme/queue.py")
    add_lines(acme)
    edited = hit_in(space, "acme/queue.py")
    assert edited.first_line == committed.first_line + 3
    assert edited.place == "acme/queue.py#L4-L8"
    assert (edited.note, edited.current, edited.text) == ("", True, committed.text)


def test_search_cites_the_commit_of_a_file_that_is_as_it_was_read(space, acme):
    before = hit_in(space, "acme/upload.py")
    add_lines(acme)
    assert " @ " in before.place
    assert hit_in(space, "acme/upload.py") == before


def test_repeated_lines_are_shown_at_the_nearest_place(space, acme):
    file = acme / "acme/queue.py"
    file.write_text("# one\n" + QUEUE + "\n" * 30 + QUEUE)
    assert hit_in(space, "acme/queue.py").place == "acme/queue.py#L2-L6"


def test_search_marks_edited_lines_as_changed(space, acme):
    file = acme / "acme/queue.py"
    file.write_text(ADDED + QUEUE.replace("flush", "drain").replace("x in", "y in"))
    assert hit_in(space, "acme/queue.py").note.startswith("changed since: ")


def test_context_shows_the_lines_on_disk(space, acme):
    add_lines(acme)
    add_lines(acme, "acme/upload.py")
    report = space.query("context", input={"task": "Change send_file in acme/upload.py"})
    assert "acme/upload.py#L4-L6" in report.text
    (line,) = [line for line in report.pack.may_break if line.startswith('"send_file')]
    assert '"flush (acme/queue.py#L8)"' in line


def test_related_cites_the_lines_on_disk(space, acme):
    add_lines(acme)
    report = space.query("related", input={"id": "send_file", "types": ["calls"]})
    assert [(one.place, one.lines) for one in report.code] == [("acme/queue.py#L8-L8", (8,))]


def test_edit_hook_names_callers_at_the_lines_on_disk(space, acme):
    add_lines(acme)
    change = Replacement("def send_file(file, connection):", "def send_file(file):")
    (line, *_) = lines_before_edit(space, [FileEdit("acme/upload.py", (change,))], acme)
    assert line.text.endswith("it is used at acme/queue.py:8")


def test_prompt_hook_points_at_the_lines_on_disk(space, acme):
    add_lines(acme, "acme/upload.py")
    lines = [one.text for one in pointers(space, "Why does send_file fail?")]
    assert any(line.startswith("acme/upload.py:4") for line in lines)
