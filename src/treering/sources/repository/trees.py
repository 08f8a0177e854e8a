"""The work tree that a question is asked from, and how commits differ: looked up in git, and in files as they lie."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from treering.core.errors import NotFound, TreeringError
from treering.core.versions import GIT_BLOB
from treering.ports.adapter import CheckedOut, FileAccess, LyingFile
from treering.sources.repository.git import open_repository
from treering.sources.repository.git_blobs import blob_id
from treering.sources.repository.repo_selection import read_lying
from treering.system.repository_place import repository_at

_MOST_BYTES = 2_000_000


@dataclass(frozen=True)
class RepositoryTrees:
    """`ports.adapter.TreeLookup` by git. Files are read where `access` allows; of git, only what it names them by."""

    access: FileAccess
    _differing: dict[tuple[str, str, str], Mapping[str, str | None]] = field(default_factory=dict)

    def here(self, folder: Path | None) -> CheckedOut | None:
        """Return the work tree that a folder lies in: the working folder, or the only folder that may be read."""
        with suppress(OSError):
            found = repository_at(folder or self.access.root or Path.cwd())
            if found and found.top:
                branch, commit = found.head()
                return CheckedOut(found.top, str(found.common), branch or found.detached, commit)
        return None

    def commit(self, place: str, revision: str) -> str:
        """Return the commit that a revision names in the repository at a place; empty where there is none."""
        with suppress(TreeringError):
            repository = open_repository(place, self.access)
            with suppress(NotFound):
                return repository.resolve(revision)
        return ""

    def differing(self, place: str, before: str, after: str) -> Mapping[str, str | None] | None:
        """Return by path the blob that one commit has where another one has a different one."""
        key = (place, before, after)
        with suppress(TreeringError):
            if key not in self._differing:
                self._differing[key] = open_repository(place, self.access).differing(before, after)
            return self._differing[key]
        return None

    def lying(self, tree: CheckedOut, path: str) -> LyingFile | None:
        """Read a file of a work tree as it lies; `None` where it may not be read or is too large to be compared."""
        file = tree.top / path
        parent = Path(os.path.realpath(file.parent))
        if not parent.is_relative_to(tree.top) or not self.access.holds(parent / file.name) or file.is_symlink():
            return None
        if not file.exists():
            return LyingFile("", None)
        data = read_lying(file, _MOST_BYTES)
        return LyingFile(f"{GIT_BLOB}{blob_id(data, like=tree.commit)}", data) if data is not None else None
