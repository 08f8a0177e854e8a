"""The adapter for files and folders."""

import os
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput
from treering.core.evidence import moved_files, moves_by_contents
from treering.ports.adapter import (
    AlreadyRead,
    Failed,
    FileAccess,
    KnownRepository,
    Reading,
    ReadLimits,
    Renamed,
    Skipped,
    Unchanged,
    Vanished,
)
from treering.ports.format import Collection, FileToRead, Formats
from treering.sources.drafts import Drafting, FileToDraft
from treering.sources.formats import built_in_formats, over_limit
from treering.sources.git.identity import (
    FileOrigins,
    OwningRepository,
    earlier_origins,
    identity_at,
    known_by_path,
    names_below,
    place_of_repository,
    renames,
)
from treering.sources.git.ignoring import rules_around
from treering.sources.options import flag
from treering.sources.reading.access import AnyFile
from treering.sources.reading.folder import (
    FolderEntry,
    FoundFile,
    IgnoreRules,
    OwnFilesAround,
    PassedOver,
    UnreadablePath,
    open_regular,
    own_files_around,
    place_in,
    read_bytes,
    reason,
    walk,
)

_EVERY_FILE = "file:"


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Fingerprints by current origin; `renamed` maps earlier origins to the current ones."""

    fingerprints: Mapping[str, str]
    renamed: Mapping[str, str]
    owners: tuple[OwningRepository, ...]
    starts: tuple[str, ...]
    """Prefixes of the origins of files below the path that is read."""

    def below(self) -> Iterator[str]:
        """Yield the known origins of files that are or were below the path that is read."""
        return (origin for origin in self.fingerprints if origin.startswith(self.starts))


def known_files(place: Path, files: Sequence[Path], origins: FileOrigins, known: AlreadyRead) -> KnownFiles:
    """Return the stored state of the files found at a path, under all origins they were read with."""
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
            stored = known.below(root + inside)
            here = [name for name in names_below(list(stored), root) if name != root]
            before |= {name: stored[name] for name in here}
            if root != owner.settled.root:
                renamed |= {name: owner.settled.root + name.removeprefix(root) for name in here}
            before.pop(root, None)  # the map is not a file
    renamed |= renames({file: origins.origin(file) for file in files}, [name for name in before if name not in renamed])
    today = {name: mark for name, mark in before.items() if name not in renamed}
    for name, now in renamed.items():
        today.setdefault(now, before[name])
    return KnownFiles(today, renamed, tuple(owners), tuple(starts))


def _inside(owner: OwningRepository, place: Path) -> str:
    """Return the suffix of a path's origin after that of its repository; empty if the repository is inside it."""
    return f"#{owner.path(place)}" if place.is_relative_to(owner.top) and place != owner.top else ""


def moved_here(
    arrived: Callable[[], Mapping[str, str]], here: Mapping[str, str], access: FileAccess, known: AlreadyRead
) -> dict[str, str]:
    """Return the new origins of files that were known elsewhere and are gone there, by their earlier origins.

    `arrived` returns the fingerprints of the files that are new here; it is only called if some are gone elsewhere.
    `here` is the stored state of this path.
    """
    elsewhere = {name: mark for name, mark in known.below(_EVERY_FILE).items() if name not in here}
    gone = {name: mark for name, mark in elsewhere.items() if _is_gone(name, access)}
    return moved_files(gone, arrived()) if gone else {}


def origins_today(origins: Iterable[str], named: FileOrigins) -> dict[str, str]:
    """Return the current origin of each file by origin, or an empty text if the file is gone."""
    roots: dict[str, str | None] = {}
    current: dict[str, str] = {}
    for origin in origins:
        root, sign, path = origin.partition("#")
        if not root.startswith("repo:"):
            new_origin = _of_file(origin, named)
        else:
            if root not in roots:
                roots[root] = _root_today(root, named)
            new_origin = roots[root] and f"{roots[root]}{sign}{path}"
        if new_origin is not None:
            current[origin] = new_origin
    return current


def _of_file(origin: str, named: FileOrigins) -> str | None:
    if not origin.startswith(_EVERY_FILE):
        return None
    if _is_gone(origin, named.access):
        return ""
    match = next(((place, rest) for place, rest in _existing(origin) if named.access.holds(place)), None)
    return named.origin(match[0]) + match[1] if match else None


def _root_today(root: str, named: FileOrigins) -> str | None:
    """Return the current origin of a repository; empty if it is gone, `None` if that is unknown."""
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
    present = filter(None, (identity_at(other, named.access) for other in others if named.access.holds(other)))
    return next((other.settle(known).root for other in present if gone and other.is_same(gone)), "")


def _is_gone(origin: str, access: FileAccess) -> bool:
    """Return whether a file is gone; `False` for a path that may not be read."""
    first, *rest = origin.removeprefix(_EVERY_FILE).split("#")
    place = Path(_unescaped(first) or "/", *rest)
    return access.holds(place) and not any(_existing(origin))


def _existing(origin: str) -> Iterator[tuple[Path, str]]:
    """Yield the existing file of an origin, and the rest of the origin, which refers to a part of it."""
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
    owners = (origins.owner(folder) for folder in sorted(folders))
    return list({owner.top: owner for owner in owners if owner}.values())


def is_in_work_tree(owner: OwningRepository, origin: str) -> bool:
    """Return whether a file of a repository exists in its work tree, even if it is ignored."""
    path = origin.removeprefix(f"{owner.settled.root}#").partition("#")[0]
    return os.path.isfile(place_in(owner.top, path))  # noqa: PTH113 - a path of any text


class PathAdapter:
    """Reads a file, or every file of a folder except those ignored by its `.gitignore` files.

    Gone files come first, then a result per item in the order of names; a file with a collection, such as
    conversations, gives one per source in it. Links are not followed, and only regular files are opened. Option:
    `redact_secrets` (default true). `formats` read the files; `access` decides which files may be read, by default all.
    """

    def __init__(self, formats: Formats | None = None, *, access: FileAccess | None = None) -> None:
        self._formats = formats or built_in_formats()
        self._access = access or AnyFile()

    def origin(self, target: str) -> str:
        """Return `file:` and the real path; in a repository the repository's origin, `#` and the path in it.

        So a file has one origin, whichever way it is read. A conversation adds `#` and its id to its file, unless it
        has a name that is the same in every export, such as `chatgpt:` and a UUID.
        """
        place = self._access.place(target)
        return FileOrigins(self._access).origin(place, folder=place.is_dir())

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:  # noqa: ARG002 - one shape for all adapters
        """Count the items `read` will report, except gone files."""
        place = self._access.place(target)
        return sum(1 for _ in walk(place, _outer_rules(place, self._access)))

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield gone files, and one result per item.

        A stored file that is gone gives `Vanished`. Raises `InvalidInput` if `target` is neither a file nor a folder,
        or an option is wrong, and `Denied` if it may not be read.
        """
        place, redact_secrets = self._access.place(target), flag(options, "redact_secrets", default=True)
        origins = FileOrigins(self._access, known.repositories)
        if place.is_dir() or place.is_file():
            plan = _planned(place, _Reader(limits, redact_secrets, self._formats), origins, known)
            return Drafting(limits, redact_secrets, self._formats, plan.new).readings(_readings(plan))
        gone = [] if place.exists() else _known_as(place, origins, known)
        if gone:
            return iter([Vanished(origin) for origin in gone])
        raise InvalidInput(
            f"{target!r} is neither a file nor a folder.",
            hint="Give the path of a file or folder that exists.",
            details={"path": str(place)},
        )

    def origins_today(self, origins: Iterable[str], repositories: Sequence[KnownRepository]) -> Mapping[str, str]:
        """Return the current origin of each file by origin, or an empty text if the file is gone."""
        return origins_today(origins, FileOrigins(self._access, lambda: repositories))


@dataclass(frozen=True, slots=True)
class _Reader:
    """The settings for reading files."""

    limits: ReadLimits
    redact_secrets: bool
    formats: Formats

    def max_bytes(self, entry: FoundFile) -> int:
        usual = self.limits.max_file_bytes
        return usual if entry.size <= usual else self.formats.max_bytes(entry.relative or entry.file.name, self.limits)


@dataclass(frozen=True, slots=True)
class _Plan:
    place: Path
    known: KnownFiles
    entries: tuple[FolderEntry, ...]
    reader: _Reader
    origins: FileOrigins
    own: OwnFilesAround
    new: int = 0
    """The number of files that were never read."""

    def origin(self, relative: str) -> str:
        return self.origins.origin(self.place / relative) if relative else self.whole

    @property
    def whole(self) -> str:
        return self.origins.origin(self.place, folder=self.place.is_dir())

    def path(self, entry: FoundFile) -> str:
        """Return the path in citations: from the top of the repository, else from the folder that is read."""
        owner = self.origins.owner(entry.file.parent)
        return owner.path(entry.file) if owner else entry.relative or entry.file.name

    def fingerprint(self, entry: FoundFile, data: bytes) -> str:
        owner = self.origins.owner(entry.file.parent)
        return owner.fingerprint(data, redact=self.reader.redact_secrets) if owner else sha256(data).hexdigest()


def _planned(place: Path, reader: _Reader, origins: FileOrigins, known: AlreadyRead) -> _Plan:
    entries = tuple(walk(place, _outer_rules(place, origins.access)))
    files = [entry for entry in entries if isinstance(entry, FoundFile)]
    here = known_files(place, [entry.file for entry in files], origins, known)
    plan = _Plan(place, here, entries, reader, origins, own_files_around(origins.access))
    new = [entry for entry in files if origins.origin(entry.file) not in here.fingerprints]
    if not new:
        return plan
    moved = moved_here(
        lambda: _hashes(plan, new, _digest), {**here.fingerprints, **here.renamed}, origins.access, known
    )
    elsewhere = known.below("file:") if moved else {}
    fingerprints = {**{now: elsewhere[before] for before, now in moved.items()}, **here.fingerprints}
    return replace(
        plan, known=replace(here, fingerprints=fingerprints, renamed={**here.renamed, **moved}), new=len(new)
    )


def _outer_rules(place: Path, access: FileAccess) -> IgnoreRules:
    return rules_around(place, access) if place.is_dir() else IgnoreRules()


def _hashes(plan: _Plan, entries: Iterable[FoundFile], hash_of: Callable[[FoundFile, bytes], str]) -> dict[str, str]:
    """Return hashes of the contents of files by origin, empty for unreadable files."""
    contents = ((entry, _bytes(plan, entry)) for entry in entries)
    return {plan.origin(entry.relative): hash_of(entry, data) if data else "" for entry, data in contents}


def _digest(_entry: FoundFile, data: bytes) -> str:
    """Return a hash that is comparable between folders."""
    return sha256(data).hexdigest()


def _known_as(place: Path, origins: FileOrigins, known: AlreadyRead) -> list[str]:
    """Return the known origins of a file that is gone."""
    names = dict.fromkeys((origins.origin(place), *earlier_origins(place)))
    return [name for name in names if name in known.fingerprints or name in known.below(name)]


def _readings(plan: _Plan) -> Iterator[Reading | FileToDraft]:
    files = [entry.file for entry in plan.entries if isinstance(entry, FoundFile)]
    yield from filter(None, (owner.read() for owner in _owners(plan.place, files, plan.origins)))
    yield from (Renamed(before, origin) for before, origin in plan.known.renamed.items())
    gone = _gone(plan)
    moves = _moves(plan, gone) if gone else {}
    yield from (Vanished(origin, moves.get(origin)) for origin in gone)
    left_out = set(gone)
    for place, entry in enumerate(plan.entries):
        origin = plan.origin(entry.relative)
        if place >= plan.reader.limits.max_items:
            yield Skipped(origin, f"it exceeds the limit max_items of {plan.reader.limits.max_items:,}")
        elif origin not in left_out:
            yield from _item(plan, entry, origin)


def _item(plan: _Plan, entry: FolderEntry, origin: str) -> Iterator[Reading | FileToDraft]:
    if isinstance(entry, FoundFile):
        for collection in plan.reader.formats.collections_of(plan.path(entry)):
            is_collection = yield from _collected(plan, collection, entry, origin)
            if is_collection:
                return
    yield _reading(plan, entry)


def _collected(plan: _Plan, collection: Collection, entry: FoundFile, origin: str) -> Generator[Reading, None, bool]:
    """Yield a result per source of a file, and return whether it contains that collection.

    If it was stored as a single file before, that source vanishes.
    """
    file = FileToRead(plan.path(entry), plan.reader.limits, redact_secrets=plan.reader.redact_secrets)
    as_file = origin in plan.known.fingerprints
    try:
        stream = open_regular(entry.file)
        if stream is None:
            return False
        with stream:
            readings = collection.read(stream, file, origin=origin)
            for reading in readings or ():
                as_file = as_file and reading.origin != origin
                yield reading
    except OSError as error:
        yield Failed(origin, reason(error))
        return True
    if readings is not None and as_file:
        yield Vanished(origin)
    return readings is not None


def _reading(plan: _Plan, entry: FolderEntry) -> Reading | FileToDraft:
    origin = plan.origin(entry.relative)
    match entry:
        case PassedOver():
            return Skipped(origin, entry.why)
        case UnreadablePath():
            return Failed(origin, entry.why)
        case FoundFile() if entry.size > plan.reader.max_bytes(entry):
            return Skipped(origin, over_limit(entry.size, plan.reader.max_bytes(entry), plan.reader.limits))
        case FoundFile():
            return _file(plan, entry, origin)


def _file(plan: _Plan, entry: FoundFile, origin: str) -> Reading | FileToDraft:
    try:
        data = read_bytes(entry.file, plan.reader.max_bytes(entry))
    except OSError as error:
        return Failed(origin, reason(error))
    if data is None:
        return Skipped(origin, "it was replaced by something that is not a regular file")
    fingerprint = plan.fingerprint(entry, data)
    if plan.known.fingerprints.get(origin) == fingerprint:
        return Unchanged(origin)
    page = plan.own.reading(data, place=entry.file, path=plan.path(entry), origin=origin)
    if page is not None:
        return page
    return FileToDraft(data, plan.path(entry), origin, fingerprint)


def _gone(plan: _Plan) -> list[str]:
    """Return the known origins below the root whose files are gone, except below unreadable folders."""
    present = {plan.origin(entry.relative) for entry in plan.entries if not isinstance(entry, PassedOver)}
    unseen = [entry.relative for entry in plan.entries if isinstance(entry, UnreadablePath) and entry.folder]
    hidden = tuple(_as_path(plan.origin(relative)) + "/" for relative in unseen)
    return [
        origin
        for origin in sorted(plan.known.below())
        if origin not in present
        and not (hidden and _as_path(origin).startswith(hidden))
        and not _is_in_collection(plan, origin, present)
        and not _is_ignored_here(plan, origin)
    ]


def _is_in_collection(plan: _Plan, origin: str, present: Container[str]) -> bool:
    """Return whether this is a source of an existing collection; missing in a newer export, it is still valid."""
    files = (origin[:at] for at, char in enumerate(origin) if char == "#")
    return any(file in present and any(plan.reader.formats.collections_of(file)) for file in files)


def _is_ignored_here(plan: _Plan, origin: str) -> bool:
    """Return whether a file of a repository exists but is ignored; git may track it all the same."""
    owners = plan.known.owners
    return any(origin.startswith(f"{one.settled.root}#") and is_in_work_tree(one, origin) for one in owners)


def _as_path(origin: str) -> str:
    return origin.replace("#", "/") if origin.startswith("file:") else origin


def _moves(plan: _Plan, gone: list[str]) -> dict[str, str]:
    """Match gone files to new files with the same contents."""
    known = plan.known.fingerprints
    files = (entry for entry in plan.entries if isinstance(entry, FoundFile))
    arrived = (entry for entry in files if plan.origin(entry.relative) not in known)
    return moves_by_contents({origin: known[origin] for origin in gone}, _hashes(plan, arrived, plan.fingerprint))


def _bytes(plan: _Plan, entry: FoundFile) -> bytes | None:
    """Read a file within the limit; `None` if it cannot be read, which is reported with its own result."""
    try:
        most = plan.reader.max_bytes(entry)
        return read_bytes(entry.file, most) if entry.size <= most else None
    except OSError:
        return None
