"""Reading the contents of git objects through one long-lived `git cat-file --batch`."""

import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha1, sha256
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO


def blob_id(data: bytes, *, like: str) -> str:
    """Return the object id git has for `data`, by the hash function the id `like` shows: SHA-1 or SHA-256."""
    digest = sha256() if len(like) == 64 else sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()


class BlobReader:
    """Reads objects by id. A context manager; the process starts with the first object asked for.

    It runs in `folder`. `seconds` bounds each call of `read`. Where the process dies (a damaged object, a time-out),
    the object it died on is unreadable and a new process reads the rest.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float) -> None:
        self._command = command
        self._environment = environment
        self._folder = folder
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "BlobReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def read(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the contents of `ids` in order, `None` for each that is missing, damaged or no blob.

        Keep one call to a few dozen ids: they are all asked for before the first answer is read.
        """
        found: list[bytes | None] = []
        while len(found) < len(ids):
            found += self._answers(ids[len(found) :])
        # git itself does not check on reading that an object is what its id says.
        intact = (data is not None and blob_id(data, like=one) == one for one, data in zip(ids, found, strict=True))
        return [data if good else None for data, good in zip(found, intact, strict=True)]

    def _answers(self, ids: Sequence[str]) -> list[bytes | None]:
        """Read answers up to the one the process died on, which counts as unreadable."""
        process = self._process = self._process or self._start()
        watch = Timer(self._seconds, process.kill)
        watch.daemon = True
        watch.start()
        found: list[bytes | None] = []
        try:
            stdin, stdout = _pipes(process)
            stdin.write("".join(f"{one}\n" for one in ids).encode())
            stdin.flush()
            for _ in ids:
                found.append(_answer(stdout))  # noqa: PERF401 - what was answered before a failure is kept
        except (EOFError, BrokenPipeError):
            self._stop()
            found.append(None)
        finally:
            watch.cancel()
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - no shell; the command is made in git_process.py
            self._command,
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:
        raise BrokenPipeError
    return process.stdin, process.stdout


def _answer(stdout: IO[bytes]) -> bytes | None:
    """Parse `<id> <type> <size>`, the contents and a newline; `<id> missing` has no contents."""
    header = stdout.readline()
    if not header.endswith(b"\n"):
        raise EOFError
    fields = header.split()
    if len(fields) != 3:
        return None
    contents = stdout.read(int(fields[2]) + 1)
    if len(contents) != int(fields[2]) + 1:
        raise EOFError
    return contents[:-1] if fields[1] == b"blob" else None
