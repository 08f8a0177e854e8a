"""A process that has to take itself to be on Windows: `python tests/as_windows.py [all]`, in an empty folder.

It loads what others wrote as it is, forgets Treering, takes away what Windows lacks, imports every module of Treering
again, and uses it from the command line. With `all` the adapters to frameworks are imported too, where theirs is there.
It ends with the modules and commands that fail.
"""

import fcntl
import importlib
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import treering

SOURCE = Path(treering.__file__).parent
MISSING = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
LACKED = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown fchown fork getegid geteuid getgid getpgid getuid killpg "
    "mkfifo posix_fadvise pread pwrite register_at_fork sched_getaffinity setpgid setsid statvfs sysconf uname",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 SIGUSR2 alarm pthread_sigmask setitimer",
    socket: "AF_UNIX recv_fds send_fds",
}
NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def main() -> None:
    """End with what fails, if anything does."""
    names = [name for name in modules() if "all" in sys.argv or not for_framework(name)]
    before = imported(names)
    for name in [name for name in sys.modules if name.partition(".")[0] == "treering"]:
        del sys.modules[name]
    become_windows()
    failed = {name: told for name, told in imported(names).items() if name not in before}
    if failed:
        sys.exit("\n".join(f"{name}: {told}" for name, told in failed.items()))
    use()


def modules() -> Iterator[str]:
    for file in sorted(SOURCE.rglob("*.py")):
        name = ".".join(("treering", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        if not name.endswith("__main__"):
            yield name


def for_framework(name: str) -> bool:
    """Tell whether a module is an adapter to a framework, or the facade of one."""
    part = f"{name}.".split(".")[1]
    return part == "frameworks" or (SOURCE / "frameworks" / part).exists() or f"{part}.py" in ADAPTERS


ADAPTERS = {file.name for file in (SOURCE / "frameworks").glob("*.py")} - {"__init__.py"}


def imported(names: list[str]) -> dict[str, str]:
    """Import modules; return those that fail, with why."""
    failed = {}
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - it is told
            failed[name] = repr(error)
    return failed


def become_windows() -> None:
    lock = fcntl.lockf, fcntl.LOCK_EX, fcntl.LOCK_NB

    def locking(descriptor: int, mode: int, count: int) -> None:
        take, whole, at_once = lock
        take(descriptor, whole | (at_once if mode else 0), count, os.lseek(descriptor, 0, os.SEEK_CUR))

    locks = ModuleType("msvcrt")
    locks.__dict__.update(locking=locking, LK_LOCK=0, LK_NBLCK=1)
    ssl.__dict__["enum_certificates"] = lambda _store: []
    for module, lacked in LACKED.items():
        for name in lacked.split():
            module.__dict__.pop(name, None)
    for name in NAMES:
        os.environ.pop(name, None)  # a service has no name
    sys.modules.update(dict.fromkeys(MISSING))  # type: ignore[arg-type]
    sys.modules["msvcrt"] = locks
    sys.platform = "win32"


def use() -> None:
    """Make a space in this folder, read a file into it and ask for what it says."""
    from treering.surfaces.cli import main as command_line

    Path("a.md").write_text("# Acme\n\nAcme retries three times.\n", encoding="utf-8")
    for words in (["init"], ["ingest", ".", "--mode", "path"], ["query", "how often does acme retry?"]):
        sys.argv = ["treering", *words]
        try:
            command_line()
        except SystemExit as ended:
            if ended.code:
                sys.exit(f"{words} ends with {ended.code}")


if __name__ == "__main__":
    main()
