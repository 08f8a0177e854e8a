"""Several work trees of one repository on the command line: one space, and what holds in each tree."""

import io
import json

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.parts.coding_agents import session_hooks
from treering.parts.coding_agents.running import make_ready
from treering.surfaces.cli import run

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
        make_ready(space, repository.folder)
        make_ready(space, tree.folder)
    return tree


@pytest.mark.parametrize(
    ("word", "given"),
    [
        ("begin", {"hook_event_name": "SessionStart"}),
        ("edit", {"hook_event_name": "PreToolUse", "tool_input": {"file_path": "docs/queue.md"}}),
        ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": "How long do lavender messages stay queued?"}),
    ],
)
def test_what_a_hook_tells_in_a_work_tree_is_what_holds_there(repository, other, word, given, monkeypatch):
    def said(folder, session="s1"):
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({**given, "session_id": session, "cwd": str(folder)})))
        out = io.StringIO()
        monkeypatch.setattr("sys.stdout", out)
        assert session_hooks.run(word) == 0
        return out.getvalue()

    assert "Lavender messages stay" in said(other.folder)
    shown = said(repository.folder)
    assert "Lavender messages stay" not in shown or "not on this branch (feature/x)" in shown
    assert "keeps lavender messages" not in shown
    if word != "begin":  # what a session begins with is made ready for each state of a folder
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
