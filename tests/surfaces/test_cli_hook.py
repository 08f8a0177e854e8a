"""`treering hook`: hooks in real repositories, called by real git."""

import json
import os
import subprocess
import sys
import time

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.surfaces.cli import run

HOOKS = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
_WAIT_SECONDS = 90


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one page, in a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {"HOME": home, "TREERING_DATA_DIR": tmp_path / "data", "TREERING_BACKGROUND": "0"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("TREERING_SPACE", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name, raising=False)
    made = Scratch(tmp_path / "acme")
    made.commit({"limits.md": "# Limits\n\nThe limit is five.\n", ".gitignore": ".treering\n"})
    monkeypatch.chdir(made.folder)
    return made


def hooks(repository, folder=".git/hooks"):
    place = repository.folder / folder
    return {one.name: one.read_bytes() for one in place.iterdir()} if place.is_dir() else {}


def told(capsys, *arguments):
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def commit(repository, files):
    """Commit as a person does, with the environment of this process: git calls its hooks with it."""
    for name, text in files.items():
        repository.write(name, text)
    who = {f"GIT_{role}_{part}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    for command in (["add", "-A"], ["commit", "-q", "-m", "change"]):
        subprocess.run(["git", *command], cwd=repository.folder, env={**os.environ, **who}, check=True)


def found(repository, words):
    with open_space(str(repository.folder / ".treering" / "treering.db")) as space:
        return [hit.text for hit in space.query("search", input={"text": words}).hits]


def eventually(look):
    until = time.monotonic() + _WAIT_SECONDS
    while not (seen := look()):
        assert time.monotonic() < until, "it never came"
        time.sleep(0.1)
    return seen


def test_a_commit_comes_in_by_itself(repository, capsys):
    assert run(["ingest", "."]) == 0
    assert told(capsys, "hook", "install") == {"hooks": dict.fromkeys(HOOKS, "ours")}
    commit(repository, {"ports.md": "# Ports\n\nIt listens on 8080.\n"})
    last = eventually(lambda: told(capsys, "hook", "status")["last_run"])
    assert last["counts"]["created"] == 1
    assert "8080" in found(repository, "listens")[0]


def test_without_a_space_nothing_is_done(repository, capsys):
    told(capsys, "hook", "install")
    assert run(["hook", "run"]) == 0
    assert not (repository.folder / ".treering").exists()
    assert told(capsys, "hook", "status")["last_run"] == {}


def test_a_run_that_failed_is_told_by_status(repository, capsys):
    (repository.folder / ".treering").mkdir()
    (repository.folder / ".treering" / "treering.db").write_text("This is not a space. " * 100)
    assert run(["hook", "run"]) == 0
    assert "error" in told(capsys, "hook", "status")["last_run"]
    assert run(["hook", "status"]) == 0
    assert "failed: " in capsys.readouterr().out


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "before",
    [
        b"#!/bin/sh\necho kept >> said\nexit 0\n",
        b"#!/usr/bin/env bash\necho kept >> said; exec true",
        b"#!/bin/sh -e\n# no text: \xff\r\necho kept >> said\n\n",
    ],
)
def test_what_stands_in_a_hook_still_runs_and_is_put_back_byte_for_byte(repository, capsys, before):
    hook = repository.write(".git/hooks/post-commit", before)
    hook.chmod(0o750)
    assert run(["ingest", "."]) == 0
    was = hooks(repository)
    assert told(capsys, "hook", "install")["hooks"]["post-commit"] == "beside others"
    commit(repository, {"ports.md": "# Ports\n\nIt listens on 8080.\n"})
    assert "kept" in (repository.folder / "said").read_text()
    eventually(lambda: told(capsys, "hook", "status")["last_run"])
    assert len(told(capsys, "hook", "uninstall")["files"]) == len(HOOKS)
    assert hooks(repository) == was
    assert hook.stat().st_mode & 0o777 == 0o750
    assert not (repository.folder / ".git" / "treering").exists()


def test_installing_twice_is_installing_once(repository, capsys):
    told(capsys, "hook", "install")
    once = hooks(repository)
    told(capsys, "hook", "install")
    assert hooks(repository) == once
    told(capsys, "hook", "uninstall")
    assert hooks(repository) == {}
    assert told(capsys, "hook", "uninstall") == {"files": []}


def test_a_hook_that_no_shell_runs_is_left_alone_and_so_are_the_others(repository, capsys):
    repository.write(".git/hooks/post-merge", "#!/usr/bin/python3\nprint(1)\n")
    was = hooks(repository)
    assert run(["hook", "install"]) == 4
    assert "post-merge is not run by a shell" in capsys.readouterr().err
    assert hooks(repository) == was


def test_hooks_of_the_repository_in_another_folder_are_used_and_those_of_all_repositories_refused(
    repository, capsys, tmp_path
):
    repository.git("config", "core.hooksPath", ".hooks")
    told(capsys, "hook", "install")
    assert set(hooks(repository, ".hooks")) == set(HOOKS)
    told(capsys, "hook", "uninstall")
    repository.git("config", "--unset", "core.hooksPath")
    (tmp_path / "home" / ".gitconfig").write_text(f"[core]\n\thooksPath = {tmp_path / 'shared'}\n")
    assert run(["hook", "install"]) == 2
    assert "which other repositories use too" in capsys.readouterr().err
    assert not (tmp_path / "shared").exists()


def test_the_space_of_a_database_is_not_written_into_a_hook(repository, capsys):
    assert run(["hook", "install", "--space", "postgresql://ada:secret@host/db?space=x"]) == 2
    assert "may hold a password" in capsys.readouterr().err
    assert hooks(repository) == {}


@pytest.mark.nightly
def test_of_many_runs_at_once_the_last_one_sees_everything(repository, capsys):
    assert run(["ingest", "."]) == 0
    command = [sys.executable, "-m", "treering", "hook", "run"]

    def one(number):
        repository.write(f"{number}.md", f"# Page {number}\n\nIt says word{number}.\n")
        repository.commit()
        return subprocess.Popen(command, cwd=repository.folder, stdout=subprocess.DEVNULL)

    running = [one(number) for number in range(6)]
    assert [process.wait(timeout=_WAIT_SECONDS) for process in running] == [0] * 6
    for number in range(6):
        assert f"word{number}" in found(repository, f"word{number}")[0]
    assert told(capsys, "hook", "status")["last_run"]["counts"]
