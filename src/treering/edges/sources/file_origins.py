"""The origin of a file: by its repository where it lies in one, else by its real path, however it was asked for."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from treering.edges.sources.git_blobs import blob_id
from treering.edges.sources.names import printable
from treering.edges.sources.repo_identity import SettledRepository, identity_at
from treering.ports.adapter import AlreadyRead, KnownRepository
from treering.ports.files import FileAccess

_PREFIX = "file:"


@dataclass(frozen=True, slots=True)
class OwningRepository:
    """The repository a file lies in: where its work tree is, and by which origin it goes."""

    top: Path
    settled: SettledRepository
    head: str

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
        return OwningRepository(folder, identity.settle(self.repositories()), identity.repository.head() or "")


def path_origin(place: Path) -> str:
    """Return the origin of a file or folder that lies in no repository."""
    # `#` is what a source inside a file, such as a conversation, adds.
    return _PREFIX + place.as_posix().rstrip("/").replace("%", "%25").replace("#", "%23")


def earlier_origins(place: Path) -> Iterator[str]:
    """Yield the origins by which a file is known where it was read before it had one: by the folder that was named."""
    yield path_origin(place)
    yield _PREFIX + place.as_posix()
    for folder in place.parents:
        yield f"{_PREFIX}{folder.as_posix()}#{place.relative_to(folder).as_posix()}"


def git_fingerprint(blob: str, *, redact: bool) -> str:
    """Return the fingerprint of a file of a repository."""
    # Turning redaction on has to reach files that were read without it.
    return f"git-blob:{blob}" + ("" if redact else "+unredacted")


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
        cuts = [len(origin), *(at for at, char in enumerate(origin) if char == "#" and at > len(_PREFIX))]
        found = next((cut for cut in cuts if origin[:cut] in today), None)
        if found is not None:
            yield origin, today[origin[:found]] + origin[found:]
