"""The git command line, wrapped narrowly: it reads one repository and runs nothing the repository asks for.

A repository is untrusted input: its configuration can name programs (hooks, file-system monitors, filters,
external diffs, signature checkers) and places (another work tree, a remote to fetch from). All of them are
switched off here, the environment is cut down, and every list is read NUL-separated.
"""

import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from treering.core.errors import Denied, InvalidInput, NotFound, TreeringError, Unavailable
from treering.edges.sources.git_blobs import BlobReader

EntryKind = Literal["file", "symlink", "submodule"]
ChangeKind = Literal["added", "modified", "deleted", "renamed"]

_SECONDS = 120.0
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "log.showSignature=false",
    "protocol.allow=never",
)
# What git needs to find itself, its owner's `safe.directory` list and temporary space; GIT_DIR and its like,
# set wherever a hook calls us, would point git at another repository than the one asked for.
_KEPT = (
    *("PATH", "HOME", "USERPROFILE", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP", "XDG_CONFIG_HOME"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES"),
)
_KINDS: dict[bytes, EntryKind] = {b"120000": "symlink", b"160000": "submodule"}
_CHANGES: dict[str, ChangeKind] = {"A": "added", "D": "deleted", "R": "renamed"}
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_HEADER = b"\x1e"
_FIELD = b"\x1f"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a tree. `path` is printable text, `blob` the object id, `size` in bytes (0 if unknown)."""

    path: str
    kind: EntryKind
    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two commits. `before` is the old path of a renamed file, else `path`."""

    kind: ChangeKind
    path: str
    before: str


@dataclass(frozen=True, slots=True)
class WorkChange:
    """A path of the work tree that differs from HEAD: where it lies, and whether it is gone."""

    path: str
    file: Path
    deleted: bool


@dataclass(frozen=True, slots=True)
class PathHistory:
    """How often a path changed in the commits looked at, when last, and by how many people."""

    path: str
    changes: int
    last_changed: datetime
    authors: int


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository opened for reading.

    `home` is where git runs; `top` the work tree, `None` for a bare repository; `prefix` the folder asked
    for, relative to `top`, with forward slashes (empty: the whole). Every method raises `Unavailable` where
    git is missing, does not answer in time, or fails.
    """

    home: Path
    top: Path | None
    prefix: str
    shallow: bool

    def resolve(self, revision: str) -> str:
        """Give the full id of the commit `revision` names. Raises `NotFound`."""
        found = None
        if revision and revision[0] != "-" and "\0" not in revision:
            found = self._ask("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if found is None:
            raise NotFound(f"No commit {revision!r} in this repository.", hint=self._where_commits_hide())
        return found

    def head(self) -> str | None:
        """Give the commit checked out, `None` in a repository without commits."""
        return self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")

    def branch(self) -> str | None:
        """Give the branch checked out, `None` where HEAD is detached."""
        return self._ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def committed_at(self, commit: str) -> datetime:
        """Give the time of `commit`."""
        return _instant(self._run("log", "-1", "--format=%ct", commit, "--"))

    def remote(self) -> str | None:
        """Give the address of `origin`, else of the first remote, without user, password, query or fragment."""
        found = self._ask("config", "--get", "remote.origin.url") or self._first_remote()
        if found is None or not _is_relative(found):
            return found and without_credentials(found)
        return Path(os.path.normpath(self.home / found)).as_posix()

    def entries(self, commit: str) -> Iterator[Entry]:
        """List every file, symbolic link and submodule of `commit`, in git's order (bytes of the path)."""
        listing = self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
        return (_entry(record) for record in listing.split(b"\0") if record)

    def diff(self, before: str, after: str) -> list[Change]:
        """List what changed from one commit to another; a moved file is `renamed` even if it was edited."""
        listing = self._run(
            *("diff", "--name-status", "-M", "-z", "--no-ext-diff", "--no-textconv", "--ignore-submodules"),
            *(before, after, "--"),
        )
        return list(_changes(iter(listing.split(b"\0"))))

    def blobs(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        """Read files through one process, a few at a time; `None` where an object is missing or damaged."""
        with BlobReader(self._command("cat-file", "--batch"), _environment(), _SECONDS) as reader:
            for group in _groups(entries):
                yield from zip(group, reader.read([entry.blob for entry in group]), strict=True)

    def history(self, commit: str, *, last: int = 500) -> list[PathHistory]:
        """Tell what the `last` commits before `commit` touched, most often changed first (merges aside)."""
        log = self._run(
            *("log", f"--max-count={last}", "--name-only", "-z", "--no-renames", "--no-merges"),
            *("--format=%x1e%ct%x1f%P%x1f%aE", commit, "--"),
        )
        return _fold_history(log, skip_roots=self.shallow)

    def is_dirty(self) -> bool:
        """Tell whether the work tree differs from HEAD; a bare repository never does."""
        return self.top is not None and bool(self._status("normal"))

    def work_changes(self) -> list[WorkChange]:
        """List the paths of the work tree that differ from HEAD, ignored files aside. Empty for a bare one."""
        if self.top is None:
            return []
        by_path = {record[3:]: record[:2] for record in self._status("all").split(b"\0") if record}
        return [_work_change(self.top, name, state) for name, state in sorted(by_path.items())]

    def _status(self, untracked: str) -> bytes:
        # A path staged as deleted but lying there again comes twice, the untracked record last: it wins.
        return self._run(
            *("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"),
            *("--no-ahead-behind", f"--untracked-files={untracked}"),
            *("--", ":/", ":(top,exclude).treering"),  # a space in the work tree is no part of it
            settings=self._filters_off(),
        )

    def _filters_off(self) -> dict[str, str]:
        """Empty every clean filter configured: comparing the work tree would run them."""
        names = self._run("config", "--list", "-z", "--name-only").split(b"\0")
        drivers = {printable(name).rpartition(".")[0] for name in names if name.startswith(b"filter.")}
        off = {f"{driver}.{key}": "" for driver in drivers for key in ("clean", "process")}
        return off | {f"{driver}.required": "false" for driver in drivers}

    def _first_remote(self) -> str | None:
        listing = self._run("config", "--list", "-z").split(b"\0")
        remotes = (setting.partition(b"\n") for setting in listing if setting.startswith(b"remote."))
        return next((printable(value) for key, _, value in remotes if key.endswith(b".url")), None)

    def _where_commits_hide(self) -> str:
        if self.shallow:
            return "This is a shallow clone; fetch the rest with `git fetch --unshallow`, or name a newer commit."
        return "Name a branch, a tag or a commit that `git log` shows; fetch it first if it is on the server."

    def _ask(self, *arguments: str) -> str | None:
        done = _git(self._command(*arguments), {})
        return printable(done.stdout.removesuffix(b"\n")) or None if done.returncode == 0 else None

    def _run(self, *arguments: str, settings: dict[str, str] | None = None) -> bytes:
        done = _git(self._command(*arguments), settings or {})
        if done.returncode != 0:
            raise _failure(arguments[0], done)
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [*_base(self.home), *arguments]


def open_repository(target: Path) -> GitRepository:
    """Open the repository `target` is, or lies in.

    Raises `InvalidInput` where it is no folder or in no repository, `Denied` where git distrusts its owner,
    `Unavailable` where git is not installed.
    """
    if not target.is_dir():
        raise InvalidInput(f"{target} is not a folder.", hint="Give the folder of a git repository.")
    flags = ("--is-inside-work-tree", "--is-bare-repository", "--is-shallow-repository", "--absolute-git-dir")
    inside, bare, shallow, git_dir = _probe(target, *flags).split("\n", 3)
    top = _top(target, inside=inside == "true", git_dir=None if bare == "true" else Path(git_dir))
    prefix = _probe(target, "--show-prefix") if top and inside == "true" else ""
    return GitRepository(
        home=top or Path(git_dir),
        top=top,
        prefix=printable(os.fsencode(prefix)).rstrip("/"),
        shallow=shallow == "true",
    )


def printable(name: bytes) -> str:
    r"""Decode a file name to stable, printable text: bytes that are no UTF-8 and controls become `\x..`."""
    text = name.decode("utf-8", "backslashreplace")
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def without_credentials(url: str) -> str:
    """Drop user, password, query and fragment from the address of a remote."""
    scheme, separator, rest = url.rpartition("://")
    if not separator:
        return re.sub(r"^[^/@]+@(?=[^/]+:)", "", url).rstrip("/") or url
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{re.split('[?#]', path)[0]}".rstrip("/")


def _is_relative(url: str) -> bool:
    return "://" not in url and not Path(url).is_absolute() and not re.match(r"[^/]+:", url)


def _probe(target: Path, *arguments: str) -> str:
    done = _git([*_base(target), "rev-parse", *arguments], {})
    if done.returncode == 0:
        return os.fsdecode(done.stdout.removesuffix(b"\n"))
    if b"not a git repository" in done.stderr:
        raise InvalidInput(
            f"{target} is not in a git repository.",
            hint='Use mode "path" to read a folder without git, or run `git init` there.',
        )
    raise _failure("rev-parse", done)


def _top(target: Path, *, inside: bool, git_dir: Path | None) -> Path | None:
    if inside:
        top = Path(_probe(target, "--show-toplevel"))
        # `core.worktree` may name any folder as the work tree; only the one holding `.git` was asked for.
        return top if (top / ".git").exists() else None
    return git_dir.parent if git_dir and git_dir.name == ".git" else None


def _base(home: Path) -> list[str]:
    program = shutil.which("git")
    if program is None:
        raise Unavailable("git is not installed.", hint="Install git and make sure `git --version` answers.")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    return [program, "--no-pager", "--no-replace-objects", "-C", str(home), *settings]


def _environment() -> dict[str, str]:
    # Not a setting of Treering: what the child process needs of its surroundings is passed through unread.
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    fixed = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    return kept | fixed


def _git(command: list[str], settings: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    keys = {f"GIT_CONFIG_KEY_{place}": key for place, key in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{place}": value for place, value in enumerate(settings.values())}
    environment = _environment() | keys | values | {"GIT_CONFIG_COUNT": str(len(settings))}
    try:
        return subprocess.run(  # noqa: S603 - no shell; the arguments are ours, paths and revisions are checked
            command, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(
            f"git did not answer within {_SECONDS:.0f} seconds.",
            hint="Check that the repository's disk answers, and try again.",
        ) from error


def _failure(verb: str, done: subprocess.CompletedProcess[bytes]) -> TreeringError:
    said = printable(done.stderr.strip().split(b"\n")[-1])
    if b"dubious ownership" in done.stderr:
        return Denied(
            "git does not trust this repository: it belongs to another user.",
            hint="If you trust it, run `git config --global --add safe.directory FOLDER`.",
        )
    if b"promisor" in done.stderr:
        return Unavailable(
            "This is a partial clone: some of its files are only on the server.",
            hint="Fetch them first: `git fetch --refetch --no-filter`.",
        )
    return Unavailable(f"git {verb} failed: {said}", hint="Run `git fsck` in the repository, then try again.")


def _instant(seconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _entry(record: bytes) -> Entry:
    head, _, name = record.partition(b"\t")
    mode, _, blob, size = head.split()
    # A submodule has the size `-`, a missing object `BAD`.
    return Entry(printable(name), _KINDS.get(mode, "file"), blob.decode(), int(size) if size.isdigit() else 0)


def _changes(fields: Iterator[bytes]) -> Iterator[Change]:
    for status in fields:
        if status:
            before = after = printable(next(fields))
            kind = _CHANGES.get(chr(status[0]), "modified")
            if kind == "renamed":
                after = printable(next(fields))
            yield Change(kind, after, before)


def _work_change(top: Path, name: bytes, state: bytes) -> WorkChange:
    deleted = state[1:] == b"D" or state == b"D "
    return WorkChange(printable(name), top / os.fsdecode(name), deleted)


def _groups(entries: Iterable[Entry], *, files: int = 64, size: int = 4_000_000) -> Iterator[list[Entry]]:
    """Cut into groups small enough to hold: at most `files` entries, and `size` bytes or one entry."""
    group: list[Entry] = []
    held = 0
    for entry in entries:
        if group and (len(group) == files or held + entry.size > size):
            yield group
            group, held = [], 0
        group.append(entry)
        held += entry.size
    if group:
        yield group


def _fold_history(log: bytes, *, skip_roots: bool) -> list[PathHistory]:
    """Count changes per path. The first commit of a shallow clone "adds" every file: that is no change."""
    times: dict[bytes, list[bytes]] = defaultdict(list)
    authors: dict[bytes, set[bytes]] = defaultdict(set)
    when = author = b""
    counts = False
    for field in log.split(b"\0"):
        if field.startswith(_HEADER):
            when, parents, author = field[1:].split(_FIELD, 2)
            counts = bool(parents) or not skip_roots
        elif counts and (name := field.removeprefix(b"\n")):
            times[name].append(when)
            authors[name].add(author)
    found = [
        PathHistory(printable(name), len(seen), _instant(max(seen, key=int)), len(authors[name]))
        for name, seen in times.items()
    ]
    return sorted(found, key=lambda one: (-one.changes, one.path))
