"""Reading the contents of git objects through one long-lived `git cat-file --batch`."""

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha1, sha256
from itertools import combinations
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO

from treering.core.characters import printable
from treering.sources.git.process import started_git


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
        arguments = ("cat-file", "--batch")
        return started_git(arguments, self._environment, self._folder, errors=subprocess.DEVNULL)

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


# What the history of a repository says of its files: which change often, and which change together.


LOG_FORMAT = "%x1e%ct%x1f%P%x1f%aE%x1f%H%x1f%s"
"""How `git log` writes a commit before its paths, for `commits_in`."""

_MOST_SUBJECT = 300
_HEADER = b"\x1e"
_FIELD = b"\x1f"
_MOST_FILES = 30
"""Files of a commit that say something of each other: one that touches more moves, renames or reformats."""
_LEAST_TOGETHER = 2
_PARTNERS = 8
_MOST_PAIRS = 2_000


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """A commit: its time, who made it, its name and subject, and the paths it touched."""

    when: datetime
    author: bytes
    commit: str
    subject: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathHistory:
    """How often a path changed in the commits looked at, when last, and by how many people."""

    path: str
    changes: int
    last_changed: datetime
    authors: int


@dataclass(frozen=True, slots=True)
class ChangedTogether:
    """Two paths that the same commits touched: how many of these there are, and when the last one was."""

    one: str
    other: str
    commits: int
    last_changed: datetime


def commits_in(log: bytes, *, skip_roots: bool) -> list[CommitFiles]:
    """Read what `git log --name-only -z` wrote, newest first.

    `skip_roots`: the first commit of a shallow clone "adds" every file, which is not a change.
    """
    found: list[CommitFiles] = []
    head: tuple[datetime, bytes, str, str] | None = None
    paths: list[str] = []
    for field in [*log.split(b"\0"), _HEADER]:
        if field.startswith(_HEADER):
            if head:
                found.append(CommitFiles(*head, tuple(paths)))
            head, paths = _head(field[1:], skip_roots=skip_roots), []
        elif head and (name := field.removeprefix(b"\n")):
            paths.append(printable(name))
    return found


def often_changed(commits: Sequence[CommitFiles]) -> list[PathHistory]:
    """Return the history of each path, most often changed first."""
    times: dict[str, list[datetime]] = defaultdict(list)
    authors: dict[str, set[bytes]] = defaultdict(set)
    for commit in commits:
        for path in commit.paths:
            times[path].append(commit.when)
            authors[path].add(commit.author)
    found = [PathHistory(path, len(seen), max(seen), len(authors[path])) for path, seen in times.items()]
    return sorted(found, key=lambda one: (-one.changes, one.path))


def changed_together(commits: Sequence[CommitFiles], present: Collection[str]) -> list[ChangedTogether]:
    """Return which of the paths present changed together more than once, most often and lately first.

    Of each path at most eight others are told, and of all at most 2,000 pairs. What touched very many files at once
    counts for nothing.
    """
    counts: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], datetime] = {}
    for commit in commits:
        if len(commit.paths) <= _MOST_FILES:
            for pair in combinations(sorted(set(commit.paths)), 2):
                counts[pair] += 1
                last[pair] = max(last.get(pair, commit.when), commit.when)
    pairs = [
        ChangedTogether(*pair, count, last[pair])
        for pair, count in counts.items()
        if count >= _LEAST_TOGETHER and pair[0] in present and pair[1] in present
    ]
    pairs.sort(key=lambda one: (-one.commits, -one.last_changed.timestamp(), one.one, one.other))
    return list(_few_each(pairs))[:_MOST_PAIRS]


def telling_commits(commits: Sequence[CommitFiles], present: Collection[str]) -> list[CommitFiles]:
    """Return the commits with a subject that touched some of the paths present, with these alone.

    What touched very many files says nothing of each.
    """
    told = (
        replace(commit, paths=tuple(path for path in dict.fromkeys(commit.paths) if path in present))
        for commit in commits
        if commit.subject.strip() and len(commit.paths) <= _MOST_FILES
    )
    return [commit for commit in told if commit.paths]


def _few_each(pairs: Sequence[ChangedTogether]) -> Iterator[ChangedTogether]:
    told: Counter[str] = Counter()
    for pair in pairs:
        if min(told[pair.one], told[pair.other]) < _PARTNERS:
            told.update((pair.one, pair.other))
            yield pair


def _head(field: bytes, *, skip_roots: bool) -> tuple[datetime, bytes, str, str] | None:
    if not field:
        return None
    when, parents, author, commit, subject = field.split(_FIELD, 4)
    said = printable(subject)[:_MOST_SUBJECT]
    told = (datetime.fromtimestamp(int(when), UTC), author, commit.decode("ascii"), said)
    return told if parents or not skip_roots else None


# What differs between two commits: which lines, and what the commits between them say.


MESSAGE_FORMAT = "%H%x1f%B"
"""How `git log -z` writes what a commit says, for `messages_in`."""

_MOST_MESSAGE = 20_000
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)")
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class TouchedLines:
    """Lines of a file that were replaced: the first of them (from 1) and how many, before and after.

    Where there are none on one side, the first is the line behind which they would stand.
    """

    old_first: int
    old_count: int
    new_first: int
    new_count: int


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """A commit, and all that its author says of it."""

    commit: str
    text: str


def touched_lines(patch: bytes) -> dict[tuple[str, str], tuple[TouchedLines, ...]]:
    """Return the touched lines in a patch without context, by the object ids of the file before and after.

    An id is empty where the file was not there. Every line of a file itself begins with a sign of its own.
    """
    found: dict[tuple[str, str], list[TouchedLines]] = {}
    hunks: list[TouchedLines] = []
    for line in patch.split(b"\n"):
        if line.startswith(b"@@ ") and (hunk := _HUNK.match(line)):
            numbers = [1 if number is None else int(number) for number in hunk.groups()]
            hunks.append(TouchedLines(*numbers))
        elif line.startswith(b"index ") and (index := _INDEX.match(line)):
            old, new = (name.decode() if name.strip(b"0") else "" for name in index.groups())
            hunks = found[old, new] = []
    return {ids: tuple(lines) for ids, lines in found.items()}


def messages_in(log: bytes) -> list[CommitMessage]:
    """Read what `git log -z` wrote in `MESSAGE_FORMAT`."""
    records = (record.lstrip(b"\n").partition(_FIELD) for record in log.split(b"\0"))
    return [
        CommitMessage(name.decode("ascii"), text[:_MOST_MESSAGE].decode("utf-8", "replace"))
        for name, _, text in records
        if text
    ]
