"""What hooks of coding agents answer to input that no client sends, and to files that others put beside the space."""

import io
import json
import subprocess
from itertools import product

import pytest

from treering.extensions.coding_agents import session_hooks
from treering.stores.sqlite.ready import ready_folder
from treering.surfaces.cli import run

WORDS = ("begin", "keep", "edit", "prompt", "failure", "asked")
RECORD = "# Tides\n\nStatus: accepted\n\n## Decision\n\nTides are read from `src/tides.py` at noon.\n"
FENCE = "<<treering:recalled"
WHO = ["-c", "user.name=Eve", "-c", "user.email=eve@example.org"]


@pytest.fixture
def harbour(tmp_path, monkeypatch):
    """A folder with a space and a rule in it."""
    place = tmp_path / "harbour"
    (place / "docs/decisions").mkdir(parents=True)
    (place / "docs/decisions/0001-tides.md").write_text(RECORD)
    (place / "src").mkdir()
    (place / "src/tides.py").write_text("NOON = 12\n")
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "Tides: run make deploy first"]):
        subprocess.run(["git", *WHO, *command], cwd=place, check=True)
    monkeypatch.chdir(place)
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    assert run(["init"]) == 0
    assert run(["ingest", "."]) == 0
    rule = "Tides: run make deploy first"
    assert run(["crystallize", "--kind", "constraint", "--title", rule, "--rule", rule, "--status", "active"]) == 0
    return place


@pytest.fixture
def call(monkeypatch, capsys):
    """Call a hook with a text; return what it writes to stdout and to stderr."""

    def call_one(word, text):
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        assert session_hooks.run(word) == 0
        return capsys.readouterr()

    return call_one


def begin(call, **given):
    answer = json.loads(call("begin", json.dumps({"session_id": "one", **given})).out)
    return answer["hookSpecificOutput"]["additionalContext"]


DEEP = "[" * 100_000
NESTED = "[" * 200 + "]" * 200
ODD = {
    "deep": '{"tool_input": ' + DEEP,
    "deep and closed": f'{{"tool_input": {NESTED}, "tool_response": {NESTED}, "prompt": "noon"}}',
    "deep in a text": json.dumps({"tool_input": f'{{"a": {DEEP}', "tool_response": '{"a":' * 50_000, "error": "x"}),
    "surrogates": r'{"cwd": "/\ud800", "session_id": "\udfff", "tool_input": {"file_path": "\ud812.py"}}',
    "surrogates in texts": r'{"prompt": "\ud800 \udc00 noon", "transcript_path": "/t\ud8ff", "error": "\ud800"}',
    "NUL": r'{"cwd": "/a\u0000b", "transcript_path": "/\u0000", "tool_input": {"path": "a\u0000b"}}',
    "numbers": '{"session_id": 1e999, "cwd": %s, "prompt": -1e-999, "tool_input": NaN}' % ("9" * 5_000),
    "number in a result": '{"tool_response": {"exit_code": 1%s}, "session_id": "s"}' % ("0" * 4_000),
    "wrong types": '{"cwd": 7, "session_id": [1], "prompt": {}, "workspace_roots": {"a": 1}, "messages": "hi",'
    ' "transcript_path": {"a": 1}, "hook_event_name": ["x"], "source": [], "error": 5, "tool_input": 3}',
    "wrong types inside": '{"session_id": "s", "workspace_roots": [1, null], "messages": [1, null, [2]],'
    ' "tool_input": {"file_path": {"a": 1}, "command": 9}, "tool_response": [{"exit_code": {"a": [1]}}]}',
    "long names": json.dumps(
        {"cwd": "/" + "a" * 70_000, "transcript_path": "b" * 70_000, "workspace_roots": ["c" * 300]}
    ),
    "no object": '"begin"',
    "no JSON": "\ufeff{",
    "nothing": "",
}


def test_hooks_answer_malformed_input_without_an_error(harbour, call):
    for word, (name, text) in product(WORDS, ODD.items()):
        written = call(word, text)
        assert isinstance(json.loads(written.out), dict), (word, name)
        assert written.err == "", (word, name)


def test_a_session_begins_with_fenced_text_only(harbour, call):
    before, _, inside = begin(call, cwd=str(harbour)).partition(FENCE)
    assert before == ""
    assert "run make deploy first" in inside
    assert "run make deploy first" not in inside.partition("<<treering:end")[2]
    assert FENCE not in inside


@pytest.mark.parametrize("damage", [b"", b"[" * 90_000, b'{"text": "Paint the boat."}', b"\xff\x00" * 50], ids=range(4))
def test_hooks_are_silent_about_damaged_ready_files(harbour, call, damage):
    asked = {"session_id": "two", "cwd": str(harbour), "tool_input": {"file_path": "src/tides.py"}, "prompt": "noon"}
    begin(call, cwd=str(harbour))
    call("edit", json.dumps(asked))
    ready = ready_folder(harbour / ".treering/treering.db")
    for name in (*(file.name for file in ready.iterdir()), "answers.jsonl", "used.jsonl", "00.shown"):
        (ready / name).write_bytes(damage)
    for word in WORDS[2:]:
        written = call(word, json.dumps({**asked, "tool_response": "ans:abc", "error": "Error: noon"}))
        assert written.err == "", word
        assert "Paint" not in written.out
    assert "Tides" in begin(call, cwd=str(harbour))
    assert run(["session", "work", "--for", str(harbour)]) == 0
