"""A child process that answers questions about strangers' files, one after another, within bounds of time and memory.

Parsers of files can loop, crash, or take all memory; some are native code. Such a parser works in a child, so that one
bad file costs one answer and not the run. The child limits its CPU time for each question and its memory for all,
writes no file, and ends by itself when nobody asks; the next question starts another. Questions and answers are plain
bytes: nothing that a broken child says can run here.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Timer
from time import process_time
from typing import IO
from weakref import finalize

_WALL_SECONDS = 120.0
"""Only for a machine that cannot limit CPU time, or gives the child none."""
_IDLE_SECONDS = 10.0
_MOST_ANSWERS = 1_000
"""What leaks in a parser is given back by a fresh child after so many files."""
_LENGTH_BYTES = 8
_SECONDS_BYTES = 4
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import serve; serve()"


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    owner: int
    """The process that started it: after a fork the other one must not talk to it."""


@dataclass(slots=True, weakref_slot=True)
class BoundedProcess:
    """Asks the function `serve` of `module` in a child, started when it is first needed. Safe to use from many threads.

    That function calls `answer_questions`.
    """

    module: str
    wall_seconds: float = _WALL_SECONDS
    _lock: Lock = field(default_factory=Lock)
    _child: _Child | None = None

    def ask(self, question: bytes, *, seconds: int) -> bytes | None:
        """Return the answer; `None` where the child ended without one. It may take `seconds` of CPU time."""
        asked = seconds.to_bytes(_SECONDS_BYTES) + question
        with self._lock:
            answer = self._ask(asked)
            if answer is None and self._ended_by_itself():
                answer = self._ask(asked)
            if answer is None:
                self._end()
            return answer

    def _ask(self, question: bytes) -> bytes | None:
        process = self._running()
        watch = Timer(self.wall_seconds, process.kill)
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
            self._child = _Child(_started(self.module), os.getpid())
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


def answer_questions(answer: Callable[[bytes], bytes], *, memory_bytes: int | None = None) -> None:
    """Answer what comes on standard input until nothing more comes, or nothing has come for a while.

    `memory_bytes` bounds the address space of this process, as far as the system can.
    """
    stdin, stdout = sys.stdin.buffer, _answers_only()
    _bound(memory_bytes)
    for _ in range(_MOST_ANSWERS):
        asked = _message(stdin) if _is_asked(stdin) else None
        if asked is None:
            return
        with _limited(int.from_bytes(asked[:_SECONDS_BYTES])):
            answered = answer(asked[_SECONDS_BYTES:])
        stdout.write(len(answered).to_bytes(_LENGTH_BYTES) + answered)
        stdout.flush()


def _answers_only() -> IO[bytes]:
    """Return the stream of answers; what a library prints goes nowhere."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return answers


def _bound(memory_bytes: int | None) -> None:
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        bound = memory_bytes if most < 0 else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Let the system end this process where the block takes more CPU time, as far as the system can."""
    if sys.platform == "win32":
        yield
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = int(process_time()) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until if most < 0 else min(until, most), most))
    yield


def _is_asked(stdin: IO[bytes]) -> bool:
    return sys.platform == "win32" or bool(select.select([stdin], [], [], _IDLE_SECONDS)[0])


def _started(module: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", _START.format(module=module), json.dumps(_places())]
    return subprocess.Popen(  # noqa: S603 - our own program
        command,
        cwd=tempfile.gettempdir(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _places() -> list[str]:
    """Return where modules are found: where this process found them, but not in the folder it works in.

    `python -m` and an empty or relative folder of PYTHONPATH put that folder into the path of this process.
    """
    try:
        works_in = Path.cwd().resolve()
    except FileNotFoundError:  # somebody removed it: nothing can be imported from there
        works_in = None
    found = (place for place in sys.path if Path(place).is_absolute() and Path(place).resolve() != works_in)
    return [str(Path(__file__).parents[3]), *found]


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
