"""Outlining code in a child process that is ended when a file takes too long.

The parsers are native code. Their error recovery can spend minutes in one step that calls nobody back, so a limit
inside the process does not hold. The child answers file after file, limits its own CPU time for each, and ends by
itself when nobody asks; the next file starts another.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock, Timer
from time import process_time
from typing import IO, Any
from weakref import finalize

from treering.edges.sources.code.outline import CodeOutline, Symbol, outline

SMALL_TEXT = 10_000
"""Characters; the worst files known of this size take less than half a second, so they are parsed without the child."""

_CPU_SECONDS = 1
_CPU_SECONDS_PER_CHAR = 1e-5
_WALL_SECONDS = 120.0
"""Only for a machine that cannot limit CPU time, or gives the child none."""
_IDLE_SECONDS = 10.0
_LENGTH_BYTES = 8
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import serve; serve()"


@dataclass(frozen=True, slots=True)
class OutlineStopped:
    """A file whose outline was given up, and why."""

    why: str


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    owner: int
    """The process that started it: after a fork the other one must not talk to it."""


@dataclass(slots=True, weakref_slot=True)
class OutlineProcess:
    """Outlines files in a child process, started when it is first needed. Safe to use from many threads."""

    _lock: Lock = field(default_factory=Lock)
    _child: _Child | None = None

    def outline(self, path: str, text: str) -> CodeOutline | OutlineStopped | None:
        """Return what `code.outline.outline` returns, or why the child was ended before it had an answer."""
        if len(text) <= SMALL_TEXT:
            return outline(path, text)
        seconds = _CPU_SECONDS + int(len(text) * _CPU_SECONDS_PER_CHAR)
        question = json.dumps([path, text, seconds]).encode()
        with self._lock:
            answer = self._ask(question)
            if answer is None and self._ended_by_itself():
                answer = self._ask(question)
            if answer is None:
                self._end()
                return OutlineStopped(f"its code was not parsed within {seconds} s of CPU time: kept as plain lines")
        return _outline_of(json.loads(answer))

    def _ask(self, question: bytes) -> bytes | None:
        """Return the answer of the child, `None` where it ended before."""
        process = self._running()
        watch = Timer(_WALL_SECONDS, process.kill)
        watch.daemon = True
        watch.start()
        try:
            stdin, stdout = _pipes(process)
            stdin.write(len(question).to_bytes(_LENGTH_BYTES) + question)
            stdin.flush()
            return _message(stdout)
        except BrokenPipeError:
            return None
        except BaseException:  # Ctrl-C too: the child must not answer the next question with this answer
            self._end()
            raise
        finally:
            watch.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.owner != os.getpid():
            self._child = _Child(_started(), os.getpid())
            finalize(self, _stop, self._child)
        return self._child.process

    def _ended_by_itself(self) -> bool:
        """Tell whether the child ended because nobody had asked it for a while; forget it then."""
        by_itself = self._child is not None and self._child.process.wait() == 0
        if by_itself:
            self._end()
        return by_itself

    def _end(self) -> None:
        if self._child is not None:
            _stop(self._child)
            self._child = None


def serve() -> None:
    """Answer questions on standard input until there are no more, or none has come for a while."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while _is_asked(stdin) and (question := _message(stdin)) is not None:
        path, text, seconds = json.loads(question)
        with _limited(seconds):
            found = outline(path, text)
            answer = json.dumps(asdict(found) if found else None).encode()
        stdout.write(len(answer).to_bytes(_LENGTH_BYTES) + answer)
        stdout.flush()


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Let the system end this process where the block takes more CPU time, as far as the system can."""
    if sys.platform == "win32":
        yield
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = int(process_time()) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (until if most < 0 else min(until, most), most))
    yield


def _is_asked(stdin: IO[bytes]) -> bool:
    return sys.platform == "win32" or bool(select.select([stdin], [], [], _IDLE_SECONDS)[0])


def _started() -> subprocess.Popen[bytes]:
    # The modules are found where this process found them, never in the folder it works in.
    places = [str(Path(__file__).parents[4]), *(place for place in sys.path if Path(place).is_absolute())]
    command = [sys.executable, "-I", "-S", "-c", _START.format(module=__name__), json.dumps(places)]
    return subprocess.Popen(  # noqa: S603 - our own program
        command,
        cwd=tempfile.gettempdir(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _stop(child: _Child) -> None:
    process = child.process
    if child.owner != os.getpid():
        return
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            # What was still to be sent to a child that is gone goes nowhere.
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    process.wait()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise BrokenPipeError
    return process.stdin, process.stdout


def _message(stream: IO[bytes]) -> bytes | None:
    """Read one message, `None` where the stream ends first."""
    head = stream.read(_LENGTH_BYTES)
    size = int.from_bytes(head)
    body = stream.read(size) if len(head) == _LENGTH_BYTES else b""
    return body if body and len(body) == size else None


def _outline_of(told: dict[str, Any] | None) -> CodeOutline | None:
    if told is None:
        return None
    symbols = tuple(Symbol(**symbol) for symbol in told["symbols"])
    uses = tuple((line, use) for line, use in told["uses"])
    named = tuple(told["imports"]), told["module_doc"], tuple(told["public"])
    return CodeOutline(told["language"], symbols, *named, uses)
