"""File access: the decision which files may be read, which every adapter consults before it opens a path.

Otherwise a client of a server could read any file of the user who started it.
"""

from dataclasses import dataclass
from pathlib import Path

from treering.core.characters import shown
from treering.core.errors import Denied, InvalidInput
from treering.ports.adapter import FileAccess, NoFiles

_HINT = "Use a path below it, or start the server with another folder: --files FOLDER."


@dataclass(frozen=True, slots=True)
class AnyFile:
    """Access to every file the process can read, for a user's own commands and programs."""

    @property
    def root(self) -> None:
        """No folder limits access."""

    def place(self, target: str) -> Path:
        """Return the absolute path of a target, with links resolved. Raises `InvalidInput` for an invalid path."""
        return _resolved(target, Path())

    def check(self, path: Path, what: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Return a path with its links resolved."""
        return _without_links(path)

    def holds(self, path: Path) -> bool:  # noqa: ARG002 - one shape for all kinds of access
        """Return whether a resolved path may be read."""
        return True

    def text(self, path: Path) -> str | None:
        """Return the text of a file; `None` if it is no regular file, too large or not text."""
        return _text(path)


@dataclass(frozen=True, slots=True)
class FilesBelow:
    """Access to the files below one folder. `root` is absolute, with links resolved: see `files_below`."""

    root: Path

    def place(self, target: str) -> Path:
        """Return the absolute path of a target, with links resolved; relative ones start at the root.

        Raises `Denied` if it is outside the root, or not a valid path.
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
        """Return a path with its links resolved. `what` names its origin in errors.

        Raises `Denied` if it is outside the root.
        """
        place = _without_links(path)
        if not self.holds(place):
            raise Denied(
                f"{what} points to {shown(place)}, outside {shown(self.root)}, the only folder that may be read.",
                hint=_HINT,
            )
        return place

    def holds(self, path: Path) -> bool:
        """Return whether a resolved path may be read."""
        return path.is_relative_to(self.root)

    def text(self, path: Path) -> str | None:
        """Return the text of a file; `None` if it is no regular file, too large or not text. Raises `Denied`."""
        return _text(self.check(path, shown(path)))


def files_below(folder: Path) -> FilesBelow:
    """Allow access to the files below a folder. Raises `InvalidInput` if it is not a folder."""
    if not folder.is_dir():
        raise InvalidInput(f"{shown(folder)} is not a folder.", hint="Give the folder whose files may be read.")
    return FilesBelow(folder.resolve())


def files_of_server(named: Path | None, working: Path) -> FileAccess:
    """Return the access of a server for one client: below the given folder, else below its working folder.

    Some clients start their servers in `/` or in the home folder, which contain all files of a user. No file may be
    read there until a folder is given. Raises `InvalidInput` if `named` is not a folder.
    """
    if named is not None:
        return files_below(named)
    folder = working.resolve()
    return NoFiles() if _home().is_relative_to(folder) else FilesBelow(folder)


def _text(path: Path) -> str | None:
    # Imported here: most processes read files only through their adapters.
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
        place.exists()  # raises for an invalid path
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
