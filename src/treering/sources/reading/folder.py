"""Walking a folder: its regular files, ignored and skipped entries, and files written by parts of Treering."""

import os
import re
import stat
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from treering.core.characters import unprinted
from treering.ports.adapter import FileAccess, FilesAround, OwnFiles, Skipped, SourceDraft, WrittenFiles
from treering.registry import brought

NEVER_READ = frozenset({".git", ".obsidian", ".treering", ".venv", "node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line of a `.gitignore` file: its pattern, and whether it ignores files or includes them again."""

    regex: re.Pattern[str]
    leaves_out: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules for a folder: its own and those of the folders above, the nearest first."""

    sets: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
    """The folder of a set of rules (empty or ending in `/`), and the rules."""
    above: str = ""
    """The path of the root from the top of its repository, empty or ending in `/`; folders in `sets` include it."""

    def below(self, folder: Path, relative: str) -> "IgnoreRules":
        """Add the rules of `folder` itself. `relative` is its path from the root, empty for the root."""
        own = tuple(parse_patterns(_lines_in(folder)))
        base = self.above + (f"{relative}/" if relative else "")
        return replace(self, sets=((base, own), *self.sets)) if own else self

    def leave_out(self, relative: str, *, folder: bool) -> bool:
        """Return whether a path (from the root) is ignored. Must not be called for paths in ignored folders."""
        if relative.rpartition("/")[2] in NEVER_READ:
            return True
        for base, patterns in self.sets:
            path = f"{self.above}{relative}".removeprefix(base)
            for pattern in reversed(patterns):
                if (folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                    return pattern.leaves_out
        return False


def parse_patterns(lines: Sequence[str]) -> Iterator[Pattern]:
    """Parse the lines of a `.gitignore` file, each once. Like git, skip invalid patterns.

    Of a file with very many lines, the last ones are read, because they take precedence.
    """
    # A repeated line only affects which pattern is the last to match.
    latest = list(dict.fromkeys(reversed(lines)))[:_MOST_LINES]
    for line in reversed(latest):
        glob = _without_trailing_space(line.removesuffix("\r"))
        if not glob or glob.startswith("#"):
            continue
        leaves_out = not glob.startswith("!")
        glob = glob.removeprefix("!")
        folders_only = glob.endswith("/")
        glob = glob.removesuffix("/")
        try:
            if 0 < len(glob) <= _LONGEST_PATTERN:
                yield Pattern(re.compile(_regex(glob), re.DOTALL), leaves_out, folders_only)
        except re.error:
            continue


_LONGEST_RULES = 1_000_000
_MOST_LINES = 5_000
_LONGEST_PATTERN = 4_096  # of a path on Linux
_GLOB = re.compile(
    r"(?P<star>\*+)|(?P<one>\?)|\[(?P<negated>[!^]?)(?P<chars>\]?(?:\[:\w{1,9}:\]|\\.|[^\]\\]){0,200})\]"
    r"|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_CLASSES = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s"}
_POSIX = re.compile(r"\[:(\w+):\]")
_FOLDERS = r"(?:[^/]+/)*"


def _without_trailing_space(line: str) -> str:
    """Return a line without trailing spaces, except one after a backslash."""
    bare = line.rstrip(" \t")
    return line[: len(bare) + 1] if bare.endswith("\\") else bare


def _regex(glob: str) -> str:
    """Translate a pattern. With a slash inside, it is relative to its folder; without, it matches at any depth.

    The text between two wildcards is matched at its first occurrence (atomic groups), so that matching is never slow.
    """
    parts = glob.removeprefix("/").split("/") if "/" in glob else ["**", glob]
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_name(part))
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = map("/".join, runs)
    between = "".join(rf"(?>{_FOLDERS}?{run}/)" for run in middle if run)
    return f"{first}{'/' if first else ''}{between}" + (_FOLDERS + last if last else ".+")


def _name(glob: str) -> str:
    """Translate the part of a pattern between two slashes."""
    runs = [""]
    for match in _GLOB.finditer(glob):
        if match["star"]:
            runs.append("")
        else:
            runs[-1] += _character(match)
    if len(runs) == 1:
        return runs[0]
    first, *middle, last = runs
    return first + "".join(rf"(?>[^/]*?{run})" for run in middle) + "[^/]*" + last


def _character(match: re.Match[str]) -> str:
    if match["one"]:
        return "[^/]"
    if match["chars"] is None:
        return re.escape(match["escaped"] or match["plain"])
    named = _POSIX.sub(lambda name: _CLASSES.get(name[1], ""), match["chars"])
    inside = re.sub(r"(?<!\\)([\[&~|])", r"\\\1", named)
    inside = rf"\{inside}" if inside.startswith("]") else inside
    return rf"(?!/)[{'^' if match['negated'] else ''}{inside}]"


def _lines_in(folder: Path) -> list[str]:
    """Read a folder's own rules. Like git, skip links and unreadable files."""
    file = folder / ".gitignore"
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LONGEST_RULES:
            return []
        return file.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file: its POSIX path from the root, its location, and its size in bytes."""

    relative: str
    file: Path
    size: int


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An entry that is not a regular file, such as a link or a pipe, and is never opened."""

    relative: str
    why: str


@dataclass(frozen=True, slots=True)
class UnreadablePath:
    """A path that cannot be read. `folder`: it is a folder, whose contents are unknown and not deleted."""

    relative: str
    why: str
    folder: bool = False


_NO_RULES = IgnoreRules()

FolderEntry = FoundFile | PassedOver | UnreadablePath


def walk(root: Path, rules: IgnoreRules = _NO_RULES) -> Iterator[FolderEntry]:
    """Yield the entries below `root` in the order of names, except those ignored by `.gitignore` files and `rules`.

    A `root` that is a file is the only entry, with an empty relative path. Links are never followed, so there are no
    loops, and no ways out.
    """
    waiting = [_Waiting("", root, rules)]
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


def place_in(top: Path, path: str) -> Path:
    r"""Return the location of a file of a repository in its work tree, by its printed path.

    Bytes of a name that are not UTF-8 are printed as `\x..`.
    """
    place = top / path
    if "\\" in path and not os.path.lexists(place) and os.path.lexists(top / unprinted(path)):
        return top / unprinted(path)
    return place


def read_bytes(file: Path, most: int) -> bytes | None:
    """Read a regular file, at most one byte more than `most`; `None` if it is not a regular file any more.

    Raises `OSError`. Does not follow a link, or wait for a pipe, that replaced the file.
    """
    stream = open_regular(file)
    if stream is None:
        return None
    with stream:
        return read_at_most(stream, most + 1)


def open_regular(file: Path) -> BinaryIO | None:
    """Open a regular file for reading; `None` if it is not a regular file any more.

    Raises `OSError`. Does not follow a link, or wait for a pipe, that replaced the file.
    """
    stream = os.fdopen(os.open(file, _READ_ONLY), "rb")
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    return None


def read_at_most(stream: BinaryIO, most: int) -> bytes:
    """Read a stream to its end, but at most `most` bytes, in parts.

    `stream.read(most)` would allocate `most` bytes first.
    """
    parts = list[bytes]()
    while most > 0 and (part := stream.read(min(most, _PART_BYTES))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def reason(error: OSError) -> str:
    """Return the system's error message, without the path."""
    return (error.strerror or str(error)).lower()


def printable(name: str) -> str:
    """Replace characters in a file name that are not valid text."""
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
    """List a folder by name, with its rules applied."""
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
    except (OSError, RuntimeError):  # no target, or a loop of links
        return "a symbolic link that leads nowhere"
    if not target.is_relative_to(root):
        return "a symbolic link out of the folder"
    return f"a symbolic link to {printable(target.relative_to(root).as_posix())}; links are not followed"


def own_manifests(paths: Iterable[str]) -> list[str]:
    """Return the paths that are, by their names, manifests of files written by a part."""
    parts = _all()
    return [path for path in paths if any(own.is_manifest(path) for own in parts)]


def own_files_below(manifests: Mapping[str, bytes]) -> "OwnFilesBelow":
    """Return the files listed in manifests, which are given by path."""
    return OwnFilesBelow(tuple(own.below(manifests) for own in _all()))


def own_files_around(access: FileAccess) -> "OwnFilesAround":
    """Return the lookup of written files in the folders above each file."""
    return OwnFilesAround(tuple(own.around(access) for own in _all()))


def own_files_as_they_lie(
    top: Path, manifests: Mapping[str, bytes], present: Container[str]
) -> tuple[list[str], list[str]]:
    """Return the files of a commit that are gone from the work tree at `top`, and those to read from it."""
    results = [own.as_they_lie(top, manifests, present) for own in _all()]
    return [path for gone, _ in results for path in gone], [path for _, other in results for path in other]


@dataclass(frozen=True, slots=True)
class OwnFilesBelow:
    """The files that parts wrote below one root."""

    of_parts: tuple[WrittenFiles, ...]

    def reading(
        self, data: bytes, *, path: str, origin: str, commit: str | None = None
    ) -> SourceDraft | Skipped | None:
        """Read a file that a part may have written; `None` if none did."""
        readings = (one.reading(data, path=path, origin=origin, commit=commit) for one in self.of_parts)
        return next((one for one in readings if one is not None), None)

    def wrote(self, path: str) -> bool:
        """Return whether a part wrote a file."""
        return any(one.wrote(path) for one in self.of_parts)

    def cited_by(self, path: str) -> list[str]:
        """Return the paths of the files that a file of a part cites."""
        return [cited for one in self.of_parts for cited in one.cited_by(path)]


@dataclass(frozen=True, slots=True)
class OwnFilesAround:
    """The files that parts wrote, looked up in the folders above each file."""

    of_parts: tuple[FilesAround, ...]

    def reading(self, data: bytes, *, place: Path, path: str, origin: str) -> SourceDraft | Skipped | None:
        """Read a file that a part may have written; `None` if none did."""
        readings = (one.reading(data, place=place, path=path, origin=origin) for one in self.of_parts)
        return next((one for one in readings if one is not None), None)


def _all() -> tuple[OwnFiles, ...]:
    return tuple(brought("own_files"))
