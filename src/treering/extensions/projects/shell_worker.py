"""A worker that is a shell command, such as a coding agent or a script."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO

from treering.extensions.projects.supervisor import Response

OUTPUT_BYTES = 200_000
"""The maximum length of the output; the middle of a longer one is dropped."""

_CHUNK = 65_536
_GRACE_SECONDS = 2.0
"""The time to wait for output of background processes after the command ended."""


class ShellWorker:
    """Run a shell command in `folder` for every turn.

    It gets the prompt on stdin; its stdout and stderr are the answer. Its process group is killed after the time limit
    and when the supervisor is interrupted.
    """

    def __init__(self, command: str, folder: Path | str) -> None:
        self._command = command
        self._folder = Path(folder)

    def work(self, prompt: str, *, seconds: float) -> Response:
        """Run the command once. Failures are in `problem` of the response."""
        # A signal may raise in the main thread at any moment, even between the start of a process and its assignment.
        started: list[subprocess.Popen[bytes]] = []
        starting = ThreadPoolExecutor(1)
        try:
            return _watched(starting.submit(self._start, prompt, started).result(), seconds)
        except OSError as error:
            return Response("", f"the command cannot be started: {error.strerror or error}")
        finally:
            starting.shutdown()
            for process in started:
                _kill_group(process)
                process.wait()

    def _start(self, prompt: str, started: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        # A command need not read its stdin: writing to a pipe could wait forever.
        with TemporaryFile() as stdin:
            stdin.write(prompt.encode(errors="replace"))
            stdin.seek(0)
            process = subprocess.Popen(  # noqa: S602 - the command is the user's own, written for a shell
                self._command,
                shell=True,
                cwd=self._folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return process


class _Output:
    """Read the whole output of a process, so that it never blocks, and store a bounded part."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            raise ValueError("the process was started without a pipe for its output")
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._pipe = pipe
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the output."""
        self._reading.join(seconds)

    def close(self) -> None:
        """Close the pipe, unless a process outside of the group still writes to it."""
        if not self._reading.is_alive():
            self._pipe.close()

    def text(self) -> str:
        """Return the stored output."""
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


def _watched(process: subprocess.Popen[bytes], seconds: float) -> Response:
    """Wait for the answer of a process."""
    output = _Output(process.stdout)
    try:
        code = process.wait(seconds)
        problem = f"the command ended with exit code {code}" if code else ""
        output.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        problem = f"the command was stopped after {seconds:.0f} seconds"
    finally:
        _kill_group(process)
        process.wait()
        output.wait(_GRACE_SECONDS)
        output.close()
    return Response(output.text(), problem)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
