"""Coding agents as they run, connected as a person connects them: what hooks told reached the model, and was kept.

Each needs its program on the search path; `make clients` installs them all. The model is scripted, nothing else is.
"""

import difflib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from scripted_model import SAID, ScriptedModel, scripted_model

from treering.stores.sqlite.ready import ready_folder, unsealed

RECORD = """\
# Sessions in SQLite

Status: accepted

## Decision

Sessions are kept in one SQLite file, opened by `src/sessions.py`. Nothing else writes to it.
"""
CODE = "import sqlite3\n\n\ndef open_sessions(path):\n    return sqlite3.connect(path)\n"
DECIDED, LEARNED = "Nothing else writes to it", "came from two writers"
TREERING = [sys.executable, "-m", "treering"]
GOLDEN = Path(__file__).parent / "contexts"
VARYING = re.compile(r"\b[0-9a-f]{16}\b|\b(?<=:)01[0-9a-z]{24}\b")
"""Marks of fences, and ids."""
_WAIT_SECONDS = 60


def claude(home, url, asked):
    del home
    environment = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "IS_SANDBOX": "1"}
    environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
    return ["claude", "-p", asked, "--permission-mode", "bypassPermissions"], environment


def codex(home, url, asked):
    provider = f'[model_providers.local]\nname = "local"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    trusted = f'[projects."{home.parent / "shop"}"]\ntrust_level = "trusted"\n'
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(f'model = "gpt-5.5"\nmodel_provider = "local"\n{provider}{trusted}')
    flags = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
    return ["codex", "exec", *flags, asked], {}


def gemini(home, url, asked):
    (home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}}
    settings |= {"general": {"disableAutoUpdate": True}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".gemini/settings.json").write_text(json.dumps(settings))
    environment = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url}
    return ["gemini", "--yolo", "-m", "gemini-2.5-flash", "-p", asked], environment


def opencode(home, url, asked):
    place = home / ".config/opencode"
    place.mkdir(parents=True)
    known = {"name": "m", "tool_call": True, "limit": {"context": 100_000, "output": 8_000}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "none"}}
    told = {"provider": {"local": {**provider, "models": {"m": known}}}, "model": "local/m", "small_model": "local/m"}
    (place / "opencode.json").write_text(json.dumps({**told, "autoupdate": False, "permission": {"*": "allow"}}))
    environment = {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}
    return ["opencode", "run", asked], environment


def copilot(home, url, asked):
    del home
    environment = {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_MODEL": "m"}
    return ["copilot", "-p", asked, "--allow-all-tools", "--trust-folder"], environment


CLIENTS = {
    "claude-code": claude,
    "codex": codex,
    "gemini-cli": gemini,
    "opencode": opencode,
    "copilot-cli": copilot,
}


@pytest.fixture
def shop(tmp_path):
    """A connected repository, whose space holds a decision and what was learned from a failure."""
    folder, home = tmp_path / "shop", tmp_path / "home"
    home.mkdir()
    for path, text in {"docs/decisions/0001-sessions.md": RECORD, "src/sessions.py": CODE}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    # OpenCode works where PWD says, not where it was started. From a checkout the resident process has to be asked for.
    return folder, home, {**os.environ, "HOME": str(home), "PWD": str(folder), "TREERING_RESIDENT": "1"}


def call(command, folder, environment):
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def connect(name, shop):
    """Fill the space of the repository, and connect a client."""
    folder, _, environment = shop
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "Keep sessions in SQLite"]):
        call(["git", *command], folder, environment)
    learned = "sqlite3.OperationalError: database is locked came from two writers; a timeout cured it"
    debug = ["--kind", "debug", "--title", "Locked database", "--summary", learned, "--outcome", "success"]
    for command in (["init"], ["ingest", "."], ["crystallize", *debug], ["connect", name]):
        call([*TREERING, *command], folder, environment)


def run_client(name, shop, asked, before="", **settings):
    """Connect a client, have it work by the script, and return its model."""
    folder, home, environment = shop
    connect(name, shop)
    if not before:
        call(
            [*TREERING, "search", asked], folder, environment
        )  # warms the resident process: clients wait 2 s for a hook
    with scripted_model(str(folder / "src/sessions.py"), before) as model:
        command, more = CLIENTS[name](home, model.url, asked)
        if not shutil.which(command[0]):
            pytest.skip(f"{command[0]} is not installed")
        assert SAID in call(command, folder, {**environment, **more, **settings})
        assert "timeout=5" in (folder / "src/sessions.py").read_text()
        return model


def version(name, shop):
    """Return the name and version of a client, for the message of a failure."""
    folder, _, environment = shop
    program = CLIENTS[name].__name__
    return f"{name} ({call([program, '--version'], folder, environment).strip()})"


def compare_with_golden(name, model, client):
    """Compare the context that reached the model with `contexts/NAME.txt`; `REWRITE_GOLDEN=1` rewrites the file."""
    golden = GOLDEN / f"{name}.txt"
    text = "\n\n".join(VARYING.sub("…", context) for context in model.contexts()) + "\n"
    if os.environ.get("REWRITE_GOLDEN"):
        golden.write_text(text)
    expected = golden.read_text()
    changes = "\n".join(difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", client, lineterm=""))
    assert text == expected, (
        f"{client} shows its model another context. If that is right, run with REWRITE_GOLDEN=1.\n{changes}"
    )


def discussions(shop):
    folder, _, environment = shop
    listed = json.loads(call([*TREERING, "discussion", "list", "--json"], folder, environment))
    ids = [one["id"] for one in listed["discussions"]]
    return [call([*TREERING, "discussion", "show", one], folder, environment) for one in ids]


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_told_what_is_known_when_it_begins_and_after_a_failure_and_its_session_is_kept(name, shop):
    asked = "Where are sessions kept in SQLite?"
    model = run_client(name, shop, asked)
    told = model.told()
    client = version(name, shop)
    assert DECIDED in told, f"{client} does not show its model the output of the hooks for session start and prompt."
    assert LEARNED in told, f"{client} does not call the hook after a failed command, or does not show its output."
    end = time.monotonic() + _WAIT_SECONDS
    while not (kept := discussions(shop)) and time.monotonic() < end:
        time.sleep(0.5)
    assert kept, f"{client} does not call the hook at the end of a turn, or its transcript has a new format."
    [kept] = discussions(shop)
    assert asked in kept, f"The transcript of {client} has a new format for prompts."
    assert SAID in kept, f"The transcript of {client} has a new format for answers."
    assert DECIDED not in kept
    compare_with_golden(name, model, client)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_client_gets_the_rules_for_an_edited_file(name, shop):
    told = run_client(name, shop, "Wait for a lock.", TREERING_HOOKS_OFF="begin,prompt,failure").told()
    assert told.count(DECIDED) == 1, f"{version(name, shop)} changed the hook before or after an edit of a file."
    assert LEARNED not in told


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLIENTS)
def test_what_a_client_asked_on_the_command_line_belongs_to_its_session(name, shop):
    folder, _, environment = shop
    programs = str(Path(sys.executable).parent)
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    program = f"{programs}/treering" if name == "codex" else "treering"  # its shell has a search path of its own
    question = f'cd . && {program} query --mode search "Where are sessions kept" --limit 2'
    run_client(name, shop, "Wait for a lock.", question)
    noted = ready_folder(folder / ".treering/treering.db") / "answers.jsonl"
    told = [unsealed(one) for one in noted.read_bytes().splitlines()]
    (answer,) = [one["answer"] for one in told if one.get("in_shell")]
    assert [one["answers"] for one in told if "session" in one] == [[answer]]


@pytest.mark.nightly
def test_opencode_shows_the_brief_again_after_a_compaction(shop):
    folder, home, environment = shop
    if not shutil.which("opencode"):
        pytest.skip("opencode is not installed")
    connect("opencode", shop)
    with scripted_model(str(folder / "src/sessions.py")) as model:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        _, more = opencode(home, model.url, "")
        command = ["opencode", "serve", "--port", str(port)]
        server = subprocess.Popen(command, cwd=folder, env={**environment, **more}, stdout=subprocess.DEVNULL)
        patient = httpx.HTTPTransport(retries=7)
        place = f"http://127.0.0.1:{port}"
        try:
            with httpx.Client(base_url=place, timeout=_WAIT_SECONDS, transport=patient) as client:
                session = client.post("/session", json={}).json()["id"]
                ask = {"parts": [{"type": "text", "text": "Where are sessions kept in SQLite?"}]}
                client.post(f"/session/{session}/message", json=ask)
                client.post(f"/session/{session}/summarize", json={"providerID": "local", "modelID": "m"})
                client.post(f"/session/{session}/message", json=ask)
        finally:
            server.terminate()
            server.wait(_WAIT_SECONDS)
    assert json.dumps(model.asked[-1]["messages"]).count('origin=\\"brief') == 1


@pytest.mark.nightly
def test_copilot_with_hooks_of_claude_code_too_shows_each_text_once(shop):
    folder, _, environment = shop
    call(["git", "init", "-q"], folder, environment)
    call([*TREERING, "connect", "claude-code"], folder, environment)
    model = run_client("copilot-cli", shop, "Where are sessions kept in SQLite?")
    tools = {tool["function"]["name"] for tool in model.asked[0]["tools"]}
    wanted = {f"treering-wiki-{verb}" for verb in ("ingest", "query", "crystallize", "lint")}
    assert wanted <= tools, f"Copilot CLI has other tools: {sorted(tools)}"
    told = model.told()
    assert [told.count(text) for text in ('origin="brief"', LEARNED)] == [1, 1]


ASKED = {
    "/v1/messages": {"messages": [], "tools": [{"name": "Edit"}]},
    "/v1/responses": {"input": [], "tools": [{"type": "custom", "name": "apply_patch"}]},
    "/v1/chat/completions": {"messages": [], "tools": [{"function": {"name": "edit"}}]},
    "/v1beta/models/m:streamGenerateContent": {
        "contents": [],
        "tools": [{"functionDeclarations": [{"name": "replace"}]}],
    },
}


@pytest.mark.parametrize("path", ASKED)
def test_the_scripted_model_has_an_agent_work_where_it_has_tools_and_else_speaks(path):
    with scripted_model("src/sessions.py") as model:
        works = httpx.post(model.url + path, json={"model": "m", **ASKED[path]}).text
        speaks = httpx.post(model.url + path, json={"model": "m", **ASKED[path], "tools": []}).text
    assert "src/sessions.py" in works
    assert SAID not in works
    assert SAID in speaks


def test_the_scripted_model_lists_each_recalled_text_once():
    fence = '<<treering:recalled origin="brief" 0d84fae399cb136e>>\nshop\n<<treering:end 0d84fae399cb136e>>'
    escaped = f"<hook>{fence.replace('<', '&lt;').replace('>', '&gt;')}</hook>\n\nHello"
    model = ScriptedModel("", asked=[{"contents": [fence]}, {"contents": [fence, {"text": escaped}]}])
    assert model.contexts() == [fence, f"<hook>{fence}</hook>"]
