"""A prepared folder takes the place of another in one step.

Linux and macOS exchange two folders at once, so that whoever looks sees the old one or the new one. Where the system
cannot do that, the old folder is renamed first; after a kill between the two steps, `recover` puts it back.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBUSY, EINVAL, ENOSYS, ENOTSUP
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.edges.private_files import sync_folder

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_UNSUPPORTED = (ENOSYS, EINVAL, ENOTSUP)


@contextmanager
def lone_writer(folder: Path) -> Iterator[None]:
    """Keep other writers out that ask for the same; `folder` exists. It waits until they are done."""
    if os.name != "posix":
        yield
        return
    import fcntl  # there is none on Windows

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def exchange(new: Path, folder: Path) -> None:
    """Put `new` where `folder` is, and `folder` where `new` was. Raises `InvalidInput` for a mount point, `OSError`."""
    error = _exchange(new, folder)
    if error in _UNSUPPORTED:
        _rename_both(new, folder)
    elif error == EBUSY:
        raise InvalidInput(
            f"{folder} is in use as a whole: a disk is mounted there, or a program works in it.",
            hint=f"Give a folder below it, such as {folder / 'wiki'}.",
        )
    elif error:
        raise OSError(error, os.strerror(error), str(folder))
    sync_folder(folder.parent)


def recover(new: Path, folder: Path) -> None:
    """Put an old folder back where a kill came between the two steps of a switch."""
    aside = _aside(new)
    if not aside.is_dir():
        return
    if not folder.exists():
        aside.rename(folder)
    elif not new.exists():
        aside.rename(new)
    sync_folder(folder.parent)


def _exchange(new: Path, folder: Path) -> int:
    """Return 0, or the number of the error."""
    call = _call_of_the_system()
    if call is None:
        return ENOSYS
    before, after = os.fsencode(new), os.fsencode(folder)
    if sys.platform == "darwin":
        outcome = call(before, after, _EXCHANGE)
    else:
        outcome = call(_AT_FDCWD, before, _AT_FDCWD, after, _EXCHANGE)
    return ctypes.get_errno() if outcome else 0


def _call_of_the_system() -> "ctypes._NamedFuncPointer | None":
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    found: ctypes._NamedFuncPointer | None = getattr(
        library, "renamex_np" if sys.platform == "darwin" else "renameat2", None
    )
    return found


def _rename_both(new: Path, folder: Path) -> None:
    aside = _aside(new)
    folder.rename(aside)
    new.rename(folder)
    aside.rename(new)


def _aside(new: Path) -> Path:
    return new.with_name(f"{new.name}-old")
