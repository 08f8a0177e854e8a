"""A child process that parses untrusted files one after another, with limits of time and memory.

Parsers can loop, crash, or use up all memory; some are native code. In a child process, a bad file only costs one
answer. The child limits its CPU time per question and its memory, writes no files, and exits when idle; the next
question starts another one. Questions and answers are plain bytes, so a compromised child cannot run anything here.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Timer
from time import process_time
from typing import IO
from weakref import finalize

_WALL_SECONDS = 120.0
"""Only for machines without a limit of CPU time, or whose child gets no CPU time."""
_IDLE_SECONDS = 10.0
_MAX_ANSWERS = 1_000
"""The number of files after which the child is replaced, because parsers leak memory."""
_LENGTH_BYTES = 8
_SECONDS_BYTES = 4
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import serve; serve()"


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    owner: int
    """The process that started it; after a fork, the other process must not use it."""


@dataclass(slots=True, weakref_slot=True)
class BoundedProcess:
    """Calls the function `serve` of `module` in a child process, started on first use. Safe to use from many threads.

    That function calls `answer_questions`.
    """

    module: str
    wall_seconds: float = _WALL_SECONDS
    _lock: Lock = field(default_factory=Lock)
    _child: _Child | None = None

    def ask(self, question: bytes, *, seconds: int) -> bytes | None:
        """Return the answer, or `None` if the child ended without one. It may take `seconds` of CPU time."""
        request = seconds.to_bytes(_SECONDS_BYTES) + question
        with self._lock:
            answer = self._ask(request)
            if answer is None and self._ended_by_itself():
                answer = self._ask(request)
            if answer is None:
                self._end()
            return answer

    def start(self) -> None:
        """Start the child, unless this process has one, so that the first question waits less."""
        if self._lock.acquire(blocking=False):  # otherwise it is answering a question
            try:
                if self._child is not None and self._child.process.poll() is not None:  # it was idle
                    self._end()
                self._running()
            finally:
                self._lock.release()

    def interrupt(self) -> None:
        """End the running question, if there is one: its answer is `None`."""
        if self._child is not None and self._child.owner == os.getpid():
            self._child.process.kill()

    def _ask(self, question: bytes) -> bytes | None:
        process = self._running()
        watch = Timer(self.wall_seconds, process.kill)
        watch.daemon = True
        watch.start()
        try:
            stdin, stdout = pipes_of(process)
            stdin.write(len(question).to_bytes(_LENGTH_BYTES) + question)
            stdin.flush()
            return _message(stdout)
        except BrokenPipeError:
            return None
        except BaseException:  # including Ctrl-C: the child must not answer the next question with this answer
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
        """Return whether the child exited because it was idle; forget it then."""
        by_itself = self._child is not None and self._child.process.wait() == 0
        if by_itself:
            self._end()
        return by_itself

    def _end(self) -> None:
        if self._child is not None:
            _stop(self._child)
            self._child = None


def answer_questions(
    answer: Callable[[bytes], bytes], *, memory_bytes: int | None = None, max_answers: int = _MAX_ANSWERS
) -> None:
    """Answer the questions on standard input until it ends, the process is idle, or after `max_answers`.

    `memory_bytes` limits the address space of this process, if the system can.
    """
    stdin, stdout = sys.stdin.buffer, _answers_only()
    _bound(memory_bytes)
    for _ in range(max_answers):
        request = _message(stdin) if _is_asked(stdin) else None
        if request is None:
            return
        with cpu_limited(int.from_bytes(request[:_SECONDS_BYTES])):
            answered = answer(request[_SECONDS_BYTES:])
        stdout.write(len(answered).to_bytes(_LENGTH_BYTES) + answered)
        stdout.flush()


def _answers_only() -> IO[bytes]:
    """Return the stream of answers, and discard everything that libraries print."""
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
    # The process that started this one may work on a question itself.
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        bound = memory_bytes if most < 0 else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))


@contextmanager
def cpu_limited(seconds: int) -> Iterator[None]:
    """Let the system end this process if the block takes more CPU time, if the system can."""
    if sys.platform == "win32":
        yield
        return
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = int(process_time()) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until if most < 0 else min(until, most), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (before, most))


_expendable = ContextVar("treering_expendable", default=False)


@contextmanager
def expendable(is_asked_again: bool) -> Iterator[None]:
    """Allow the block to risk this process, if its question `is_asked_again` in parts when the process ends."""
    token = _expendable.set(is_asked_again and sys.platform != "win32")  # which does not limit CPU time
    try:
        yield
    finally:
        _expendable.reset(token)


def is_expendable() -> bool:
    """Return whether this process may crash without harm, so that dangerous work needs no further child."""
    return _expendable.get()


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
    """Return the module search path of this process, without its working folder.

    `python -m`, and an empty or relative folder in PYTHONPATH, add the working folder to the path of this process.
    """
    try:
        working = Path.cwd().resolve()
    except FileNotFoundError:  # it was removed, so nothing can be imported from it
        working = None
    places = (place for place in sys.path if Path(place).is_absolute() and Path(place).resolve() != working)
    return [str(Path(__file__).parents[3]), *places]


def _stop(child: _Child) -> None:
    process = child.process
    if child.owner != os.getpid():
        return
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            # Closing may fail to flush data for the ended child.
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    process.wait()


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Return the input and output pipes of a process. Raises `BrokenPipeError` if it has none."""
    if process.stdin is None or process.stdout is None:
        raise BrokenPipeError
    return process.stdin, process.stdout


def _message(stream: IO[bytes]) -> bytes | None:
    """Read one message; `None` if the stream ends first."""
    head = stream.read(_LENGTH_BYTES)
    size = int.from_bytes(head)
    body = stream.read(size) if len(head) == _LENGTH_BYTES else b""
    return body if body and len(body) == size else None
