"""The port of file access: which of the files that a caller names may be read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from treering.core.errors import Denied


class FileAccess(Protocol):
    """Decides on every path before anything opens it."""

    @property
    def root(self) -> Path | None:
        """The folder below which files may be read; `None` where none is set."""
        ...

    def place(self, target: str) -> Path:
        """Return the absolute path a target names, links resolved.

        Raises `Denied` where it may not be read, `InvalidInput` for what cannot be a path.
        """
        ...

    def check(self, path: Path, what: str) -> Path:
        """Return a path with its links resolved. `what` names what leads there. Raises `Denied`."""
        ...

    def holds(self, path: Path) -> bool:
        """Tell whether a resolved path may be read."""
        ...


@dataclass(frozen=True, slots=True)
class NoFiles:
    """No file at all."""

    @property
    def root(self) -> None:
        """The folder below which files may be read: there is none."""

    def place(self, target: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()

    def check(self, path: Path, what: str) -> Path:  # noqa: ARG002 - one shape for all kinds of access
        """Raise `Denied`."""
        raise _no_files()

    def holds(self, path: Path) -> bool:  # noqa: ARG002 - one shape for all kinds of access
        """Return false."""
        return False


def _no_files() -> Denied:
    return Denied(
        "This server may not read files.",
        hint="Start it with --files FOLDER, or give the text itself with mode 'source'.",
    )
