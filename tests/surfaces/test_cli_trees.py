"""Several work trees of one repository: one space, and what holds in each tree, on every surface."""

import io
import json
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.extensions.coding_agents import session_hooks
from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.sources.reading.access import files_below
from treering.surfaces.cli import run

sys.path.append(str(Path(__file__).parent / "http"))

from rest_parts import running

LIMIT = "# Limits\n\nThe retry limit is five.\n"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one page, in a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {"HOME": home, "TREERING_DATA_DIR": tmp_path / "data", "TREERING_BACKGROUND": "0"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("TREERING_SPACE", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_DIR"):
        monkeypatch.delenv(name, raising=False)
    made = Scratch(tmp_path / "acme")
    made.commit({"docs/limits.md": LIMIT, ".gitignore": ".treering\n"})
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def told(capsys):
    def tell(*arguments):
        capsys.readouterr()
        assert run([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return tell


def test_init_makes_the_space_of_the_repository_and_with_here_one_of_the_folder(repository, told, monkeypatch):
    monkeypatch.chdir(repository.folder / "docs")
    whole = f"sqlite:{repository.folder}/.treering/treering.db"
    assert told("init") == {"address": whole, "created": True}
    assert told("init") == {"address": whole, "created": False}
    assert told("init", "--here")["address"] == f"sqlite:{repository.folder}/docs/.treering/treering.db"
    assert told("status")["why"] == "the nearest .treering folder of this work tree"
    assert run(["init", "--here", "--space", "notes"]) == 2


def test_status_in_a_work_tree_elsewhere_says_which_space_is_used_and_why(repository, told, monkeypatch, tmp_path):
    told("init")
    repository.git("worktree", "add", "-q", "-b", "feature/x", str(tmp_path / "x"))
    monkeypatch.chdir(tmp_path / "x")
    found = told("status")
    assert found["space"] == f"sqlite:{repository.folder}/.treering/treering.db"
    assert found["why"] == f"all work trees of the repository {repository.folder}/.git share it"
    connected = told("connect", "claude-code", "--dry-run")
    assert (connected["space"], connected["why"]) == (found["space"], found["why"])


class TestChangesSinceTheReading:
    @pytest.fixture
    def warnings(self, repository, told):
        """The warnings of lint and status, which are the same, for a repository with a decision."""
        told("init")
        told("add", ".")
        told("decide", "Five attempts are enough", "--because", "docs/limits.md:3")

        def read():
            shown = [report["warnings"] for report in (told("status"), told("lint", "all"))]
            assert shown[0] == shown[1]
            return shown[0]

        assert read() == []
        return read

    def test_lint_and_status_name_an_unread_commit_like_the_brief(self, repository, told, warnings):
        repository.commit({"docs/other.md": "# Other\n"})
        (warning,) = warnings()
        assert "was read at" in warning
        assert told("brief")["warnings"] == [warning]
        told("add", ".")
        assert warnings() == []

    def test_lint_and_status_name_cited_lines_that_an_unread_commit_changed(self, repository, told, warnings):
        repository.commit({"docs/limits.md": LIMIT.replace("five", "nine")})
        unread, changed = warnings()
        assert "was read at" in unread
        assert changed.startswith("1 statement cites lines that have changed since they were read (docs/limits.md:3")
        assert changed.endswith("Run: `treering add .`")
        told("add", ".")
        assert warnings() == []

    def test_lint_and_status_name_cited_lines_that_were_edited(self, repository, told, warnings):
        repository.write("docs/limits.md", LIMIT.replace("five", "nine"))
        (warning,) = warnings()
        assert warning.startswith("1 statement cites lines that have changed since they were read (docs/limits.md:3")
        told("add", ".", "--worktree")
        assert warnings() == []
        repository.write("docs/limits.md", LIMIT)
        told("add", ".", "--worktree")
        assert warnings() == []

    def test_lint_without_problems_names_the_state_it_checked(self, repository, told, warnings, capsys):
        told("add", ".")
        assert run(["lint"]) == 0
        assert capsys.readouterr().out == "No problems found.\n"
        repository.commit({"docs/limits.md": LIMIT.replace("five", "nine")})
        assert run(["lint"]) == 0
        assert capsys.readouterr().out.startswith("No problems found in the files as they were last read.\nwarning: ")

    def test_lint_and_status_ignore_edits_of_other_lines(self, repository, warnings):
        repository.write("docs/limits.md", f"{LIMIT}\nThe wait is doubled.\n")
        assert warnings() == []


def test_a_bare_repository_keeps_its_space_in_its_git_folder(repository, told, monkeypatch, tmp_path):
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "shared.git"))
    monkeypatch.chdir(tmp_path / "shared.git")
    assert told("init") == {"address": f"sqlite:{tmp_path}/shared.git/treering/treering.db", "created": True}
    assert told("ingest", ".")["counts"]["created"] > 0
    repository.git("--git-dir", str(tmp_path / "shared.git"), "worktree", "add", "-q", str(tmp_path / "w"), "-b", "w")
    monkeypatch.chdir(tmp_path / "w" / "docs")
    assert "five" in json.dumps(told("query", "--mode", "search", "retry limit"))


QUEUE = "# Queue\n\nThe queue keeps lavender messages for a week.\n"


@pytest.fixture
def other(repository, told, tmp_path):
    """A linked work tree with a branch of its own, both read in; a decision rests on a file that it alone has."""
    repository.git("worktree", "add", "-q", "-b", "feature/x", str(tmp_path / "x"))
    tree = Scratch.__new__(Scratch)
    tree.folder = tmp_path / "x"
    tree.commit({"docs/queue.md": QUEUE}, message="Lavender messages stay in the queue for a week")
    for folder in (repository.folder, tree.folder):
        told("ingest", str(folder))
    with open_space(str(repository.folder / ".treering" / "treering.db")) as space:
        found = space.query("search", input={"text": "lavender messages"}, options={"at": "feature/x"}).hits
        cited = next(hit for hit in found if hit.title == "Queue")
        given = {
            "kind": "decision",
            "title": "Lavender messages stay in the queue for a week",
            "payload": {"question": "How long?", "outcome": "Lavender messages stay in the queue for a week."},
            "evidence_refs": [{"source_id": cited.source_id, "segment_id": cited.segment_id}],
            "status": "active",
        }
        space.crystallize("knowledge", input=given)
    return tree


@pytest.mark.parametrize(
    ("word", "given"),
    [
        ("begin", {"hook_event_name": "SessionStart"}),
        ("edit", {"hook_event_name": "PreToolUse", "tool_input": {"file_path": "docs/queue.md"}}),
        ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": "How long do lavender messages stay queued?"}),
    ],
)
def test_hook_shows_the_state_of_its_work_tree(repository, other, word, given, monkeypatch):
    def said(folder, session="s1"):
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({**given, "session_id": session, "cwd": str(folder)})))
        out = io.StringIO()
        monkeypatch.setattr("sys.stdout", out)
        assert session_hooks.run(word) == 0
        return out.getvalue()

    assert "Lavender messages stay" in said(other.folder)
    shown = said(repository.folder)
    assert "Lavender messages stay" not in shown
    assert "keeps lavender messages" not in shown
    other.git("switch", "-q", "--detach")
    assert "Lavender messages stay" in said(other.folder, "s2")


def test_a_wiki_is_written_of_the_work_tree_that_it_is_asked_for(repository, other, told, monkeypatch):
    def pages(*arguments):
        run(["wiki", "build", "--to", "written", *arguments])
        return "\n".join(one.read_text() for one in sorted(other.folder.rglob("written/**/*.md")))

    monkeypatch.chdir(other.folder)
    assert "Lavender" in pages()
    assert "Lavender" not in pages("--repository", str(repository.folder))
    told("wiki", "status", "--to", "written", "--repository", str(repository.folder))
    monkeypatch.chdir(repository.folder)
    assert "Lavender" not in json.dumps(told("wiki", "page"))


def test_modes_of_the_command_line_ask_what_holds_on_a_branch(repository, other, told):
    for mode, words in (("search", "lavender"), ("context", "lavender messages")):
        there, here = (json.dumps(told("query", "--mode", mode, words, "--at", at)) for at in ("feature/x", "main"))
        assert "keeps lavender messages" in there
        assert "keeps lavender messages" not in here
        assert "stay in the queue" not in here or "not on this branch (feature/x)" in here
    shown = {at: told("query", "--mode", "page", "docs/queue.md", "--at", at) for at in ("feature/x", "main")}
    assert (shown["feature/x"]["current"], shown["main"]["current"]) == (True, False)
    assert shown["main"]["note"] == "not on this branch (feature/x)"


# The same asked of a server: over HTTP, over MCP, and on the web page.

ASKED = [
    ("search", {"text": "lavender messages"}),
    ("context", {"task": "How long do lavender messages stay queued?"}),
    ("recent", {}),
    ("related", {"id": "docs/queue.md"}),
]
UNKNOWN = "No branch or commit 'feature/y' is known here."


@pytest.fixture
def server(repository, other):
    """A server of the space that both work trees share. It reads no files."""
    with running(repository.folder / ".treering", space=f"sqlite:{repository.folder}/.treering/treering.db") as client:
        yield client


def over_http(server, mode, given, **options):
    return server.post("/v1/wiki/query", json={"mode": mode, "input": given, "options": options})


def over_mcp(server, mode, given, **options):
    async def call():
        async with Client(streamable_http_client(f"{server.base_url}/mcp")) as client:
            return await client.call_tool("wiki.query", {"mode": mode, "input": given, "options": options})

    return anyio.run(call)


def is_told_there_alone(there, here):
    assert "avender" in there
    assert "keeps lavender messages" not in here
    assert "avender" not in here or "not on this branch (feature/x)" in here or "No branch holds" in here


@pytest.mark.parametrize(("mode", "given"), ASKED[:2])
def test_over_http_and_mcp_a_branch_is_asked_by_its_name_and_by_its_commit(server, other, mode, given):
    commit = other.git("rev-parse", "HEAD").strip()
    for at in ("feature/x", commit, commit[:10]):
        there, here = (over_http(server, mode, given, at=one).json() for one in (at, "main"))
        is_told_there_alone(json.dumps(there), json.dumps(here))
    there, here = (over_mcp(server, mode, given, at=one) for one in ("feature/x", "main"))
    is_told_there_alone(there.content[0].text, here.content[0].text)
    is_told_there_alone(json.dumps(there.structured_content), json.dumps(here.structured_content))
    free = over_http(server, mode, given).json()
    assert any("all branches that were read" in one for one in free["warnings"])


def test_over_http_and_mcp_what_is_elsewhere_is_named_with_its_branch(server):
    shown = {at: over_http(server, "page", {"name": "docs/queue.md"}, at=at).json() for at in ("feature/x", "main")}
    assert (shown["feature/x"]["current"], shown["main"]["current"]) == (True, False)
    assert shown["main"]["note"] == "not on this branch (feature/x)"
    assert (
        "not on this branch (feature/x)"
        in over_mcp(server, "page", {"name": "docs/queue.md"}, at="main").content[0].text
    )
    hit = over_http(server, "search", {"text": "lavender messages"}, at="feature/x").json()["hits"][0]
    opened = over_http(server, "expand", {"ids": [f"{hit['object_id']} {hit['segment_id']}"]}, at="main").json()
    assert "not on this branch (feature/x)" in json.dumps(opened)


@pytest.mark.parametrize(("mode", "given"), [*ASKED, ("page", {"name": "docs/queue.md"})])
def test_unknown_branch_is_a_clear_error_over_http_and_mcp(server, mode, given):
    answer = over_http(server, mode, given, at="feature/y")
    assert answer.status_code == 404, answer.text
    assert UNKNOWN in answer.text
    assert "feature/x, main" in answer.text or "main, feature/x" in answer.text
    refused = over_mcp(server, mode, given, at="feature/y")
    assert refused.is_error
    assert UNKNOWN in refused.content[0].text
    both = over_http(server, mode, given, at="main", as_of=3)
    assert both.status_code == 422, both.text


def test_the_pages_show_what_holds_on_a_branch(server):
    def page(path, **asked):
        answer = server.get(path, params=asked)
        assert answer.status_code == 200, answer.text
        return answer.text

    for asked in ({"q": "lavender messages"}, {"q": "lavender messages", "view": "pack"}):
        is_told_there_alone(
            page("/", **asked, at="feature/x"), page("/", **asked, at="main").replace("lavender messages", "")
        )
    hit = over_http(server, "search", {"text": "lavender messages"}, at="feature/x").json()["hits"][0]
    assert "not on this branch (feature/x)" in page(f"/web/object/{hit['object_id']}", at="main")
    assert "not on this branch" not in page(f"/web/object/{hit['object_id']}", at="feature/x")
    listed = {at: page("/web/timeline", at=at) for at in ("feature/x", "main")}
    assert "not on this branch" not in listed["feature/x"]
    for path in ("/", "/web/graph", "/web/timeline", "/web/work", "/web/health"):
        for at in ("feature/y", "<script>alert(1)</script>"):
            answer = server.get(path, params={"q": "lavender", "at": at})
            assert (answer.status_code, "<script>alert" in answer.text) == (404, False), path
            assert "No branch or commit" in answer.text
    kept = page("/", q="lavender messages", at="feature/x")
    assert "at=feature/x" in kept  # links lead on in the same tree


def test_agent_in_a_work_tree_sees_its_state(repository, other, monkeypatch):
    def told(folder, **options):
        monkeypatch.chdir(folder)
        dispatcher = ToolDispatcher(f"sqlite:{repository.folder}/.treering/treering.db", files_below(folder))
        try:
            given = {"mode": "search", "input": {"text": "lavender messages"}, "options": options}
            answer = dispatcher.answer("query", given, actor="a", progress=lambda *_: None, check=lambda: None)
            return answer.text
        finally:
            dispatcher.close()

    is_told_there_alone(told(other.folder), told(repository.folder))
    is_told_there_alone(told(repository.folder, at="feature/x"), told(other.folder, at="main"))
    assert UNKNOWN in told(repository.folder, at="feature/y")
