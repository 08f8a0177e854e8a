"""The files and commits of a git repository, and its work tree compared with them."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from treering.core.characters import printable
from treering.core.errors import TreeringError, Unavailable
from treering.extensions.code.repository.git_objects import (
    LOG_FORMAT,
    MESSAGE_FORMAT,
    BlobReader,
    CommitFiles,
    CommitMessage,
    TouchedLines,
    commits_in,
    messages_in,
    touched_lines,
)
from treering.sources.git.process import failure, run_git
from treering.sources.git.repository import GitRepository
from treering.system.git_start import SECONDS

EntryKind = Literal["file", "symlink", "submodule"]
ChangeKind = Literal["added", "modified", "deleted", "renamed"]

_MAX_UNTRACKED = 1_000
"""Untracked files that are compared with deleted ones; git itself compares the lines of no more files."""
_COMPARED = ("diff", "-M", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules")
_KINDS: dict[bytes, EntryKind] = {b"120000": "symlink", b"160000": "submodule"}
_CHANGES: dict[str, ChangeKind] = {"A": "added", "D": "deleted", "R": "renamed"}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One path of a tree. `path` is printable text, `blob` the object id, `size` in bytes (0 if unknown)."""

    path: str
    kind: EntryKind
    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One difference between two commits. `before` is the old path of a renamed file, else `path`."""

    kind: ChangeKind
    path: str
    before: str


@dataclass(frozen=True, slots=True)
class TouchedFile:
    """A file that differs between two commits: its object ids, empty if it does not exist, and its changed lines."""

    change: TreeChange
    old: str
    new: str
    lines: tuple[TouchedLines, ...]


@dataclass(frozen=True, slots=True)
class WorkChange:
    """A path of the work tree that differs from HEAD: its location, and whether it was deleted."""

    path: str
    file: Path
    deleted: bool


class RepositoryContents(GitRepository):
    """A repository whose files, commits and work tree are read."""

    __slots__ = ()

    def branches(self) -> dict[str, str]:
        """Return all branches, including those last known of a remote, with their commits."""
        listing = self._run("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes", "refs/heads")
        branches: dict[str, str] = {}
        for line in listing.split(b"\n"):
            commit, _, ref = printable(line).partition(" ")
            kind, _, name = ref.removeprefix("refs/").partition("/")
            # `refs/remotes/origin/feature/x` is the branch `feature/x`.
            branches[name if kind == "heads" else name.partition("/")[2]] = commit
        for none in ("", "HEAD"):
            branches.pop(none, None)
        return branches

    def committed_at(self, commit: str) -> datetime:
        """Return the time of `commit`."""
        return _instant(self._run("log", "-1", "--format=%ct", commit, "--"))

    def entries(self, commit: str) -> Iterator[TreeEntry]:
        """List every file, symbolic link and submodule of `commit`, in git's order (bytes of the path)."""
        listing = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
        return (self._entry(record) for record in listing.split(b"\0") if record)

    def differing(self, before: str, after: str) -> dict[str, str | None]:
        """Return by path the blob in the second commit if it differs from the first; `None` for no file."""
        listing = self._run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", before, after, "--")
        blobs: dict[str, str | None] = {}
        fields = iter(listing.split(b"\0"))
        for head in fields:
            if head.startswith(b":"):
                _, mode, _, blob, _ = head.split(b" ")
                path = printable(next(fields))
                blobs[path] = None if mode == b"000000" or mode in _KINDS else blob.decode()
        return blobs

    def diff(self, before: str, after: str) -> list[TreeChange]:
        """List the changes from one commit to another; a moved file is `renamed` even if it was edited."""
        listing = self._run(
            *("diff", "--name-status", "-M", "-z", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
            *(before, after, "--"),
        )
        return list(_changes(iter(listing.split(b"\0"))))

    def renames_in_work_tree(self, before: str) -> dict[str, str]:
        """Return the new paths of files of a commit that were moved since, even if edited; new files may be untracked.

        git compares only files of its index, so the untracked ones are noted in the private copy of it.
        """
        if self.top is None:
            return {}
        untracked = [record[3:] for record in self._status(self.top, "all").split(b"\0") if record.startswith(b"?? ")]
        files = [name for name in untracked if not name.endswith(b"/")]
        if 0 < len(files) <= _MAX_UNTRACKED:
            noting = ("add", "--intent-to-add", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
            # From the top, because git runs in a temporary folder, which may itself be in the work tree.
            given = b"\0".join(b":(top,literal)" + name for name in files)
            with suppress(Unavailable):  # a file was deleted meanwhile
                self._run(*noting, top=self.top, given=given)
        listing = self._run(*_COMPARED, "--name-status", "--diff-filter=R", "-z", before, "--", top=self.top)
        return {one.before: one.path for one in _changes(iter(listing.split(b"\0")))}

    def path_now(self, path: str) -> str:
        """Return the path that a deleted file was moved to, even if edited; empty if it was not moved."""
        deleting = ("log", "-1", "--format=%H", "--no-renames", "--diff-filter=D", "--", f":(top,literal){path}")
        commit = self._run(*deleting, top=self.top).decode().strip()
        return self.renames_in_work_tree(f"{commit}^" if commit else "HEAD").get(path, "")

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest common ancestor of two commits, or `None`."""
        return self._ask("merge-base", one, other)

    def has_ref_to(self, commit: str) -> bool:
        """Return whether a branch, a tag or another ref contains `commit`."""
        return bool(self._ask("for-each-ref", "--count=1", "--format=%(refname)", "--contains", commit))

    def commits_since(self, before: str, commit: str) -> frozenset[str]:
        """Return the commits that lead to one commit and not to an earlier one."""
        return frozenset(self._run("rev-list", f"{before}..{commit}", "--").decode().split())

    def changed_since_fork(self, other: str, commit: str) -> list[str]:
        """List the paths that a commit changes, compared with the merge base of it and another one.

        This takes one git process instead of two (one for the merge base), because hooks wait for it.
        """
        listing = self._run(
            *("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
            *(f"{other}...{commit}", "--"),
        )
        return [printable(name) for name in listing.split(b"\0") if name]

    def text(self, commit: str, path: str) -> bytes:
        """Return the contents of a file at a commit. Raises `TreeringError` if it is not there."""
        return self._run("cat-file", "blob", f"{commit}:{path}")

    def touched(self, before: str, after: str) -> list[TouchedFile]:
        """List the files that differ between two commits, with the changed lines, except submodules and links."""
        raw = self._run(*_COMPARED, "--raw", "--no-abbrev", "-z", before, after, "--")
        lines = touched_lines(self._run(*_COMPARED, "--patch", "-U0", "--full-index", before, after, "--"))
        return [
            TouchedFile(change, old, new, lines.get((old, new), ()))
            for change, old, new in _touched(iter(raw.split(b"\0")))
        ]

    def messages(self, before: str, after: str, *, last: int = 1_000) -> list[CommitMessage]:
        """Return the messages of the commits that lead to `after` and not to `before`, newest first, at most `last`."""
        log = self._run("log", f"--max-count={last}", "-z", f"--format={MESSAGE_FORMAT}", f"{before}..{after}", "--")
        return messages_in(log)

    def blobs(self, entries: Iterable[TreeEntry]) -> Iterator[tuple[TreeEntry, bytes | None]]:
        """Read files through one process, a few at a time; `None` for a missing or damaged object."""
        with BlobReader(self._git.environment(), self._git.folder, SECONDS) as reader:
            for group in _groups(entries):
                yield from zip(group, reader.read([entry.blob for entry in group]), strict=True)

    def history(self, commit: str, *, last: int = 500) -> list[CommitFiles]:
        """Return the files touched by the `last` commits before `commit`, newest first, without merges."""
        log = self._run(
            *("log", f"--max-count={last}", "--name-only", "-z", "--no-renames", "--no-merges"),
            *(f"--format={LOG_FORMAT}", commit, "--"),
        )
        return commits_in(log, skip_roots=self.shallow)

    def is_dirty(self) -> bool:
        """Return whether the work tree differs from HEAD; a bare repository never does."""
        return self.top is not None and bool(self._status(self.top, "normal"))

    def work_changes(self) -> list[WorkChange]:
        """List the paths of the work tree that differ from HEAD, except ignored files. Empty for a bare repository."""
        if self.top is None:
            return []
        by_path = {record[3:]: record[:2] for record in self._status(self.top, "all").split(b"\0") if record}
        return [_work_change(self.top, name, state) for name, state in sorted(by_path.items())]

    def _status(self, top: Path, untracked: str) -> bytes:
        # A path staged as deleted that exists again is listed twice; the untracked record is last and wins.
        # Nested repositories are not entered, because git would read their configuration.
        return self._run(
            *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"),
            *("--no-ahead-behind", f"--untracked-files={untracked}"),
            *("--", ":/", ":(top,exclude).treering"),  # a space in the work tree is no part of it
            *(f":(top,exclude,literal){own}" for own in self._own_folder(top)),
            top=top,
        )

    def _own_folder(self, top: Path) -> Iterator[str]:
        """Yield Treering's own git folder if the folder for temporary files is inside the work tree."""
        own = self._git.folder.resolve()
        if own.is_relative_to(top):
            yield own.relative_to(top).as_posix()

    def _entry(self, record: bytes) -> TreeEntry:
        head, _, name = record.partition(b"\t")
        mode, _, blob, size = head.split()
        # A submodule has the size `-`, a missing object `BAD`.
        if size == b"BAD" and self._config.partial:
            raise _partial_clone()
        return TreeEntry(printable(name), _KINDS.get(mode, "file"), blob.decode(), int(size) if size.isdigit() else 0)

    def _run(self, *arguments: str, top: Path | None = None, given: bytes = b"") -> bytes:
        """Run git on committed data, or to compare the work tree `top`."""
        environment = self._git.comparing(top) if top else self._git.environment()
        done = run_git(arguments, environment, folder=self._git.folder, given=given)
        if done.returncode == 0:
            return done.stdout
        if self._config.partial and arguments[0] != "status":
            raise _partial_clone()
        raise failure(arguments[0], done, hint="Run `git fsck` in the repository, then try again.")


def _partial_clone() -> TreeringError:
    return Unavailable(
        "This is a partial clone: some of its files are only on the server.",
        hint="Fetch them first: `git fetch --refetch --no-filter`.",
    )


def _instant(seconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _changes(fields: Iterator[bytes]) -> Iterator[TreeChange]:
    for status in fields:
        if status:
            before = after = printable(next(fields))
            kind = _CHANGES.get(chr(status[0]), "modified")
            if kind == "renamed":
                after = printable(next(fields))
            yield TreeChange(kind, after, before)


def _touched(fields: Iterator[bytes]) -> Iterator[tuple[TreeChange, str, str]]:
    for field in fields:
        if not field.startswith(b":"):
            continue
        old_mode, new_mode, old, new, status = field[1:].split(b" ")
        (change,) = _changes(iter([status, next(fields), *([next(fields)] if status.startswith(b"R") else [])]))
        if not {old_mode, new_mode} & set(_KINDS):
            yield change, _object_id(old), _object_id(new)


def _object_id(name: bytes) -> str:
    return name.decode("ascii") if name.strip(b"0") else ""


def _work_change(top: Path, name: bytes, state: bytes) -> WorkChange:
    deleted = state[1:] == b"D" or state == b"D "
    return WorkChange(printable(name), top / os.fsdecode(name), deleted)


def _groups(entries: Iterable[TreeEntry], *, files: int = 64, size: int = 4_000_000) -> Iterator[list[TreeEntry]]:
    """Split into groups small enough for memory: at most `files` entries, and `size` bytes or one entry."""
    group: list[TreeEntry] = []
    total = 0
    for entry in entries:
        if group and (len(group) == files or total + entry.size > size):
            yield group
            group, total = [], 0
        group.append(entry)
        total += entry.size
    if group:
        yield group
