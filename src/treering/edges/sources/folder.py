"""Walking a folder: which regular files it holds, and what is passed over and why."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from treering.edges.sources.ignored import IgnoreRules


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file: its POSIX path from the root, where it lies, and its size in bytes."""

    relative: str
    file: Path
    size: int


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Something that is not a regular file, such as a link or a pipe: never opened."""

    relative: str
    why: str


@dataclass(frozen=True, slots=True)
class UnreadablePath:
    """Something that could not be looked at. `folder`: what lies below it is unknown, not gone."""

    relative: str
    why: str
    folder: bool = False


FolderEntry = FoundFile | PassedOver | UnreadablePath


def walk(root: Path) -> Iterator[FolderEntry]:
    """Yield what lies below `root` in the order of names, without what `.gitignore` files leave out.

    A `root` that is a file is the one entry, with an empty relative path.
    Links are never followed, so there are no loops and no way out.
    """
    waiting = [_Waiting("", root, IgnoreRules())]
    while waiting:
        place = waiting.pop()
        try:
            mode = place.path.lstat()
            inside = _inside(place) if stat.S_ISDIR(mode.st_mode) else None
        except OSError as error:
            yield UnreadablePath(printable(place.relative), reason(error), folder=place.folder)
            continue
        if inside is None:
            yield _entry(place, root, mode)
        else:
            waiting += reversed(inside)


def read_bytes(file: Path, most: int) -> bytes | None:
    """Read a regular file, at most one byte more than `most`. `None`: by now it is something else.

    Raises `OSError`. Neither a link nor a pipe put in the file's place is followed or waited for.
    """
    stream = open_regular(file)
    if stream is None:
        return None
    with stream:
        return read_at_most(stream, most + 1)


def open_regular(file: Path) -> BinaryIO | None:
    """Open a regular file to read it. `None`: by now it is something else.

    Raises `OSError`. Neither a link nor a pipe put in the file's place is followed or waited for.
    """
    stream = os.fdopen(os.open(file, _READ_ONLY), "rb")
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    return None


def read_at_most(stream: BinaryIO, most: int) -> bytes:
    """Read a stream to its end, or `most` bytes of it. No more memory is asked for than it has bytes, or a part more.

    `stream.read(most)` would allocate `most` bytes first, however few there are.
    """
    parts = list[bytes]()
    while most > 0 and (part := stream.read(min(most, _PART_BYTES))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def reason(error: OSError) -> str:
    """Say why the system refused, without the path."""
    return (error.strerror or str(error)).lower()


def printable(name: str) -> str:
    """Replace what is not text in a file's name."""
    return name.encode("utf-8", "replace").decode("utf-8")


_PART_BYTES = 65_536
_READ_ONLY = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    relative: str
    path: Path
    rules: IgnoreRules
    folder: bool = True


def _inside(place: _Waiting) -> list[_Waiting]:
    """List a folder by name. The rules it sets hold for everything in it."""
    rules = place.rules.below(place.path, place.relative)
    with os.scandir(place.path) as entries:
        listed = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    base = f"{place.relative}/" if place.relative else ""
    return [
        _Waiting(base + name, place.path / name, rules, is_folder)
        for name, is_folder in listed
        if not rules.leave_out(base + name, folder=is_folder)
    ]


def _entry(place: _Waiting, root: Path, status: os.stat_result) -> FolderEntry:
    if printable(place.relative) != place.relative:
        return UnreadablePath(printable(place.relative), "its name is not valid UTF-8")
    if stat.S_ISREG(status.st_mode):
        return FoundFile(place.relative, place.path, status.st_size)
    if stat.S_ISLNK(status.st_mode):
        return PassedOver(place.relative, _link(place.path, root))
    return PassedOver(place.relative, _SPECIAL.get(stat.S_IFMT(status.st_mode), "not a regular file"))


def _link(path: Path, root: Path) -> str:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):  # nothing there, or a loop of links
        return "a symbolic link that leads nowhere"
    if not target.is_relative_to(root):
        return "a symbolic link out of the folder"
    return f"a symbolic link to {printable(target.relative_to(root).as_posix())}; links are not followed"
