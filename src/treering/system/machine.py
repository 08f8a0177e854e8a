"""The computer: its clock and source of chance, private files, locks, and how our processes are started and behave."""

import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_DRAWN = 2_048
_DRAWN_TOGETHER = 16  # an id or a salt; longer requests are secrets, of which no copy may remain
_FOLDER = 0o700
_FILE = 0o600
_SECRET_BYTES = 32
NEXT_LOCK, RUNNING_LOCK = "next.lock", "running.lock"
_HOLDER_BYTES = 64
_FAR = 1 << 30
"""Windows also locks bytes against reading, so the lock is on a byte far behind the contents of the file."""
LOWEST_PRIORITY = 19
"""As `nice` counts."""
_M_ARENA_MAX = -8
"""The number of this setting in `malloc.h`."""


class SystemClock:
    """`ports.runtime.Clock` of the real world."""

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> float:
        """Return the seconds since the machine started, or about that; the same in all its processes."""
        return time.monotonic()

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        return _CHANCE.draw(count) if count <= _DRAWN_TOGETHER else os.urandom(count)


class _Chance:
    """Random bytes for ids, read from the system in large pieces, because each system call costs more than an id.

    A forked process reads its own.
    """

    def __init__(self) -> None:
        self.begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Discard the stock of random bytes, as after a fork."""
        self._lock = threading.Lock()
        self._left = b""

    def draw(self, count: int) -> bytes:
        """Return random bytes that were not returned before."""
        with self._lock:
            if len(self._left) < count:
                self._left = os.urandom(_DRAWN)
            drawn, self._left = self._left[:count], self._left[count:]
        return drawn


_CHANCE = _Chance()


def make_folder(folder: Path) -> None:
    """Create a folder and missing parents, with their mode from the start, so that only the owner can open them.

    Raises `OSError`.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=_FOLDER, exist_ok=True)


def own_user() -> int | None:
    """Return the number of the user of this process; `None` on Windows, where files have no such owner."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def check_private(folder: Path) -> None:
    """Raise `PermissionError` if a folder exists, and is a link, of another user, or open to other users."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return
    user = own_user()
    is_own = user is None or (status.st_uid == user and not status.st_mode & 0o077)
    if not (stat.S_ISDIR(status.st_mode) and is_own):
        raise PermissionError(errno.EACCES, "must be a folder that only this user can open", str(folder))


def private(path: str, flags: int) -> int:
    """Open a file, readable only by its owner if it is created: the `opener` of `open`."""
    return os.open(path, flags, _FILE)


def write_new(path: Path, data: bytes) -> None:
    """Write a new file durably. Raises `FileExistsError` and other `OSError`."""
    with open(path, "xb", opener=private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(file: Path, data: bytes, *, mode: int | None = None, private: bool = False) -> None:
    """Replace the contents of a file atomically and durably; of a link, those of its target. Raises `OSError`.

    An existing file keeps its mode. `mode`: the mode of a new file. Default: only for its owner. `private`: in any case
    only for its owner; a link is replaced itself.
    """
    # Imported here: the hooks of coding agents write no such file, and have no time for it.
    from tempfile import NamedTemporaryFile

    place = file if private else Path(os.path.realpath(file))
    file_mode = place.stat().st_mode & 0o777 if place.exists() and not private else mode
    with NamedTemporaryFile(dir=place.parent, delete=False) as new:
        try:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
            if file_mode is not None:
                Path(new.name).chmod(file_mode)
            Path(new.name).replace(place)
        except BaseException:
            Path(new.name).unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Make the creation, renaming and removal of files in a folder durable."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def shared_secret(file: Path) -> bytes:
    """Return the 32 random bytes in a file that only its owner can read. The first call creates it.

    Raises `OSError`, also if the file has other contents.
    """
    try:
        secret = file.read_bytes()
    except FileNotFoundError:
        make_folder(file.parent)
        with suppress(FileExistsError):  # another process was faster
            write_new(file, os.urandom(_SECRET_BYTES))
            sync_folder(file.parent)
        secret = file.read_bytes()
    if len(secret) != _SECRET_BYTES:
        raise OSError(errno.EINVAL, f"{file} does not contain {_SECRET_BYTES} bytes")
    return secret


@contextmanager
def held_alone(file: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold the lock of a file, creating the file if necessary; yield whether no other process holds it.

    The system releases it when the process ends, in whatever way. `wait`: wait for the lock. Raises `OSError`.
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
    """Hold the locks of a folder so that one run works and at most one waits; yield `False` if another one waits.

    The waiting run will process all changes up to its start, so a third run has nothing to add. Raises `OSError`.
    """
    with ExitStack() as alone:
        with held_alone(folder / NEXT_LOCK) as is_next:
            if is_next:
                alone.enter_context(held_alone(folder / RUNNING_LOCK, wait=True))
        yield is_next


def holder(file: Path) -> str:
    """Return the number of the last process that held the lock; empty if there was none."""
    try:
        return file.read_bytes()[:_HOLDER_BYTES].decode("ascii", "replace")
    except OSError:
        return ""


def try_lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file for this process; return whether no other process holds the lock. `wait`: wait for it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(descriptor, 0, os.SEEK_SET)
        return True
    import fcntl  # not available on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


# How other programs and our own processes start this installation.


@dataclass(frozen=True, slots=True)
class StartCommand:
    """How a client starts something of ours: a program and its arguments."""

    program: str
    arguments: tuple[str, ...]


# -P: without it Python imports from the working folder first, such as a repository's treering.py or numpy.py.
OWN_PROCESS = StartCommand(sys.executable, ("-P", "-m", "treering"))
"""How this installation is started, in whatever folder, without a program on the PATH."""


def start_behind(
    *arguments: str, niceness: int, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> None:
    """Start a command of this installation that outlives this process, without a terminal, at a low priority.

    `niceness`: from 0 to `LOWEST_PRIORITY`. Raises `OSError` if the process cannot be started.
    """
    import subprocess  # not loaded by who starts nothing

    worker = subprocess.Popen(  # noqa: S603 - our own command
        [OWN_PROCESS.program, *OWN_PROCESS.arguments, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        creationflags=getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "IDLE_PRIORITY_CLASS", 0),
    )
    with suppress(OSError):  # it is over already
        if sys.platform != "win32":
            os.setpriority(os.PRIO_PROCESS, worker.pid, niceness)
        if sys.platform == "linux":
            # Not SCHED_IDLE: it would get almost no time on a busy core, even while it holds the lock for writing.
            os.sched_setscheduler(worker.pid, os.SCHED_BATCH, os.sched_param(0))
    # The process is not waited for. Without a return code Python would warn about that.
    worker.returncode = 0


def share_heap() -> None:
    """Let all threads allocate memory from one heap. Only the C library of GNU has one for each thread.

    Each heap retains memory that its threads have freed. Eight threads that answer searches retain 80 MiB, and 10 to 20
    MiB with one heap. Earlier threads are not affected. `MALLOC_ARENA_MAX` in the environment takes precedence.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    import ctypes  # takes 2 ms, and commands do not need it

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def is_busy() -> bool:
    """Return whether more processes want to run than there are cores, by the load of the last minute; never on Windows.

    The additional half accounts for the calling process.
    """
    try:
        load, *_ = os.getloadavg()
    except (AttributeError, OSError):
        return False
    return load > (os.cpu_count() or 1) + 0.5
