"""Replace a folder by a prepared one in one step."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBUSY, EINVAL, ENOSYS, ENOTSUP
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.system.machine import sync_folder, try_lock

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_UNSUPPORTED = (ENOSYS, EINVAL, ENOTSUP)


@contextmanager
def exclusive_writer(folder: Path) -> Iterator[None]:
    """Lock an existing folder against other writers; blocks until they are done."""
    if os.name != "posix":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try_lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


def swap_folders(new: Path, folder: Path) -> None:
    """Swap two folders. Raises `InvalidInput` for a mount point, `OSError`."""
    error = _exchange(new, folder)
    if error in _UNSUPPORTED:
        _rename_both(new, folder)
    elif error == EBUSY:
        raise InvalidInput(
            f"{folder} is in use: a disk is mounted there, or a program works in it.",
            hint=f"Give a folder below it, such as {folder / 'wiki'}.",
        )
    elif error:
        raise OSError(error, os.strerror(error), str(folder))
    sync_folder(folder.parent)


def restore_after_kill(new: Path, folder: Path) -> None:
    """Restore the old folder if a process was killed between the two steps of `_rename_both`."""
    aside = _aside(new)
    if not aside.is_dir():
        return
    if not folder.exists():
        aside.rename(folder)
    elif not new.exists():
        aside.rename(new)
    sync_folder(folder.parent)


def _exchange(new: Path, folder: Path) -> int:
    """Swap two paths with one system call; return 0 or the error number."""
    call = _system_call()
    if call is None:
        return ENOSYS
    before, after = os.fsencode(new), os.fsencode(folder)
    if sys.platform == "darwin":
        outcome = call(before, after, _EXCHANGE)
    else:
        outcome = call(_AT_FDCWD, before, _AT_FDCWD, after, _EXCHANGE)
    return ctypes.get_errno() if outcome else 0


def _system_call() -> "ctypes._NamedFuncPointer | None":
    if os.name != "posix":
        return None
    name = "renamex_np" if sys.platform == "darwin" else "renameat2"
    function: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    return function


def _rename_both(new: Path, folder: Path) -> None:
    aside = _aside(new)
    folder.rename(aside)
    new.rename(folder)
    aside.rename(new)


def _aside(new: Path) -> Path:
    return new.with_name(f"{new.name}-old")
