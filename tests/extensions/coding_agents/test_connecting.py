"""Clients are connected in homes that hold something already, and disconnected so that every byte is as before."""

import json
import tomllib
from pathlib import Path

import pytest

from sources.git_scratch import Scratch
from treering.core.errors import Conflict, InvalidInput, NotFound
from treering.extensions.coding_agents.connecting import (
    CLIENTS,
    HOOK_WORDS,
    ConnectionRecords,
    StartCommand,
    client_named,
    plan_connection,
)
from treering.extensions.coding_agents.json_text import read_json

SERVER = StartCommand("/opt/bin/treering", ("mcp", "--space", "sqlite:/p/.treering/treering.db", "--files", "/p"))
HOOKS = StartCommand("/opt/bin/treering", ("session",))
JSON = '{\n  // mine\n  "%s": {\n    "other": {"command": "x"}\n  },\n  "hooks": {"SessionStart": [{"hooks": []}]}\n}\n'
TOML = '# mine\nmodel = "gpt-5"\n\n[mcp_servers.other]\ncommand = "x"'


def places(client, tmp_path, of_user):
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    return None if of_user else folder, home


def filled(client, folder, home):
    """Write what somebody has there already."""
    file = client.file(folder=folder, home=home)
    for place in (file, client.hooks_file(folder=folder, home=home)):
        if place.suffix in {".json", ".toml"}:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(TOML if place.suffix == ".toml" else JSON % client.servers)


def bytes_below(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def server_in(client, file):
    told = tomllib.loads(file.read_text()) if client.form == "toml" else read_json(file.read_text())
    return told[client.servers]["treering"]


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS)
def client(request):
    return request.param


@pytest.mark.parametrize("of_user", [False, True])
@pytest.mark.parametrize("is_filled", [False, True])
def test_every_client_gets_the_server_and_every_byte_is_put_back(client, tmp_path, of_user, is_filled):
    folder, home = places(client, tmp_path, of_user)
    if is_filled:
        filled(client, folder, home)
    before = bytes_below(tmp_path)
    kept = ConnectionRecords(tmp_path / "data")
    planned = plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS)
    assert bytes_below(tmp_path) == before
    kept.make(planned)
    held = server_in(client, client.file(folder=folder, home=home))
    started = held["command"] if client.style == "list" else [held["command"], *held["args"]]
    assert started == [SERVER.program, *SERVER.arguments]
    kept.undo(client.name, folder)
    after = {path: data for path, data in bytes_below(tmp_path).items() if path.parts[0] != "data"}
    assert after == before
    assert not any((tmp_path / "data").iterdir())


@pytest.mark.parametrize("excluded", ["", "*.log\n", "*.log"])
def test_untracked_files_are_excluded_from_git(client, excluded, tmp_path):
    folder, home = tmp_path / "project" / "my app", tmp_path / "home"
    repository = Scratch(folder.parent)
    listed = folder.parent / ".git/info/exclude"
    listed.parent.mkdir(exist_ok=True)
    listed.write_text(excluded)
    folder.mkdir()
    before, records = bytes_below(tmp_path), ConnectionRecords(tmp_path / "data")
    records.make(plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS))
    assert repository.git("--no-optional-locks", "status", "--porcelain") == ""
    records.undo(client.name, folder)
    assert bytes_below(tmp_path) == before


def test_exclusions_of_two_clients_are_removed_separately(tmp_path):
    folder, home = tmp_path / "project", tmp_path / "home"
    Scratch(folder)
    listed, records = folder / ".git/info/exclude", ConnectionRecords(tmp_path / "data")
    listed.parent.mkdir(exist_ok=True)
    listed.write_text("*.log")
    for name in ("cursor", "vscode"):
        records.make(plan_connection(client_named(name), folder=folder, home=home, server=SERVER, hooks=None))
    records.undo("cursor", folder)
    assert listed.read_text() == "*.log\n# treering connect vscode\n/.vscode/mcp.json"
    listed.write_text("*.log")  # the user removed the lines
    assert [one.how for one in records.undo("vscode", folder)] == ["gone", "removed"]


def test_tracked_file_is_not_excluded_from_git(tmp_path):
    folder, home = tmp_path / "project", tmp_path / "home"
    Scratch(folder).commit({".mcp.json": "{}\n"})
    planned = plan_connection(client_named("claude-code"), folder=folder, home=home, server=SERVER, hooks=None)
    assert [one.file.name for one in planned.changes] == [".mcp.json"]


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini-cli"])
def test_hooks_call_us_at_the_beginning_and_the_end_beside_those_of_another_user(name, tmp_path):
    client = client_named(name)
    folder, home = places(client, tmp_path, False)
    filled(client, folder, home)
    ConnectionRecords(tmp_path / "data").make(
        plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS)
    )
    hooks = read_json(client.hooks_file(folder=folder, home=home).read_text())["hooks"]
    assert hooks["SessionStart"][1] == {"hooks": []}
    for one in client.hooks:
        calls = [(group.get("matcher", ""), *group["hooks"]) for group in hooks[one.event] if group["hooks"]]
        called = {"type": "command", "command": f"/opt/bin/treering session {one.word}", "timeout": one.timeout}
        called |= {"if": one.condition} if one.condition else {}
        assert (one.matcher, called) in calls


def test_hooks_of_cursor_stand_by_themselves_in_a_file_that_names_its_version(tmp_path):
    client = client_named("cursor")
    folder, home = places(client, tmp_path, False)
    file = client.hooks_file(folder=folder, home=home)
    file.parent.mkdir()
    file.write_text('{"version": 1, "hooks": {"sessionStart": [{"command": "./mine.sh"}]}}')
    kept = ConnectionRecords(tmp_path / "data")
    kept.make(plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS))
    told = read_json(file.read_text())
    assert told["version"] == 1
    assert told["hooks"] == {
        "sessionStart": [{"command": "/opt/bin/treering session begin", "timeout": 5}, {"command": "./mine.sh"}],
        "sessionEnd": [{"command": "/opt/bin/treering session keep", "timeout": 5}],
        "preCompact": [{"command": "/opt/bin/treering session keep", "timeout": 5}],
        "postToolUse": [
            {"command": "/opt/bin/treering session asked", "timeout": 2, "matcher": "MCP:wiki.*"},
            {"command": "/opt/bin/treering session failure", "timeout": 2, "matcher": "Shell"},
            {"command": "/opt/bin/treering session edit", "timeout": 2, "matcher": "Read"},
        ],
    }
    file.write_text(file.read_text().replace("./mine.sh", "./ours.sh"))
    kept.undo("cursor", folder)
    assert file.read_text() == '{"version": 1, "hooks": {"sessionStart": [{"command": "./ours.sh"}]}}'


def test_a_file_of_hooks_in_another_version_is_left_alone(tmp_path):
    client = client_named("cursor")
    folder, home = places(client, tmp_path, False)
    file = client.hooks_file(folder=folder, home=home)
    file.parent.mkdir()
    file.write_text('{"version": 2, "hooks": {}}')
    with pytest.raises(Conflict, match="version"):
        plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS)
    assert not client.file(folder=folder, home=home).exists()


def test_what_someone_changed_since_stays_and_only_ours_is_taken_out(client, tmp_path):
    folder, home = places(client, tmp_path, False)
    filled(client, folder, home)
    before = bytes_below(tmp_path)
    kept = ConnectionRecords(tmp_path / "data")
    kept.make(plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS))
    file = client.file(folder=folder, home=home)
    file.write_text(file.read_text() + ("\n# later\n" if client.form == "toml" else "\n// later\n"))
    undone = {one.file: one.how for one in kept.undo(client.name, folder)}
    assert undone[file] == "taken out"
    added = "\n# later\n" if client.form == "toml" else "\n// later\n"
    assert file.read_bytes() == before[file.relative_to(tmp_path)] + added.encode()


def test_where_someone_rewrote_our_part_nothing_is_guessed(tmp_path):
    client = client_named("cursor")
    folder, home = places(client, tmp_path, False)
    kept = ConnectionRecords(tmp_path / "data")
    kept.make(plan_connection(client, folder=folder, home=home, server=SERVER, hooks=None))
    file = client.file(folder=folder, home=home)
    file.write_text(file.read_text().replace("--files", "--else"))
    with pytest.raises(Conflict, match=r"The Treering entry in"):
        kept.undo("cursor", folder)
    assert "--else" in file.read_text()


def test_a_file_that_is_gone_is_no_hindrance(tmp_path):
    client = client_named("cursor")
    folder, home = places(client, tmp_path, False)
    kept = ConnectionRecords(tmp_path / "data")
    kept.make(plan_connection(client, folder=folder, home=home, server=SERVER, hooks=None))
    client.file(folder=folder, home=home).unlink()
    assert [one.how for one in kept.undo("cursor", folder)] == ["gone"]


def test_connecting_twice_and_disconnecting_what_is_not_connected_are_reported(tmp_path):
    client = client_named("zed")
    folder, home = places(client, tmp_path, False)
    kept = ConnectionRecords(tmp_path / "data")
    planned = plan_connection(client, folder=folder, home=home, server=SERVER, hooks=None)
    kept.make(planned)
    with pytest.raises(Conflict, match="already connected here"):
        kept.make(planned)
    assert plan_connection(client, folder=folder, home=home, server=SERVER, hooks=None).changes == ()
    with pytest.raises(NotFound):
        kept.undo("cursor", folder)


def test_another_server_of_our_name_and_a_broken_file_change_nothing(client, tmp_path):
    folder, home = places(client, tmp_path, False)
    file = client.file(folder=folder, home=home)
    file.parent.mkdir(parents=True, exist_ok=True)
    for text, error in (
        (
            '[mcp_servers.treering]\ncommand = "x"\n'
            if client.form == "toml"
            else json.dumps({client.servers: {"treering": 1}}),
            Conflict,
        ),
        ("[[[" if client.form == "toml" else "{,", InvalidInput),
    ):
        file.write_text(text)
        with pytest.raises(error, match=file.name.replace(".", r"\.")):
            plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS)
        assert file.read_text() == text


def test_a_file_that_changed_between_plan_and_change_is_not_overwritten(tmp_path):
    client = client_named("cursor")
    folder, home = places(client, tmp_path, False)
    planned = plan_connection(client, folder=folder, home=home, server=SERVER, hooks=None)
    file = client.file(folder=folder, home=home)
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(Conflict, match="changed in the meantime"):
        ConnectionRecords(tmp_path / "data").make(planned)
    assert file.read_text() == "{}"


def test_a_link_stays_a_link_and_the_mode_of_a_file_stays(tmp_path):
    client = client_named("cursor")
    _, home = places(client, tmp_path, True)
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o600)
    file = client.file(folder=None, home=home)
    file.parent.mkdir()
    file.symlink_to(real)
    kept = ConnectionRecords(tmp_path / "data")
    kept.make(plan_connection(client, folder=None, home=home, server=SERVER, hooks=None))
    assert file.is_symlink()
    assert "treering" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600
    kept.undo("cursor", None)
    assert real.read_text() == "{}"


def test_a_name_that_is_nearly_one_is_answered_with_the_right_one():
    with pytest.raises(InvalidInput) as refused:
        client_named("claude")
    assert "claude-code" in refused.value.hint
    assert Path(CLIENTS["vscode"].project_file).name == "mcp.json"


@pytest.mark.parametrize("what", ["the file", "its folder", "the hooks"])
def test_a_link_of_a_project_that_leads_out_of_it_is_not_followed(client, tmp_path, what):
    folder, home = places(client, tmp_path, False)
    own = tmp_path / "own"
    own.mkdir()
    file = client.hooks_file(folder=folder, home=home) if what == "the hooks" else client.file(folder=folder, home=home)
    if file == folder or (what == "its folder" and file.parent == folder):
        pytest.skip("this client has none")
    (own / file.name).write_text("{}" if file.suffix == ".json" else "")
    if what == "its folder":
        file.parent.symlink_to(own)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(own / file.name)
    before = bytes_below(tmp_path)
    with pytest.raises(InvalidInput, match="outside the project"):
        plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS)
    assert bytes_below(tmp_path) == before


def test_a_link_within_a_project_is_followed(tmp_path):
    client = client_named("cursor")
    folder, home = places(client, tmp_path, False)
    (folder / "shared.json").write_text("{}")
    (folder / ".cursor").mkdir()
    client.file(folder=folder, home=home).symlink_to("../shared.json")
    ConnectionRecords(tmp_path / "data").make(
        plan_connection(client, folder=folder, home=home, server=SERVER, hooks=None)
    )
    assert "treering" in (folder / "shared.json").read_text()


def test_each_hook_can_be_omitted_alone(tmp_path):
    client = client_named("claude-code")
    folder, home = places(client, tmp_path, False)
    for left_out in HOOK_WORDS:
        planned = plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS, without=(left_out,))
        text = planned.changes[-1].after.decode()
        assert [word for word in HOOK_WORDS if f"session {word}" in text] == [
            word for word in HOOK_WORDS if word != left_out
        ]


def test_the_plugin_of_opencode_is_a_file_that_names_our_command_and_is_removed_with_its_folders(tmp_path):
    client = client_named("opencode")
    folder, home = places(client, tmp_path, False)
    kept = ConnectionRecords(tmp_path / "data")
    kept.make(plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS, without=("prompt",)))
    command, limits, *_ = (folder / ".opencode/plugins/treering.js").read_text().splitlines()
    assert command == 'const COMMAND = ["/opt/bin/treering", "session"]'
    assert json.loads(limits.removeprefix("const LIMITS = ").partition(" //")[0]) == {
        "begin": 5_000,
        "keep": 5_000,
        "edit": 2_000,
        "failure": 2_000,
        "asked": 2_000,
    }
    kept.undo("opencode", folder)
    assert [*folder.iterdir()] == []


def test_another_file_where_the_plugin_of_opencode_belongs_is_left_alone(tmp_path):
    client = client_named("opencode")
    folder, home = places(client, tmp_path, False)
    file = client.hooks_file(folder=folder, home=home)
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = async () => ({})\n")
    with pytest.raises(Conflict, match=r"treering\.js already exists"):
        plan_connection(client, folder=folder, home=home, server=SERVER, hooks=HOOKS)
    assert [*folder.rglob("*.json*")] == []


SECONDS = {"gemini-cli": 1_000}
"""How many of a client's units of time are a second; one, where it is not named."""
AT_THE_END = {"claude-code": ("SessionEnd", 1.5), "codex": ("Stop", 3)}
"""How long clients give all hooks at the end of a session or a turn, in seconds."""


def test_no_hook_may_take_longer_than_its_client_and_its_person_wait():
    for client in CLIENTS.values():
        longest = {one: one.timeout / SECONDS.get(client.name, 1) for one in client.hooks}
        assert all(seconds <= 5 for seconds in longest.values())
        assert all(seconds <= 2 for one, seconds in longest.items() if one.word in ("edit", "prompt", "failure"))
        event, budget = AT_THE_END.get(client.name, ("", 0))
        assert all(seconds <= budget for one, seconds in longest.items() if one.event == event)
