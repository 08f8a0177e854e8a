"""`treering connect`, `status`, and what the hooks of coding agents call, as processes of their own."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from space_parts import all_of, decide, note, open_space
from treering.core.fencing import fence
from treering.extensions.coding_agents import session_hooks
from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.retrieval.text.analysis import estimate_tokens
from treering.sources.reading.access import files_below
from treering.stores.sqlite.ready import ready_folder
from treering.surfaces.cli import run
from treering.system.machine import NEXT_LOCK, held_alone

TURNS = [
    ("user", "Where do sessions live? " * 30),
    ("assistant", "We decided that sessions live in one SQLite file. " * 30),
    ("user", "Fine. And the port? " * 30),
    ("assistant", "The test failed, since port 8080 was taken. " * 30),
]
SESSION = "7a1e2d3f-04b5-4c6d-9e7f-8091a2b3c4d5"
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


def codex_input(event, folder, **told):
    """Write what Codex tells a hook, by its published schemas."""
    common = {"session_id": SESSION, "transcript_path": None, "cwd": str(folder), "model": "gpt-5"}
    turn = {} if event == "SessionStart" else {"turn_id": "1"}
    own = {
        "SessionStart": {"permission_mode": "default"},
        "Stop": {"permission_mode": "default", "stop_hook_active": False, "last_assistant_message": "Done."},
        "PreCompact": {"trigger": "auto"},
    }
    return {"hook_event_name": event, **common, **turn, **own[event], **told}


def cursor_input(event, folder, **told):
    """Write what Cursor tells a hook, by its published reference."""
    common = {
        "conversation_id": SESSION,
        "generation_id": "1",
        "model": "auto",
        "hook_event_name": event,
        "cursor_version": "3.18.25",
        "workspace_roots": [str(folder)],
        "user_email": None,
        "transcript_path": None,
    }
    own = {
        "sessionStart": {"session_id": SESSION, "is_background_agent": False},
        "sessionEnd": {"session_id": SESSION, "reason": "completed", "duration_ms": 45000, "final_status": "completed"},
        "preCompact": {"trigger": "auto", "message_count": 45},
    }
    return {**common, **own[event], **told}


def copilot_input(event, folder, **told):
    """Return the input that Copilot CLI passes to a hook."""
    time = "2026-11-29T09:41:18.559Z"
    return {"hook_event_name": event, "session_id": SESSION, "timestamp": time, "cwd": str(folder), **told}


def rollout(file, turns):
    """Write what Codex writes of a session."""
    lines = [{"type": "session_meta", "payload": {"id": SESSION, "cwd": "/p"}}]
    for role, text in turns:
        part = {"type": "input_text" if role == "user" else "output_text", "text": text}
        lines.append({"type": "response_item", "payload": {"type": "message", "role": role, "content": [part]}})
    stamped = ({"timestamp": f"2026-11-02T09:{number:02}:00.000Z", **one} for number, one in enumerate(lines))
    file.write_text("".join(f"{json.dumps(one)}\n" for one in stamped))


def cursor_transcript(file, turns):
    """Write what Cursor writes of a conversation."""
    parts = ((role, f"<user_query>\n{text}\n</user_query>" if role == "user" else text) for role, text in turns)
    lines = [{"role": role, "message": {"content": [{"type": "text", "text": text}]}} for role, text in parts]
    lines.append({"type": "turn_ended", "status": "success"})
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))


def hook(word, given, folder):
    """Call a hook as a client does; return what it prints."""
    answer = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(answer):
        patch.chdir(folder)
        patch.setattr("sys.stdin", io.StringIO(json.dumps(given)))
        assert session_hooks.run(word) == 0
    return json.loads(answer.getvalue())


def resources_of(program, given, folder):
    """Run Python with something on stdin; return the CPU seconds it took and the modules it imported."""
    command = [sys.executable, "-X", "importtime", "-P", *program]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        told = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, told
    names = [one.rpartition("|")[2].strip() for one in told.splitlines() if one.startswith("import time:")]
    return used.ru_utime + used.ru_stime, set(names)


def waiting_records(tmp_path):
    return sorted((tmp_path / "data/sessions").glob("*.json"))


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
    assert "already connected" in capsys.readouterr().out
    assert run(["disconnect", "claude-code"]) == 0
    assert not (folder / ".mcp.json").exists()
    assert not (folder / ".claude").exists()
    assert run(["disconnect", "claude-code"]) == 3


@pytest.mark.parametrize("flag", ["--dry-run", "--print"])
def test_what_would_be_written_is_reported_and_nothing_is_changed(folder, capsys, flag):
    assert run(["connect", "gemini-cli", flag]) == 0
    printed = capsys.readouterr().out
    assert ".gemini/settings.json" in printed
    assert ("SessionStart" in printed) == (flag == "--print")
    assert not (folder / ".gemini").exists()
    assert not (folder.parent / "data" / "connections").exists()


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


def work_at_sessions(folder):
    """Decide something, and begin to work at it."""
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user") as space:
        kept = note(space, "Sessions of acme live in one SQLite file.", origin="docs/sessions.md")
        decide(space, "Sessions of acme live in SQLite", kept, status="active")
        space.embed_pending()
    for words in (["init", "-q", "-b", "acme-sessions-in-sqlite"], ["config", "user.name", "Ada"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_codex_begins_with_what_is_known_for_the_folder(folder):
    work_at_sessions(folder)
    answer = hook("begin", codex_input("SessionStart", folder, source="startup"), folder)
    assert answer.keys() == {"hookSpecificOutput"}
    assert answer["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
    assert "Sessions of acme live in SQLite" in answer["hookSpecificOutput"]["additionalContext"]


def test_cursor_begins_with_what_is_known_for_the_first_of_its_open_folders(folder, tmp_path):
    work_at_sessions(folder)
    answer = hook("begin", cursor_input("sessionStart", folder, composer_mode="agent"), tmp_path)
    assert answer.keys() == {"additional_context"}
    assert "Sessions of acme live in SQLite" in answer["additional_context"]


def test_copilot_session_shows_the_brief_once(folder):
    work_at_sessions(folder)
    given = copilot_input("SessionStart", folder, source="new")
    answer = hook("begin", given, folder)
    assert answer.keys() == {"additionalContext"}
    assert "Sessions of acme live in SQLite" in answer["additionalContext"]
    # Copilot CLI also runs the hooks for Claude Code.
    assert hook("begin", given, folder) == {}
    assert hook("begin", {**given, "source": "startup"}, folder) == answer


@pytest.mark.sampled(1)
@pytest.mark.parametrize("event", ["Stop", "PreCompact"])
def test_a_transcript_of_codex_grows_by_what_is_new(folder, tmp_path, capsys, event):
    file = tmp_path / f"rollout-2026-11-02T09-00-00-{SESSION}.jsonl"
    rollout(file, TURNS[:2])
    given = codex_input(event, folder, transcript_path=str(file))
    assert hook("keep", given, folder) == {}
    assert wait_for(lambda: discussions(capsys), {SESSION: 2}) == {SESSION: 2}
    rollout(file, TURNS)
    assert hook("keep", given, folder) == {}
    assert wait_for(lambda: discussions(capsys), {SESSION: 4}) == {SESSION: 4}
    assert run(["session", "keep", "--now", str(file)]) == 0
    assert discussions(capsys) == {SESSION: 4}


@pytest.mark.nightly
@pytest.mark.parametrize("event", ["sessionEnd", "preCompact"])
def test_a_transcript_of_cursor_grows_by_what_is_new(folder, tmp_path, capsys, event):
    file = tmp_path / f"{SESSION}.jsonl"
    cursor_transcript(file, TURNS[:2])
    given = cursor_input(event, folder, transcript_path=str(file))
    assert hook("keep", given, tmp_path) == {}
    assert wait_for(lambda: discussions(capsys), {SESSION: 2}) == {SESSION: 2}
    cursor_transcript(file, TURNS)
    assert hook("keep", given, tmp_path) == {}
    assert wait_for(lambda: discussions(capsys), {SESSION: 4}) == {SESSION: 4}
    assert run(["session", "keep", "--now", str(file)]) == 0
    assert discussions(capsys) == {SESSION: 4}


@pytest.mark.parametrize("client", ["claude-code", "cursor", "gemini-cli"])
def test_printed_settings_are_whole_json(folder, capsys, client):
    settings = folder / ".mcp.json"
    settings.write_text('{"mcpServers": {"other": {"command": "other"}}, "secret": "s"}')
    assert run(["connect", client, "--print"]) == 0
    blocks = re.findall(r"^([^\n]+\.json):\n(\{.*?^\})$", capsys.readouterr().out, re.MULTILINE | re.DOTALL)
    added = [json.loads(text) for _, text in blocks]
    assert [place.startswith("Add to ") for place, _ in blocks].count(True) == (client == "claude-code")
    servers = [one["mcpServers"] for one in added if "mcpServers" in one]
    assert [[*one] for one in servers] == [["treering"]]
    assert any("session begin" in json.dumps(one.get("hooks")) for one in added)
    assert "secret" not in json.dumps(added)


@pytest.mark.parametrize("client", ["codex", "cursor"])
def test_clients_that_keep_no_transcript_are_answered_all_the_same(folder, client):
    told = {"codex": codex_input("Stop", folder), "cursor": cursor_input("sessionEnd", folder)}
    assert hook("keep", told[client], folder) == {}


@pytest.mark.parametrize("client", ["codex", "cursor"])
def test_hooks_of_codex_and_cursor_are_told_of_and_can_be_omitted(folder, capsys, client):
    assert run(["connect", client, "--print"]) == 0
    assert f".{client}/hooks.json" in capsys.readouterr().out
    assert run(["connect", client, "--dry-run"]) == 0
    assert ("/hooks there" in capsys.readouterr().out) == (client == "codex")
    assert run(["connect", client, "--no-hooks"]) == 0
    assert not (folder / f".{client}/hooks.json").exists()
    assert run(["disconnect", client]) == 0
    assert not (folder / f".{client}").exists()
    assert run(["connect", client]) == 0
    assert "session keep" in (folder / f".{client}/hooks.json").read_text()
    assert run(["disconnect", client]) == 0
    assert not (folder / f".{client}").exists()


def test_a_session_begins_with_what_is_known_for_the_state_of_the_folder(folder):
    work_at_sessions(folder)
    answer = hook("begin", {"hook_event_name": "SessionStart", "cwd": str(folder)}, folder)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert "Sessions of acme live in SQLite" in answer["additionalContext"]
    assert "<<treering:recalled" in answer["additionalContext"]


def told_at_begin(folder):
    answer = hook("begin", {"hook_event_name": "SessionStart", "cwd": str(folder)}, folder)
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


HOOK_MODULES = {
    *("treering", "treering.facades", "treering.version"),
    *("treering.core", "treering.core.characters", "treering.core.errors"),
    *("treering.system", "treering.system.address", "treering.system.machine", "treering.system.settings"),
    *("treering.system.repository_place", "treering.system.space_place"),
    *("treering.extensions", "treering.extensions.coding_agents", "treering.extensions.coding_agents.connecting"),
    *("treering.extensions.coding_agents.session_hooks", "treering.extensions.coding_agents.shown_lines"),
    *("treering.extensions.coding_agents.tool_calls", "treering.extensions.coding_agents.client_input"),
    *("treering.core.arguments", "treering.core.fencing"),
    *("treering.stores", "treering.stores.sqlite", "treering.stores.sqlite.files", "treering.stores.sqlite.ready"),
    "treering.stores.sqlite.noted_answers",
    *("treering.retrieval", "treering.retrieval.text", "treering.retrieval.text.languages", "Stemmer"),
    *("treering.sources", "treering.extensions.conversations", "treering.extensions.conversations.tool_calls"),
    *("treering.surfaces", "treering.extensions.resident", "treering.extensions.resident.client"),
}
"""All of Treering that a hook may import which reads no space."""
_MOST_MODULES = 105  # of them about half are Python's own, such as those of dataclasses
_MOST_CPU_SECONDS = 0.25


@pytest.mark.parametrize("word", ["keep", "asked"])
def test_a_hook_that_reads_no_space_imports_little_and_takes_little_time_before_it_answers(folder, tmp_path, word):
    file = tmp_path / "session.jsonl"
    transcript(file)
    work_at_sessions(folder)
    given = {"hook_event_name": "SessionStart", "cwd": str(folder), "transcript_path": str(file)}
    given |= {"tool_input": {"file_path": "a.py"}, "prompt": "Where do sessions of acme live?", "error": "An error"}
    _, at_start = resources_of(["-c", "pass"], {}, folder)
    seconds, modules = resources_of(["-m", "treering", "session", word], given, folder)
    imported = modules - at_start
    assert {name for name in imported if name.partition(".")[0] == "treering"} <= HOOK_MODULES
    others = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others - HOOK_MODULES <= {"apsw", "importedpackage", "org", "org.python", "org.python.core"}
    assert len(imported) < _MOST_MODULES
    assert seconds < _MOST_CPU_SECONDS


NOT_FOR_HOOKS = (
    *("rich", "typer", "treering.surfaces.cli", "treering.verbs.crystallize", "treering.verbs.ingest"),
    *("treering.extensions.code.repository.repo", "treering.extensions.code.repository.repo_map"),
    *("treering.extensions.documents.formats", "treering.extensions.documents.url"),
)
"""Packages and modules that no hook imports which reads the space."""
NOT_FOR = {
    "begin": ("treering.retrieval.search.retrieval", "treering.extensions.code.parsing", "onnxruntime", "tokenizers"),
    "prompt": ("treering.extensions.code.parsing", "treering.verbs.query.code_related"),
    "edit": ("treering.retrieval.search.relevance", "onnxruntime", "tokenizers"),
    "failure": ("treering.extensions.code.parsing",),
}
"""What else one of them does not import."""


@pytest.mark.parametrize("word", NOT_FOR)
def test_reading_hook_imports_nothing_of_other_commands(folder, word):
    work_at_sessions(folder)
    given = {"cwd": str(folder), "prompt": "Where do sessions of acme live?", "error": "FAILED test_sessions"}
    given |= {"tool_name": "Edit", "tool_input": {"file_path": str(folder / "a.py"), "command": "pytest"}}
    _, modules = resources_of(["-m", "treering", "session", word], given, folder)
    unneeded = {*NOT_FOR_HOOKS, *NOT_FOR[word]}
    assert not {name for name in modules if any(f"{name}.".startswith(f"{one}.") for one in unneeded)}


_MOST_COLLECTIONS = 5  # before the threshold is raised; loading would cause about 180


def test_hook_collects_no_garbage_while_it_loads_and_ends(folder):
    work_at_sessions(folder)
    program = (
        "import gc, sys; phases = []; gc.callbacks.append(lambda phase, _: phases.append(phase));"
        "sys.argv = ['treering', 'session', 'begin']; from treering.__main__ import main\n"
        "try: main()\nfinally: sys.stderr.write(f'{phases.count(\"start\")} {gc.isenabled()}')"
    )
    given = json.dumps({"hook_event_name": "SessionStart", "cwd": str(folder)})
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, text=True, cwd=folder)
    assert "Sessions of acme live in SQLite" in done.stdout
    collections, is_enabled = done.stderr.split()
    assert int(collections) < _MOST_COLLECTIONS
    assert is_enabled == "False"


def test_the_program_of_the_package_answers_hooks_without_the_command_line():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["treering"].partition(":")
    program = f"import sys; from {module} import {function}; print('typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_session_begins_with_the_brief_as_it_is_now(folder):
    assert told_at_begin(folder) == ""
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user") as space:
        decide(space, "Sessions of acme live in SQLite", note(space, "Sessions of acme live in SQLite."))
    assert "Sessions of acme live in SQLite" in told_at_begin(folder)
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user") as space:
        (decision,) = [one for one in all_of(space, "knowledge") if one.kind == "decision"]
        decide(space, "Sessions of acme live in Redis", decision.evidence_refs[0].model_dump(), status="active")
        space.crystallize("supersede", input={"id": decision.id, "by": all_of(space, "knowledge")[-1].id})
    told = told_at_begin(folder)
    assert "SQLite" not in told
    assert "Redis" in told


def test_brief_of_a_session_names_each_section_once(folder):
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user") as space:
        for rule in ("No globals", "No print"):
            space.rule(rule)
    lines = told_at_begin(folder).splitlines()
    assert sum(line.startswith("Rules") for line in lines) == 1
    assert sum("No globals" in line or "No print" in line for line in lines) == 2


@pytest.mark.nightly
def test_a_transcript_that_a_hook_took_on_is_kept_by_a_later_run_if_its_own_is_killed(folder, tmp_path, capsys):
    file = tmp_path / "session.jsonl"
    session = transcript(file)
    with held_alone(tmp_path / "data/sessions" / NEXT_LOCK):  # whoever is started now finds that another one waits
        assert hook("keep", {"cwd": str(folder), "transcript_path": str(file)}, folder) == {}
        (record,) = waiting_records(tmp_path)
        assert json.loads(record.read_text())["transcript"] == str(file)
        assert run(["status"]) == 0
        assert "1 transcript of sessions not read yet. Read with: treering session work" in capsys.readouterr().out
    assert run(["session", "work"]) == 0
    assert discussions(capsys) == {session: 4}
    assert waiting_records(tmp_path) == []


def test_a_transcript_that_fails_stays_and_holds_up_no_other(folder, tmp_path, capsys):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    session = transcript(good)
    transcript(bad, session="5a0d1c2e-93a4-4b5c-8d6e-7f8091a2b3c4")
    here = {"transcript": str(good), "folder": str(folder), "space": f"sqlite:{folder}/.treering/treering.db"}
    gone = {**here, "transcript": str(tmp_path / "gone.jsonl")}
    elsewhere = {**here, "transcript": str(bad), "space": "postgresql://ada@db/x"}
    (tmp_path / "data/sessions").mkdir(parents=True)
    for number, one in enumerate([elsewhere, gone, here, here]):
        (tmp_path / f"data/sessions/{number}.json").write_text(json.dumps(one))
    (tmp_path / "data/sessions/4.json").write_text("{")
    assert run(["session", "work"]) == 1
    told = capsys.readouterr().err
    assert "postgresql://ada@db/x, which is not the space of this environment" in told
    assert "gone.jsonl was deleted" in told
    assert "4.json names a transcript to save, but cannot be read" in told
    assert [one.name for one in waiting_records(tmp_path)] == ["0.json", "4.json"]
    assert discussions(capsys) == {session: 4}


def test_a_hook_writes_no_password_down(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_SPACE", "postgresql://ada:secret-word@127.0.0.1:1/acme?space=x")
    file = tmp_path / "session.jsonl"
    transcript(file)
    assert hook("keep", {"cwd": str(folder), "transcript_path": str(file)}, folder) == {}
    (record,) = waiting_records(tmp_path)
    assert "secret-word" not in record.read_text()
    assert "on a server" in told_at_begin(folder)


@pytest.mark.parametrize("given", [{"cwd": "/nowhere"}, {}, [], {"cwd": 7}])
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


def test_a_kept_session_omits_erased_turns(folder, tmp_path, capsys):
    file = tmp_path / "session.jsonl"
    card = "Mila Orlov pays with the corporate card ending 4242"
    session = transcript(file, [("user", card), ("assistant", "Noted the card.")])
    assert run(["session", "keep", "--now", str(file)]) == 0
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user", actor="ada") as space:
        (source,) = (
            hit.object_id for hit in space.query("search", input={"query": card}, options={"descend": True}).hits[:1]
        )
        space.erase([source], "asked")
    transcript(file, [("user", card), ("assistant", "Noted the card."), ("user", "Book the train to Graz")])
    capsys.readouterr()
    assert run(["session", "keep", "--now", str(file)]) == 0
    assert f"{session}: 3 messages; 2 messages were erased on " in capsys.readouterr().out
    assert run(["discussion", "record", session, str(file)]) == 0
    assert "left out: 2 messages" in capsys.readouterr().out
    assert run(["discussion", "record", session, str(file), "--again"]) == 0
    assert "2 appended, 1 unchanged, 0 withdrawn; 3 messages now" in capsys.readouterr().out


def test_brief_recalls_the_work_of_a_kept_session(folder, tmp_path):
    file = tmp_path / "session.jsonl"
    session = transcript(file, [("user", "Limit the redeliveries of tasks, please")])
    work = [
        ("assistant", {"type": "tool_use", "id": "1", "name": "Edit", "input": {"file_path": "/p/src/tasks.py"}}),
        ("assistant", {"type": "tool_use", "id": "2", "name": "Bash", "input": {"command": "pytest -q"}}),
        (
            "user",
            {"type": "tool_result", "tool_use_id": "2", "content": "E  key AKIAIOSFODNN7EXAMPLE", "is_error": True},
        ),
        ("assistant", {"type": "text", "text": "The limit is set. Next: the docs"}),
    ]
    with file.open("a") as written:
        for number, (role, part) in enumerate(work):
            line = {
                "type": role,
                "sessionId": session,
                "uuid": f"w{number}",
                "message": {"role": role, "content": [part]},
            }
            written.write(f"{json.dumps(line)}\n")
    for _ in range(2):
        assert run(["session", "keep", "--now", str(file)]) == 0
    with open_space(f"sqlite:{folder}/.treering/treering.db") as space:
        said = space.query("brief").last
    assert said.startswith("02 Mar: “Limit the redeliveries of tasks, please”. Edited 1 file: src/tasks.py. Failing:")
    assert said.endswith("Next: “the docs”")
    assert "AKIA" not in said


def test_what_a_session_decided_is_a_candidate(folder, tmp_path, capsys):
    file = tmp_path / "session.jsonl"
    said = "We decided to keep sessions in SQLite because it needs no server."
    transcript(file, [("user", "Where do sessions live?"), ("assistant", said)])
    assert run(["session", "keep", "--now", str(file)]) == 0
    assert "2 messages; 1 decision waits for confirmation: treering review list" in capsys.readouterr().out
    with open_space(f"sqlite:{folder}/.treering/treering.db") as space:
        (decision,) = [one for one in all_of(space, "knowledge") if one.kind == "decision"]
    assert (decision.status, decision.title) == ("candidate", "Keep sessions in SQLite")


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


def test_status_reports_what_is_in_the_space_what_is_stale_and_who_wrote_last(folder, capsys):
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user", actor="ada") as space:
        kept = note(space, "Fetches are tried three times.", origin="docs/fetch.md")
        decide(space, "Fetches are bounded", kept, status="active")
        note(space, "Fetches are tried for ever, whatever happens.", origin="docs/fetch.md")
    capsys.readouterr()
    assert run(["status"]) == 0
    printed = capsys.readouterr().out
    assert "1 source, 1 statement" in printed
    assert "1 stale. See: treering lint" in printed
    assert 'Decided: "Fetches are bounded"  ada' in printed
    assert run(["status", "--json", "--writes", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["objects"]["knowledge"] == {"stale": 1}
    assert len(told["writes"]) == 1


@pytest.mark.nightly
def test_the_folder_of_a_session_is_that_of_the_client_and_not_of_the_process(folder, tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = tmp_path / "session.jsonl"
    session = transcript(file)
    assert hook("keep", {"cwd": str(folder), "transcript_path": str(file)}, elsewhere) == {}
    assert wait_for(lambda: discussions(capsys), {session: 4}) == {session: 4}
    assert [*elsewhere.iterdir()] == []


def planted(folder, marker):
    """Put modules into a folder that tell when somebody runs them."""
    for name in ("treering", "typer", "apsw", "json", "numpy"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("path", ["", ".", "relative::.", "/nowhere"])
def test_what_a_client_starts_takes_no_code_from_the_folder_it_is_started_in(folder, tmp_path, monkeypatch, path):
    marker = tmp_path / "it-ran"
    (folder / "treering").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (folder / "treering").chmod(0o755)
    monkeypatch.setenv("PATH", path)
    assert run(["connect", "claude-code"]) == 0
    planted(folder, marker)
    server = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["treering"]
    commands = [[server["command"], *server["args"]]]
    hooks = json.loads((folder / ".claude/settings.local.json").read_text())["hooks"]
    commands += [shlex.split(one["command"]) for kind in hooks.values() for group in kind for one in group["hooks"]]
    assert len(commands) == 9
    for command in commands:
        done = subprocess.run(command, input="{}", cwd=folder, capture_output=True, text=True, timeout=60)
        assert (done.returncode, marker.exists()) == (0, False), (command, done.stderr)


@pytest.mark.nightly
def test_a_transcript_is_kept_without_code_from_the_folder_of_its_session(folder, tmp_path, capsys):
    marker, file = tmp_path / "it-ran", tmp_path / "session.jsonl"
    session = transcript(file, TURNS[:2])
    planted(folder, marker)
    given = {"cwd": str(folder), "transcript_path": str(file)}
    command = [sys.executable, "-P", "-m", "treering", "session", "keep"]
    subprocess.run(command, input=json.dumps(given), cwd=tmp_path, check=True, text=True, timeout=60)
    assert wait_for(lambda: discussions(capsys), {session: 2}) == {session: 2}
    assert not marker.exists()


@pytest.mark.nightly
def test_a_relative_transcript_is_that_of_the_client_and_not_one_of_the_same_name_in_the_folder(
    folder, tmp_path, capsys
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    transcript(folder / "session.jsonl", [("user", "Forged.")])
    session = transcript(elsewhere / "session.jsonl")
    assert hook("keep", {"cwd": str(folder), "transcript_path": "session.jsonl"}, elsewhere) == {}
    assert wait_for(lambda: discussions(capsys), {session: 4}) == {session: 4}


# In the middle of a session: before an edit, on a prompt, after a failure.

SHOP = {
    "src/shop/basket.py": "LIMIT = 3\n\n\ndef total_of(prices: list[int]) -> int:\n    return sum(prices)\n",
    "src/shop/till.py": "def open_till() -> None:\n    return None\n",
    "src/shop/AGENTS.md": "Every price in a basket must be a whole number of cents.\n",
    "web/start.ts": "export const start = 1;\n",
}
LEARNED = "OperationalError: database is locked, in test_checkout"


@pytest.fixture
def shop(folder):
    """A repository whose space holds a decision, a rule and what was learned."""
    for path, text in SHOP.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for number in range(3):  # so that two files change together often enough
        for path in ("src/shop/basket.py", "src/shop/till.py"):
            (folder / path).write_text(f"{SHOP[path]}# {number}\n")
        for command in (("init", "-q"), ("add", "src", "web"), ("commit", "-q", "-m", "Change", "--no-verify")):
            who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
            subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True)
    assert run(["ingest", "."]) == 0
    with open_space(f"sqlite:{folder}/.treering/treering.db", channel="user", actor="ada") as space:
        hits = space.query("search", input={"query": "LIMIT total_of"}).hits
        hit = next(one for one in hits if one.origin.endswith("basket.py"))
        evidence = {"source_id": hit.source_id, "segment_id": hit.segment_id}
        decide(space, "Baskets hold three things", evidence)
        decide(space, "The mosaic of the fountain is restored by hand", note(space, "The mosaic, restored by hand."))
        learned = {"kind": "debug", "title": LEARNED, "summary": "A busy timeout of five seconds cured it."}
        space.crystallize("activity", input={**learned, "status": "finalized", "outcome": "success"})
    return folder


def record_used(folder):
    assert run(["session", "work", "--for", str(folder)]) == 0


def before_edit(folder, path, session="one", **told):
    given = {"hook_event_name": "PreToolUse", "session_id": session, "cwd": str(folder), "tool_name": "Edit"}
    return context_of(hook("edit", {**given, "tool_input": {"file_path": str(folder / path)}, **told}, folder))


def on_prompt(folder, prompt, session="one"):
    given = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": str(folder), "prompt": prompt}
    return context_of(hook("prompt", given, folder))


def context_of(answer):
    return answer.get("hookSpecificOutput", answer).get("additionalContext", answer.get("additional_context", ""))


def test_edit_hook_shows_rules_once(shop):
    text = before_edit(shop, "src/shop/basket.py")
    assert "Decision: Baskets hold three things" in text
    rule = "Rule: Every price in a basket must be a whole number of cents (in src/shop)"
    assert f"{rule} (candidate; src/shop/AGENTS.md:1)" in text
    assert "Often changed together with src/shop/basket.py: src/shop/till.py (3 commits)" in text
    assert text.startswith("<<treering:recalled")
    assert before_edit(shop, "src/shop/basket.py") == ""
    assert "Baskets" in before_edit(shop, "src/shop/basket.py", session="two")
    assert "Baskets" not in before_edit(shop, "src/shop/till.py", session="three")


def asked_over_mcp(folder, question, **call):
    """Ask as an agent does whose client has the server of this folder."""
    dispatcher = ToolDispatcher(f"sqlite:{folder}/.treering/treering.db", files_below(folder))
    try:
        given = {"mode": "search", "input": {"text": question}, **call}
        return dispatcher.answer("query", given, actor="agent", progress=lambda *_: None, check=lambda: None).data
    finally:
        dispatcher.close()


def verdicts(folder):
    with open_space(f"sqlite:{folder}/.treering/treering.db") as space:
        return dict(space.perform("feedback status").verdicts)


def test_a_file_that_an_answer_named_counts_as_used_once_the_agent_edits_it(shop):
    before_edit(shop, "src/shop/basket.py", session="early")
    told = asked_over_mcp(shop, "LIMIT total_of prices")
    asked_over_mcp(shop, "What is said of prices?", mode="context", input={"task": "LIMIT total_of prices"})
    assert any(one["origin"].endswith("basket.py") for one in told["hits"])
    for session in ("one", "one", "two"):
        before_edit(shop, "src/shop/basket.py", session=session)
    before_edit(shop, "web/start.ts")
    before_edit(shop, "../elsewhere.py")
    assert verdicts(shop) == {}
    record_used(shop)
    assert verdicts(shop) == {"used by agent": 1}
    before_edit(shop, "src/shop/basket.py")
    record_used(shop)
    assert verdicts(shop) == {"used by agent": 1}
    with open_space(f"sqlite:{shop}/.treering/treering.db") as space:
        hits = space.query("search", input={"text": "LIMIT total_of prices"}, options={"explain": True}).hits
        (hit,) = [one for one in hits if "feedback" in one.explain]
        assert hit.origin.endswith("basket.py")


def after_asking(folder, answered, session, word="asked", **told):
    """Call the hook that a client calls after a tool of ours."""
    given = {"hook_event_name": "PostToolUse", "session_id": session, "cwd": str(folder)}
    assert hook(word, {**given, "tool_response": answered, **told}, folder) == {}


def used_by_hooks(folder):
    file = ready_folder(folder / ".treering/treering.db") / "used.jsonl"
    return [json.loads(line)[0] for line in file.read_bytes().splitlines()] if file.exists() else []


def test_what_one_session_was_answered_is_not_used_by_another_one_that_works_beside_it(shop):
    of_one, of_two = "LIMIT total_of prices", "open_till of the till"
    first, second = (asked_over_mcp(shop, question)["answer"] for question in (of_one, of_two))
    after_asking(shop, [{"type": "text", "text": f"answer: {first}"}], "one")
    after_asking(shop, "Hits: 1.", "two", tool_input={"mode": "search", "input": {"text": of_two}})
    before_edit(shop, "src/shop/basket.py", session="two")
    assert first not in used_by_hooks(shop)
    before_edit(shop, "src/shop/basket.py", session="one")
    assert first in used_by_hooks(shop)
    before_edit(shop, "src/shop/till.py", session="one")
    assert second not in used_by_hooks(shop)
    before_edit(shop, "src/shop/till.py", session="two")
    assert second in used_by_hooks(shop)
    unknown = asked_over_mcp(shop, "Every price of a basket in cents, LIMIT")["answer"]
    before_edit(shop, "src/shop/basket.py", session="three")
    assert used_by_hooks(shop)[-1] == unknown


def test_what_a_command_was_answered_counts_for_the_session_that_ran_it_alone(shop):
    told_at_begin(shop)
    command = ["query", "--mode", "search", "LIMIT total_of", "prices", "--limit", "2"]
    done = subprocess.run([sys.executable, "-m", "treering", *command], cwd=shop, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    before_edit(shop, "src/shop/basket.py", session="of a person")
    assert used_by_hooks(shop) == []
    shell = f"cd . && treering {shlex.join(command)} | head -5"
    after_asking(shop, {"stdout": "1. …"}, "one", tool_input={"command": "echo 'LIMIT total_of prices' # treering?"})
    before_edit(shop, "src/shop/basket.py", session="two")
    assert used_by_hooks(shop) == []
    after_asking(shop, {"stdout": "1. …", "exit_code": 0}, "two", word="failure", tool_input={"command": shell})
    before_edit(shop, "src/shop/basket.py", session="three")
    assert used_by_hooks(shop) == []
    before_edit(shop, "src/shop/basket.py", session="two")
    assert len(used_by_hooks(shop)) == 1


def test_where_nothing_was_noted_or_the_call_was_of_something_else_no_session_is_noted(shop):
    kept = ready_folder(shop / ".treering/treering.db") / "answers.jsonl"
    after_asking(shop, "ans:AAAA", "one")
    assert not kept.exists()
    asked_over_mcp(shop, "LIMIT total_of prices")
    noted = kept.read_bytes()
    for told in ({"tool_input": "ls"}, {"tool_input": {"command": "treering query 'unbalanced"}}, {"tool_input": 1}):
        after_asking(shop, None, "one", **told)
    after_asking(shop, "LIMIT total_of prices", "")
    assert kept.read_bytes() == noted


def test_without_a_session_where_feedback_is_off_and_after_an_erasure_nothing_is_noted_as_used(shop):
    asked_over_mcp(shop, "LIMIT total_of prices")
    before_edit(shop, "src/shop/basket.py", session="")
    record_used(shop)
    assert verdicts(shop) == {}
    before_edit(shop, "src/shop/basket.py", session="one")
    assert run(["feedback", "off"]) == 0
    record_used(shop)
    asked_over_mcp(shop, "open_till of the till")
    before_edit(shop, "src/shop/till.py", session="one")
    assert run(["feedback", "on"]) == 0
    record_used(shop)
    assert verdicts(shop) == {}
    asked_over_mcp(shop, "LIMIT total_of prices")
    before_edit(shop, "src/shop/basket.py", session="three")
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user") as space:
        (source,) = [one for one in all_of(space, "source") if one.origin.endswith("basket.py")]
        space.perform("erase", input={"ids": [source.id]})
    kept = ready_folder(shop / ".treering/treering.db")
    assert not any(source.id.encode() in file.read_bytes() for file in kept.iterdir())
    record_used(shop)
    assert verdicts(shop) == {}


def test_what_was_noted_of_answers_is_bounded_and_what_cannot_be_read_is_omitted(shop):
    kept = ready_folder(shop / ".treering/treering.db")
    asked_over_mcp(shop, "LIMIT total_of prices")
    line = (kept / "answers.jsonl").read_bytes()
    (kept / "answers.jsonl").write_bytes(line * (60_000 // len(line) + 1))
    asked_over_mcp(shop, "LIMIT total_of prices")
    assert (kept / "answers.jsonl").stat().st_size < 60_000
    (kept / "used.jsonl").write_bytes(b'not json\n[1]\n["ans:x", "/", "src:x"]\n')
    record_used(shop)
    assert not (kept / "used.jsonl").exists()
    (kept / "answers.jsonl").write_bytes(b"{")
    assert "Baskets" in before_edit(shop, "src/shop/basket.py")


def test_before_an_edit_of_what_nothing_governs_nothing_is_reported(shop, tmp_path):
    assert before_edit(shop, "web/start.ts") == ""
    assert before_edit(shop, str(tmp_path / "elsewhere.py")) == ""
    assert hook("edit", {"cwd": str(shop), "tool_input": "not an object"}, shop) == {}


def test_a_patch_of_codex_reports_which_files_it_edits(shop):
    patch = "*** Begin Patch\n*** Update File: src/shop/basket.py\n@@\n-LIMIT = 3\n+LIMIT = 4\n*** End Patch\n"
    given = {"hook_event_name": "PreToolUse", "session_id": SESSION, "cwd": str(shop), "tool_name": "apply_patch"}
    answer = hook("edit", {**given, "tool_input": {"command": patch}}, shop)
    assert answer["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
    assert "Baskets hold three things" in context_of(answer)


def test_cursor_gets_rules_after_reading_a_file(shop):
    given = {"hook_event_name": "postToolUse", "conversation_id": SESSION, "workspace_roots": [str(shop)]}
    given |= {"tool_name": "Read", "tool_input": json.dumps({"file_path": str(shop / "src/shop/basket.py")})}
    assert "Baskets hold three things" in hook("edit", given, shop)["additional_context"]


def test_edit_hook_omits_erased_content(shop):
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user", actor="ada") as space:
        (item,) = [one for one in all_of(space, "knowledge") if one.title == "Baskets hold three things"]
        assert "Baskets" in before_edit(shop, "src/shop/basket.py")
        space.erase([item.id], reason="Asked")
    assert "Baskets" not in before_edit(shop, "src/shop/basket.py", session="two")


def test_a_prompt_in_another_language_is_matched_by_the_stems_of_that_language(shop):
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user", actor="ada") as space:
        evidence = note(space, "Die Sitzungen liegen in Cookies, die der Server unterschreibt.")
        decide(space, "Die Sitzungen liegen in unterschriebenen Cookies und nicht auf dem Server", evidence)
    assert "Sitzungen liegen" in on_prompt(shop, "Wo ist die Sitzung, und wer hat das Cookie auf dem Server?")
    assert on_prompt(shop, "Wie ist das Wetter, und wer hat den Hund mit zu uns genommen?") == ""


def test_on_a_prompt_a_session_is_told_what_truly_speaks_of_it_and_else_nothing(shop):
    text = on_prompt(shop, "Who restored the mosaic of the fountain?")
    assert "restored by hand" in text
    assert "Baskets" not in text
    assert on_prompt(shop, "Write a poem about whales, please.") == ""
    assert on_prompt(shop, "Use the fountain, please, and make it run.") == ""
    assert hook("prompt", {"cwd": str(shop), "prompt": None}, shop) == {}


def test_earlier_hook_output_is_not_part_of_a_prompt(shop):
    told = "Who restored the mosaic of the fountain?"
    assert on_prompt(shop, f"<hook_context>{told}</hook_context>\n\nHello.") == ""
    assert on_prompt(shop, f"{fence(told, origin='treering')}\n\nHello.") == ""


def test_brief_is_not_repeated_in_a_session(shop):
    begin = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop)}
    for source in ("startup", "clear", "compact"):
        told = context_of(hook("begin", {**begin, "source": source}, shop))
        assert "Baskets hold three things" in told
        assert "The mosaic of the fountain" in told
    assert hook("begin", {**begin, "source": "resume"}, shop) == {}


def test_decision_of_the_brief_is_shown_again_once_per_occasion(shop):
    hook("begin", {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop)}, shop)
    for expected in (1, 0):
        texts = [before_edit(shop, "src/shop/basket.py"), on_prompt(shop, "How many things do baskets hold?")]
        assert [text.count("Baskets hold three things") for text in texts] == [expected] * 2


def test_brief_of_a_session_warns_of_an_unread_commit(shop):
    given = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop)}
    assert "Warning" not in context_of(hook("begin", given, shop))
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "More"], cwd=shop, check=True)
    assert " was read at " in context_of(hook("begin", {**given, "source": "resume"}, shop))


def test_connect_offers_the_git_hooks_that_are_missing(shop, capsys):
    for offered in (True, False):
        capsys.readouterr()
        assert run(["connect", "claude-code"]) == 0
        assert ("treering hook install" in capsys.readouterr().out) == offered
        assert run(["hook", "install"]) == 0


def test_rule_for_all_files_is_not_repeated_after_the_brief(shop):
    assert run(["rule", "Prices are never rounded"]) == 0
    assert "never rounded" in before_edit(shop, "web/start.ts", session="without a brief")
    hook("begin", {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop)}, shop)
    assert before_edit(shop, "web/start.ts") == ""


@pytest.mark.parametrize("event", ["PreCompact", "preCompact", "PreCompress"])
def test_compaction_forgets_the_lines_shown(shop, event):
    asked = "Who restored the mosaic of the fountain?"
    assert "mosaic" in on_prompt(shop, asked)
    assert on_prompt(shop, asked) == ""
    assert hook("keep", {"hook_event_name": event, "session_id": "one", "cwd": str(shop)}, shop) == {}
    assert "mosaic" in on_prompt(shop, asked)


def test_first_prompt_after_a_compaction_gets_the_brief(shop):
    given = {"session_id": "one", "cwd": str(shop)}
    hook("begin", {**given, "hook_event_name": "SessionStart", "source": "startup"}, shop)
    assert "Baskets hold three things" not in on_prompt(shop, "Continue.")
    hook("keep", {**given, "hook_event_name": "PreCompact"}, shop)
    assert "Baskets hold three things" in on_prompt(shop, "Continue.")
    assert on_prompt(shop, "Continue.") == ""


def test_compacted_session_that_begins_again_gets_one_brief(shop):
    given = {"session_id": "one", "cwd": str(shop)}
    hook("keep", {**given, "hook_event_name": "PreCompact"}, shop)
    begun = hook("begin", {**given, "hook_event_name": "SessionStart", "source": "compact"}, shop)
    assert "Baskets hold three things" in context_of(begun)
    assert on_prompt(shop, "Continue.") == ""


def test_resumed_session_gets_only_what_changed(shop):
    begin = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop)}
    hook("begin", {**begin, "source": "startup"}, shop)
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user", actor="ada") as space:
        (basket,) = [one.id for one in all_of(space, "knowledge") if one.title == "Baskets hold three things"]
        decide(space, "The orchard grows quinces", note(space, "Quinces grow in the orchard."))
        space.crystallize("knowledge", input={"id": basket, "status": "archived"})
    told = context_of(hook("begin", {**begin, "source": "resume"}, shop))
    assert "Decided   The orchard grows quinces" in told
    assert f"Over      Baskets hold three things  {basket}" in told
    assert "mosaic" not in told


def resume_after(shop, told, *, later=""):
    """Return the brief for a resumed session with a new id, whose transcript contains an earlier brief."""
    transcript = shop.parent / "resumed.jsonl"
    transcript.write_text(f"{json.dumps({'content': told}, ensure_ascii=False)}\n{later}", encoding="utf-8")
    given = {"hook_event_name": "SessionStart", "session_id": "two", "cwd": str(shop), "source": "resume"}
    return context_of(hook("begin", {**given, "transcript_path": str(transcript)}, shop))


def test_resumed_session_with_a_new_id_gets_only_what_changed(shop):
    begin = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop), "source": "startup"}
    told = context_of(hook("begin", begin, shop))
    assert resume_after(shop, told) == ""
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user", actor="ada") as space:
        decide(space, "The orchard grows quinces", note(space, "Quinces grow in the orchard."))
    changed = resume_after(shop, told)
    assert "The orchard grows quinces" in changed
    assert "Baskets hold three things" not in changed


def test_resumed_session_gets_the_brief_if_a_compaction_removed_it(shop):
    begin = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop), "source": "startup"}
    told = context_of(hook("begin", begin, shop))
    compacted = '{"type":"system","subtype":"compact_boundary"}\n'
    assert "Baskets hold three things" in resume_after(shop, told, later=compacted)


def test_session_resumed_after_a_week_gets_no_second_brief(shop):
    begin = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop)}
    hook("begin", {**begin, "source": "startup"}, shop)
    (file,) = ready_folder(shop / ".treering/treering.db").glob("*.shown")
    os.utime(file, (time.time() - 7 * 86_400,) * 2)
    hook("begin", {**begin, "session_id": "other", "source": "startup"}, shop)
    assert hook("begin", {**begin, "source": "resume"}, shop) == {}


def test_compaction_of_a_subagent_forgets_nothing(shop):
    given = {"session_id": "one", "cwd": str(shop)}
    hook("begin", {**given, "hook_event_name": "SessionStart", "source": "startup"}, shop)
    hook("keep", {**given, "hook_event_name": "PreCompact", "agent_id": "a1"}, shop)
    assert on_prompt(shop, "Continue.") == ""


def test_subagent_gets_no_brief(shop):
    given = {"hook_event_name": "SessionStart", "cwd": str(shop), "session_id": "one", "agent_id": "a1"}
    assert hook("begin", given, shop) == {}


def test_decision_whose_lines_were_edited_is_reported_as_stale(shop):
    (shop / "src/shop/basket.py").write_text("LIMIT = 4\n")
    begin = {"hook_event_name": "SessionStart", "session_id": "one", "cwd": str(shop), "source": "startup"}
    told = context_of(hook("begin", begin, shop))
    assert 'Baskets hold three things (changed since: src/shop/basket.py:1 is now "LIMIT = 4")' in told


def test_knowledge_of_a_session_is_shown_in_it(shop):
    asked = "What grows in the orchard, quinces?"
    assert on_prompt(shop, asked) == ""
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user", actor="ada") as space:
        decide(space, "The orchard grows quinces", note(space, "Quinces grow in the orchard."))
    assert "quinces" in on_prompt(shop, asked)


def test_a_decision_of_a_file_is_reported_in_words_said_once(folder):
    (folder / "docs/decisions").mkdir(parents=True)
    record = "# Sessions in one file\n\nStatus: accepted\n\n## Decision\n\nOnly `src/sessions.py` opens the file.\n"
    (folder / "docs/decisions/0009-sessions.md").write_text(record)
    (folder / "src").mkdir()
    (folder / "src/sessions.py").write_text("FILE = 1\n")
    assert run(["ingest", "."]) == 0
    told = before_edit(folder, "src/sessions.py")
    assert told.count("Sessions in one file") == told.count("opens the file") == 1


FAILED = "E   sqlite3.OperationalError: database is locked\nFAILED tests/test_shop.py::test_checkout"
FAILURES = {
    "claude-code": {"hook_event_name": "PostToolUseFailure", "error": f"Exit code 1\n{FAILED}"},
    "codex": {"hook_event_name": "PostToolUse", "tool_response": f"Exit code: 1\nOutput:\n{FAILED}"},
    "codex that tells no exit code": {"hook_event_name": "PostToolUse", "tool_response": f"{FAILED}\n"},
    "without a module": {"error": "Exit code 1\nOperationalError: database is locked"},
    "cursor": {"hook_event_name": "postToolUse", "tool_output": json.dumps({"exitCode": 1, "stdout": FAILED})},
    "gemini-cli": {"hook_event_name": "AfterTool", "tool_response": {"llmContent": f"Exit Code: 1\n{FAILED}"}},
    "copilot-cli": {
        "hook_event_name": "PostToolUse",
        "tool_result": {"text_result_for_llm": f"{FAILED}\n<shellId: 0 completed with exit code 1>"},
    },
}


@pytest.mark.parametrize("client", FAILURES)
def test_failure_shows_lessons_from_the_same_failure(shop, client):
    text = context_of(hook("failure", {"session_id": client, "cwd": str(shop), **FAILURES[client]}, shop))
    assert LEARNED in text
    assert "busy timeout" in text


def test_failure_shows_the_decision_about_a_frame_of_its_traceback(shop):
    trace = 'Traceback (most recent call last):\n  File "src/shop/basket.py", line 1, in <module>\nKeyError: 3\n'
    given = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": {"stderr": trace, "exit_code": 1}}
    text = context_of(hook("failure", {"session_id": "one", "cwd": str(shop), **given}, shop))
    assert "Baskets hold three things" in text
    assert LEARNED not in text


@pytest.mark.parametrize(
    "given",
    [
        {"hook_event_name": "PostToolUse", "tool_response": f"Exit code: 0\n{FAILED}"},
        {"hook_event_name": "PostToolUse", "tool_response": "docs/errors.md: OperationalError, database is locked\n"},
        {"hook_event_name": "postToolUse", "tool_output": json.dumps({"exitCode": 0, "stdout": FAILED})},
        {"hook_event_name": "PostToolUseFailure", "error": "Exit code 1\nNameError: name 'x' is not defined"},
    ],
)
def test_after_what_did_not_fail_or_failed_otherwise_nothing_is_reported(shop, given):
    assert hook("failure", {"session_id": "one", "cwd": str(shop), **given}, shop) == {}


def test_hooks_stay_within_their_token_limit(shop):
    with open_space(f"sqlite:{shop}/.treering/treering.db", channel="user", actor="ada") as space:
        (item,) = [one for one in all_of(space, "knowledge") if one.title == "Baskets hold three things"]
        for number in range(5):
            title = f"The alpha{number} of beta{number}: test_rule is locked and fails. " + "很长的规则。" * 60
            decide(space, title, item.evidence_refs[0].model_dump())
    failed = {"hook_event_name": "PostToolUseFailure", "cwd": str(shop), "error": "test_rule is locked and fails"}
    asked = " ".join(f"alpha{number} beta{number}" for number in range(5))
    texts = [before_edit(shop, "src/shop/basket.py"), context_of(hook("failure", failed, shop))]
    texts.append(on_prompt(shop, f"And {asked}?", session="two"))
    assert all(80 < estimate_tokens(text) <= 250 for text in texts), texts


@pytest.mark.parametrize("word", ["begin", "edit", "prompt", "failure"])
def test_each_hook_can_be_turned_off_alone(shop, word, monkeypatch):
    given = {"session_id": "one", "cwd": str(shop), "prompt": "Who restored the mosaic of the fountain?"}
    given |= {"tool_input": {"file_path": "src/shop/basket.py"}, **FAILURES["claude-code"]}
    monkeypatch.setenv("TREERING_HOOKS_OFF", f"{word},keep")
    answered = {
        one: bool(hook(one, given | {"session_id": one}, shop)) for one in ("begin", "edit", "prompt", "failure")
    }
    assert [one for one, has in answered.items() if not has] == [word]


def test_a_hook_is_omitted_where_a_person_says_so_and_an_unknown_one_is_refused(folder, capsys):
    assert run(["connect", "claude-code", "--without", "prompt", "--without", "edit"]) == 0
    text = (folder / ".claude/settings.local.json").read_text()
    assert [word for word in ("begin", "keep", "edit", "prompt", "failure") if f"session {word}" in text] == [
        "begin",
        "keep",
        "failure",
    ]
    assert run(["connect", "codex", "--without", "prompts"]) == 2
    assert "Did you mean 'prompt'?" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["edit", "prompt", "failure"])
def test_hook_without_a_space_prints_nothing(tmp_path, word):
    given = {"tool_input": {"file_path": "src/shop/basket.py"}, "prompt": "The mosaic", **FAILURES["claude-code"]}
    assert hook(word, {**given, "cwd": str(tmp_path)}, tmp_path) == {}


@pytest.mark.parametrize("word", ["edit", "prompt", "failure"])
def test_subagents_get_no_context(shop, word):
    given = {"session_id": "one", "cwd": str(shop), "prompt": "Who restored the mosaic of the fountain?"}
    given |= {"tool_input": {"file_path": "src/shop/basket.py"}, **FAILURES["claude-code"]}
    assert hook(word, {**given, "agent_id": "a1", "agent_type": "Explore"}, shop) == {}
    assert context_of(hook(word, given, shop))


def test_subagent_gets_the_rules_that_its_edit_breaks(shop):
    assert run(["rule", "Never use eval()"]) == 0
    given = {"session_id": "one", "cwd": str(shop), "agent_id": "a1"}
    change = {"file_path": "src/shop/basket.py", "content": "eval('1')\n"}
    answer = context_of(hook("edit", {**given, "tool_input": change}, shop))
    assert "This edit adds eval(). Rule: Never use eval()" in answer


IN_OPENCODE = """
import { Treering } from "./treering.mjs"
import { readFileSync } from "node:fs"
const { directory, messages, calls } = JSON.parse(readFileSync(0, "utf8"))
const client = { session: { messages: async ({ path }) => ({ data: messages[path.id] }) } }
const hooks = await Treering({ client, directory, worktree: directory, project: {}, $: undefined })
const outputs = []
for (const [name, input, output] of calls) {
  await hooks[name](input, output)
  outputs.push(output ?? null)
}
await hooks.dispose()
console.log(JSON.stringify(outputs))
"""
"""What OpenCode does with a plugin, as far as ours takes part: hooks are awaited, and change what they are given."""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node, which runs the plugin of OpenCode")


def in_opencode(folder, place, calls, messages=None):
    """Connect OpenCode, and call the plugin that it finds; return what the hooks made of what they were given."""
    plugin = folder / ".opencode/plugins/treering.js"
    if not plugin.exists():
        assert run(["connect", "opencode"]) == 0
    place.mkdir(exist_ok=True)
    (place / "treering.mjs").write_bytes(plugin.read_bytes())
    (place / "host.mjs").write_text(IN_OPENCODE)
    given = json.dumps({"directory": str(folder), "messages": messages or {}, "calls": calls})
    done = subprocess.run(
        ["node", str(place / "host.mjs")], input=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def said_in_opencode(text, session="ses_1", number=1):
    part = {"id": f"prt_{number}", "sessionID": session, "messageID": f"msg_{number}", "type": "text", "text": text}
    message = {"id": f"msg_{number}", "sessionID": session, "role": "user", "time": {"created": 1_772_442_000_000}}
    return ["chat.message", {"sessionID": session}, {"message": message, "parts": [part]}]


def with_more_time(folder):
    """Give the plugin more time than a person would wait: the machine of a test may be busy."""
    assert run(["connect", "opencode"]) == 0
    plugin = folder / ".opencode/plugins/treering.js"
    plugin.write_text(plugin.read_text().replace("2000", "60000").replace("5000", "60000"))


@needs_node
def test_opencode_is_told_at_the_beginning_on_a_prompt_after_a_read_and_after_a_failure(shop, tmp_path):
    with_more_time(shop)
    tool = {"sessionID": "ses_1", "callID": "call_1"}
    path = str(shop / "src/shop/basket.py")
    first, second, read, again, failed, passed = in_opencode(
        shop,
        tmp_path / "opencode",
        [
            said_in_opencode("How is the mosaic of the fountain restored?"),
            said_in_opencode("Thank you.", number=2),
            ["tool.execute.after", {**tool, "tool": "read", "args": {"filePath": path}}, {"output": "LIMIT = 3"}],
            ["tool.execute.after", {**tool, "tool": "read", "args": {"filePath": path}}, {"output": "LIMIT = 3"}],
            ["tool.execute.after", {**tool, "tool": "bash", "args": {}}, {"output": FAILED, "metadata": {"exit": 1}}],
            ["tool.execute.after", {**tool, "tool": "bash", "args": {}}, {"output": FAILED, "metadata": {"exit": 0}}],
        ],
    )
    said, told = first["parts"]
    assert said["text"] == "How is the mosaic of the fountain restored?"
    assert 'origin="brief"' in told["text"]
    assert "The mosaic of the fountain is restored by hand" in told["text"]
    assert told["id"].startswith("prt_1")
    assert told["id"] > said["id"]
    assert told | {"synthetic": True, "messageID": "msg_1", "sessionID": "ses_1", "type": "text"} == told
    assert [part["text"] for part in second["parts"]] == ["Thank you."]
    assert read["output"].startswith("LIMIT = 3\n\n<<treering:recalled")
    assert "Baskets hold three things" in told["text"]
    assert "Every price in a basket must be a whole number of cents" in read["output"]
    assert again["output"] == "LIMIT = 3"
    assert LEARNED in failed["output"]
    assert passed["output"] == FAILED


@needs_node
def test_what_was_said_in_opencode_is_kept_once_it_is_idle_and_grows_by_what_is_new(folder, tmp_path, capsys):
    with_more_time(folder)

    def told(turns):
        return [
            {
                "info": {"role": role, "time": {"created": 1_772_442_000_000 + 60_000 * number}},
                "parts": [{"type": "text", "text": text}, {"type": "tool", "tool": "bash", "state": {"output": "x"}}],
            }
            for number, (role, text) in enumerate(turns)
        ]

    idle = [["event", {"event": {"type": "session.idle", "properties": {"sessionID": "ses_1"}}}]]
    capsys.readouterr()
    for turns in (TURNS[:2], TURNS):
        in_opencode(folder, tmp_path / "opencode", idle, {"ses_1": told(turns)})
        assert run(["session", "work"]) == 0
        wait_for(lambda: [*(tmp_path / "data/sessions").glob("*.json*")], [])
        capsys.readouterr()
        assert discussions(capsys) == {"ses_1": len(turns)}


@needs_node
def test_a_session_that_another_one_started_in_opencode_is_neither_told_nor_kept(shop, tmp_path):
    with_more_time(shop)
    created = {"type": "session.created", "properties": {"info": {"id": "ses_2", "parentID": "ses_1"}}}
    idle = {"type": "session.idle", "properties": {"sessionID": "ses_2"}}
    calls = [
        ["event", {"event": created}],
        said_in_opencode("How is the mosaic of the fountain restored?", session="ses_2"),
        ["event", {"event": idle}],
    ]
    _, said, _ = in_opencode(shop, tmp_path / "opencode", calls, {"ses_2": [{"info": {}, "parts": []}]})
    assert len(said["parts"]) == 1
    assert waiting_records(tmp_path) == []


@needs_node
@pytest.mark.parametrize("program", ["/nowhere/treering", "hangs", "talks nonsense"])
def test_no_session_of_opencode_fails_or_waits_where_our_command_does(folder, tmp_path, program):
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\n" + ("exec sleep 600\n" if program == "hangs" else "echo '{'; exit 3\n"))
    script.chmod(0o755)
    assert run(["connect", "opencode"]) == 0
    plugin = folder / ".opencode/plugins/treering.js"
    _, limits, rest = plugin.read_text().split("\n", 2)
    command = [program if program.startswith("/") else str(script)]
    plugin.write_text(f"const COMMAND = {json.dumps(command)}\n{limits.replace('000', '00')}\n{rest}")
    broken = ["chat.message", {}, {"parts": None}]
    read = ["tool.execute.after", {"tool": "read", "sessionID": "ses_1"}, {"output": "text"}]
    idle = ["event", {"event": {"type": "session.idle", "properties": {"sessionID": "ses_1"}}}]
    said, *others = in_opencode(folder, tmp_path / "opencode", [said_in_opencode("Hello"), broken, read, idle])
    assert len(said["parts"]) == 1
    assert others == [{"parts": None}, {"output": "text"}, None]


@pytest.mark.parametrize("command", [["hook", "install"], ["check"]])
def test_commands_outside_git_hint_at_a_repository(folder, capsys, command):
    assert run(command) == 2
    assert "Run this in a git repository" in capsys.readouterr().err


def test_disconnect_removes_its_own_lines_from_git_hooks(folder, capsys):
    subprocess.run(["git", "init", "-q", "."], check=True)
    foreign = folder / ".git" / "hooks" / "post-commit"
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("#!/bin/sh\necho mine\n")
    assert run(["hook", "install"]) == 0
    assert run(["connect", "claude-code"]) == 0
    capsys.readouterr()
    assert run(["disconnect", "claude-code"]) == 0
    assert "post-commit: removed Treering's lines" in capsys.readouterr().out
    assert foreign.read_text() == "#!/bin/sh\necho mine\n"
    assert [file.name for file in foreign.parent.iterdir() if b"treering" in file.read_bytes()] == []


def test_disconnect_leaves_git_hooks_to_another_client(folder, capsys):
    subprocess.run(["git", "init", "-q", "."], check=True)
    for command in (["hook", "install"], ["connect", "claude-code"], ["connect", "cursor"]):
        assert run(command) == 0
    capsys.readouterr()
    assert run(["disconnect", "claude-code"]) == 0
    out = capsys.readouterr().out
    assert "because cursor still uses this space. To remove them: treering hook uninstall" in out
    assert run(["disconnect", "cursor"]) == 0
    assert not (folder / ".git" / "hooks" / "post-commit").exists()
