"""The file of a space: making a new one at once and whole, and refusing what is not a space any more."""

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

APPLICATION_ID = 0x54524E47  # "TRNG": tells `file` and us that this database is a Treering space
ARRIVING_ID = 0x54524E4D
"""The same of a copy that is not complete yet (`ports.stores.IncomingCopy`); an older Treering does not open it."""
LOG = "-wal"
_HIDDEN = re.compile(r"\..+\.[0-9a-f]{32}\.new", re.DOTALL)


def ensure_file(path: str, *, create: bool, application: int = APPLICATION_ID) -> None:
    """Make the file of a new space, or check that there is one.

    A new file appears with its first page in it: whoever opens it at the same moment, or after a crash, finds an
    empty space, or with `ARRIVING_ID` as `application` one that waits for its copy. So a file of no bytes is never a
    new space. Raises `NotFound` where there is none and none is to
    be made, `Corrupt` for a file of no bytes and for a log without its file, and `OSError`.
    """
    file = Path(os.path.realpath(path))
    try:
        found = file.stat()
    except FileNotFoundError:
        _refuse_lone_log(file)
        if not create:
            raise NotFound(
                f"There is no space at {path}.",
                hint="Create it with `treering init` or `treering add .`; or choose another with --space.",
            ) from None
        _make(file, application)
        return
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        raise Corrupt(
            f"{path} is empty (0 bytes), and a space is never empty.",
            hint="If it was a space, restore it from a backup. Otherwise delete the file and try again.",
        )


@dataclass(frozen=True, slots=True)
class ReadOnlyFile:
    """A space that this process may not write, as it lay there when it was opened.

    SQLite reads such a file without locks and without making files beside it (`immutable`). That is sound as long
    as nobody changes it, which `check` looks for.
    """

    file: Path
    state: tuple[int, int, int]

    @classmethod
    def at(cls, path: str) -> "ReadOnlyFile | None":
        """Return the file where it can only be read; `None` where it, and its folder, can be written.

        A log that is not empty holds newer changes: then the file is opened as any other.
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
        """Raise `Unavailable` where the file was changed since it was opened."""
        if _state(self.file) != self.state or _log_size(self.file):
            raise Unavailable(
                f"{self.file} was changed by another user since it was opened for reading.",
                hint="Open the space again.",
            )


def hidden_beside(file: Path) -> Path:
    """Name a new file in which `file` is prepared."""
    return file.with_name(f".{file.name}.{uuid4().hex}.new")


@contextmanager
def held(new: Path) -> Iterator[None]:
    """Hold a file that is being prepared, so that `remove_left` of another process leaves it alone.

    Raises `OSError`, also where that was faster.
    """
    with new.open("rb+") as file:
        if not (try_lock(file.fileno()) and os.fstat(file.fileno()).st_nlink):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(new))
        yield


def left_beside(file: Path) -> list[Path]:
    """Return the files in which `file` was, or is, being prepared. Raises `OSError`."""
    with os.scandir(file.parent) as entries:
        return [Path(entry.path) for entry in entries if _is_hidden(entry.name, f".{file.name}.")]


def remove_left(new: Path) -> bool:
    """Remove a file that a process which ended was preparing; tell whether it is gone.

    One that a process still holds stays, and so does what is not named as such a file is. Raises `OSError`.
    """
    if not _is_hidden(new.name, "."):
        return True
    try:
        found = new.lstat()
        if not stat.S_ISREG(found.st_mode):
            return True
        # With a second name it is published already. It is not opened then: closing it would end locks of SQLite.
        if found.st_nlink == 1:
            with new.open("rb+") as file:
                if not try_lock(file.fileno()):
                    return False
        new.unlink()
    except FileNotFoundError:
        # On a disk that is not there now, it may come back.
        return new.parent.is_dir()
    return True


def _is_hidden(name: str, start: str) -> bool:
    return name.startswith(start) and _HIDDEN.fullmatch(name) is not None


def publish(new: Path, file: Path) -> None:
    """Give a finished file its name, unless the name is taken. Raises `FileExistsError` and other `OSError`."""
    try:
        os.link(new, file)
    except FileExistsError:
        raise
    except OSError:
        _rename_where_free(new, file)  # a file system without links
    sync_folder(file.parent)


def _make(file: Path, application: int) -> None:
    make_folder(file.parent)
    new = hidden_beside(file)
    try:
        write_new(new, _first_page(application))
        # Another process was first, and whoever opened its space removed this file: that space is as good.
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
    """Rename without replacing. Windows never replaces; elsewhere a lock on the folder keeps others out."""
    if os.name != "posix":
        new.rename(file)
        return
    import fcntl  # there is none on Windows

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
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
