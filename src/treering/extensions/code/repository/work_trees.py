"""Lookups in git for questions: the work tree of a folder, its branch, and what differs from a commit."""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from treering.core.errors import NotFound, TreeringError
from treering.core.versions import GIT_BLOB
from treering.extensions.code.repository.contents import RepositoryContents
from treering.ports.adapter import CheckedOut, FileAccess, LyingFile
from treering.sources.git.repository import blob_id
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import place_in, read_bytes
from treering.system.repository_place import repository_at

_MOST_BYTES = 2_000_000

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class RepositoryTrees:
    """`ports.adapter.TreeLookup` with git. Files are read if `access` allows it."""

    access: FileAccess
    _differing: dict[tuple[str, str, str], Mapping[str, str | None]] = field(default_factory=dict)
    _changed: dict[tuple[str, str, str], Collection[str]] = field(default_factory=dict)
    _forks: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _opened: dict[str, RepositoryContents] = field(default_factory=dict)
    """The repository of the last comparison, because opening one costs as much as a comparison."""

    def here(self, folder: Path | None) -> CheckedOut | None:
        """Return the work tree of a folder, else of the working folder, or of the only folder that may be read."""
        with suppress(OSError):
            repository = repository_at(folder or self.access.root or Path.cwd())
            if repository and repository.top:
                branch, commit = repository.head()
                return CheckedOut(repository.top, str(repository.common), branch or repository.detached, commit)
        return None

    def commit(self, place: str, revision: str) -> str:
        """Return the commit of a revision in the repository at a place; empty if there is none."""
        with suppress(TreeringError):
            repository = RepositoryContents.open(place, self.access)
            with suppress(NotFound):
                return repository.resolve(revision)
        return ""

    def differing(self, place: str, before: str, after: str) -> Mapping[str, str | None] | None:
        """Return by path the blob in the second commit if it differs from the first."""
        key = (place, before, after)
        if key not in self._differing:
            blobs = self._compared(place, lambda repository: repository.differing(before, after))
            if blobs is None:
                return None
            self._differing[key] = blobs
        return self._differing[key]

    def changed(self, place: str, commit: str, *, since: str) -> Collection[str]:
        """Return the paths that a commit changes since its history left that of another one."""
        if not (since and commit):
            return ()
        key = (place, commit, since)
        if key not in self._changed:
            paths = self._compared(place, lambda repository: repository.changed_since_fork(since, commit))
            if paths is None:
                return ()
            self._changed[key] = frozenset(paths)
        return self._changed[key]

    def texts_before(self, tree: CheckedOut, path: str, *, since: str) -> tuple[str, str] | None:
        """Return the text of a file at the fork of a work tree and a commit, and at this commit."""

        def read(repository: RepositoryContents) -> tuple[str, str] | None:
            if (sides := (since, tree.commit)) not in self._forks:
                self._forks[sides] = repository.merge_base(*sides)
            fork = self._forks[sides]
            texts = [decode(repository.text(commit, path)) for commit in (fork, since) if commit]
            both = [one.text.replace("\r\n", "\n") for one in texts if one]
            return (both[0], both[1]) if len(both) > 1 else None

        return self._compared(str(tree.top), read)

    def moved(self, tree: CheckedOut, *, since: str) -> Mapping[str, str]:
        """Return by its path at a commit the path of each file that was renamed since."""
        renames = self._compared(str(tree.top), lambda repository: repository.renames_in_work_tree(since))
        return renames or {}

    def path_now(self, tree: CheckedOut, path: str) -> str:
        """Return the path that a file of an earlier commit was renamed to."""
        is_path = bool(PurePosixPath(path).suffix) and path.isprintable()
        return (self._compared(str(tree.top), lambda repository: repository.path_now(path)) or "") if is_path else ""

    def _compared(self, place: str, compare: Callable[[RepositoryContents], _Found]) -> _Found | None:
        """Compare commits in the repository at a place; `None` if that fails."""
        try:
            if place not in self._opened:
                self._opened.clear()
                self._opened[place] = RepositoryContents.open(place, self.access)
            return compare(self._opened[place])
        except TreeringError:
            self._opened.pop(place, None)
            return None

    def lying(self, tree: CheckedOut, path: str) -> LyingFile | None:
        """Read the current contents of a file in a work tree; `None` if it may not be read or is too large."""
        file = place_in(tree.top, path)
        parent = Path(os.path.realpath(file.parent))
        if not parent.is_relative_to(tree.top) or not self.access.holds(parent / file.name) or file.is_symlink():
            return None
        if not file.exists():
            return LyingFile("", None)
        data = read_lying(file, _MOST_BYTES)
        if data is None:
            return None
        decoded = decode(data)
        text = decoded.text.encode() if decoded else data
        return LyingFile(f"{GIT_BLOB}{blob_id(data, like=tree.commit)}", text)


def read_lying(file: Path, most: int) -> bytes | None:
    """Read a regular file of at most `most` bytes, else `None`."""
    try:
        data = read_bytes(file, most)
    except OSError:
        return None
    return data if data is not None and len(data) <= most else None
