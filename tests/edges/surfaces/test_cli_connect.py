"""`treering connect`, `status`, and what the hooks of coding agents call, as processes of their own."""

import json
import subprocess
import sys
import time

import pytest

from space_parts import all_of, decide, note, open_space
from treering.edges.surfaces.cli import run

TURNS = [
    ("user", "Where do sessions live? " * 30),
    ("assistant", "We decided that sessions live in one SQLite file. " * 30),
    ("user", "Fine. And the port? " * 30),
    ("assistant", "The test failed, since port 8080 was taken. " * 30),
]
_WAIT_SECONDS = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a space, in a home of its own."""
    place = tmp_path / "acme"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.delenv("TREERING_SPACE", raising=False)
    assert run(["init"]) == 0
    return place


def transcript(file, turns=TURNS, session="6f0d1c2e-93a4-4b5c-8d6e-7f8091a2b3c4"):
    """Write what Claude Code writes of a session."""
    lines = []
    for number, (role, text) in enumerate(turns):
        lines.append(
            {
                "type": role,
                "sessionId": session,
                "uuid": f"00000000-0000-4000-8000-{number:012}",
                "parentUuid": f"00000000-0000-4000-8000-{number - 1:012}" if number else None,
                "timestamp": f"2026-03-02T09:{number:02}:00.000Z",
                "cwd": "/p",
                "message": {"role": role, "content": text if role == "user" else [{"type": "text", "text": text}]},
            }
        )
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    return session


def hook(word, given, folder):
    """Call a hook as a client does; return what it prints."""
    command = [sys.executable, "-m", "treering", "session", word]
    done = subprocess.run(command, input=json.dumps(given), cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def discussions(capsys):
    capsys.readouterr()
    assert run(["discussion", "list", "--json"]) == 0
    return {one["id"]: one["messages"] for one in json.loads(capsys.readouterr().out)["discussions"]}


def wait_for(found, wanted):
    end = time.monotonic() + _WAIT_SECONDS
    while (seen := found()) != wanted and time.monotonic() < end:
        time.sleep(0.2)
    return seen


def test_a_client_is_connected_to_the_space_of_the_folder_and_disconnected(folder, capsys):
    assert run(["connect", "claude-code"]) == 0
    server = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["treering"]
    assert server["args"][-4:] == ["--space", f"sqlite:{folder}/.treering/treering.db", "--files", str(folder)]
    assert "SessionEnd" in json.loads((folder / ".claude/settings.local.json").read_text())["hooks"]
    assert run(["connect", "claude-code"]) == 0
    assert "connected already" in capsys.readouterr().out
    assert run(["disconnect", "claude-code"]) == 0
    assert not (folder / ".mcp.json").exists()
    assert not (folder / ".claude").exists()
    assert run(["disconnect", "claude-code"]) == 3


@pytest.mark.parametrize("flag", ["--dry-run", "--print"])
def test_what_would_be_written_is_told_and_nothing_is_changed(folder, capsys, flag):
    assert run(["connect", "gemini-cli", flag]) == 0
    printed = capsys.readouterr().out
    assert ".gemini/settings.json" in printed
    assert ("SessionStart" in printed) == (flag == "--print")
    assert not (folder / ".gemini").exists()
    assert not (folder.parent / "data" / "connections").exists()


def test_connecting_codex_says_that_its_hooks_have_to_be_trusted(folder, capsys):
    assert run(["connect", "codex"]) == 0
    assert "/hooks" in capsys.readouterr().out
    assert set(json.loads((folder / ".codex/hooks.json").read_text())["hooks"]) == {
        "SessionStart",
        "SessionEnd",
        "PreCompact",
    }
    assert run(["disconnect", "codex"]) == 0
    assert not (folder / ".codex").exists()


def test_without_hooks_only_the_tools_are_connected(folder):
    assert run(["connect", "claude-code", "--no-hooks"]) == 0
    assert not (folder / ".claude").exists()


def test_a_server_that_a_client_starts_answers(folder):
    assert run(["connect", "cursor"]) == 0
    server = json.loads((folder / ".cursor/mcp.json").read_text())["mcpServers"]["treering"]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
    done = subprocess.run(
        [server["command"], *server["args"]], input=json.dumps(hello) + "\n", capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"]


def test_a_session_begins_with_what_is_known_for_the_state_of_the_folder(folder):
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user") as space:
        kept = note(space, "Sessions of acme live in one SQLite file.", origin="docs/sessions.md")
        decide(space, "Sessions of acme live in SQLite", kept, status="active")
        space.embed_pending()
    for words in (["init", "-q", "-b", "acme-sessions-in-sqlite"], ["config", "user.name", "Ada"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    answer = hook("begin", {"hook_event_name": "SessionStart", "cwd": str(folder)}, folder)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert "Sessions of acme live in SQLite" in answer["additionalContext"]
    assert "<<treering:recalled" in answer["additionalContext"]


def test_cursor_is_told_in_its_own_form_and_names_its_folder_in_its_own_way(folder, tmp_path):
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user") as space:
        kept = note(space, f"Work in {folder.name}: sessions live in one SQLite file.", origin="docs/sessions.md")
        decide(space, f"Sessions of {folder.name} live in SQLite", kept, status="active")
        space.embed_pending()
    given = {
        "conversation_id": "6f0d1c2e",
        "hook_event_name": "sessionStart",
        "cursor_version": "2.4.0",
        "workspace_roots": [str(folder)],
        "transcript_path": None,
    }
    assert "SQLite" in hook("begin", given, tmp_path)["additional_context"]
    assert hook("keep", {**given, "hook_event_name": "sessionEnd"}, tmp_path) == {}


@pytest.mark.parametrize("given", [{"cwd": "/nowhere"}, {}, [], {"cwd": 7}, {"workspace_roots": []}])
def test_a_session_begins_without_memory_where_there_is_none(tmp_path, given, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("TREERING_SPACE", raising=False)
    assert hook("begin", given, tmp_path) == {}
    assert not (tmp_path / ".treering").exists()


def test_a_space_that_cannot_be_opened_keeps_no_session_from_beginning(folder):
    (folder / ".treering/treering.db").write_bytes(b"no database" * 1000)
    assert hook("begin", {"cwd": str(folder)}, folder) == {}


def test_a_transcript_becomes_a_discussion_and_grows_by_what_is_new(folder, tmp_path, capsys):
    file = tmp_path / "session.jsonl"
    session = transcript(file, TURNS[:2])
    given = {"hook_event_name": "PreCompact", "cwd": str(folder), "transcript_path": str(file)}
    assert hook("keep", given, folder) == {}
    assert wait_for(lambda: discussions(capsys), {session: 2}) == {session: 2}
    transcript(file)
    assert hook("keep", given, folder) == {}
    assert wait_for(lambda: discussions(capsys), {session: 4}) == {session: 4}
    assert hook("keep", given, folder) == {}
    assert run(["session", "keep", "--now", str(file)]) == 0
    assert discussions(capsys) == {session: 4}


def test_what_a_session_decided_is_a_candidate(folder, tmp_path, capsys):
    file = tmp_path / "session.jsonl"
    said = "We decided to keep sessions in SQLite because it needs no server."
    transcript(file, [("user", "Where do sessions live?"), ("assistant", said)])
    assert run(["session", "keep", "--now", str(file)]) == 0
    assert "2 messages, 1 candidate(s) to review" in capsys.readouterr().out
    with open_space(f"sqlite:{folder}/.treering/treering.db") as space:
        (decision,) = [one for one in all_of(space, "knowledge") if one.kind == "decision"]
    assert (decision.status, decision.payload.question) == ("candidate", said)


def test_secrets_of_a_transcript_are_not_kept(folder, tmp_path):
    file = tmp_path / "session.jsonl"
    transcript(file, [("user", "The key is AKIAIOSFODNN7EXAMPLE."), ("assistant", "I will not repeat it.")])
    assert run(["session", "keep", "--now", str(file)]) == 0
    with open_space(f"sqlite:{folder}/.treering/treering.db") as space:
        hits = space.query("search", input={"text": "The key is"}, options={"descend": True}).hits
    assert hits
    assert "AKIAIOSFODNN7EXAMPLE" not in repr(hits)


@pytest.mark.parametrize("given", [{"transcript_path": "/nowhere.jsonl"}, {"transcript_path": 7}, {}])
def test_a_transcript_that_is_not_there_is_no_error_of_the_session(folder, given):
    assert hook("keep", given, folder) == {}


def test_status_tells_what_is_in_the_space_what_is_stale_and_who_wrote_last(folder, capsys):
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user", actor="ada") as space:
        kept = note(space, "Fetches are tried three times.", origin="docs/fetch.md")
        decide(space, "Fetches are bounded", kept, status="active")
        note(space, "Fetches are tried for ever, whatever happens.", origin="docs/fetch.md")
    capsys.readouterr()
    assert run(["status"]) == 0
    printed = capsys.readouterr().out
    assert "1 source, 1 knowledge" in printed
    assert "1 stale" in printed
    assert "by ada" in printed
    assert run(["status", "--json", "--writes", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["objects"]["knowledge"] == {"stale": 1}
    assert len(told["writes"]) == 1


def test_the_folder_of_a_session_is_that_of_the_client_and_not_of_the_process(folder, tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = tmp_path / "session.jsonl"
    session = transcript(file)
    assert hook("keep", {"cwd": str(folder), "transcript_path": str(file)}, elsewhere) == {}
    assert wait_for(lambda: discussions(capsys), {session: 4}) == {session: 4}
    assert [*elsewhere.iterdir()] == []
