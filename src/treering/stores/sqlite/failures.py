"""Where errors of SQLite and of the operating system become ours."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from treering.core.errors import Corrupt, InvalidInput, TreeringError, Unavailable
from treering.stores.rows.row_failures import RESTORE


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn every error of SQLite and of the operating system into ours, with a hint for each."""
    try:
        yield
    except TreeringError:
        raise
    except apsw.Error as error:
        raise _translation(path, error) from error
    except UnicodeDecodeError as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}.", hint=_io_hint(path)) from error


def closed(path: str) -> Unavailable:
    """Say that a space was closed."""
    return Unavailable(f"{path} was closed.", hint="Open the space again.")


def _translation(path: str, error: apsw.Error) -> TreeringError:
    return next((make(path, error) for kinds, make in _TRANSLATIONS if isinstance(error, kinds)))


def _closed(path: str, _error: Exception) -> TreeringError:
    return closed(path)


def _locked(path: str, _error: Exception) -> TreeringError:
    return Unavailable(
        f"{path} was locked by another process for too long.", hint="Try again; look for a stuck process."
    )


def _full(path: str, _error: Exception) -> TreeringError:
    return Unavailable(f"The disk holding {path} is full.", hint="Free some space; nothing was changed.")


def _unwritable(path: str, _error: Exception) -> TreeringError:
    return Unavailable(f"{path} cannot be written.", hint="Check its permissions and its folder's.")


def _unreadable(path: str, error: Exception) -> TreeringError:
    return Unavailable(f"{path} cannot be opened or read: {error}.", hint=_io_hint(path))


def _too_large(_path: str, error: Exception) -> TreeringError:
    return InvalidInput(f"A value is too large to store: {error}.", hint="Divide the text; nothing was changed.")


def _damaged(path: str, _error: Exception) -> TreeringError:
    return Corrupt(f"{path} is damaged, or is not a Treering space.", hint=RESTORE)


def _malformed(path: str, error: Exception) -> TreeringError:
    # SQL that is ours fails like this only where something else changed tables or rows.
    return Corrupt(f"{path} holds tables or rows that Treering did not write: {error}.", hint=RESTORE)


_TRANSLATIONS: tuple[tuple[tuple[type[apsw.Error], ...], Callable[[str, Exception], TreeringError]], ...] = (
    # The last three: another thread closed the space, or stopped the read, while it was in use.
    (
        (apsw.ConnectionClosedError, apsw.CursorClosedError, apsw.ThreadingViolationError, apsw.InterruptError),
        _closed,
    ),
    ((apsw.BusyError, apsw.LockedError), _locked),
    ((apsw.FullError,), _full),
    ((apsw.ReadOnlyError, apsw.PermissionsError), _unwritable),
    ((apsw.CantOpenError, apsw.IOError), _unreadable),
    ((apsw.TooBigError,), _too_large),
    ((apsw.CorruptError, apsw.NotADBError), _damaged),
    ((apsw.Error,), _malformed),
)


def _io_hint(path: str) -> str:
    parent = Path(path).parent
    if not parent.exists():
        return f"The folder {parent} does not exist."
    log = Path(f"{path}-wal")
    if not os.access(parent, os.W_OK) and log.exists():
        return f"{log.name} holds changes that have to be merged: copy both files to a folder you can write in."
    if not os.access(parent, os.W_OK):
        return f"The folder {parent} cannot be written."
    return "Check the disk, and that the file is not a folder."
