"""The file of a space: create a new one atomically, and refuse a file that is no longer a space."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import apsw

from treering.core.errors import Corrupt, NotFound, Unavailable
from treering.system.machine import make_folder, sync_folder, try_lock, write_new

APPLICATION_ID = 0x54524E47  # "TRNG": identifies a Treering space, also for `file`
ARRIVING_ID = 0x54524E4D
"""The id of an unfinished copy (`ports.stores.IncomingCopy`), which older versions do not open."""
LOG = "-wal"
_HIDDEN = re.compile(r"\..+\.[0-9a-f]{32}\.new", re.DOTALL)


def ensure_file(path: str, *, create: bool, application: int = APPLICATION_ID) -> None:
    """Create the file of a new space, or check that it exists.

    A new file appears with its first page, so that a process that opens it at the same moment, or after a crash, finds
    an empty space; with `ARRIVING_ID` as `application`, one that waits for its copy. An empty file is therefore never a
    new space. Raises `NotFound` if the file is missing and `create` is false, `Corrupt` for an empty file and for a log
    without its file, and `OSError`.
    """
    file = Path(os.path.realpath(path))
    try:
        status = file.stat()
    except FileNotFoundError:
        _refuse_lone_log(file)
        if not create:
            raise NotFound(
                f"There is no space at {path}.",
                hint="Create it with `treering init` or `treering add .`; or choose another with --space.",
            ) from None
        _make(file, application)
        return
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise Corrupt(
            f"{path} is empty (0 bytes), and a space is never empty.",
            hint="If it was a space, restore it from a backup. Otherwise delete the file and try again.",
        )


@dataclass(frozen=True, slots=True)
class ReadOnlyFile:
    """The file of a space that this process may not write, with its state when it was opened.

    SQLite reads it without locks and without creating other files (`immutable`). This is safe as long as the file does
    not change, which `check` verifies.
    """

    file: Path
    state: tuple[int, int, int]

    @classmethod
    def at(cls, path: str) -> "ReadOnlyFile | None":
        """Return the file if it is read-only; `None` if it and its folder can be written.

        A file with a log that is not empty is opened like any other, because the log contains newer changes.
        """
        file = Path(os.path.realpath(path))
        if (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)) or _log_size(file):
            return None
        return cls(file, _state(file))

    @property
    def address(self) -> str:
        """The address that SQLite opens."""
        return f"{self.file.as_uri()}?immutable=1"

    def check(self) -> None:
        """Raise `Unavailable` if the file has changed since it was opened."""
        if _state(self.file) != self.state or _log_size(self.file):
            raise Unavailable(
                f"{self.file} was changed by another user since it was opened for reading.",
                hint="Open the space again.",
            )


def hidden_beside(file: Path) -> Path:
    """Return the name of a new temporary file for `file`."""
    return file.with_name(f".{file.name}.{uuid4().hex}.new")


@contextmanager
def held(new: Path) -> Iterator[None]:
    """Lock a temporary file, so that `remove_left` of another process does not delete it.

    Raises `OSError`, also if it has just been deleted.
    """
    with new.open("rb+") as file:
        if not (try_lock(file.fileno()) and os.fstat(file.fileno()).st_nlink):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(new))
        yield


def left_beside(file: Path) -> list[Path]:
    """Return the temporary files of `file`. Raises `OSError`."""
    with os.scandir(file.parent) as entries:
        return [Path(entry.path) for entry in entries if _is_hidden(entry.name, f".{file.name}.")]


def remove_left(new: Path) -> bool:
    """Delete a temporary file of a process that ended; return whether it is gone.

    Files that a process has locked, and files with other names, are not deleted. Raises `OSError`.
    """
    if not _is_hidden(new.name, "."):
        return True
    try:
        status = new.lstat()
        if not stat.S_ISREG(status.st_mode):
            return True
        # A file with a second name has been published. It is not opened, because closing it would release locks of
        # SQLite.
        if status.st_nlink == 1:
            with new.open("rb+") as file:
                if not try_lock(file.fileno()):
                    return False
        new.unlink()
    except FileNotFoundError:
        # If the disk is not mounted, the file may return.
        return new.parent.is_dir()
    return True


def _is_hidden(name: str, start: str) -> bool:
    return name.startswith(start) and _HIDDEN.fullmatch(name) is not None


def publish(new: Path, file: Path) -> None:
    """Rename a finished file to its name, unless the name exists. Raises `FileExistsError` and other `OSError`s."""
    try:
        os.link(new, file)
    except FileExistsError:
        raise
    except OSError:
        _rename_where_free(new, file)  # a file system without hard links
    sync_folder(file.parent)


def _make(file: Path, application: int) -> None:
    make_folder(file.parent)
    new = hidden_beside(file)
    try:
        write_new(new, _first_page(application))
        # If another process created the space first, its file is used.
        with suppress(FileExistsError):
            publish(new, file)
    except FileNotFoundError:
        if not file.exists():
            raise
    finally:
        new.unlink(missing_ok=True)


def _first_page(application: int) -> bytes:
    empty = apsw.Connection(":memory:")
    try:
        empty.pragma("application_id", application)
        return bytes(empty.serialize("main"))
    finally:
        empty.close()


def _rename_where_free(new: Path, file: Path) -> None:
    """Rename without replacing. Windows never replaces; elsewhere, a lock on the folder excludes other processes."""
    if os.name != "posix":
        new.rename(file)
        return
    import fcntl  # missing on Windows

    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if file.exists():
            raise FileExistsError(file)
        new.rename(file)
    finally:
        os.close(folder)


def _refuse_lone_log(file: Path) -> None:
    if _log_size(file):
        name = file.name + LOG
        raise Corrupt(
            f"{file} is missing, but its log {name} exists: the space was moved or deleted without it.",
            hint=f"Put the file back next to its log. If the space was deleted on purpose, delete {name} too.",
        )


def _log_size(file: Path) -> int:
    try:
        return file.with_name(file.name + LOG).stat().st_size
    except FileNotFoundError:
        return 0


def _state(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
