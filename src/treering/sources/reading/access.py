"""Which files may be read, decided in one place: every adapter asks here before it opens what a caller named.

Whoever reaches a server could otherwise read any file of the person who started it.
"""

from dataclasses import dataclass
from pathlib import Path

from treering.core.characters import shown
from treering.core.errors import Denied, InvalidInput
from treering.ports.adapter import FileAccess, NoFiles

_HINT = "Use a path below it, or start the server with another folder: --files FOLDER."


@dataclass(frozen=True, slots=True)
class AnyFile:
    """Every file the process can read: for a person's own commands and programs."""

    @property
    def root(self) -> None:
        """The folder below which files may be read: none is set."""

    def place(self, target: str) -> Path:
        """Return the absolute path a target names, links resolved. Raises `InvalidInput` for what cannot be a path."""
        return _resolved(target, Path())

    def check(self, path: Path, what: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Return a path with its links resolved."""
        return _without_links(path)

    def holds(self, path: Path) -> bool:  # noqa: ARG002 - one shape for all kinds of access
        """Tell whether a resolved path may be read."""
        return True

    def text(self, path: Path) -> str | None:
        """Return the text of a file; `None` if it is no regular file, too large or not text."""
        return _text(path)


@dataclass(frozen=True, slots=True)
class FilesBelow:
    """Files below one folder. `root` is absolute, its links resolved: see `files_below`."""

    root: Path

    def place(self, target: str) -> Path:
        """Return the absolute path a target names, links resolved; a relative one starts at the root.

        Raises `Denied` where it lies outside of the root, also for what cannot be a path.
        """
        try:
            place = _resolved(target, self.root)
        except InvalidInput:
            place = None
        if place is None or not self.holds(place):
            raise Denied(
                f"{target[:200]!r} is not below {shown(self.root)}, the only folder that may be read.", hint=_HINT
            )
        return place

    def check(self, path: Path, what: str) -> Path:
        """Return a path with its links resolved. `what` names what leads there.

        Raises `Denied` where it lies outside of the root.
        """
        place = _without_links(path)
        if not self.holds(place):
            raise Denied(
                f"{what} points to {shown(place)}, outside {shown(self.root)}, the only folder that may be read.",
                hint=_HINT,
            )
        return place

    def holds(self, path: Path) -> bool:
        """Tell whether a resolved path may be read."""
        return path.is_relative_to(self.root)

    def text(self, path: Path) -> str | None:
        """Return the text of a file; `None` if it is no regular file, too large or not text. Raises `Denied`."""
        return _text(self.check(path, shown(path)))


def files_below(folder: Path) -> FilesBelow:
    """Allow the files below a folder. Raises `InvalidInput` where it is not a folder."""
    if not folder.is_dir():
        raise InvalidInput(f"{shown(folder)} is not a folder.", hint="Give the folder whose files may be read.")
    return FilesBelow(folder.resolve())


def files_of_server(named: Path | None, working: Path) -> FileAccess:
    """Return what a server for one client may read: below the folder named, else below the one it was started in.

    Some clients start their servers in `/` or in the home folder: nobody chose that folder, and below it lies
    everything a person has. There no file is read until a folder is named. Raises `InvalidInput` where `named` is no
    folder.
    """
    if named is not None:
        return files_below(named)
    folder = working.resolve()
    return NoFiles() if _home().is_relative_to(folder) else FilesBelow(folder)


def _text(path: Path) -> str | None:
    # Imported here: most processes read files through their adapters alone.
    from treering.sources.reading.bounded_files import read_text_file

    try:
        return read_text_file(path)
    except (OSError, InvalidInput):
        return None


def _home() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError:  # a user without a home
        return Path(Path.cwd().anchor)


def _resolved(target: str, base: Path) -> Path:
    try:
        place = (base / Path(target).expanduser()).resolve()
        place.exists()  # refuses what cannot be a path
    except (OSError, ValueError, RuntimeError) as error:  # too long, with a NUL, a loop of links, an unknown user
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else error
        raise InvalidInput(
            f"{target[:200]!r} is not a valid path: {why}.",
            hint="Give the path of a file or folder that exists.",
        ) from error
    return place


def _without_links(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"{shown(path)} is not a valid path: {shown(str(error))}.", hint="Check for a loop of links."
        ) from error
