"""A large real source tree, as a git repository."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE = "django>=5.2,<5.3"
_IDENTITY = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.invalid", "-c", "commit.gpgsign=false")


class NoTree(Exception):
    """No source tree can be had here; the message says why."""


def source_tree(cache: Path) -> Path:
    """Return the folder named by `TREERING_BENCH_TREE`, else the sources of `PACKAGE` from the package index.

    Raises `NoTree` where it cannot be had.
    """
    named = os.environ.get("TREERING_BENCH_TREE", "")
    if not named:
        return _downloaded(cache / "source-tree")
    if not Path(named).is_dir():
        raise NoTree(f"TREERING_BENCH_TREE names {named}, which is not a folder")
    return Path(named)


def make_repository(tree: Path, repository: Path, *, most: int | None = None) -> list[str]:
    """Copy a tree and commit it, or so many of its files; return their paths."""
    shutil.copytree(tree, repository, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    git(repository, "init", "--quiet")
    paths = git(repository, "ls-files", "-z", "--others", "--exclude-standard").split("\0")[:-1]
    step = 1 if most is None else -(-len(paths) // most)
    commit(repository, paths[::step])
    return paths[::step]


def commit(repository: Path, paths: Sequence[str]) -> None:
    """Commit these files as they lie."""
    git(repository, "add", "--pathspec-from-file=-", "--pathspec-file-nul", given="\0".join(paths))
    git(repository, *_IDENTITY, "commit", "--quiet", "--message", "Files")


def git(repository: Path, *arguments: str, given: str = "") -> str:
    """Run git in a repository and return what it prints."""
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout


def _downloaded(folder: Path) -> Path:
    unpacked = folder / "unpacked"
    if not unpacked.is_dir():
        archive = _archive(folder)
        # Under another name until it is whole.
        half = folder / "unpacking"
        shutil.rmtree(half, ignore_errors=True)
        with tarfile.open(archive) as content:
            content.extractall(half, filter="data")
        half.rename(unpacked)
    return next(unpacked.iterdir())


def _archive(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    wanted = ["--no-deps", "--no-binary", ":all:", "--dest", str(folder), PACKAGE]
    done = subprocess.run([*pip, *wanted], check=False, capture_output=True, text=True)
    found = sorted(folder.glob("*.tar.gz"))
    if done.returncode or not found:
        said = (done.stderr.strip().splitlines() or ["nothing was downloaded"])[-1]
        raise NoTree(f"{PACKAGE} cannot be downloaded ({said}); set TREERING_BENCH_TREE to a folder")
    return found[-1]
