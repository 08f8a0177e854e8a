"""Files that a part of Treering wrote itself, such as pages of a wiki, met by an adapter."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from treering.ports.adapter import FileAccess, FilesAround, OwnFiles, Skipped, SourceDraft, WrittenFiles
from treering.registry import brought


def own_manifests(paths: Iterable[str]) -> list[str]:
    """Return those of the paths that by their names list what a part wrote."""
    parts = _all()
    return [path for path in paths if any(own.is_manifest(path) for own in parts)]


def own_files_below(manifests: Mapping[str, bytes]) -> "OwnFilesBelow":
    """Return what manifests tell of, each by its path."""
    return OwnFilesBelow(tuple(own.below(manifests) for own in _all()))


def own_files_around(access: FileAccess) -> "OwnFilesAround":
    """Return what is looked for in the folders above each file."""
    return OwnFilesAround(tuple(own.around(access) for own in _all()))


def own_files_as_they_lie(
    top: Path, manifests: Mapping[str, bytes], present: Container[str]
) -> tuple[list[str], list[str]]:
    """Return which files of a commit are gone from the work tree at `top`, and which to read as they lie there."""
    told = [own.as_they_lie(top, manifests, present) for own in _all()]
    return [path for gone, _ in told for path in gone], [path for _, lying in told for path in lying]


@dataclass(frozen=True, slots=True)
class OwnFilesBelow:
    """What parts wrote below one root."""

    of_parts: tuple[WrittenFiles, ...]

    def reading(
        self, data: bytes, *, path: str, origin: str, commit: str | None = None
    ) -> SourceDraft | Skipped | None:
        """Read a file that a part may have written; `None` where none did."""
        found = (one.reading(data, path=path, origin=origin, commit=commit) for one in self.of_parts)
        return next((one for one in found if one is not None), None)

    def wrote(self, path: str) -> bool:
        """Tell whether a part wrote a file."""
        return any(one.wrote(path) for one in self.of_parts)

    def cited_by(self, path: str) -> list[str]:
        """Return the paths of the files that a file of a part rests on."""
        return [cited for one in self.of_parts for cited in one.cited_by(path)]


@dataclass(frozen=True, slots=True)
class OwnFilesAround:
    """What parts wrote, looked for in the folders above each file."""

    of_parts: tuple[FilesAround, ...]

    def reading(self, data: bytes, *, place: Path, path: str, origin: str) -> SourceDraft | Skipped | None:
        """Read a file that a part may have written; `None` where none did."""
        found = (one.reading(data, place=place, path=path, origin=origin) for one in self.of_parts)
        return next((one for one in found if one is not None), None)


def _all() -> tuple[OwnFiles, ...]:
    return tuple(brought("own_files"))
