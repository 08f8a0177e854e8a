"""A lock that one process holds at a time. The system lets go of it when the process ends, however it ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from treering.edges.private_files import make_folder, private

NEXT_LOCK, RUNNING_LOCK = "next.lock", "running.lock"
_HOLDER_BYTES = 64
_FAR = 1 << 30
"""Windows locks bytes against being read, too: one far behind what stands in the file is locked."""


@contextmanager
def held_alone(file: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold the lock of a file, which is made where it is missing; yield whether nobody else holds it.

    `wait`: until that is so. Raises `OSError`.
    """
    make_folder(file.parent)
    descriptor = private(str(file), os.O_RDWR | os.O_CREAT)
    try:
        held = try_lock(descriptor, wait=wait)
        if held:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        yield held
    finally:
        os.close(descriptor)


@contextmanager
def one_after_another(folder: Path) -> Iterator[bool]:
    """Hold the locks of a folder so that one run works and at most one waits; yield `False` where one waits already.

    Whoever waits has not begun, and will see what is there by then: a third run has nothing to add. Raises `OSError`.
    """
    with ExitStack() as alone:
        with held_alone(folder / NEXT_LOCK) as is_next:
            if is_next:
                alone.enter_context(held_alone(folder / RUNNING_LOCK, wait=True))
        yield is_next


def holder(file: Path) -> str:
    """Return the number of the process that held the lock last; empty where none did."""
    try:
        return file.read_bytes()[:_HOLDER_BYTES].decode("ascii", "replace")
    except OSError:
        return ""


def try_lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file for this process; tell whether nobody else holds it. `wait`: until that is so."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(descriptor, 0, os.SEEK_SET)
        return True
    import fcntl  # there is none on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
