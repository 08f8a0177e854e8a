"""The adapter for files and folders."""

from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput
from treering.edges.sources.access import AnyFile
from treering.edges.sources.file_origins import FileOrigins, earlier_origins
from treering.edges.sources.files import draft_file, over_limit
from treering.edges.sources.folder import (
    FolderEntry,
    FoundFile,
    PassedOver,
    UnreadablePath,
    open_regular,
    read_bytes,
    reason,
    walk,
)
from treering.edges.sources.formats import BUILT_IN
from treering.edges.sources.path_known import KnownFiles, known_files, lies_in, moved_here, origins_today
from treering.edges.sources.wiki_pages import LyingWikis
from treering.ports.adapter import (
    AlreadyRead,
    Failed,
    KnownRepository,
    Reading,
    ReadLimits,
    Renamed,
    Skipped,
    Unchanged,
    Vanished,
)
from treering.ports.files import FileAccess
from treering.ports.format import Collection, FileToRead, Formats


class PathAdapter:
    """Reads a file, or every file of a folder that its `.gitignore` files do not leave out.

    First comes what is gone, then a result per item in the order of names; a file that holds a collection, such as
    conversations, gives one per source in it. Links are not followed, and only regular files are opened. Option:
    `redact_secrets` (default true). `formats` read what is found; `access` says which files may be read, without it
    every file.
    """

    def __init__(self, formats: Formats = BUILT_IN, *, access: FileAccess | None = None) -> None:
        self._formats = formats
        self._access = access or AnyFile()

    def origin(self, target: str) -> str:
        """Return `file:` and the real path; in a repository the repository's origin, `#` and the path there.

        So a file has one origin, however it was asked for. A conversation adds `#` and its id to its file, unless it
        bears a name of its own that is the same in every export, such as `chatgpt:` and a UUID.
        """
        place = self._access.place(target)
        return FileOrigins(self._access).origin(place, folder=place.is_dir())

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:  # noqa: ARG002 - one shape for all adapters
        """Count the items `read` will report on, besides those that are gone."""
        return sum(1 for _ in walk(self._access.place(target)))

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield what is gone, and one result per item.

        A file read before that is gone gives `Vanished`. Raises `InvalidInput` where `target` is not a file
        and no folder, or an option is wrong, `Denied` where it lies outside of what may be read.
        """
        place, redact_secrets = self._access.place(target), _redact_secrets(options)
        origins = FileOrigins(self._access, known.repositories)
        if place.is_dir() or place.is_file():
            return _readings(_planned(place, _Reader(limits, redact_secrets, self._formats), origins, known))
        gone = [] if place.exists() else _known_as(place, origins, known)
        if gone:
            return iter([Vanished(origin) for origin in gone])
        raise InvalidInput(
            f"{target!r} is neither a file nor a folder.",
            hint="Give the path of a file or folder that exists.",
            details={"path": str(place)},
        )

    def origins_today(self, origins: Iterable[str], repositories: Sequence[KnownRepository]) -> Mapping[str, str]:
        """Return by origin the one that its file has today, empty where the file is gone."""
        return origins_today(origins, FileOrigins(self._access, lambda: repositories))


@dataclass(frozen=True, slots=True)
class _Reader:
    """How files are read."""

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
    wikis: LyingWikis

    def origin(self, relative: str) -> str:
        return self.origins.origin(self.place / relative) if relative else self.whole

    @property
    def whole(self) -> str:
        return self.origins.origin(self.place, folder=self.place.is_dir())

    def path(self, entry: FoundFile) -> str:
        """Return what the segments of a file cite: its path in its repository, else from the folder that is read."""
        owner = self.origins.owner(entry.file.parent)
        return owner.path(entry.file) if owner else entry.relative or entry.file.name

    def fingerprint(self, entry: FoundFile, data: bytes) -> str:
        owner = self.origins.owner(entry.file.parent)
        return owner.fingerprint(data, redact=self.reader.redact_secrets) if owner else sha256(data).hexdigest()


def _planned(place: Path, reader: _Reader, origins: FileOrigins, known: AlreadyRead) -> _Plan:
    entries = tuple(walk(place))
    found = [entry for entry in entries if isinstance(entry, FoundFile)]
    here = known_files(place, [entry.file for entry in found], origins, known)
    plan = _Plan(place, here, entries, reader, origins, LyingWikis(origins.access))
    new = [entry for entry in found if origins.origin(entry.file) not in here.fingerprints]
    if not new:
        return plan
    moved = moved_here(lambda: _contents(plan, new), {**here.fingerprints, **here.renamed}, origins.access, known)
    elsewhere = known.below("file:") if moved else {}
    fingerprints = {**{now: elsewhere[before] for before, now in moved.items()}, **here.fingerprints}
    return replace(plan, known=replace(here, fingerprints=fingerprints, renamed={**here.renamed, **moved}))


def _contents(plan: _Plan, entries: Sequence[FoundFile]) -> Mapping[str, str]:
    """Return what tells the contents of files apart wherever they lie, by origin; empty of what cannot be read."""
    return {plan.origin(entry.relative): _digest(plan, entry) for entry in entries}


def _digest(plan: _Plan, entry: FoundFile) -> str:
    data = _bytes(plan, entry)
    return sha256(data).hexdigest() if data else ""


def _known_as(place: Path, origins: FileOrigins, known: AlreadyRead) -> list[str]:
    """Return the origins by which a file that is gone is known."""
    names = dict.fromkeys((origins.origin(place), *earlier_origins(place)))
    return [name for name in names if name in known.fingerprints or name in known.below(name)]


def _redact_secrets(options: Mapping[str, Any]) -> bool:
    wanted = options.get("redact_secrets", True)
    if isinstance(wanted, bool):
        return wanted
    raise InvalidInput(f"`redact_secrets` must be true or false, not {wanted!r}.", hint="Correct it, or leave it out.")


def _readings(plan: _Plan) -> Iterator[Reading]:
    yield from (Renamed(before, origin) for before, origin in plan.known.renamed.items())
    gone = _gone(plan)
    moves = _moves(plan, gone) if gone else {}
    yield from (Vanished(origin, moves.get(origin)) for origin in gone)
    left_out = set(gone)
    for place, entry in enumerate(plan.entries):
        origin = plan.origin(entry.relative)
        if place >= plan.reader.limits.max_items:
            yield Skipped(origin, f"over the limit max_items of {plan.reader.limits.max_items:,}")
        elif origin not in left_out:
            yield from _item(plan, entry, origin)


def _item(plan: _Plan, entry: FolderEntry, origin: str) -> Iterator[Reading]:
    if isinstance(entry, FoundFile):
        for collection in plan.reader.formats.collections_of(plan.path(entry)):
            told = yield from _collected(plan, collection, entry, origin)
            if told:
                return
    yield _reading(plan, entry)


def _collected(plan: _Plan, collection: Collection, entry: FoundFile, origin: str) -> Generator[Reading, None, bool]:
    """Return a result per source of a file, and whether it holds that collection at all.

    One that was kept as a file before is that no more.
    """
    file = FileToRead(plan.path(entry), plan.reader.limits, redact_secrets=plan.reader.redact_secrets)
    as_file = origin in plan.known.fingerprints
    try:
        stream = open_regular(entry.file)
        if stream is None:
            return False
        with stream:
            found = collection.read(stream, file, origin=origin)
            for reading in found or ():
                as_file = as_file and reading.origin != origin
                yield reading
    except OSError as error:
        yield Failed(origin, reason(error))
        return True
    if found is not None and as_file:
        yield Vanished(origin)
    return found is not None


def _reading(plan: _Plan, entry: FolderEntry) -> Reading:
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


def _file(plan: _Plan, entry: FoundFile, origin: str) -> Reading:
    try:
        data = read_bytes(entry.file, plan.reader.max_bytes(entry))
    except OSError as error:
        return Failed(origin, reason(error))
    if data is None:
        return Skipped(origin, "it was replaced by something that is not a regular file")
    fingerprint = plan.fingerprint(entry, data)
    if plan.known.fingerprints.get(origin) == fingerprint:
        return Unchanged(origin)
    page = plan.wikis.reading(data, place=entry.file, path=plan.path(entry), origin=origin)
    if page is not None:
        return page
    return draft_file(
        data,
        path=plan.path(entry),
        origin=origin,
        commit=None,
        limits=plan.reader.limits,
        redact_secrets=plan.reader.redact_secrets,
        fingerprint=fingerprint,
        formats=plan.reader.formats,
    )


def _gone(plan: _Plan) -> list[str]:
    """Return the origins known below the root at which there is no file any more, unless nobody could look."""
    present = {plan.origin(entry.relative) for entry in plan.entries if not isinstance(entry, PassedOver)}
    unseen = [entry.relative for entry in plan.entries if isinstance(entry, UnreadablePath) and entry.folder]
    hidden = tuple(_as_path(plan.origin(relative)) + "/" for relative in unseen)
    return [
        origin
        for origin in sorted(plan.known.below())
        if origin not in present
        and not (hidden and _as_path(origin).startswith(hidden))
        and not _is_told(plan, origin, present)
        and not _lies_ignored(plan, origin)
    ]


def _is_told(plan: _Plan, origin: str, present: Container[str]) -> bool:
    """Tell whether this is a source of a file that is there: a newer export may leave it out, it was said."""
    files = (origin[:at] for at, char in enumerate(origin) if char == "#")
    return any(file in present and any(plan.reader.formats.collections_of(file)) for file in files)


def _lies_ignored(plan: _Plan, origin: str) -> bool:
    """Tell whether a file of a repository is there after all: git may know what `.gitignore` leaves out here."""
    return any(origin.startswith(f"{owner.settled.root}#") and lies_in(owner, origin) for owner in plan.known.owners)


def _as_path(origin: str) -> str:
    return origin.replace("#", "/") if origin.startswith("file:") else origin


def _moves(plan: _Plan, gone: list[str]) -> dict[str, str]:
    """Find where vanished files went: the same bytes at a new place, under the same name if there are several."""
    arrived = _arrived(plan)
    moves: dict[str, str] = {}
    for origin in gone:
        same = arrived.get(plan.known.fingerprints[origin], [])
        if same:
            moves[origin] = min(same, key=lambda new: (_name(new) != _name(origin), new))
            same.remove(moves[origin])
    return moves


def _arrived(plan: _Plan) -> dict[str, list[str]]:
    """Return the origins not known before by fingerprint. Empty files are all alike: they are no sign of a move."""
    arrived: dict[str, list[str]] = {}
    for entry in plan.entries:
        if isinstance(entry, FoundFile) and plan.origin(entry.relative) not in plan.known.fingerprints:
            fingerprint = _fingerprint(plan, entry)
            if fingerprint:
                arrived.setdefault(fingerprint, []).append(plan.origin(entry.relative))
    return arrived


def _fingerprint(plan: _Plan, entry: FoundFile) -> str | None:
    data = _bytes(plan, entry)
    return plan.fingerprint(entry, data) if data else None


def _bytes(plan: _Plan, entry: FoundFile) -> bytes | None:
    """Read a file within the limit, if it can be read; where not, that is reported when its turn comes."""
    try:
        most = plan.reader.max_bytes(entry)
        return read_bytes(entry.file, most) if entry.size <= most else None
    except OSError:
        return None


def _name(origin: str) -> str:
    return origin.rpartition("/")[2]
