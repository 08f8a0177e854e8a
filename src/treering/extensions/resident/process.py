"""The resident process: with all modules loaded, it forks a child for each command, which answers as usual.

Loading the modules takes most of the time of a short command. The first command starts this process, which holds only
loaded modules, no spaces, files or answers, so stopping it at any moment loses nothing. A child gets the arguments,
environment, folder and streams of the client, over a socket that only its user can open, and is from then on an
ordinary process. Without the socket, commands run without it.

`python -m treering --resident SOCKET` reads the names of modules from stdin. It ends after
`TREERING_RESIDENT_MINUTES` (default 10) without a command.
"""

import gc
import importlib
import io
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np

from treering.extensions.resident.client import (
    ASKS_HOW_IT_IS,
    COMMAND,
    GO,
    LENGTH_BYTES,
    LISTENS,
    STAYS,
    TAKEN_ON,
    WAITS_FOR_ANSWER,
    fields_of,
    fingerprint,
    is_private,
    is_short,
    message,
    rights_of,
)
from treering.models import elsewhere
from treering.ports.models import Embedder, Vector, query_vector
from treering.registry import places_of_extensions
from treering.system.machine import private, try_lock
from treering.system.settings import Settings

__all__ = ["HandedCommand", "Resident", "main"]

_MOST_BYTES = 4_000_000
_STREAMS = 3
_INTERRUPTED = 130
_MODEL = "onnxruntime"
"""Imported in children only: it starts a thread at import, whose locks would stay locked after a fork."""
_ENCODER = "--encoder"
_WAITS_FOR_VECTOR = 2.0
_PEER = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class HandedCommand:
    """The request of a client: its command, environment and streams."""

    mask: int
    """Of the rights of files that it makes."""
    arguments: list[str]
    environment: Mapping[bytes, bytes]
    files: list[int]
    """Open files: its stdin, stdout and stderr, and its working folder."""


@dataclass(slots=True)
class Resident:
    """The process that listens. `place`: its socket."""

    place: Path
    command: Callable[[], None]
    """Runs the command in `sys.argv`, and exits with its exit code."""
    idle_seconds: float
    _began: float = field(default_factory=time.monotonic)
    _answered: int = 0
    _children: list[int] = field(default_factory=list)
    _encoder: "subprocess.Popen[bytes] | None" = None

    def run(self) -> None:
        """Answer until a period without requests; return at once if another process already listens there."""
        if not is_private(str(self.place.parent)):
            raise PermissionError(f"{self.place.parent} must be a folder of this user alone.")
        lock = private(f"{self.place}.lock", os.O_RDWR | os.O_CREAT)
        if not try_lock(lock):
            return
        self.place.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            os.umask(0o177)
            listener.bind(str(self.place))
            listener.listen(64)
            signal.signal(signal.SIGTERM, _stop)
            own = os.getpid()
            try:
                self._listen(listener, lock)
            finally:
                if os.getpid() == own:  # and not a child that leaves
                    self.place.unlink(missing_ok=True)

    def _listen(self, listener: socket.socket, lock: int) -> None:
        receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        sender.setblocking(False)
        with selectors.DefaultSelector() as waiting, receiver, sender:
            waiting.register(listener, selectors.EVENT_READ)
            waiting.register(receiver, selectors.EVENT_READ)
            last = time.monotonic()
            while True:
                ready = waiting.select(self.idle_seconds)
                self._children = [child for child in self._children if _still_works(child)]
                if not self._children and time.monotonic() - last >= self.idle_seconds:
                    return
                for key, _ in ready:
                    if key.fileobj is receiver:
                        self._learn(receiver.recv(_MOST_BYTES).decode().splitlines())
                        continue
                    line, _address = listener.accept()
                    with line:
                        request = self._request(line)
                        if request is None:
                            continue
                        last = time.monotonic()
                        if self._fork(request) == 0:
                            for inherited in (waiting, listener, receiver):
                                inherited.close()
                            os.close(lock)
                            self._answer(request, line, sender)

    def _learn(self, loaded: Sequence[str]) -> None:
        """Load modules that a child needed, for later children."""
        load(loaded)
        if _MODEL in loaded:
            self._start_encoder()

    def _fork(self, request: HandedCommand) -> int:
        """Fork a child for a command. Return 0 in the child; with too many processes, do not fork."""
        try:
            child = os.fork()
        except OSError:
            child = -1  # the client hears nothing, and does it itself
        if child > 0:
            self._children.append(child)
            self._answered += 1
        if child != 0:
            for file in request.files:
                os.close(file)
        return child

    def _request(self, line: socket.socket) -> HandedCommand | None:
        """Return the request if it is permitted; a question about this process itself is answered here."""
        line.settimeout(WAITS_FOR_ANSWER)
        files: list[int] = []
        try:
            client, user, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            line.sendall(LISTENS)
            begin, files, _, _ = socket.recv_fds(line, 1 << 16, _STREAMS + 1)
            fields = _whole(line, begin).split(b"\0")
            if user != os.getuid():
                raise PermissionError("another user")
            if fields[0] == ASKS_HOW_IT_IS:
                line.sendall(self._state().encode())
            elif fields[:2] == [COMMAND, fingerprint()] and rights_of(client) == rights_of("self"):
                mask, arguments, environment = fields_of(fields)
                if len(files) == _STREAMS + 1 and is_short(arguments):
                    return HandedCommand(mask, arguments, environment, files)
        except (OSError, ValueError, IndexError):
            pass
        for file in files:
            os.close(file)
        return None

    def _answer(self, request: HandedCommand, line: socket.socket, sender: socket.socket) -> NoReturn:
        """Act as the client's process: run its command, send its exit code, and report loaded modules to the parent."""
        before = set(sys.modules)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        line.sendall(TAKEN_ON + os.getpid().to_bytes(LENGTH_BYTES, "big"))
        if line.recv(1) != GO:
            os._exit(0)
        line.settimeout(None)
        os.dup(line.fileno())  # open until the very end of this process, which the client waits for
        _take_place(request)
        elsewhere.ask_elsewhere = _asks_encoder(_encoder_place(self.place))
        code = 0
        try:
            self.command()
        except KeyboardInterrupt:  # before the command line listens for it
            code = _INTERRUPTED
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001 - reported as Python reports it
            sys.excepthook(*sys.exc_info())
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        with suppress(OSError):
            line.sendall(bytes([code & 0xFF]))
        loaded = "\n".join(name for name in sys.modules if name not in before)
        if loaded:
            with suppress(OSError):
                sender.send(loaded.encode())
        sys.exit(code)

    def _start_encoder(self) -> None:
        """Start the process that embeds questions for the children. It ends with this one: its stdin is closed then."""
        if self._encoder is None or self._encoder.poll() is not None:
            command = [sys.executable, "-P", "-m", "treering", STAYS, _ENCODER, str(self.place)]
            self._encoder = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own process

    def _state(self) -> str:
        seconds = int(time.monotonic() - self._began)
        idle = f"{self.idle_seconds / 60:g}"
        return f"pid={os.getpid()}\nseconds={seconds}\nanswered={self._answered}\nidle_minutes={idle}\n"


def load(names: Iterable[str]) -> None:
    """Import modules, ignoring those that cannot be imported.

    Loaded objects are hidden from the garbage collector, so that children share their memory.
    """
    for name in names:
        if name not in sys.modules and name.partition(".")[0] != _MODEL:
            with suppress(Exception):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main(arguments: Sequence[str], command: Callable[[], None]) -> None:
    """Load the modules of the process that started this one, and listen. `command`: runs the command in `sys.argv`."""
    if arguments[0] == _ENCODER:
        embed_questions(_encoder_place(Path(arguments[1])))
        return
    place = Path(arguments[0])
    names = sys.stdin.read().splitlines()
    warnings.simplefilter("ignore", DeprecationWarning)  # of forking next to numpy's threads
    load(names)
    Resident(place, command, idle_seconds=60 * Settings.read().resident_minutes).run()


def embed_questions(place: Path) -> None:
    """Embed questions with the default model, one for each connection to a socket, until stdin is closed."""
    embedders = dict(places_of_extensions("treering.embedders"))
    model: Embedder = embedders[elsewhere.DEFAULT_EMBEDDER].load()(1)
    model.embed_query("")  # loads it
    made = place.with_suffix(".made")
    made.unlink(missing_ok=True)
    os.umask(0o177)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, selectors.DefaultSelector() as waiting:
        listener.bind(str(made))
        listener.listen(64)
        made.replace(place)  # from now on clients that find it are answered
        waiting.register(listener, selectors.EVENT_READ)
        waiting.register(sys.stdin, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in waiting.select()):
            line, _address = listener.accept()
            with line, suppress(OSError, ValueError):
                line.settimeout(WAITS_FOR_ANSWER)
                name, _, question = _whole(line, line.recv(1 << 16)).partition(b"\0")
                if name.decode() == model.model_id:
                    line.sendall(query_vector(model, question.decode("utf-8", "surrogatepass")).tobytes())
    place.unlink(missing_ok=True)


def _asks_encoder(place: Path) -> elsewhere.AskElsewhere:
    def ask(model_id: str, question: str) -> Vector | None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(_WAITS_FOR_VECTOR)
            try:
                line.connect(str(place))
                line.sendall(message([model_id.encode(), question.encode("utf-8", "surrogatepass")]))
                answer = line.makefile("rb").read()
            except OSError:
                return None
        is_whole = answer and len(answer) % np.dtype(np.float32).itemsize == 0
        return np.frombuffer(answer, np.float32) if is_whole else None

    return ask


def _encoder_place(place: Path) -> Path:
    return place.with_suffix(".vectors")


def _take_place(request: HandedCommand) -> None:
    """Take over the streams, folder, environment and arguments of the client's process."""
    for number, file in enumerate(request.files[:_STREAMS]):
        os.dup2(file, number)
    os.fchdir(request.files[_STREAMS])
    for file in request.files:
        os.close(file)
    os.umask(request.mask)
    os.environb.clear()
    os.environb.update(request.environment)
    time.tzset()
    time.tzset()
    sys.argv = ["treering", *request.arguments]
    sys.stdin = _stream(0, "r", sys.stdin)
    sys.stdout = _stream(1, "w", sys.stdout)
    sys.stderr = _stream(2, "w", sys.stderr)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _stream(number: int, mode: str, like: TextIO) -> io.TextIOWrapper:
    """Return a stream over an open file, as Python makes it when it starts."""
    raw = io.FileIO(number, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    buffered_by_line = number == 2 or raw.isatty()
    return io.TextIOWrapper(buffered, like.encoding, like.errors, line_buffering=buffered_by_line)


def _whole(line: socket.socket, begin: bytes) -> bytes:
    """Return the body of a message whose beginning was received. Raises `ValueError` if it is malformed."""
    length = int.from_bytes(begin[:LENGTH_BYTES], "big")
    body = bytearray(begin[LENGTH_BYTES:])
    if length > _MOST_BYTES:
        raise ValueError("longer than any command")
    while len(body) < length:
        more = line.recv(min(1 << 16, length - len(body)))
        if not more:
            raise ValueError("broken off")
        body += more
    return bytes(body)


def _still_works(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG)[0] == 0


def _stop(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)
