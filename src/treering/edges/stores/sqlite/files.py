"""The file of a space: making a new one at once and whole, and refusing what is not a space any more."""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import apsw

from treering.core.errors import Corrupt, NotFound, Unavailable
from treering.edges.private_files import make_folder, sync_folder, write_new

APPLICATION_ID = 0x54524E47  # "TRNG": tells `file` and us that this database is a Treering space
LOG = "-wal"


def ensure_file(path: str, *, create: bool) -> None:
    """Make the file of a new space, or check that there is one.

    A new file appears with its first page in it: whoever opens it at the same moment, or after a crash, finds an
    empty space. So a file of no bytes is never a new space. Raises `NotFound` where there is none and none is to
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
                hint="Create it with `treering init` or the first `treering ingest`; or name another with --space.",
            ) from None
        _make(file)
        return
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        raise Corrupt(
            f"{path} is empty: it holds 0 bytes, and a space is never empty.",
            hint="If it was a space, restore it from a backup. If it never was one, remove the file and try again.",
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


def publish(new: Path, file: Path) -> None:
    """Give a finished file its name, unless the name is taken. Raises `FileExistsError` and other `OSError`."""
    try:
        os.link(new, file)
    except FileExistsError:
        raise
    except OSError:
        _rename_where_free(new, file)  # a file system without links
    sync_folder(file.parent)


def _make(file: Path) -> None:
    make_folder(file.parent)
    new = file.with_name(f".{file.name}.{uuid4().hex}.new")
    try:
        write_new(new, _first_page())
        with suppress(FileExistsError):  # another process was first: its file is as good
            publish(new, file)
    finally:
        new.unlink(missing_ok=True)


def _first_page() -> bytes:
    empty = apsw.Connection(":memory:")
    try:
        empty.pragma("application_id", APPLICATION_ID)
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
            f"There is no file {file}, but its log {name} is there: the space was moved or removed without it.",
            hint=f"Put the file back beside its log. If the space is gone on purpose, remove {name} too.",
        )


def _log_size(file: Path) -> int:
    try:
        return file.with_name(file.name + LOG).stat().st_size
    except FileNotFoundError:
        return 0


def _state(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
