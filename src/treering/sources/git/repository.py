"""A git repository, read with the git command line.

A repository is untrusted input: its configuration can name programs (filters, hooks, monitors, signature checkers,
protocol helpers). git never reads it: every command runs in a separate git folder (`git_private`), with a reduced
environment (`git_process`), and every list is read NUL-separated.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from treering.core.characters import printable, shown
from treering.core.errors import InvalidInput, NotFound, TreeringError, Unavailable
from treering.ports.adapter import FileAccess
from treering.sources.git.blobs import (
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
from treering.sources.git.private import PrivateGitFolder, RepositoryConfig, parse_config
from treering.sources.git.process import (
    GitLayout,
    failure,
    locate,
    read_part,
    reading,
    run_git,
)
from treering.sources.reading.access import AnyFile
from treering.system.git_start import SECONDS

EntryKind = Literal["file", "symlink", "submodule"]
ChangeKind = Literal["added", "modified", "deleted", "renamed"]

_MOST_CONFIG = 10_000_000
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


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository opened for reading, in its state at that time.

    `home` is the work tree, or the git folder of a repository without one; `top` the work tree or `None`; `prefix` the
    requested folder, relative to `top`, with forward slashes (empty: all). `common` is the git folder shared by all
    work trees, `git_dir` the one of this work tree, and `linked` whether this is an additional work tree. Every method
    raises `Unavailable` if git is missing, does not respond in time, or fails, and `Denied` if a part of the repository
    is outside what may be read.
    """

    home: Path
    top: Path | None
    prefix: str
    shallow: bool
    common: Path
    git_dir: Path
    linked: bool
    _config: RepositoryConfig
    _git: PrivateGitFolder

    def resolve(self, revision: str) -> str:
        """Return the full id of the commit that `revision` names. Raises `NotFound`."""
        commit = None
        if revision and revision[0] != "-" and "\0" not in revision:
            commit = self._ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if commit is None:
            raise NotFound(f"This repository has no commit {revision!r}.", hint=self._missing_commit_hint())
        return commit

    def head(self) -> str | None:
        """Return the commit checked out, or `None` in a repository without commits."""
        return self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def root_commit(self, commit: str) -> str | None:
        """Return the first commit of the line that leads to `commit`, which is the same in every clone.

        `None` if the repository does not have that commit, or, as a shallow clone, the beginning of its history.
        """
        if self.shallow:
            return None
        return self._ask("rev-list", "--first-parent", "--max-parents=0", "--end-of-options", f"{commit}^{{commit}}")

    def branch(self) -> str | None:
        """Return the branch checked out, or `None` if HEAD is detached."""
        return self._ask("symbolic-ref", "--quiet", "--short", "HEAD")

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

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Return whether one commit is the same as another one, or an ancestor of it."""
        arguments = ("merge-base", "--is-ancestor", commit, of)
        done = run_git(arguments, self._git.environment(), folder=self._git.folder)
        return done.returncode == 0

    def committed_at(self, commit: str) -> datetime:
        """Return the time of `commit`."""
        return _instant(self._run("log", "-1", "--format=%ct", commit, "--"))

    def remote(self) -> str | None:
        """Return the address of `origin`, else of the first remote, without user, password, query or fragment."""
        remotes = self._config.remotes
        origin = next((address for name, address in reversed(remotes) if name == b"origin"), None)
        url = printable(origin or next((address for _, address in remotes), b""))
        if not url or not _is_relative(url):
            return without_credentials(url) or None
        return Path(os.path.normpath(self.home / url)).as_posix()

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

    def changed_since_fork(self, other: str, commit: str) -> list[str]:
        """List the paths that a commit changes since its history left that of another one.

        This takes one git process instead of two (one for the merge base), because hooks wait for it.
        """
        listing = self._run(
            *("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
            *(f"{other}...{commit}", "--"),
        )
        return [printable(name) for name in listing.split(b"\0") if name]

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

    def _missing_commit_hint(self) -> str:
        if self.shallow:
            return "This is a shallow clone; fetch the rest with `git fetch --unshallow`, or choose a newer commit."
        return "Give a branch, a tag or a commit from `git log`; fetch it first if it is on the server."

    def _ask(self, *arguments: str) -> str | None:
        done = run_git(arguments, self._git.environment(), folder=self._git.folder)
        return printable(done.stdout.removesuffix(b"\n")) or None if done.returncode == 0 else None

    def _run(self, *arguments: str, top: Path | None = None, given: bytes = b"") -> bytes:
        """Run git on committed data, or to compare the work tree `top`."""
        environment = self._git.comparing(top) if top else self._git.environment()
        done = run_git(arguments, environment, folder=self._git.folder, given=given)
        if done.returncode == 0:
            return done.stdout
        if self._config.partial and arguments[0] != "status":
            raise _partial_clone()
        raise failure(arguments[0], done, hint="Run `git fsck` in the repository, then try again.")


def open_repository(target: Path | str, access: FileAccess | None = None) -> GitRepository:
    """Open the repository that `target` is, or is in. Nothing in it is run, and nothing is written there.

    Raises `InvalidInput` if it is not a folder or in no repository, `Denied` if a part of it may not be read (without
    `access`: every file may), `Unavailable` if git is not installed or the format is unknown.
    """
    access = access or AnyFile()
    folder = access.place(str(target))
    if not folder.is_dir():
        raise InvalidInput(f"{shown(target)} is not a folder.", hint="Give the folder of a git repository.")
    with reading(folder):
        layout = locate(folder, access)
    file = layout.common / "config"
    config = parse_config(
        read_part(file, access, most=_MOST_CONFIG) or b"",
        read_part(layout.git_dir / "config.worktree", access, most=_MOST_CONFIG),
        linked=layout.linked,
        where=file,
    )
    top = _top(layout, config)
    inner = folder.relative_to(top) if top and layout.inside else Path()
    return GitRepository(
        home=top or layout.git_dir,
        top=top,
        prefix=printable(os.fsencode(inner.as_posix())) if inner.parts else "",
        shallow=bool(read_part(layout.common / "shallow", access)),
        common=layout.common,
        git_dir=layout.git_dir,
        linked=layout.linked,
        _config=config,
        _git=PrivateGitFolder(layout, config, access),
    )


def without_credentials(url: str) -> str:
    """Drop user, password, query and fragment from the address of a remote."""
    scheme, separator, rest = url.rpartition("://")
    if not separator:
        return re.sub(r"^[^/@]+@(?=[^/]+:)", "", url).rstrip("/") or url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{re.split('[?#]', path)[0]}".rstrip("/")


def _is_relative(url: str) -> bool:
    return "://" not in url and not Path(url).is_absolute() and not re.match(r"[^/]+:", url)


def _top(layout: GitLayout, config: RepositoryConfig) -> Path | None:
    """Return the work tree: the folder that contains `.git`. None if the configuration names another, or none.

    `core.worktree` may name any folder as the work tree, but only the one containing `.git` was requested.
    """
    if layout.around is None or config.bare:
        return None
    if config.worktree is not None:
        # Unlike `Path.resolve`, this accepts a loop of links.
        named = os.path.realpath(layout.git_dir / os.fsdecode(config.worktree))
        return layout.around if Path(named) == layout.around else None
    return layout.around


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
