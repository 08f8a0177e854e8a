"""Contents of git objects, read through one `git cat-file --batch`, and commits parsed from `git log`."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO

from treering.core.characters import printable
from treering.sources.git.process import started_git
from treering.sources.git.repository import blob_id
from treering.sources.reading.bounded_process import pipes_of


class BlobReader:
    """Reads objects by id. A context manager; the process starts with the first read.

    It runs in `folder`. `seconds` limits each call of `read`. If the process dies (a damaged object, a timeout), the
    object it was reading is reported as unreadable and a new process reads the rest.
    """

    def __init__(self, environment: dict[str, str], folder: Path, seconds: float) -> None:
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
        """Return the contents of `ids` in order, or `None` for a missing or damaged object, or one that is no blob.

        Use at most a few dozen ids per call: all requests are sent before the first answer is read.
        """
        contents: list[bytes | None] = []
        while len(contents) < len(ids):
            contents += self._answers(ids[len(contents) :])
        # git itself does not verify on reading that an object matches its id.
        intact = (data is not None and blob_id(data, like=one) == one for one, data in zip(ids, contents, strict=True))
        return [data if good else None for data, good in zip(contents, intact, strict=True)]

    def _answers(self, ids: Sequence[str]) -> list[bytes | None]:
        """Read answers up to the object on which the process died, which is reported as unreadable."""
        process = self._process = self._process or self._start()
        watch = Timer(self._seconds, process.kill)
        watch.daemon = True
        watch.start()
        contents: list[bytes | None] = []
        try:
            stdin, stdout = pipes_of(process)
            stdin.write("".join(f"{one}\n" for one in ids).encode())
            stdin.flush()
            for _ in ids:
                contents.append(_answer(stdout))  # noqa: PERF401 - answers before a failure must be preserved
        except (EOFError, BrokenPipeError):
            self._stop()
            contents.append(None)
        finally:
            watch.cancel()
        return contents

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = ("cat-file", "--batch")
        return started_git(arguments, self._environment, self._folder, errors=subprocess.DEVNULL)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _answer(stdout: IO[bytes]) -> bytes | None:
    """Parse `<id> <type> <size>`, the contents and a newline; a missing object has the header `<id> missing` only."""
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


LOG_FORMAT = "%x1e%ct%x1f%P%x1f%aE%x1f%H%x1f%s"
"""The format of a commit in `git log` for `commits_in`; the paths follow it."""
MESSAGE_FORMAT = "%H%x1f%B"
"""The format of a commit in `git log -z` for `messages_in`."""

_MAX_SUBJECT_CHARS = 300
_HEADER = b"\x1e"
_FIELD = b"\x1f"
_MAX_MESSAGE_CHARS = 20_000
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """A commit: its time, author, id and subject, and the paths it touched."""

    when: datetime
    author: bytes
    commit: str
    subject: str
    paths: tuple[str, ...]


def commits_in(log: bytes, *, skip_roots: bool) -> list[CommitFiles]:
    """Parse the output of `git log --name-only -z`, newest first.

    `skip_roots`: the first commit of a shallow clone "adds" every file, which is not a change.
    """
    commits: list[CommitFiles] = []
    head: tuple[datetime, bytes, str, str] | None = None
    paths: list[str] = []
    for field in [*log.split(b"\0"), _HEADER]:
        if field.startswith(_HEADER):
            if head:
                commits.append(CommitFiles(*head, tuple(paths)))
            head, paths = _head(field[1:], skip_roots=skip_roots), []
        elif head and (name := field.removeprefix(b"\n")):
            paths.append(printable(name))
    return commits


def _head(field: bytes, *, skip_roots: bool) -> tuple[datetime, bytes, str, str] | None:
    if not field:
        return None
    when, parents, author, commit, subject = field.split(_FIELD, 4)
    if not parents and skip_roots:
        return None
    text = printable(subject)[:_MAX_SUBJECT_CHARS]
    return datetime.fromtimestamp(int(when), UTC), author, commit.decode("ascii"), text


@dataclass(frozen=True, slots=True)
class TouchedLines:
    """Replaced lines of a file: the first one (from 1) and their number, before and after.

    If there are none on one side, the first is the line after which they would be.
    """

    old_first: int
    old_count: int
    new_first: int
    new_count: int


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """A commit with its complete message."""

    commit: str
    text: str


def touched_lines(patch: bytes) -> dict[tuple[str, str], tuple[TouchedLines, ...]]:
    """Return the touched lines in a patch without context, by the object ids of the file before and after.

    An id is empty if the file did not exist. Lines of the file itself always have a prefix.
    """
    touched: dict[tuple[str, str], list[TouchedLines]] = {}
    hunks: list[TouchedLines] = []
    for line in patch.split(b"\n"):
        if line.startswith(b"@@ ") and (hunk := _HUNK.match(line)):
            numbers = [1 if number is None else int(number) for number in hunk.groups()]
            hunks.append(TouchedLines(*numbers))
        elif line.startswith(b"index ") and (index := _INDEX.match(line)):
            old, new = (name.decode() if name.strip(b"0") else "" for name in index.groups())
            hunks = touched[old, new] = []
    return {ids: tuple(lines) for ids, lines in touched.items()}


def messages_in(log: bytes) -> list[CommitMessage]:
    """Parse the output of `git log -z` in `MESSAGE_FORMAT`."""
    records = (record.lstrip(b"\n").partition(_FIELD) for record in log.split(b"\0"))
    return [
        CommitMessage(name.decode("ascii"), text[:_MAX_MESSAGE_CHARS].decode("utf-8", "replace"))
        for name, _, text in records
        if text
    ]
