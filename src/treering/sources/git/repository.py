"""A git repository, read with the git command line.

A repository is untrusted input: its configuration can name programs (filters, hooks, monitors, signature checkers,
protocol helpers). git never reads it: every command runs in a separate git folder (`git_private`), with a reduced
environment (`git_process`), and every list is read NUL-separated.
"""

import os
import re
from dataclasses import dataclass
from hashlib import sha1, sha256
from pathlib import Path
from typing import Self

from treering.core.characters import printable, shown
from treering.core.errors import InvalidInput, NotFound
from treering.ports.adapter import FileAccess
from treering.sources.git.private import PrivateGitFolder, RepositoryConfig, parse_config
from treering.sources.git.process import (
    GitLayout,
    locate,
    read_part,
    reading,
    run_git,
)
from treering.sources.reading.access import AnyFile

_MOST_CONFIG = 10_000_000


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository opened for reading, in its state at that time.

    `home` is the work tree, or the git folder of a repository without one; `top` the work tree or `None`; `prefix` the
    requested folder, relative to `top`, with forward slashes (empty: all). `common` is the git folder shared by all
    work trees, `git_dir` the one of this work tree, and `linked` whether this is an additional work tree. Every method
    raises `Unavailable` if git is missing, does not respond in time, or fails, and `Denied` if a part of the repository
    is outside what may be read.
    """

    home: Path
    top: Path | None
    prefix: str
    shallow: bool
    common: Path
    git_dir: Path
    linked: bool
    _config: RepositoryConfig
    _git: PrivateGitFolder

    @classmethod
    def open(cls, target: Path | str, access: FileAccess | None = None) -> Self:
        """Open the repository that `target` is, or is in. Nothing in it is run, and nothing is written there.

        Raises `InvalidInput` if it is not a folder or in no repository, `Denied` if a part of it may not be read
        (without `access`: every file may), `Unavailable` if git is not installed or the format is unknown.
        """
        access = access or AnyFile()
        folder = access.place(str(target))
        if not folder.is_dir():
            raise InvalidInput(f"{shown(target)} is not a folder.", hint="Give the folder of a git repository.")
        with reading(folder):
            layout = locate(folder, access)
        file = layout.common / "config"
        config = parse_config(
            read_part(file, access, most=_MOST_CONFIG) or b"",
            read_part(layout.git_dir / "config.worktree", access, most=_MOST_CONFIG),
            linked=layout.linked,
            where=file,
        )
        top = _top(layout, config)
        inner = folder.relative_to(top) if top and layout.inside else Path()
        return cls(
            home=top or layout.git_dir,
            top=top,
            prefix=printable(os.fsencode(inner.as_posix())) if inner.parts else "",
            shallow=bool(read_part(layout.common / "shallow", access)),
            common=layout.common,
            git_dir=layout.git_dir,
            linked=layout.linked,
            _config=config,
            _git=PrivateGitFolder(layout, config, access),
        )

    def resolve(self, revision: str) -> str:
        """Return the full id of the commit that `revision` names. Raises `NotFound`."""
        commit = None
        if revision and revision[0] != "-" and "\0" not in revision:
            commit = self._ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if commit is None:
            raise NotFound(f"This repository has no commit {revision!r}.", hint=self._missing_commit_hint())
        return commit

    def head(self) -> str | None:
        """Return the commit checked out, or `None` in a repository without commits."""
        return self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def root_commit(self, commit: str) -> str | None:
        """Return the first commit of the line that leads to `commit`, which is the same in every clone.

        `None` if the repository does not have that commit, or, as a shallow clone, the beginning of its history.
        """
        if self.shallow:
            return None
        return self._ask("rev-list", "--first-parent", "--max-parents=0", "--end-of-options", f"{commit}^{{commit}}")

    def branch(self) -> str | None:
        """Return the branch checked out, or `None` if HEAD is detached."""
        return self._ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Return whether one commit is the same as another one, or an ancestor of it."""
        arguments = ("merge-base", "--is-ancestor", commit, of)
        done = run_git(arguments, self._git.environment(), folder=self._git.folder)
        return done.returncode == 0

    def remote(self) -> str | None:
        """Return the address of `origin`, else of the first remote, without user, password, query or fragment."""
        remotes = self._config.remotes
        origin = next((address for name, address in reversed(remotes) if name == b"origin"), None)
        url = printable(origin or next((address for _, address in remotes), b""))
        if not url or not _is_relative(url):
            return without_credentials(url) or None
        return Path(os.path.normpath(self.home / url)).as_posix()

    def _missing_commit_hint(self) -> str:
        if self.shallow:
            return "This is a shallow clone; fetch the rest with `git fetch --unshallow`, or choose a newer commit."
        return "Give a branch, a tag or a commit from `git log`; fetch it first if it is on the server."

    def _ask(self, *arguments: str) -> str | None:
        done = run_git(arguments, self._git.environment(), folder=self._git.folder)
        return printable(done.stdout.removesuffix(b"\n")) or None if done.returncode == 0 else None


def without_credentials(url: str) -> str:
    """Drop user, password, query and fragment from the address of a remote."""
    scheme, separator, rest = url.rpartition("://")
    if not separator:
        return re.sub(r"^[^/@]+@(?=[^/]+:)", "", url).rstrip("/") or url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{re.split('[?#]', path)[0]}".rstrip("/")


def _is_relative(url: str) -> bool:
    return "://" not in url and not Path(url).is_absolute() and not re.match(r"[^/]+:", url)


def _top(layout: GitLayout, config: RepositoryConfig) -> Path | None:
    """Return the work tree: the folder that contains `.git`. None if the configuration names another, or none.

    `core.worktree` may name any folder as the work tree, but only the one containing `.git` was requested.
    """
    if layout.around is None or config.bare:
        return None
    if config.worktree is not None:
        # Unlike `Path.resolve`, this accepts a loop of links.
        named = os.path.realpath(layout.git_dir / os.fsdecode(config.worktree))
        return layout.around if Path(named) == layout.around else None
    return layout.around


def blob_id(data: bytes, *, like: str) -> str:
    """Return the object id of `data` in git, with the hash function of the id `like`: SHA-1 or SHA-256."""
    digest = sha256() if len(like) == 64 else sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()
