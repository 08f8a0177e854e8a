"""Where the parts of a git repository lie, found as git finds them, and whether they may be read.

A repository may point elsewhere: `.git` can be a file or a link, `commondir` names another folder, alternates name
further objects, and every file may be a link. Each of these is resolved here and checked against the access given.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from treering.core.errors import Denied, InvalidInput, Unavailable
from treering.edges.sources.folder import open_regular, read_at_most, reason
from treering.edges.sources.names import printable, shown
from treering.ports.files import FileAccess

_MOST_BYTES = 50_000_000
_MOST_LINE = 10_000
_MOST_SHOWN = 300
_NESTED = 5  # alternates of alternates, as deep as git follows them


@dataclass(frozen=True, slots=True)
class GitLayout:
    """Where a repository's parts lie; all paths are absolute, their links resolved.

    `git_dir` has what belongs to one work tree (HEAD, the index), `common` what all share (objects, refs,
    configuration). `around` is the folder that holds `.git`, if any, and `inside` whether the folder asked for
    lies in it and not in `.git`.
    """

    git_dir: Path
    common: Path
    around: Path | None
    inside: bool

    @property
    def linked(self) -> bool:
        """Whether this is one of several work trees of a repository."""
        return self.git_dir != self.common


def locate(target: Path, access: FileAccess) -> GitLayout:
    """Find the repository a resolved folder is, or lies in. Raises `InvalidInput` without one, `Denied`."""
    for folder in (target, *target.parents):
        if not access.holds(folder):
            break
        found = _at(folder, access)
        if found:
            return found
    if access.root:
        raise Denied(
            f"{shown(target)} is in no git repository below {shown(access.root)}, the only folder that may be read.",
            hint="A repository is read as a whole: name its own folder, or use mode 'path'.",
        )
    raise InvalidInput(
        f"{shown(target)} is not in a git repository.",
        hint='Use mode "path" to read a folder without git, or run `git init` there.',
    )


@contextmanager
def reading(repository: Path) -> Iterator[None]:
    """Raise `Unavailable` for what the system refuses: a folder nobody may list, a name that is too long."""
    try:
        yield
    except OSError as error:
        named = f" ({shown(str(error.filename))})" if error.filename else ""
        raise Unavailable(
            f"The repository at {shown(repository)} cannot be read: {reason(error)}{named[:_MOST_SHOWN]}.",
            hint="Check who may read it, and run `git fsck` there.",
        ) from error


def read_part(path: Path, access: FileAccess, *, most: int = _MOST_BYTES) -> bytes | None:
    """Read a file of a repository; `None` where there is none. Raises `Denied`, `Unavailable`."""
    stream = open_part(path, access)
    if stream is None:
        return None
    with stream:
        data = read_at_most(stream, most + 1)
    if len(data) > most:
        raise Unavailable(f"{shown(path)} has more than {most:,} bytes.", hint="Run `git fsck` in the repository.")
    return data


def open_part(path: Path, access: FileAccess) -> BinaryIO | None:
    """Open a file of a repository; `None` where there is none. Raises `Denied`, `Unavailable`."""
    place = access.check(path, shown(path))
    try:
        stream = open_regular(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable(f"{shown(path)} cannot be read: {reason(error)}.", hint="Check who may read it.") from error
    if stream is None:
        raise Unavailable(f"{shown(path)} is not a regular file.", hint="Run `git fsck` in the repository.")
    return stream


def object_folders(layout: GitLayout, access: FileAccess) -> list[Path]:
    """Return the folders that hold objects: the repository's own, and those it borrows from (alternates).

    Raises `Denied` where one of them, or a link in one of them, leads out of what may be read.
    """
    own = access.check(layout.common / "objects", shown(layout.common / "objects"))
    found: list[Path] = []
    waiting = [(own, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        if folder in found or not folder.is_dir():
            continue
        found.append(folder)
        _check_links(folder, access)
        if depth <= _NESTED:
            waiting += [(one, depth + 1) for one in _alternates(folder, access)]
    return found


def _at(folder: Path, access: FileAccess) -> GitLayout | None:
    """Return the repository whose work tree, or which itself, is `folder`."""
    entry = folder / ".git"
    if os.path.lexists(entry):
        git_dir = access.check(entry, shown(entry))
        if git_dir.is_file():
            return _named(entry, access)
        found = _git_dir(git_dir, access)
        if found:
            return GitLayout(*found, around=folder, inside=True)
    found = _git_dir(folder, access)
    if found is None:
        return None
    around = folder.parent if folder.name == ".git" and access.holds(folder.parent) else None
    return GitLayout(*found, around=around, inside=False)


def _named(entry: Path, access: FileAccess) -> GitLayout:
    """Return the repository that a `.git` file names, as in a linked work tree or a submodule."""
    name = (read_part(entry, access, most=_MOST_LINE) or b"").rstrip(b"\r\n")
    if not name.startswith(b"gitdir: ") or b"\0" in name:
        raise InvalidInput(f"{shown(entry)} does not name a git folder.", hint="It must say `gitdir: FOLDER`.")
    git_dir = access.check(entry.parent / os.fsdecode(name.removeprefix(b"gitdir: ")), shown(entry))
    found = _git_dir(git_dir, access)
    if found is None:
        raise InvalidInput(
            f"{shown(entry)} names {shown(git_dir)}, which is not a git repository.",
            hint="Run `git worktree repair` in the repository.",
        )
    return GitLayout(*found, around=entry.parent, inside=True)


def _git_dir(folder: Path, access: FileAccess) -> tuple[Path, Path] | None:
    """Return `folder` and the folder of what it shares with others, where it has what makes a repository."""
    if not os.path.lexists(folder / "HEAD"):
        return None
    named = read_part(folder / "commondir", access, most=_MOST_LINE) if (folder / "commondir").exists() else None
    common = folder
    if named is not None:
        common = access.check(folder / os.fsdecode(named.rstrip(b"\r\n")), shown(folder / "commondir"))
    if not all((common / name).is_dir() for name in ("objects", "refs")):
        return None
    return folder, common


def _alternates(folder: Path, access: FileAccess) -> Iterator[Path]:
    """Yield the folders that `info/alternates` names."""
    file = folder / "info" / "alternates"
    for line in (read_part(file, access) or b"").split(b"\0")[0].split(b"\n"):
        if not line or line.startswith(b"#"):
            continue
        if line.startswith(b'"') and access.root:
            raise Denied(
                f"{shown(file)} names a folder in quotation marks, {printable(line)}, which Treering does not read.",
                hint="Clone the repository with `git clone --dissociate`.",
            )
        # git takes `..` out of the name before it looks for links; the system does so after.
        named = folder / os.fsdecode(line)
        access.check(named, shown(file))
        yield access.check(Path(os.path.normpath(named)), shown(file))


def _check_links(folder: Path, access: FileAccess) -> None:
    """Raise `Denied` where a link among the objects leads out of what may be read."""
    if access.root is None:
        return
    waiting, seen = [folder], {folder}
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if not entry.is_symlink() and not entry.is_dir():
                    continue
                place = access.check(Path(entry.path), shown(entry.path))
                if place.is_dir() and place not in seen:
                    seen.add(place)
                    waiting.append(place)
