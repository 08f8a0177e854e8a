"""What is known already of the files of one reading, by the origins they have today."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from treering.core.file_moves import moved_files
from treering.edges.sources.file_origins import FileOrigins, OwningRepository, earlier_origins, known_by_path, renames
from treering.edges.sources.repo_identity import identity_at, names_below, place_of_repository
from treering.ports.adapter import AlreadyRead
from treering.ports.files import FileAccess

_EVERY_FILE = "file:"


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Fingerprints by today's origin; `renamed` gives, for what is known by another origin, the one of today."""

    fingerprints: Mapping[str, str]
    renamed: Mapping[str, str]
    owners: tuple[OwningRepository, ...]
    starts: tuple[str, ...]
    """How the origins begin of what lies below the place that is read."""

    def below(self) -> Iterator[str]:
        """Yield the origins known of what lies, or lay, below the place that is read."""
        return (origin for origin in self.fingerprints if origin.startswith(self.starts))


def known_files(place: Path, files: Sequence[Path], origins: FileOrigins, known: AlreadyRead) -> KnownFiles:
    """Return what is known of the files found at a place, however each was asked for when it was read."""
    before = {**known.fingerprints, **known_by_path(place, known)}
    renamed: dict[str, str] = {}
    owners = _owners(place, files, origins)
    starts = [f"{name}{sign}" for name in earlier_origins(place) for sign in "#/"]
    for owner in owners:
        inside = _inside(owner, place)
        starts += (
            [f"{owner.settled.root}{inside}/", f"{owner.settled.root}{inside}#"]
            if inside
            else [f"{owner.settled.root}#"]
        )
        for root in (owner.settled.root, *owner.settled.others):
            told = known.below(root + inside)
            here = [name for name in names_below(list(told), root) if name != root]
            before |= {name: told[name] for name in here}
            if root != owner.settled.root:
                renamed |= {name: owner.settled.root + name.removeprefix(root) for name in here}
            before.pop(root, None)  # the map is not a file
    renamed |= renames({file: origins.origin(file) for file in files}, [name for name in before if name not in renamed])
    today = {name: mark for name, mark in before.items() if name not in renamed}
    for name, now in renamed.items():
        today.setdefault(now, before[name])
    return KnownFiles(today, renamed, tuple(owners), tuple(starts))


def _inside(owner: OwningRepository, place: Path) -> str:
    """Return what the origin of a place adds to that of the repository it lies in; nothing where that lies in it."""
    return f"#{owner.path(place)}" if place.is_relative_to(owner.top) and place != owner.top else ""


def moved_here(
    arrived: Callable[[], Mapping[str, str]], here: Mapping[str, str], access: FileAccess, known: AlreadyRead
) -> dict[str, str]:
    """Return, by the origins of files known elsewhere that are gone there, the ones at which they arrived.

    `arrived` gives the fingerprints of the files that are new here, and is asked only where some are gone elsewhere.
    `here` is what is known here.
    """
    elsewhere = {name: mark for name, mark in known.below(_EVERY_FILE).items() if name not in here}
    gone = {name: mark for name, mark in elsewhere.items() if _is_gone(name, access)}
    return moved_files(gone, arrived()) if gone else {}


def origins_today(origins: Iterable[str], named: FileOrigins) -> dict[str, str]:
    """Return by origin the one that its file has today, empty where the file is gone."""
    roots: dict[str, str | None] = {}
    found: dict[str, str] = {}
    for origin in origins:
        root, sign, path = origin.partition("#")
        if not root.startswith("repo:"):
            today = _of_file(origin, named)
        else:
            if root not in roots:
                roots[root] = _root_today(root, named)
            today = roots[root] and f"{roots[root]}{sign}{path}"
        if today is not None:
            found[origin] = today
    return found


def _of_file(origin: str, named: FileOrigins) -> str | None:
    if not origin.startswith(_EVERY_FILE):
        return None
    if _is_gone(origin, named.access):
        return ""
    found = next(((place, rest) for place, rest in _lying(origin) if named.access.holds(place)), None)
    return named.origin(found[0]) + found[1] if found else None


def _root_today(root: str, named: FileOrigins) -> str | None:
    """Return the origin a repository goes by today, empty where it is gone, `None` where nobody can tell."""
    place, known = place_of_repository(root), named.repositories()
    if place is None or not named.access.holds(place):
        return None
    identity = identity_at(place, named.access)
    if identity is not None:
        return identity.settle(known).root
    if place.exists():
        return None
    gone = next((one for one in known if one.origin == root), None)
    others = filter(None, (place_of_repository(one.origin) for one in known if one is not gone))
    lying = filter(None, (identity_at(other, named.access) for other in others if named.access.holds(other)))
    return next((other.settle(known).root for other in lying if gone and other.is_same(gone)), "")


def _is_gone(origin: str, access: FileAccess) -> bool:
    """Tell whether no file lies any more where one was read; never of a place at which nobody may look."""
    first, *rest = origin.removeprefix(_EVERY_FILE).split("#")
    place = Path(_unescaped(first) or "/", *rest)
    return access.holds(place) and not any(_lying(origin))


def _lying(origin: str) -> Iterator[tuple[Path, str]]:
    """Yield the file that lies where an origin says, and the rest of the origin: what is meant inside of it."""
    first, *rest = origin.removeprefix(_EVERY_FILE).split("#")
    for count in range(len(rest) + 1):
        place = Path(_unescaped(first) or "/", *rest[:count])
        if place.is_file() and not place.is_symlink():
            yield place, "".join(f"#{part}" for part in rest[count:])
            return


def _unescaped(path: str) -> str:
    return path.replace("%23", "#").replace("%25", "%")


def _owners(place: Path, files: Sequence[Path], origins: FileOrigins) -> list[OwningRepository]:
    folders = {file.parent for file in files} | {place if place.is_dir() else place.parent}
    found = (origins.owner(folder) for folder in sorted(folders))
    return list({owner.top: owner for owner in found if owner}.values())


def lies_in(owner: OwningRepository, origin: str) -> bool:
    """Tell whether a file of a repository lies in its work tree, also one that is ignored."""
    path = origin.removeprefix(f"{owner.settled.root}#").partition("#")[0]
    return os.path.isfile(owner.top / path)  # noqa: PTH113 - a path of any text
