"""The adapter for files and folders."""

from collections.abc import Container, Generator, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput
from treering.edges.sources.access import AnyFile
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
from treering.ports.adapter import AlreadyRead, Failed, Reading, ReadLimits, Skipped, Unchanged, Vanished
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
        """Return `file:` and the absolute path; a file in a folder adds `#` and its path from there.

        A conversation adds `#` and its id to its file, unless it bears a name of its own that is the same in
        every export, such as `chatgpt:` and a UUID.
        """
        return _origin(self._access.place(target))

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:  # noqa: ARG002 - one shape for all adapters
        """Count the items `read` will report on, besides those that are gone."""
        return sum(1 for _ in walk(self._access.place(target)))

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield what is gone, and one result per item.

        A file read before that is gone gives `Vanished`. Raises `InvalidInput` where `target` is no file
        and no folder, or an option is wrong, `Denied` where it lies outside of what may be read.
        """
        root, redact_secrets = self._access.place(target), _redact_secrets(options)
        if root.is_dir() or root.is_file():
            return _readings(_Plan(_origin(root), known, limits, redact_secrets, tuple(walk(root)), self._formats))
        if not root.exists() and _origin(root) in known.fingerprints:
            return iter([Vanished(_origin(root))])
        raise InvalidInput(
            f"{target!r} is neither a file nor a folder.",
            hint="Give the path of a file or folder that exists.",
            details={"path": str(root)},
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    root: str
    known: AlreadyRead
    limits: ReadLimits
    redact_secrets: bool
    entries: tuple[FolderEntry, ...]
    formats: Formats

    def origin(self, relative: str) -> str:
        return f"{self.root}#{relative}" if relative else self.root

    def max_bytes(self, entry: FoundFile) -> int:
        usual = self.limits.max_file_bytes
        return usual if entry.size <= usual else self.formats.max_bytes(_path(entry), self.limits)


def _origin(root: Path) -> str:
    return f"file:{root.as_posix()}"


def _redact_secrets(options: Mapping[str, Any]) -> bool:
    wanted = options.get("redact_secrets", True)
    if isinstance(wanted, bool):
        return wanted
    raise InvalidInput(f"`redact_secrets` must be true or false, not {wanted!r}.", hint="Correct it, or leave it out.")


def _readings(plan: _Plan) -> Iterator[Reading]:
    gone = _gone(plan)
    moves = _moves(plan, gone) if gone else {}
    yield from (Vanished(origin, moves.get(origin)) for origin in gone)
    left_out = set(gone)
    for place, entry in enumerate(plan.entries):
        origin = plan.origin(entry.relative)
        if place >= plan.limits.max_items:
            yield Skipped(origin, f"over the limit max_items of {plan.limits.max_items:,}")
        elif origin not in left_out:
            yield from _item(plan, entry, origin)


def _item(plan: _Plan, entry: FolderEntry, origin: str) -> Iterator[Reading]:
    if isinstance(entry, FoundFile):
        for collection in plan.formats.collections_of(_path(entry)):
            told = yield from _collected(plan, collection, entry, origin)
            if told:
                return
    yield _reading(plan, entry)


def _collected(plan: _Plan, collection: Collection, entry: FoundFile, origin: str) -> Generator[Reading, None, bool]:
    """Return a result per source of a file, and whether it holds that collection at all.

    One that was kept as a file before is that no more.
    """
    file = FileToRead(_path(entry), plan.limits, redact_secrets=plan.redact_secrets)
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
        case FoundFile() if entry.size > plan.max_bytes(entry):
            return Skipped(origin, over_limit(entry.size, plan.max_bytes(entry), plan.limits))
        case FoundFile():
            return _file(plan, entry, origin)


def _file(plan: _Plan, entry: FoundFile, origin: str) -> Reading:
    try:
        data = read_bytes(entry.file, plan.max_bytes(entry))
    except OSError as error:
        return Failed(origin, reason(error))
    if data is None:
        return Skipped(origin, "it was replaced by something that is not a regular file")
    if plan.known.fingerprints.get(origin) == sha256(data).hexdigest():
        return Unchanged(origin)
    return draft_file(
        data,
        path=_path(entry),
        origin=origin,
        commit=None,
        limits=plan.limits,
        redact_secrets=plan.redact_secrets,
        formats=plan.formats,
    )


def _path(entry: FoundFile) -> str:
    return entry.relative or entry.file.name


def _gone(plan: _Plan) -> list[str]:
    """Return the origins known below the root at which there is no file any more, unless nobody could look."""
    present = {plan.origin(entry.relative) for entry in plan.entries if not isinstance(entry, PassedOver)}
    unseen = [entry.relative for entry in plan.entries if isinstance(entry, UnreadablePath) and entry.folder]
    hidden = tuple(plan.origin(f"{relative}/" if relative else "") for relative in unseen)
    below = sorted(origin for origin in plan.known.fingerprints if origin.startswith(f"{plan.root}#"))
    return [
        origin
        for origin in below
        if origin not in present and not (hidden and origin.startswith(hidden)) and not _is_told(plan, origin, present)
    ]


def _is_told(plan: _Plan, origin: str, present: Container[str]) -> bool:
    """Tell whether this is a source of a file that is there: a newer export may leave it out, it was said."""
    files = (origin[:at] for at, char in enumerate(origin) if char == "#")
    return any(file in present and any(plan.formats.collections_of(file)) for file in files)


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
    try:
        most = plan.max_bytes(entry)
        data = read_bytes(entry.file, most) if entry.size <= most else None
    except OSError:  # reported when its turn comes
        return None
    return sha256(data).hexdigest() if data else None


def _name(origin: str) -> str:
    return origin.rpartition("/")[2]
