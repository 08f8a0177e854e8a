"""Several work trees of one repository on the command line: one space, and what holds in each tree."""

import json

import pytest

from sources.git_scratch import Scratch
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
    assert "five" in json.dumps(told("query", "search", "retry limit"))
