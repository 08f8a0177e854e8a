"""`treering hook`: hooks in real repositories, called by real git."""

import json
import os
import subprocess
import sys
import time

import pytest

from sources.git_scratch import Scratch
from space_parts import decide, note, open_space
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


def test_a_run_that_failed_is_reported_by_status(repository, capsys):
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
def test_what_is_in_a_hook_still_runs_and_is_put_back_byte_for_byte(repository, capsys, before):
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
    assert "may contain a password" in capsys.readouterr().err
    assert hooks(repository) == {}


@pytest.fixture
def team(repository, tmp_path, monkeypatch):
    """Two clones of one repository, each with a space, that share a bare remote."""
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(repository.folder), str(remote)], check=True)
    branch = repository.git("symbolic-ref", "--short", "HEAD").strip()
    repository.git("remote", "add", "origin", str(remote))
    repository.git("fetch", "-q", "origin")
    repository.git("branch", "-q", f"--set-upstream-to=origin/{branch}")
    other = Scratch(tmp_path / "other")
    other.git("remote", "add", "origin", str(remote))
    other.git("fetch", "-q", "origin")
    other.git("checkout", "-q", "-b", "work", "--track", f"origin/{branch}")
    for clone in (other, repository):
        monkeypatch.chdir(clone.folder)
        assert run(["ingest", "."]) == 0
    return repository, other, remote, branch


def in_git(clone, *arguments):
    """Run git as a person does, so that it calls its hooks."""
    return subprocess.run(["git", *arguments], cwd=clone.folder, capture_output=True, text=True, check=False)


def left(remote):
    listed = ["git", "-C", str(remote), "for-each-ref", "--format=%(refname)", "refs/treering"]
    return subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()


def remember(clone, monkeypatch, words):
    monkeypatch.chdir(clone.folder)
    with open_space(str(clone.folder / ".treering" / "treering.db")) as space:
        decide(space, words, note(space, words))


def test_push_sends_memory_and_pull_receives_it(team, capsys, monkeypatch):
    ada, bob, remote, branch = team
    for clone in (ada, bob):
        monkeypatch.chdir(clone.folder)
        told(capsys, "hook", "install", "--sync", "origin")
    remember(ada, monkeypatch, "quetzalcoatlus")
    commit(ada, {"ports.md": "# Ports\n\nIt listens on 8080.\n"})
    pushed = in_git(ada, "push", "-q", "origin", branch)
    assert pushed.returncode == 0, pushed.stderr
    eventually(lambda: left(remote))
    assert eventually(lambda: told(capsys, "hook", "status")["last_sync"])["sent"] > 0
    pulled = in_git(bob, "pull", "-q")
    assert pulled.returncode == 0, pulled.stderr
    monkeypatch.chdir(bob.folder)
    assert eventually(lambda: told(capsys, "hook", "status")["last_sync"])["received"] > 0
    assert "quetzalcoatlus" in found(bob, "quetzalcoatlus")[0]
    assert len(left(remote)) == 1, "a pull sends nothing"
    assert run(["hook", "status"]) == 0
    assert "synced with" in capsys.readouterr().out


def test_a_push_to_another_remote_sends_no_memory_and_one_setting_turns_all_of_it_off(
    team, capsys, monkeypatch, tmp_path
):
    ada, _, remote, branch = team
    fork = tmp_path / "fork.git"
    subprocess.run(["git", "init", "-q", "--bare", str(fork)], check=True)
    ada.git("remote", "add", "fork", str(fork))
    told(capsys, "hook", "install", "--sync", "origin")
    hook = ada.folder / ".git" / "hooks" / "pre-push"
    monkeypatch.setenv("TREERING_HOOK_SYNC", "0")
    assert told(capsys, "hook", "run", "--sync", "origin", "--push") == {}
    monkeypatch.delenv("TREERING_HOOK_SYNC")
    # The hook's own words, in the foreground, as git would call it for another remote.
    words = hook.read_text().replace(" & )", " )")
    subprocess.run(["sh", "-c", words, "hook", "fork", str(fork)], cwd=ada.folder, check=True)
    assert (left(remote), left(fork)) == ([], [])
    subprocess.run(["sh", "-c", words, "hook", "origin", str(remote)], cwd=ada.folder, check=True)
    assert (len(left(remote)), left(fork)) == (1, [])
    told(capsys, "hook", "install")
    assert not hook.exists()
    assert in_git(ada, "push", "-q", "fork", branch).returncode == 0


def test_failed_sync_blocks_no_push_and_is_in_the_status(team, capsys, monkeypatch, tmp_path):
    ada, _, remote, branch = team
    told(capsys, "hook", "install", "--sync", "origin")
    ada.write("keys.md", "# Keys\n\nAKIAQZ3VLXKDPT5M2WNB\n")
    gone = remote.rename(tmp_path / "gone.git")
    assert told(capsys, "hook", "run", "--sync", "origin", "--push")["sync"]["error"]
    assert "git fetch failed" in told(capsys, "hook", "status")["last_sync"]["error"]
    assert run(["hook", "status"]) == 0
    assert "sync failed: " in capsys.readouterr().out
    gone.rename(remote)
    pushed = in_git(ada, "push", "-q", "origin", branch)
    assert pushed.returncode == 0, pushed.stderr
    eventually(lambda: left(remote))


def test_what_a_hook_cannot_share_over_is_refused_and_nothing_is_installed(team, capsys, monkeypatch):
    ada, *_ = team
    for wrong, why in {
        "nowhere": "no remote 'nowhere'",
        "https://ada:secret@example.org/x.git": "may contain a password",
    }.items():
        assert run(["hook", "install", "--sync", wrong]) == 2
        assert why in capsys.readouterr().err
    assert run(["hook", "install", "--key", "x"]) == 2
    assert run(["hook", "run", "--push"]) == 2
    assert hooks(ada) == {}


def test_connecting_offers_to_share_and_does_so_where_it_is_told_to(team, capsys):
    ada, *_ = team
    assert run(["connect", "cursor", "--dry-run", "--share", "origin"]) == 0
    assert "Git hooks would share the space" in capsys.readouterr().out
    assert hooks(ada) == {}
    assert run(["connect", "cursor"]) == 0
    assert "treering hook install --sync origin" in capsys.readouterr().out
    assert run(["connect", "claude-code", "--share", "origin"]) == 0
    assert "a push to it sends yours" in capsys.readouterr().out
    assert set(hooks(ada)) == {*HOOKS, "pre-push"}
    assert run(["connect", "codex"]) == 0
    assert "hook install" not in capsys.readouterr().out


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
