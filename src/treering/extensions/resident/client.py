"""The client of the resident process: passes a command to it, which answers as this process would.

Every start of a command goes through this module, so it imports next to nothing. In any unknown situation (no such
process, another version, a process that does not answer) the command runs here, as it would without the process.
"""

import os
import sys

WAITS_FOR_ANSWER = 0.5
"""Seconds after which a process that does not accept the command is given up."""
LENGTH_BYTES = 4
LISTENS, TAKEN_ON, GO, STOPPED = b".", b"+", b"!", 1
STAYS = "--resident"
"""The argument with which the command becomes the resident process."""
COMMAND, ASKS_HOW_IT_IS = b"command", b"status"
STATE = ("pid", "seconds", "answered", "idle_minutes")
"""The numbers in a process's report of its state."""
_FIXED_FIELDS = 4
_LONGEST_PLACE = 100  # of the 107 bytes that the address of a socket has: the encoder's is longer
_COMMANDS = (
    *("query", "crystallize", "lint", "review", "status", "search", "ask", "brief", "show", "log"),
    *("decide", "rule", "prefer", "fact", "task", "done", "replace", "undo"),
)
_READING_HOOKS = ("begin", "edit", "prompt", "failure")
_LOADED_FOR_HOOKS = tuple(
    f"treering.extensions.coding_agents.{name}" for name in ("before_edit", "failures", "pointers")
)
_OFF = ("0", "false", "no", "off")  # as in `system.settings`, which is not loaded here
_READ_AT_IMPORT = (
    *("PYTHON", "LD_", "LC_", "LANG", "OMP_", "OPENBLAS_", "MKL_"),
    *("TYPER", "_TYPER", "TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"),
)
"""How variables begin that modules read while they are loaded."""
_KEPT = (*_READ_AT_IMPORT, "HOME", "PATH", "XDG_RUNTIME_DIR", "TREERING_RESIDENT_MINUTES")
"""The environment variables of the resident process itself, which has no keys or passwords."""
_RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_NAMESPACES = ("mnt", "net", "pid", "user", "ipc")


def is_used(arguments: list[str]) -> bool:
    """Return whether a command goes to the resident process: whether it is short and the system supports this.

    `TREERING_RESIDENT=0`: never. `TREERING_RESIDENT=1`: also if Treering runs from a checkout (whose code changes while
    a process is loaded) or under a continuous integration service.
    """
    if sys.platform != "linux" or not is_short(arguments):
        return False
    wanted = os.environ.get("TREERING_RESIDENT", "").lower()
    if wanted:
        return wanted not in _OFF
    return "-packages" in os.path.dirname(package_folder()) and "CI" not in os.environ


def is_short(arguments: list[str]) -> bool:
    """Return whether a command is short apart from loading. Hooks that read no space load little, and gain nothing."""
    return is_hook(arguments) or (arguments[:1] != [] and arguments[0] in _COMMANDS)


def is_hook(arguments: list[str]) -> bool:
    """Return whether a command is a hook of a coding agent that reads the space; its client may kill it any time."""
    return len(arguments) == 2 and arguments[0] == "session" and arguments[1] in _READING_HOOKS


def hand_over(arguments: list[str]) -> int | None:
    """Run a command in the resident process. Return its exit code; `None` if it must run here.

    The process gets this one's arguments, environment, working folder and open streams. A command starts only after
    this process received its acknowledgement, so it never runs twice.
    """
    import socket

    version = fingerprint()
    place = socket_place(version)
    if not is_private(os.path.dirname(place)):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(WAITS_FOR_ANSWER)
        try:
            line.connect(place)
            if line.recv(1) != LISTENS:  # streams that are sent stay open until they are received, or refused
                return None
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                socket.send_fds(line, [message(_fields(version, arguments))], [0, 1, 2, folder])
            finally:
                os.close(folder)
            taken = line.recv(1 + LENGTH_BYTES)
            if taken[:1] != TAKEN_ON or len(taken) != 1 + LENGTH_BYTES:
                return None
            worker = int.from_bytes(taken[1:], "big")
            line.settimeout(None)
        except OSError:
            return None
        _pass_signals_on(worker)
        try:
            line.sendall(GO)
            code = line.recv(1)
            line.recv(1)  # until it is gone
        except OSError:
            code = b""
    if not code:
        sys.stderr.write("treering: the process running this command was stopped; the outcome is unknown.\n")
    return code[0] if code else STOPPED


def how_it_is() -> dict[str, str] | None:
    """Return `pid`, `seconds`, `answered` and `idle_minutes` of the resident process; `None` if there is none."""
    import socket

    if sys.platform != "linux":
        return None
    place = socket_place(fingerprint())
    if not is_private(os.path.dirname(place)):
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(WAITS_FOR_ANSWER)
        try:
            line.connect(place)
            line.sendall(message([ASKS_HOW_IT_IS]))
            report = line.makefile("rb").read(1000)[len(LISTENS) :].decode()
        except OSError:
            return None
    state = dict(one.split("=", 1) for one in report.splitlines() if "=" in one)
    return state if all(state.get(name, "").replace(".", "", 1).isdecimal() for name in STATE) else None


def start_resident(*, for_hooks: bool = False) -> None:
    """Start the resident process for later commands, with the modules loaded here, or those of hooks."""
    import subprocess

    place = socket_place(fingerprint())
    folder = os.path.dirname(place)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if len(place) > _LONGEST_PLACE or not is_private(folder) or how_it_is():
            return
        process = subprocess.Popen(  # noqa: S603 - our own process
            [sys.executable, "-P", "-m", "treering", STAYS, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={name: value for name, value in os.environ.items() if name.startswith(_KEPT)},
        )
        loaded = [name for name in (_LOADED_FOR_HOOKS if for_hooks else sys.modules) if not name.startswith("__")]
        if process.stdin:
            process.stdin.write("\n".join(loaded).encode())
            process.stdin.close()
        process.returncode = 0  # it outlives this process, which does not wait for it
    except OSError:
        pass  # commands run as they do without


def package_folder() -> str:
    """Return the folder of the package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def socket_place(version: bytes) -> str:
    """Return the path of the socket of a process with this fingerprint, different for each state of the installation.

    Installing, upgrading or removing a package changes the folder that packages are in, and so gives another place.
    """
    import zlib

    from_system = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = os.path.join(from_system, "treering") if from_system else f"/tmp/treering-{os.getuid()}"  # noqa: S108
    return os.path.join(folder, f"{zlib.crc32(version):08x}{zlib.adler32(version):08x}.sock")


def fingerprint() -> bytes:
    """Return the properties that two processes must share for one to replace the other."""
    package = package_folder()
    parts = [sys.executable, sys.version, package]
    for folder in (package, os.path.dirname(package)):
        state = os.stat(folder)
        parts.append(f"{state.st_dev} {state.st_ino} {state.st_mtime_ns}")
    parts.append(repr(sys.flags).replace(f"safe_path={sys.flags.safe_path}", ""))  # it does not change what is loaded
    parts += sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_READ_AT_IMPORT))
    return os.fsencode("\n".join(parts))


def rights_of(process: int | str) -> list[str]:
    """Return the privileges of a process in the system: users, capabilities, system call filters, namespaces.

    A command that was started inside a sandbox is not done by a process outside it. Raises `OSError`.
    """
    with open(f"/proc/{process}/status") as lines:
        rights = [line.strip() for line in lines if line.split(":")[0] in _RIGHTS]
    rights += [os.readlink(f"/proc/{process}/ns/{name}") for name in _NAMESPACES]
    return [*rights, os.readlink(f"/proc/{process}/root")]


def is_private(folder: str) -> bool:
    """Return whether a folder exists, belongs to this user, and is closed to all others."""
    try:
        state = os.lstat(folder)
    except OSError:
        return False
    return state.st_uid == os.getuid() and state.st_mode & 0o170777 == 0o040700


def message(fields: list[bytes]) -> bytes:
    """Encode fields for sending: the length in bytes, then the fields, separated by NUL."""
    body = b"\0".join(fields)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _fields(fingerprint_here: bytes, arguments: list[str]) -> list[bytes]:
    mask = os.umask(0o077)  # there is no other way to ask
    os.umask(mask)
    fields = [COMMAND, fingerprint_here, b"%o" % mask, b"%d" % len(arguments), *map(os.fsencode, arguments)]
    return fields + [name + b"=" + value for name, value in os.environb.items()]


def fields_of(fields: list[bytes]) -> tuple[int, list[str], dict[bytes, bytes]]:
    """Return the data that `hand_over` sent: umask, arguments, environment. Raises `ValueError`, `IndexError`."""
    mask, count = int(fields[2], 8), int(fields[3])
    named = [one.partition(b"=") for one in fields[_FIXED_FIELDS + count :]]
    arguments = [os.fsdecode(one) for one in fields[_FIXED_FIELDS : _FIXED_FIELDS + count]]
    return mask, arguments, {name: value for name, _, value in named}


def _pass_signals_on(worker: int) -> None:
    import signal

    def pass_on(number: int, _frame: object) -> None:
        try:  # noqa: SIM105 - `contextlib` would be imported for it
            os.kill(worker, number)
        except ProcessLookupError:
            pass

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
