"""Find the git repository of a folder by reading git's files: no program is run, and nothing is written."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_GIT = ".git"
_MOST_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class GitPlace:
    """The folders of a repository. All its work trees share one `common` folder, with objects and refs.

    `git_dir` contains the files of one work tree, such as `HEAD`; `top` is the work tree, `None` inside a bare one.
    """

    git_dir: Path
    common: Path
    top: Path | None

    @property
    def linked(self) -> bool:
        """Whether this is a work tree that was added to a repository."""
        return self.git_dir != self.common

    @property
    def main_top(self) -> Path | None:
        """The folder that holds `.git` itself; `None` for bare repositories, submodules and git folders elsewhere."""
        return self.common.parent if self.common.name == _GIT else None

    @property
    def names_back(self) -> bool:
        """Whether the repository names this work tree in turn, if the `.git` of the work tree is a link to it."""
        if self.linked:
            linked = Path(_text(self.git_dir / "gitdir"))  # the path of the work tree's `.git` file
            is_added = self.git_dir.parent == self.common / "worktrees"
            return is_added and (self.top is None or _same(self.git_dir / linked.parent, self.top))
        if self.top is None or self.git_dir == self.top / _GIT:
            return True
        return any(_same(self.git_dir / named, self.top) for named in self._named_trees())

    def _named_trees(self) -> Iterator[str]:
        """Yield the work tree that the configuration names, as of a submodule."""
        for file in ("config.worktree", "config"):
            section = ""
            for line in _text(self.git_dir / file).splitlines():
                name, _, value = (part.strip() for part in line.partition("="))
                section = name.lower() if name.startswith("[") else section
                if section == "[core]" and name.lower() == "worktree":
                    yield value.strip('"')

    @property
    def detached(self) -> str:
        """The name used instead of a branch if none is checked out."""
        from treering.core.versions import detached_name  # a hook that needs it seldom has no use for the rest of it

        return detached_name(self.git_dir.name if self.linked else "")

    @property
    def state(self) -> str:
        """The content of git's `HEAD`: `ref:` and a branch, or a commit."""
        return _text(self.git_dir / "HEAD")

    def head(self) -> tuple[str, str]:
        """Return the branch checked out, empty if HEAD is detached, and its commit, empty if there is none."""
        state = self.state
        if not state.startswith("ref: "):
            return "", state
        ref = state.removeprefix("ref: ")
        return ref.removeprefix("refs/heads/"), self._commit(ref)

    def _commit(self, ref: str) -> str:
        for folder in (self.git_dir, self.common):
            if loose := _text(folder / ref):
                return loose
        with suppress(OSError, ValueError), (self.common / "packed-refs").open(encoding="utf-8") as packed:
            return next((line[: -len(ref) - 2] for line in packed if line.endswith(f" {ref}\n")), "")
        return ""


def repository_at(folder: Path, environment: Mapping[str, str] | None = None) -> GitPlace | None:
    """Return the repository that contains a folder, or is the folder; `None` if there is none.

    `environment` may name it, as git does for its hooks: `GIT_DIR`, `GIT_COMMON_DIR`, `GIT_WORK_TREE`.
    """
    given = environment or {}
    with suppress(OSError, ValueError, RuntimeError):
        if named := given.get("GIT_DIR"):
            tree = Path(folder, given["GIT_WORK_TREE"]) if given.get("GIT_WORK_TREE") else None
            place = _of(Path(folder, named), tree, common=given.get("GIT_COMMON_DIR", ""))
            return _with_top(place, folder) if place and tree is None else place
        return next(filter(None, map(_at, _upwards(folder.resolve()))), None)
    return None


def _upwards(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.parents


def _at(place: Path) -> GitPlace | None:
    entry = place / _GIT
    if entry.is_file():
        named = _text(entry)
        return _of(place / named.removeprefix("gitdir: "), place) if named.startswith("gitdir: ") else None
    return _of(entry, place) or _of(place, None)


def _of(git_dir: Path, top: Path | None, *, common: str = "") -> GitPlace | None:
    if not os.path.lexists(git_dir / "HEAD"):
        return None
    git_dir = git_dir.resolve()
    shared = (git_dir / (common or _text(git_dir / "commondir") or ".")).resolve()
    if not all((shared / name).is_dir() for name in ("objects", "refs")):
        return None
    return GitPlace(git_dir, shared, top.resolve() if top else None)


def _with_top(found: GitPlace, folder: Path) -> GitPlace:
    """Return a repository named by `GIT_DIR` with its work tree, which for git is the current folder."""
    linked = _text(found.git_dir / "gitdir")  # in an added work tree: the path of its `.git` file
    if linked:
        return GitPlace(found.git_dir, found.common, (found.git_dir / linked).parent)
    if found.git_dir.name == _GIT:
        return GitPlace(found.git_dir, found.common, found.git_dir.parent)
    return GitPlace(found.git_dir, found.common, folder.resolve())


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError, ValueError):
        return one.samefile(other)
    return False


def _text(file: Path) -> str:
    """Return the text of a short file of git; empty if it does not exist."""
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(_MOST_CHARS).strip()
    except (OSError, ValueError):
        return ""
