"""Which repository this is: the name by which a space knows it, wherever it lies now.

A repository is the same where its remote is the same, and where it began with the same commit, unless both have a
remote on the network and these differ (a fork). So clones, linked work trees and a repository that was moved are one,
and the same path in each is the same file; what was read last is how it stands.
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
from treering.sources.git.blobs import blob_id
from treering.sources.git.process import read_part
from treering.sources.git.repository import GitRepository, open_repository

_PREFIX = "repo:"
_NETWORK = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+)?[:/](?P<path>.+)", re.IGNORECASE)


CommitRelation = Literal["behind", "ahead", "parted", "unknown"]


@dataclass(frozen=True, slots=True)
class SettledRepository:
    """A repository under the origin it goes by. `others` are origins it is known by besides, from earlier readings."""

    root: str
    others: tuple[str, ...] = ()
    known: KnownRepository | None = None
    """The map that is known of it."""


@dataclass(frozen=True)
class RepositoryIdentity:
    """What tells one repository from others."""

    repository: GitRepository
    access: FileAccess
    _roots: dict[str, str | None] = field(default_factory=dict)

    @cached_property
    def origin(self) -> str:
        """Return `repo:` and the remote's address, or the path of the (main) work tree without a remote."""
        remote = self.repository.remote()
        return _origin(remote) if remote else self.place_origin

    @cached_property
    def place_origin(self) -> str:
        """Return `repo:` and the path of the (main) work tree: its origin while it has no remote."""
        return _origin(_main_place(self.repository).as_posix())

    @property
    def detached(self) -> str:
        """What stands in the place of a branch where this work tree has none checked out."""
        return detached_name(self.repository.git_dir.name if self.repository.linked else "")

    @cached_property
    def root_commit(self) -> str | None:
        """Return the commit it began with, as seen from HEAD."""
        head = self.repository.head()
        return self.repository.root_commit(head) if head else None

    def settle(self, repositories: Sequence[KnownRepository]) -> SettledRepository:
        """Choose the origin it goes by among those it is known by in a space, and its own.

        A remote's address goes before a path, and a path that the repository still lies at stays its name: a copy or
        another work tree does not rename it.
        """
        known = [one for one in repositories if self.is_same(one)]
        by_origin = {one.origin: one for one in known}
        root = self.origin if self.origin in by_origin or not known else self._named_among(list(by_origin))
        others = tuple(name for name in by_origin if name != root)
        return SettledRepository(root, others, by_origin.get(root) or (known[0] if known else None))

    def is_same(self, known: KnownRepository) -> bool:
        """Tell whether a known repository is this one."""
        if known.origin in (self.origin, self.place_origin):
            return True
        mine, its = _network(self.repository.remote()), _network(_text(known.payload.get("remote")))
        if mine and its:
            return mine == its
        began = _text(known.payload.get("root_commit")) or self._root_of(_text(known.payload.get("commit")))
        return bool(began) and began == self.root_commit

    def relation(self, commit: str, other: str, place: str) -> CommitRelation:
        """Tell how a commit stands to another one, which the repository at `place` has.

        It is looked up here, else there, by git. `unknown` where neither has both.
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
            yield open_repository(place, self.access)

    def _root_of(self, commit: str) -> str | None:
        if commit and commit not in self._roots:
            self._roots[commit] = self.repository.root_commit(commit)
        return self._roots.get(commit)

    def _named_among(self, origins: Sequence[str]) -> str:
        remotes = [name for name in origins if _place_of(name) is None]
        if _network(self.repository.remote()):
            return self.origin
        return next((name for name in (*remotes, *filter(self._lies_there, origins))), self.origin)

    def _lies_there(self, origin: str) -> bool:
        place = _place_of(origin)
        if place is None:
            return False
        if not self.access.holds(place):
            return True  # nobody may look
        try:
            other = RepositoryIdentity(open_repository(place, self.access), self.access)
            return other.repository.home.resolve() == place and other.root_commit == self.root_commit
        except TreeringError:
            return False


def detached_trees(repository: GitRepository, access: FileAccess) -> Iterator[str]:
    """Yield what stands in the place of a branch in each work tree of a repository that has none checked out."""
    trees = repository.common / "worktrees"
    linked = sorted(trees.iterdir()) if trees.is_dir() else []
    for folder in (repository.common, *linked):
        head = read_part(folder / "HEAD", access)
        if head is not None and not head.startswith(b"ref:"):
            yield detached_name("" if folder == repository.common else folder.name)


def identity_at(place: Path, access: FileAccess) -> RepositoryIdentity | None:
    """Return the repository that has its work tree, or lies, at exactly this place; `None` where there is none."""
    try:
        repository = open_repository(place, access)
    except TreeringError:
        return None
    return RepositoryIdentity(repository, access) if repository.home.resolve() == place else None


def place_of_repository(origin: str) -> Path | None:
    """Return where the repository of a map or file lay when it was read; `None` where its origin names a remote."""
    return _place_of(origin.partition("#")[0])


def _origin(address: str) -> str:
    # An item's origin adds `#` and its path; the root itself must hold no other.
    return _PREFIX + printable(address.encode("utf-8", "surrogateescape")).replace("#", "%23")


def _place_of(origin: str) -> Path | None:
    address = origin.removeprefix(_PREFIX).replace("%23", "#")
    return Path(address) if origin.startswith(_PREFIX) and Path(address).is_absolute() else None


def _main_place(repository: GitRepository) -> Path:
    """Return the main work tree of a repository that has several, else where it lies."""
    common = repository.common
    if repository.linked and common.name == ".git":
        return common.parent
    return (repository.top or repository.home).resolve()


def _network(remote: str | None) -> str:
    """Return host and path of a remote, however it is spelled; empty where it lies on this machine."""
    if not remote or remote.startswith(("/", ".", "file:")):
        return ""
    found = _NETWORK.fullmatch(remote)
    if found is None:
        return remote
    return f"{found['host'].lower()}/{found['path'].strip('/').removesuffix('.git').lower()}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def names_below(origins: Sequence[str], root: str) -> Iterator[str]:
    """Yield the origins of a repository's map and its files."""
    return (origin for origin in origins if origin == root or origin.startswith(f"{root}#"))


# The origin of a file: by its repository where it lies in one, else by its real path, however it was asked for.


_FILE_PREFIX = "file:"


@dataclass(frozen=True, slots=True)
class OwningRepository:
    """The repository a file lies in: where its work tree is, and by which origin it goes."""

    top: Path
    settled: SettledRepository
    head: str
    branch: str = ""
    """The branch checked out, where the repository is known."""

    def read(self) -> BranchRead | None:
        """Tell which branch its files are read of; `None` where the repository is not known."""
        known = self.settled.known
        return BranchRead(self.settled.root, self.branch, self.head, known.payload) if known else None

    def path(self, place: Path) -> str:
        """Return the path of a file in the repository, as git writes it."""
        return printable(os.fsencode(place.relative_to(self.top).as_posix()))

    def origin(self, place: Path) -> str:
        """Return the origin of a file or folder of the repository; that of the top is the repository's own."""
        return self.settled.root if place == self.top else f"{self.settled.root}#{self.path(place)}"

    def fingerprint(self, data: bytes, *, redact: bool) -> str:
        """Return the fingerprint of bytes that lie in the repository."""
        return git_fingerprint(blob_id(data, like=self.head), redact=redact)


@dataclass(frozen=True)
class FileOrigins:
    """Names the files that one reading meets. `repositories` tells which ones the space knows."""

    access: FileAccess
    repositories: Callable[[], Sequence[KnownRepository]] = tuple
    _owners: dict[Path, OwningRepository | None] = field(default_factory=dict)

    def origin(self, place: Path, *, folder: bool = False) -> str:
        """Return the origin of a file or folder at a resolved place."""
        owner = self.owner(place if folder else place.parent)
        return owner.origin(place) if owner else path_origin(place)

    def owner(self, folder: Path) -> OwningRepository | None:
        """Return the repository whose work tree holds a folder, the nearest one."""
        waiting: list[Path] = []
        while folder not in self._owners:
            waiting.append(folder)
            if not self.access.holds(folder) or folder == folder.parent:
                break
            folder = folder.parent
        found = self._owners.get(folder)
        for one in reversed(waiting):
            found = self._at(one) or found
            self._owners[one] = found
        return found

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
    """Return the origin of a file or folder that lies in no repository."""
    # `#` is what a source inside a file, such as a conversation, adds.
    return _FILE_PREFIX + place.as_posix().rstrip("/").replace("%", "%25").replace("#", "%23")


def earlier_origins(place: Path) -> Iterator[str]:
    """Yield the origins by which a file is known where it was read before it had one: by the folder that was named."""
    yield path_origin(place)
    yield _FILE_PREFIX + place.as_posix()
    for folder in place.parents:
        yield f"{_FILE_PREFIX}{folder.as_posix()}#{place.relative_to(folder).as_posix()}"


def git_fingerprint(blob: str, *, redact: bool) -> str:
    """Return the fingerprint of a file of a repository."""
    # Turning redaction on has to reach files that were read without it.
    return f"{GIT_BLOB}{blob}" + ("" if redact else "+unredacted")


def known_by_path(place: Path, known: AlreadyRead) -> dict[str, str]:
    """Return what is known of a file or folder, and below it, by origins made of paths: fingerprints by origin."""
    found: dict[str, str] = {}
    for root in earlier_origins(place):
        found |= known.below(root)
    return found


def renames(origins: Mapping[Path, str], known: Iterable[str]) -> dict[str, str]:
    """Return, by the origins of `known` that files have no more, those they have today.

    `origins` are today's, by place. A source inside a file goes with it.
    """
    waiting = set(known) - set(origins.values())
    if not waiting:
        return {}
    today = {name: origin for place, origin in origins.items() for name in earlier_origins(place) if name != origin}
    return dict(_renamed(waiting, today))


def _renamed(waiting: Iterable[str], today: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for origin in sorted(waiting):
        cuts = [len(origin), *(at for at, char in enumerate(origin) if char == "#" and at > len(_FILE_PREFIX))]
        found = next((cut for cut in cuts if origin[:cut] in today), None)
        if found is not None:
            yield origin, today[origin[:found]] + origin[found:]
