"""A git repository, read with the git command line.

A repository is untrusted input: its configuration can name programs (filters, hooks, monitors, signature checkers,
helpers of protocols). git never sees it: every command runs in a git folder of Treering's own (`git_private`), in an
environment that is cut down (`git_process`), and every list is read NUL-separated.
"""

import os
import re
from collections.abc import Iterable, Iterator
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
    """A file that differs between two commits: its object ids, empty where it is not there, and its lines."""

    change: TreeChange
    old: str
    new: str
    lines: tuple[TouchedLines, ...]


@dataclass(frozen=True, slots=True)
class WorkChange:
    """A path of the work tree that differs from HEAD: where it lies, and whether it is gone."""

    path: str
    file: Path
    deleted: bool


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository opened for reading, as it stood then.

    `home` is the work tree, or the git folder of a repository without one; `top` the work tree, `None` without;
    `prefix` the folder asked for, relative to `top`, with forward slashes (empty: the whole). `common` holds what all
    its work trees share, `git_dir` what belongs to this one, and `linked` says whether this is one that was added.
    Every method raises `Unavailable` where git is missing, does not answer in time, or fails, and `Denied` where a part
    of the repository lies outside of what may be read.
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
        """Return the full id of the commit `revision` names. Raises `NotFound`."""
        found = None
        if revision and revision[0] != "-" and "\0" not in revision:
            found = self._ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if found is None:
            raise NotFound(f"This repository has no commit {revision!r}.", hint=self._where_commits_hide())
        return found

    def head(self) -> str | None:
        """Return the commit checked out, `None` in a repository without commits."""
        return self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def root_commit(self, commit: str) -> str | None:
        """Return the first commit of the line that leads to `commit`: the same in every clone of a repository.

        `None` where the repository has no such commit, or, as a shallow clone, not its beginnings.
        """
        if self.shallow:
            return None
        return self._ask("rev-list", "--first-parent", "--max-parents=0", "--end-of-options", f"{commit}^{{commit}}")

    def branch(self) -> str | None:
        """Return the branch checked out, `None` where HEAD is detached."""
        return self._ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def branches(self) -> dict[str, str]:
        """Return the branches there are, also those a remote had when it was last asked, each with its commit."""
        listing = self._run("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes", "refs/heads")
        found: dict[str, str] = {}
        for line in listing.split(b"\n"):
            commit, _, ref = printable(line).partition(" ")
            kind, _, name = ref.removeprefix("refs/").partition("/")
            # `refs/remotes/origin/feature/x` is the branch that people call `feature/x`.
            found[name if kind == "heads" else name.partition("/")[2]] = commit
        for none in ("", "HEAD"):
            found.pop(none, None)
        return found

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Tell whether one commit is another one, or lies before it."""
        arguments = ("merge-base", "--is-ancestor", commit, of)
        done = run_git(arguments, self._git.environment(), folder=self._git.folder)
        return done.returncode == 0

    def committed_at(self, commit: str) -> datetime:
        """Return the time of `commit`."""
        return _instant(self._run("log", "-1", "--format=%ct", commit, "--"))

    def remote(self) -> str | None:
        """Return the address of `origin`, else of the first remote, without user, password, query or fragment."""
        remotes = self._config.remotes
        origin = next((url for name, url in reversed(remotes) if name == b"origin"), None)
        found = printable(origin or next((url for _, url in remotes), b""))
        if not found or not _is_relative(found):
            return without_credentials(found) or None
        return Path(os.path.normpath(self.home / found)).as_posix()

    def entries(self, commit: str) -> Iterator[TreeEntry]:
        """List every file, symbolic link and submodule of `commit`, in git's order (bytes of the path)."""
        listing = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
        return (self._entry(record) for record in listing.split(b"\0") if record)

    def differing(self, before: str, after: str) -> dict[str, str | None]:
        """Return by path the blob that one commit has where another one has a different one; `None` for no file."""
        listing = self._run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", before, after, "--")
        found: dict[str, str | None] = {}
        fields = iter(listing.split(b"\0"))
        for head in fields:
            if head.startswith(b":"):
                _, mode, _, blob, _ = head.split(b" ")
                path = printable(next(fields))
                found[path] = None if mode == b"000000" or mode in _KINDS else blob.decode()
        return found

    def diff(self, before: str, after: str) -> list[TreeChange]:
        """List what changed from one commit to another; a moved file is `renamed` even if it was edited."""
        listing = self._run(
            *("diff", "--name-status", "-M", "-z", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
            *(before, after, "--"),
        )
        return list(_changes(iter(listing.split(b"\0"))))

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest commit that two commits both come from; `None` where the repository shows none."""
        return self._ask("merge-base", one, other)

    def changed_since_fork(self, other: str, commit: str) -> list[str]:
        """List the paths that a commit changes since its history left that of another one.

        One git process instead of two, one for the merge base: hooks wait for this.
        """
        listing = self._run(
            *("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
            *(f"{other}...{commit}", "--"),
        )
        return [printable(name) for name in listing.split(b"\0") if name]

    def touched(self, before: str, after: str) -> list[TouchedFile]:
        """List the files that differ between two commits, with the lines that do. Submodules and links are left out."""
        raw = self._run(*_COMPARED, "--raw", "--no-abbrev", "-z", before, after, "--")
        lines = touched_lines(self._run(*_COMPARED, "--patch", "-U0", "--full-index", before, after, "--"))
        return [
            TouchedFile(change, old, new, lines.get((old, new), ()))
            for change, old, new in _touched(iter(raw.split(b"\0")))
        ]

    def messages(self, before: str, after: str, *, last: int = 1_000) -> list[CommitMessage]:
        """Return what the commits say that lead to `after` and not to `before`, newest first, at most `last`."""
        log = self._run("log", f"--max-count={last}", "-z", f"--format={MESSAGE_FORMAT}", f"{before}..{after}", "--")
        return messages_in(log)

    def blobs(self, entries: Iterable[TreeEntry]) -> Iterator[tuple[TreeEntry, bytes | None]]:
        """Read files through one process, a few at a time; `None` where an object is missing or damaged."""
        with BlobReader(self._git.environment(), self._git.folder, SECONDS) as reader:
            for group in _groups(entries):
                yield from zip(group, reader.read([entry.blob for entry in group]), strict=True)

    def history(self, commit: str, *, last: int = 500) -> list[CommitFiles]:
        """Return what the `last` commits before `commit` touched, newest first (merges aside)."""
        log = self._run(
            *("log", f"--max-count={last}", "--name-only", "-z", "--no-renames", "--no-merges"),
            *(f"--format={LOG_FORMAT}", commit, "--"),
        )
        return commits_in(log, skip_roots=self.shallow)

    def is_dirty(self) -> bool:
        """Tell whether the work tree differs from HEAD; a bare repository never does."""
        return self.top is not None and bool(self._status(self.top, "normal"))

    def work_changes(self) -> list[WorkChange]:
        """List the paths of the work tree that differ from HEAD, ignored files aside. Empty for a bare one."""
        if self.top is None:
            return []
        by_path = {record[3:]: record[:2] for record in self._status(self.top, "all").split(b"\0") if record}
        return [_work_change(self.top, name, state) for name, state in sorted(by_path.items())]

    def _status(self, top: Path, untracked: str) -> bytes:
        # A path staged as deleted but lying there again comes twice, the untracked record last: it wins.
        # Another repository lying in this one is not entered: git would read its configuration.
        return self._run(
            *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"),
            *("--no-ahead-behind", f"--untracked-files={untracked}"),
            *("--", ":/", ":(top,exclude).treering"),  # a space in the work tree is not a part of it
            *(f":(top,exclude,literal){own}" for own in self._own_folder(top)),
            top=top,
        )

    def _own_folder(self, top: Path) -> Iterator[str]:
        """Yield Treering's own git folder where the work tree holds the folder for temporary files."""
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

    def _where_commits_hide(self) -> str:
        if self.shallow:
            return "This is a shallow clone; fetch the rest with `git fetch --unshallow`, or choose a newer commit."
        return "Give a branch, a tag or a commit from `git log`; fetch it first if it is on the server."

    def _ask(self, *arguments: str) -> str | None:
        done = run_git(arguments, self._git.environment(), folder=self._git.folder)
        return printable(done.stdout.removesuffix(b"\n")) or None if done.returncode == 0 else None

    def _run(self, *arguments: str, top: Path | None = None) -> bytes:
        """Run git on what is committed, or to compare the work tree `top`."""
        environment = self._git.comparing(top) if top else self._git.environment()
        done = run_git(arguments, environment, folder=self._git.folder)
        if done.returncode == 0:
            return done.stdout
        if self._config.partial and arguments[0] != "status":
            raise _partial_clone()
        raise failure(arguments[0], done, hint="Run `git fsck` in the repository, then try again.")


def open_repository(target: Path | str, access: FileAccess | None = None) -> GitRepository:
    """Open the repository `target` is, or lies in. Nothing in it is run, and nothing is written there.

    Raises `InvalidInput` where it is not a folder or in no repository, `Denied` where a part of it lies outside of what
    may be read (without `access`: every file), `Unavailable` where git is not installed or the format is not known.
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
    """Return the work tree: the folder that holds `.git`. None where the configuration names another, or none.

    `core.worktree` may name any folder as the work tree; only the one holding `.git` was asked for.
    """
    if layout.around is None or config.bare:
        return None
    if config.worktree is not None:
        # Unlike `Path.resolve`, this takes a loop of links for a place like any other.
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
    """Cut into groups small enough to hold: at most `files` entries, and `size` bytes or one entry."""
    group: list[TreeEntry] = []
    held = 0
    for entry in entries:
        if group and (len(group) == files or held + entry.size > size):
            yield group
            group, held = [], 0
        group.append(entry)
        held += entry.size
    if group:
        yield group
