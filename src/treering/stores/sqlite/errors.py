"""Errors of SQLite and the operating system as `TreeringError`s."""

import os
from pathlib import Path

import apsw

from treering.core.errors import Corrupt, InvalidInput, TreeringError, Unavailable
from treering.stores.rows.damage import RESTORE


class translated:  # noqa: N801 - used as a function
    """Convert the errors of SQLite and the operating system to `TreeringError`s with a hint.

    Not a generator, which takes four times as long: a search enters dozens.
    """

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _translation(self._path, error) from error
        if isinstance(error, UnicodeDecodeError):
            raise _translation(self._path, apsw.CorruptError()) from error
        if isinstance(error, OSError):
            raise Unavailable(f"{self._path}: {error.strerror}.", hint=_io_hint(self._path)) from error


def closed(path: str) -> TreeringError:
    """Return the error for a closed space."""
    return _translation(path, apsw.ConnectionClosedError())


def _translation(path: str, error: apsw.Error) -> TreeringError:
    kind, message, hint = next(row[1:] for row in _TRANSLATIONS if isinstance(error, row[0]))
    return kind(message.format(path=path, error=error), hint=hint or _io_hint(path))


# By errors of SQLite: the class, message and hint of our error. Without a hint, it depends on the file. The first match
# is used.
_TRANSLATIONS: tuple[tuple[tuple[type[apsw.Error], ...], type[Unavailable | InvalidInput | Corrupt], str, str], ...] = (
    # The last three: another thread closed the space, or stopped the read.
    (
        (apsw.ConnectionClosedError, apsw.CursorClosedError, apsw.ThreadingViolationError, apsw.InterruptError),
        Unavailable,
        "{path} was closed.",
        "Open the space again.",
    ),
    (
        (apsw.BusyError, apsw.LockedError),
        Unavailable,
        "{path} was locked by another process for too long.",
        "Try again; check for a stuck process.",
    ),
    ((apsw.FullError,), Unavailable, "The disk holding {path} is full.", "Free some space; nothing was changed."),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError),
        Unavailable,
        "{path} cannot be written.",
        "Check its permissions and its folder's.",
    ),
    ((apsw.CantOpenError, apsw.IOError), Unavailable, "{path} cannot be opened or read: {error}.", ""),
    (
        (apsw.TooBigError,),
        InvalidInput,
        "A value is too large to store: {error}.",
        "Split the text; nothing was changed.",
    ),
    ((apsw.CorruptError, apsw.NotADBError), Corrupt, "{path} is damaged, or is not a Treering space.", RESTORE),
    # Our SQL raises other errors only if another program changed tables or rows.
    ((apsw.Error,), Corrupt, "{path} contains tables or rows that Treering did not write: {error}.", RESTORE),
)


def _io_hint(path: str) -> str:
    parent = Path(path).parent
    if not parent.exists():
        return f"The folder {parent} does not exist."
    log = Path(f"{path}-wal")
    if not os.access(parent, os.W_OK) and log.exists():
        return (
            f"{log.name} contains changes that must be merged first: copy both files to a folder that you can write to."
        )
    if not os.access(parent, os.W_OK):
        return f"The folder {parent} cannot be written."
    return "Check the disk, and that the file is not a folder."
