"""A worker that is a command: a coding agent on the command line, a script. It is told on stdin, in a work tree."""

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

from treering.parts.projects.supervisor import Response

OUTPUT_BYTES = 200_000
"""How much of the output is kept: its beginning and its end, this much together."""

_CHUNK = 65_536
_GRACE_SECONDS = 2.0
"""How long output may come after the command ended, from what it left running."""


class ShellWorker:
    """Runs a command for every turn, with the shell, in `folder`.

    The prompt is its stdin; what it writes to stdout and stderr is the answer. It has a process group of its own,
    which is killed whole when the time is over and when the supervisor is interrupted.
    """

    def __init__(self, command: str, folder: Path | str) -> None:
        self._command = command
        self._folder = Path(folder)

    def work(self, prompt: str, *, seconds: float) -> Response:
        """Run the command once. A command that fails, or cannot be started, is a problem of the response."""
        starting = _Starting(self._start)
        try:
            return _watched(starting.process(), prompt, seconds)
        except OSError as error:
            return Response("", f"the command cannot be started: {error.strerror or error}")
        finally:
            starting.end()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S602 - the command is the user's own, written for a shell
            self._command,
            shell=True,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class _Starting:
    """Starts a process in a thread of its own.

    A signal may raise in the main thread at any moment, also when a process runs already and nobody holds it yet.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._outcome: Future[subprocess.Popen[bytes]] = Future()
        self._thread = Thread(target=self._run, args=(start,), daemon=True)

    def process(self) -> subprocess.Popen[bytes]:
        """Start it. Raises `OSError` where it cannot be started."""
        self._thread.start()
        return self._outcome.result()

    def end(self) -> None:
        """Kill what was started, with all that it started."""
        if self._thread.ident is None:
            return
        self._thread.join()
        if self._outcome.exception() is None:
            process = self._outcome.result()
            _kill_group(process)
            process.wait()

    def _run(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        try:
            self._outcome.set_result(start())
        except OSError as error:
            self._outcome.set_exception(error)


class _Output:
    """Reads all a process writes, so that it never waits, and keeps a bounded part of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._pipe = _pipe(process.stdout)
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def wait(self, seconds: float) -> None:
        """Wait until there is no more to read."""
        self._reading.join(seconds)

    def close(self) -> None:
        """Let go of the pipe; somebody who escaped the process group may hold its other end for ever."""
        if not self._reading.is_alive():
            self._pipe.close()

    def text(self) -> str:
        """Return what was kept."""
        tail = bytes(self._tail).decode(errors="replace")
        between = f"\n… {self._dropped} bytes …\n" if self._dropped else ""
        return bytes(self._head).decode(errors="replace") + between + tail

    def _read(self) -> None:
        half = OUTPUT_BYTES // 2
        while chunk := os.read(self._pipe.fileno(), _CHUNK):
            room = half - len(self._head)
            self._head += chunk[: max(room, 0)]
            self._tail += chunk[max(room, 0) :]
            excess = max(len(self._tail) - half, 0)
            self._dropped += excess
            del self._tail[:excess]


def _watched(process: subprocess.Popen[bytes], prompt: str, seconds: float) -> Response:
    """Tell a process the prompt, and wait for what it answers."""
    output = _Output(process)
    feeding = Thread(target=_feed, args=(process, prompt), daemon=True)
    feeding.start()
    try:
        code = process.wait(seconds)
        problem = f"the command ended with exit code {code}" if code else ""
        output.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        problem = f"the command was stopped after {seconds:.0f} seconds"
    finally:
        _kill_group(process)
        process.wait()
        feeding.join(_GRACE_SECONDS)
        output.wait(_GRACE_SECONDS)
        output.close()
    return Response(output.text(), problem)


def _feed(process: subprocess.Popen[bytes], prompt: str) -> None:
    # A command need not read what it is told.
    with suppress(BrokenPipeError, OSError), _pipe(process.stdin) as pipe:
        pipe.write(prompt.encode(errors="replace"))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe
