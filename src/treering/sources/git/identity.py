"""The identity of a repository: the origin under which a space knows it, independent of its location.

Repositories are the same if they have the same remote, or began with the same commit, unless both have different
remotes on the network (a fork). So clones, linked work trees and a moved repository are one, and the same path in each
is the same file; the last reading determines its state.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from treering.core.characters import printable
from treering.core.errors import TreeringError
from treering.core.versions import GIT_BLOB, detached_name
from treering.ports.adapter import AlreadyRead, BranchRead, FileAccess, KnownRepository
from treering.sources.git.process import read_part
from treering.sources.git.repository import GitRepository, blob_id

_PREFIX = "repo:"
_NETWORK = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+)?[:/](?P<path>.+)", re.IGNORECASE)
_FILE_PREFIX = "file:"

CommitRelation = Literal["behind", "ahead", "parted", "unknown"]


@dataclass(frozen=True, slots=True)
class SettledRepository:
    """A repository with its current origin. `others` are earlier origins under which the space knows it."""

    root: str
    others: tuple[str, ...] = ()
    known: KnownRepository | None = None
    """The stored map of it."""


@dataclass(frozen=True)
class RepositoryIdentity:
    """Compares a repository with known ones."""

    repository: GitRepository
    access: FileAccess
    _roots: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def origin(self) -> str:
        """`repo:` and the remote's address, or the path of the (main) work tree without a remote."""
        remote = self.repository.remote()
        return _origin(remote) if remote else self.place_origin

    @cached_property
    def place_origin(self) -> str:
        """`repo:` and the path of the (main) work tree: the origin without a remote."""
        return _origin(_main_place(self.repository).as_posix())

    @property
    def detached(self) -> str:
        """The name used instead of a branch if this work tree has none checked out."""
        return detached_name(self.repository.git_dir.name if self.repository.linked else "")

    @cached_property
    def root_commit(self) -> str | None:
        """The first commit in the history of HEAD."""
        head = self.repository.head()
        return self.repository.root_commit(head) if head else None

    def settle(self, repositories: Sequence[KnownRepository]) -> SettledRepository:
        """Choose the origin among the origins known in a space, and its own.

        A remote's address is preferred to a path. An origin with the current path of the repository is retained, so
        that a copy or another work tree does not rename it.
        """
        known = [one for one in repositories if self.is_same(one)]
        by_origin = {one.origin: one for one in known}
        root = self.origin if self.origin in by_origin or not known else self._named_among(list(by_origin))
        others = tuple(name for name in by_origin if name != root)
        return SettledRepository(root, others, by_origin.get(root) or (known[0] if known else None))

    def is_same(self, known: KnownRepository) -> bool:
        """Return whether a known repository is this one."""
        if known.origin in (self.origin, self.place_origin):
            return True
        mine, its = _network(self.repository.remote()), _network(_text(known.payload.get("remote")))
        if mine and its:
            return mine == its
        began = _text(known.payload.get("root_commit")) or self._root_of(_text(known.payload.get("commit")))
        return bool(began) and began == self.root_commit

    def relation(self, commit: str, other: str, place: str) -> CommitRelation:
        """Return the relation of a commit to another one of the repository at `place`.

        Searches this repository, then that one. `unknown` if neither has both.
        """
        for repository in self._places(place):
            with suppress(TreeringError):
                repository.resolve(commit)
                repository.resolve(other)
                if repository.is_ancestor(commit, other):
                    return "behind"
                return "ahead" if repository.is_ancestor(other, commit) else "parted"
        return "unknown"

    def _places(self, place: str) -> Iterator[GitRepository]:
        yield self.repository
        with suppress(TreeringError):
            yield GitRepository.open(place, self.access)

    def _root_of(self, commit: str) -> str | None:
        if commit and commit not in self._roots:
            self._roots[commit] = self.repository.root_commit(commit)
        return self._roots.get(commit)

    def _named_among(self, origins: Sequence[str]) -> str:
        remotes = [name for name in origins if _place_of(name) is None]
        if _network(self.repository.remote()):
            return self.origin
        return next((name for name in (*remotes, *filter(self._is_located_at, origins))), self.origin)

    def _is_located_at(self, origin: str) -> bool:
        place = _place_of(origin)
        if place is None:
            return False
        if not self.access.holds(place):
            return True  # it may not be read
        try:
            other = RepositoryIdentity(GitRepository.open(place, self.access), self.access)
            return other.repository.home.resolve() == place and other.root_commit == self.root_commit
        except TreeringError:
            return False


def detached_trees(repository: GitRepository, access: FileAccess) -> Iterator[str]:
    """Yield the names used instead of branches by the work trees of a repository with none checked out."""
    trees = repository.common / "worktrees"
    linked = sorted(trees.iterdir()) if trees.is_dir() else []
    for folder in (repository.common, *linked):
        head = read_part(folder / "HEAD", access)
        if head is not None and not head.startswith(b"ref:"):
            yield detached_name("" if folder == repository.common else folder.name)


def identity_at(place: Path, access: FileAccess) -> RepositoryIdentity | None:
    """Return the repository whose work tree or git folder is exactly this path, or `None`."""
    try:
        repository = GitRepository.open(place, access)
    except TreeringError:
        return None
    return RepositoryIdentity(repository, access) if repository.home.resolve() == place else None


def place_of_repository(origin: str) -> Path | None:
    """Return the path of a repository at its reading, from the origin of its map or of a file; `None` for a remote."""
    return _place_of(origin.partition("#")[0])


def _origin(address: str) -> str:
    # The origin of an item adds `#` and its path, so the root itself must not contain one.
    return _PREFIX + printable(address.encode("utf-8", "surrogateescape")).replace("#", "%23")


def _place_of(origin: str) -> Path | None:
    address = origin.removeprefix(_PREFIX).replace("%23", "#")
    return Path(address) if origin.startswith(_PREFIX) and Path(address).is_absolute() else None


def _main_place(repository: GitRepository) -> Path:
    """Return the main work tree of a repository with several, else its location."""
    common = repository.common
    if repository.linked and common.name == ".git":
        return common.parent
    return (repository.top or repository.home).resolve()


def _network(remote: str | None) -> str:
    """Return host and path of a remote in normal form; empty for one on this machine."""
    if not remote or remote.startswith(("/", ".", "file:")):
        return ""
    match = _NETWORK.fullmatch(remote)
    if match is None:
        return remote
    return f"{match['host'].lower()}/{match['path'].strip('/').removesuffix('.git').lower()}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def names_below(origins: Sequence[str], root: str) -> Iterator[str]:
    """Yield the origins of a repository's map and its files."""
    return (origin for origin in origins if origin == root or origin.startswith(f"{root}#"))


@dataclass(frozen=True, slots=True)
class OwningRepository:
    """The repository that contains a file: its work tree, and its origin."""

    top: Path
    settled: SettledRepository
    head: str
    branch: str = ""
    """The branch checked out, if the repository is known."""

    def read(self) -> BranchRead | None:
        """Return the branch that files are read from; `None` if the repository is not known."""
        known = self.settled.known
        return BranchRead(self.settled.root, self.branch, self.head, known.payload) if known else None

    def path(self, place: Path) -> str:
        """Return the path of a file in the repository, in git's form."""
        return printable(os.fsencode(place.relative_to(self.top).as_posix()))

    def origin(self, place: Path) -> str:
        """Return the origin of a file or folder of the repository; for its top, the repository's own."""
        return self.settled.root if place == self.top else f"{self.settled.root}#{self.path(place)}"

    def fingerprint(self, data: bytes, *, redact: bool) -> str:
        """Return the fingerprint of a file in the repository."""
        return git_fingerprint(blob_id(data, like=self.head), redact=redact)


@dataclass(frozen=True)
class FileOrigins:
    """Returns the origins of files during one reading. `repositories` returns those known to the space."""

    access: FileAccess
    repositories: Callable[[], Sequence[KnownRepository]] = tuple
    _owners: dict[Path, OwningRepository | None] = field(default_factory=dict)

    def origin(self, place: Path, *, folder: bool = False) -> str:
        """Return the origin of a file or folder at a resolved place."""
        owner = self.owner(place if folder else place.parent)
        return owner.origin(place) if owner else path_origin(place)

    def owner(self, folder: Path) -> OwningRepository | None:
        """Return the nearest repository whose work tree contains a folder."""
        waiting: list[Path] = []
        while folder not in self._owners:
            waiting.append(folder)
            if not self.access.holds(folder) or folder == folder.parent:
                break
            folder = folder.parent
        owner = self._owners.get(folder)
        for one in reversed(waiting):
            owner = self._at(one) or owner
            self._owners[one] = owner
        return owner

    def _at(self, folder: Path) -> OwningRepository | None:
        if not self.access.holds(folder) or not os.path.lexists(folder / ".git"):
            return None
        identity = identity_at(folder, self.access)
        if identity is None or identity.repository.top is None:
            return None
        settled, head = identity.settle(self.repositories()), identity.repository.head() or ""
        branch = (identity.repository.branch() or identity.detached) if settled.known else ""
        return OwningRepository(folder, settled, head, branch)


def path_origin(place: Path) -> str:
    """Return the origin of a file or folder outside of repositories."""
    # A source inside a file, such as a conversation, adds `#` and its name.
    return _FILE_PREFIX + place.as_posix().rstrip("/").replace("%", "%25").replace("#", "%23")


def earlier_origins(place: Path) -> Iterator[str]:
    """Yield the origins of a file in older versions, which depended on the folder that was read."""
    yield path_origin(place)
    yield _FILE_PREFIX + place.as_posix()
    for folder in place.parents:
        yield f"{_FILE_PREFIX}{folder.as_posix()}#{place.relative_to(folder).as_posix()}"


def git_fingerprint(blob: str, *, redact: bool) -> str:
    """Return the fingerprint of a file of a repository."""
    # Files read without redaction must be read again when it is enabled.
    return f"{GIT_BLOB}{blob}" + ("" if redact else "+unredacted")


def known_by_path(place: Path, known: AlreadyRead) -> dict[str, str]:
    """Return the stored fingerprints of a file, or of a folder and everything below it, by origin."""
    fingerprints: dict[str, str] = {}
    for root in earlier_origins(place):
        fingerprints |= known.below(root)
    return fingerprints


def renames(origins: Mapping[Path, str], known: Iterable[str]) -> dict[str, str]:
    """Return the current origins of renamed files by their earlier ones among `known`.

    `origins` are the current ones by path. A source inside a file is renamed with it.
    """
    waiting = set(known) - set(origins.values())
    if not waiting:
        return {}
    current = {name: origin for place, origin in origins.items() for name in earlier_origins(place) if name != origin}
    return dict(_renamed(waiting, current))


def _renamed(waiting: Iterable[str], current: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for origin in sorted(waiting):
        cuts = [len(origin), *(at for at, char in enumerate(origin) if char == "#" and at > len(_FILE_PREFIX))]
        end = next((cut for cut in cuts if origin[:cut] in current), None)
        if end is not None:
            yield origin, current[origin[:end]] + origin[end:]
