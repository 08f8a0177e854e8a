"""What a repository tries: to run a command when it is read, or to be written to. Commands leave a marker."""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from attacks.hostile_repositories import TRAPS, fetched_from_a_command, filtered, git_that_fetches, trap
from git_scratch import Scratch

from treering.core.errors import TreeringError, Unavailable
from treering.extensions.code.repository.contents import RepositoryContents
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.adapter import AlreadyRead, ReadLimits

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the traps are commands for a POSIX shell")
TREERING = (sys.executable, "-P", "-m", "treering")


def read_every_way(folder: Path) -> None:
    """Read a repository as it is committed and as it lies, and use all else that asks git."""
    for options in ({}, {"worktree": True}):
        adapter = RepoAdapter()
        adapter.origin(str(folder))
        list(adapter.read(str(folder), known=AlreadyRead(), limits=ReadLimits(), options=options))
    repository = RepositoryContents.open(folder)
    commit = repository.resolve("HEAD")
    repository.diff(commit, commit)
    repository.history(commit)
    repository.is_dirty()


@pytest.mark.parametrize("name", TRAPS)
def test_no_command_that_a_repository_names_runs(name, tmp_path):
    made = trap(tmp_path, TRAPS[name])
    read_every_way(made.folder)
    assert not made.sprung


@pytest.mark.parametrize("git", ["this one", "one that fetches"])
def test_a_remote_that_is_a_command_is_not_asked_for_what_is_missing(git, tmp_path, monkeypatch):
    if git == "one that fetches":
        monkeypatch.setenv("PATH", str(git_that_fetches(tmp_path / "bin")), prepend=os.pathsep)
    made = trap(tmp_path, fetched_from_a_command)
    with pytest.raises(Unavailable, match="partial clone"):
        read_every_way(made.folder)
    assert not made.sprung


@pytest.mark.parametrize("name", [name for name in TRAPS if "filter" in name or "monitor" in name or "config" in name])
def test_the_traps_work_git_itself_springs_them(name, tmp_path):
    made = trap(tmp_path, TRAPS[name])
    subprocess.run(["git", "status"], cwd=made.folder, capture_output=True)
    assert made.sprung


def test_the_trap_of_a_remote_works_git_itself_springs_it(tmp_path):
    made = trap(tmp_path, fetched_from_a_command)
    path = f"{git_that_fetches(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
    command = ["git", "-c", "protocol.allow=never", "cat-file", "-p", "HEAD:a.py"]
    subprocess.run(command, cwd=made.folder, env={"PATH": path, "GIT_NO_LAZY_FETCH": "1"}, capture_output=True)
    assert made.sprung


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "arguments",
    [["ingest", "."], ["ingest", ".", "--dry-run"], ["ingest", ".", "--worktree"], ["try"]],
    ids=" ".join,
)
def test_no_command_of_the_command_line_runs_a_filter(arguments, tmp_path):
    made = trap(tmp_path, filtered(b"\x01e"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TREERING_BACKGROUND": "0", "TMPDIR": str(temporary)}
    done = subprocess.run([*TREERING, *arguments], cwd=made.folder, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not made.sprung
    assert list(temporary.iterdir()) == []


def test_a_program_beside_the_files_is_not_mistaken_for_git(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "web")
    scratch.write("a.py", "a = 1\n")
    scratch.write("git", f"#!/bin/sh\necho ran > '{tmp_path}/it-ran'\n").chmod(0o755)
    scratch.commit()
    monkeypatch.chdir(scratch.folder)
    for relative in (".", "", "../web"):
        monkeypatch.setenv("PATH", f"{relative}{os.pathsep}{os.environ['PATH']}")
        read_every_way(scratch.folder)
    assert not (tmp_path / "it-ran").exists()


def test_the_repository_is_not_written_to(tmp_path):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n", "b/c.py": "c = 1\n"})
    scratch.git("worktree", "add", "-q", str(tmp_path / "linked"), "HEAD~0")
    os.utime(scratch.folder / "a.py", (1, 1))
    before = contents(tmp_path)
    read_every_way(scratch.folder)
    read_every_way(tmp_path / "linked")
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")}


def test_nothing_stays_of_the_folder_git_runs_in(tmp_path, monkeypatch):
    made = trap(tmp_path, filtered(b"\x01e"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    repository = RepositoryContents.open(made.folder)
    assert repository.is_dirty()
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    del repository
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_work_tree_that_holds_the_folder_for_temporary_files_is_not_dirty_by_it(tmp_path, monkeypatch):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n", "[tmp]/kept.py": "b = 1\n"})
    monkeypatch.setattr(tempfile, "tempdir", str(scratch.folder / "[tmp]"))
    repository = RepositoryContents.open(scratch.folder)
    assert not repository.is_dirty()
    assert repository.work_changes() == []


@pytest.mark.parametrize(
    "line",
    [
        "[extensions]\n\tfuture = true\n",
        "[extensions]\n\tobjectFormat = md5\n",
        "[extensions]\n\trefStorage = reftable\n",
    ],
)
def test_a_format_that_is_not_known_is_refused_by_name(tmp_path, line):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n"})
    scratch.write(".git/config", f"[core]\n\trepositoryformatversion = 1\n{line}")
    with pytest.raises(Unavailable, match=r"future|md5|reftable") as refused:
        RepositoryContents.open(scratch.folder)
    assert refused.value.hint


@pytest.mark.parametrize(
    "text", ["[core\n", "[core]\n\tfilemode = perhaps\n", "[core]\n\trepositoryformatversion = 7\n"]
)
def test_a_configuration_that_makes_no_sense_is_refused(tmp_path, text):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n"})
    scratch.write(".git/config", text)
    with pytest.raises(Unavailable) as refused:
        RepositoryContents.open(scratch.folder)
    assert refused.value.hint


@pytest.mark.parametrize("name", ["config", "HEAD", "packed-refs", "commondir", "refs/heads/pipe"])
def test_a_pipe_in_the_git_folder_is_not_waited_for(tmp_path, name):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n"})
    part = scratch.folder / ".git" / name
    part.unlink(missing_ok=True)
    os.mkfifo(part)
    with pytest.raises(TreeringError):
        RepositoryContents.open(scratch.folder).head()


@pytest.mark.parametrize("name", ["commondir", "objects/info/alternates", "HEAD"])
@pytest.mark.parametrize("text", ["x" * 5_000, "x/" * 2_000, "\0", "\udc80"])
def test_a_place_that_no_system_has_is_an_error_with_a_hint(tmp_path, name, text):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n"})
    scratch.write(f".git/{name}", text.encode("utf-8", "surrogateescape"))
    try:
        assert RepositoryContents.open(scratch.folder).head()
        assert name == "objects/info/alternates"
    except TreeringError as error:
        hint = error.hint
        assert hint


@pytest.mark.parametrize("worktree", ["loop", "x" * 5_000, "/"])
def test_a_work_tree_that_is_no_place_is_not_taken(tmp_path, worktree):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.py": "a = 1\n"})
    (scratch.folder / ".git/loop").symlink_to("loop")
    scratch.git("config", "core.worktree", worktree)
    repository = RepositoryContents.open(scratch.folder)
    assert repository.top is None
    assert repository.head()
