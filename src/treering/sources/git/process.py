"""Running git, translating its failures, and locating the parts of a repository. `system.git_start` starts it."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import IO, BinaryIO

from treering.core.characters import printable, shown
from treering.core.errors import Denied, InvalidInput, TreeringError, Unavailable
from treering.ports.adapter import FileAccess
from treering.ports.runtime import check_between_steps
from treering.sources.reading.folder import open_regular, read_at_most, reason
from treering.system.git_start import SECONDS, isolated_environment, start_git, user_environment

_LOOKING_SECONDS = 0.2

Settings = tuple[tuple[bytes, bytes | None], ...]
"""Keys and values as git reads them, in order; `None` for a key without a value."""


def run_git(
    arguments: Sequence[str],
    environment: dict[str, str],
    *,
    folder: Path | str,
    given: bytes = b"",
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder that is not the repository's.

    It is stopped when the current work is interrupted, because a pattern in `.gitattributes` can keep git busy forever.
    Raises `Unavailable` without git or after a timeout, and the error of the interrupt (`ports.runtime`).
    """
    process = started_git(arguments, environment, folder)
    try:
        output, errors = _communicate(process, given, seconds)
    except BaseException:  # including Ctrl-C: git must not outlive its caller
        process.kill()
        process.communicate()
        raise
    return subprocess.CompletedProcess(arguments, process.returncode, output, errors)


def started_git(
    arguments: Sequence[str], environment: dict[str, str], folder: Path | str, *, errors: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start git with `system.git_start`. Raises `Unavailable` without git."""
    try:
        return start_git(arguments, environment, folder, errors=errors)
    except FileNotFoundError as error:
        raise Unavailable("git is not installed.", hint="Install git and check that `git --version` works.") from error


def _communicate(process: subprocess.Popen[bytes], given: bytes, seconds: float) -> tuple[bytes, bytes]:
    until = monotonic() + seconds
    if given and process.stdin:
        Thread(target=_feed, args=(process.stdin, given), daemon=True).start()
        process.stdin = None  # after a timeout, `communicate` would not send the rest
    while True:
        try:
            return process.communicate(timeout=_LOOKING_SECONDS)
        except subprocess.TimeoutExpired as error:
            check_between_steps()
            if monotonic() >= until:
                raise Unavailable(
                    f"git did not respond within {seconds:.0f} seconds.",
                    hint="Check that `git status` works in the repository, and try again.",
                ) from error


def _feed(stream: IO[bytes], given: bytes) -> None:
    with suppress(BrokenPipeError), stream:  # git may stop before it has read all
        stream.write(given)


@lru_cache(maxsize=16)  # a repository is opened several times per answer, and hooks wait for each process
def parse_settings(text: bytes, *, where: str) -> Settings:
    """Parse a configuration file with git. Includes are not followed. Raises `Unavailable`."""
    command = ("config", "--file", "-", "--no-includes", "--list", "-z")
    done = run_git(command, isolated_environment(), folder=tempfile.gettempdir(), given=text)
    if done.returncode != 0:
        raise Unavailable(
            f"{where} is not a valid git configuration: {_last_line(done.stderr)}", hint="Correct the file."
        )
    return _settings(done.stdout)


def user_settings() -> Settings:
    """Read the configuration of the user and the system, with includes. Raises `Unavailable`."""
    environment = user_environment(GIT_DIR=os.devnull)
    done = run_git(("config", "--list", "-z"), environment, folder=tempfile.gettempdir())
    if done.returncode != 0:
        raise failure("config", done, hint="Correct your git configuration: `git config --global --list` shows it.")
    return _settings(done.stdout)


def hooks_folder(top: Path) -> Path:
    """Return the hooks folder of a work tree, according to the user's and its own configuration.

    Raises `Unavailable`. This is the only place in which git reads a repository's configuration: `rev-parse --git-path`
    runs nothing from it.
    """
    done = run_git(("-C", str(top), "rev-parse", "--git-path", "hooks"), user_environment(), folder=top)
    if done.returncode != 0:
        raise failure("rev-parse", done, hint="Check that `git status` works there.")
    return top / os.fsdecode(done.stdout.removesuffix(b"\n"))


def user_file(name: str) -> Path | None:
    """Return the user's default `ignore` or `attributes` file of git, if it exists."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        file = (Path(named) if named else Path.home() / ".config") / "git" / name
    except RuntimeError:  # a user without a home
        return None
    return file if file.is_file() else None


def failure(verb: str, done: subprocess.CompletedProcess[bytes], *, hint: str) -> TreeringError:
    """Return the error for a failed git command."""
    return Unavailable(f"git {verb} failed: {_last_line(done.stderr)}", hint=hint)


def _settings(listing: bytes) -> Settings:
    records = (record.partition(b"\n") for record in listing.split(b"\0") if record)
    return tuple((key, value if newline else None) for key, newline, value in records)


def _last_line(output: bytes) -> str:
    return printable(output.strip().split(b"\n")[-1])


_MOST_BYTES = 50_000_000
_MOST_LINE = 10_000
_MOST_SHOWN = 300
_NESTED = 5  # the maximum depth of alternates, as in git


@dataclass(frozen=True, slots=True)
class GitLayout:
    """The locations of a repository's parts; all paths are absolute, with links resolved.

    `git_dir` has the parts of one work tree (HEAD, the index), `common` the shared ones (objects, refs, configuration).
    `around` is the folder that contains `.git`, if any, and `inside` whether the requested folder is in it and not in
    `.git`.
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
    """Find the repository that a resolved folder is, or is in. Raises `InvalidInput` without one, `Denied`."""
    for folder in (target, *target.parents):
        if not access.holds(folder):
            break
        layout = _at(folder, access)
        if layout:
            return layout
    if access.root:
        raise Denied(
            f"{shown(target)} is not in a git repository below {shown(access.root)}, the only folder that may be read.",
            hint="A repository is read as a whole: give its own folder, or use mode 'path'.",
        )
    raise InvalidInput(
        f"{shown(target)} is not in a git repository.",
        hint="Run this in a git repository, or run `git init` there first.",
    )


@contextmanager
def reading(repository: Path) -> Iterator[None]:
    """Raise `Unavailable` for errors of the system, such as missing permissions or too long names."""
    try:
        yield
    except OSError as error:
        named = f" ({shown(str(error.filename))})" if error.filename else ""
        raise Unavailable(
            f"The repository at {shown(repository)} cannot be read: {reason(error)}{named[:_MOST_SHOWN]}.",
            hint="Check its permissions, and run `git fsck` there.",
        ) from error


def read_part(path: Path, access: FileAccess, *, most: int = _MOST_BYTES) -> bytes | None:
    """Read a file of a repository; `None` if it does not exist. Raises `Denied`, `Unavailable`."""
    stream = open_part(path, access)
    if stream is None:
        return None
    with stream:
        data = read_at_most(stream, most + 1)
    if len(data) > most:
        raise Unavailable(f"{shown(path)} is larger than {most:,} bytes.", hint="Run `git fsck` in the repository.")
    return data


def open_part(path: Path, access: FileAccess) -> BinaryIO | None:
    """Open a file of a repository; `None` if it does not exist. Raises `Denied`, `Unavailable`."""
    place = access.check(path, shown(path))
    try:
        stream = open_regular(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unavailable(f"{shown(path)} cannot be read: {reason(error)}.", hint="Check its permissions.") from error
    if stream is None:
        raise Unavailable(f"{shown(path)} is not a regular file.", hint="Run `git fsck` in the repository.")
    return stream


def object_folders(layout: GitLayout, access: FileAccess) -> list[Path]:
    """Return the folders with objects: the repository's own, and those it borrows from (alternates).

    Raises `Denied` if one of them, or a link in one of them, leads outside what may be read.
    """
    own = access.check(layout.common / "objects", shown(layout.common / "objects"))
    folders: list[Path] = []
    waiting = [(own, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        if folder in folders or not folder.is_dir():
            continue
        folders.append(folder)
        _check_links(folder, access)
        if depth <= _NESTED:
            waiting += [(one, depth + 1) for one in _alternates(folder, access)]
    return folders


def _at(folder: Path, access: FileAccess) -> GitLayout | None:
    """Return the repository of which `folder` is the work tree or git folder."""
    entry = folder / ".git"
    if os.path.lexists(entry):
        git_dir = access.check(entry, shown(entry))
        if git_dir.is_file():
            return _named(entry, access)
        git_dirs = _git_dir(git_dir, access)
        if git_dirs:
            return GitLayout(*git_dirs, around=folder, inside=True)
    git_dirs = _git_dir(folder, access)
    if git_dirs is None:
        return None
    around = folder.parent if folder.name == ".git" and access.holds(folder.parent) else None
    return GitLayout(*git_dirs, around=around, inside=False)


def _named(entry: Path, access: FileAccess) -> GitLayout:
    """Return the repository that a `.git` file points to, as in a linked work tree or a submodule."""
    name = (read_part(entry, access, most=_MOST_LINE) or b"").rstrip(b"\r\n")
    if not name.startswith(b"gitdir: ") or b"\0" in name:
        raise InvalidInput(f"{shown(entry)} does not name a git folder.", hint="It must contain `gitdir: FOLDER`.")
    git_dir = access.check(entry.parent / os.fsdecode(name.removeprefix(b"gitdir: ")), shown(entry))
    git_dirs = _git_dir(git_dir, access)
    if git_dirs is None:
        raise InvalidInput(
            f"{shown(entry)} points to {shown(git_dir)}, which is not a git repository.",
            hint="Run `git worktree repair` in the repository.",
        )
    return GitLayout(*git_dirs, around=entry.parent, inside=True)


def _git_dir(folder: Path, access: FileAccess) -> tuple[Path, Path] | None:
    """Return `folder` and its shared folder if it is a git folder."""
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
    """Yield the folders in `info/alternates`."""
    file = folder / "info" / "alternates"
    for line in (read_part(file, access) or b"").split(b"\0")[0].split(b"\n"):
        if not line or line.startswith(b"#"):
            continue
        if line.startswith(b'"') and access.root:
            raise Denied(
                f"{shown(file)} contains a folder name in quotation marks, {printable(line)}, which Treering "
                "does not support.",
                hint="Clone the repository with `git clone --dissociate`.",
            )
        # git removes `..` from the name before it resolves links; the system does so afterwards.
        named = folder / os.fsdecode(line)
        access.check(named, shown(file))
        yield access.check(Path(os.path.normpath(named)), shown(file))


def _check_links(folder: Path, access: FileAccess) -> None:
    """Raise `Denied` if a link among the objects leads outside what may be read."""
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
