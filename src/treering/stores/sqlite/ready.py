"""What is kept ready beside the file of a space, and how the space stands, for a process that has no time to open it.

A text that is kept ready repeats what the space holds. So it lies in a folder beside the file, erasing objects removes
it, and whoever shows one first asks whether what it was made of is as it was. Imports little: see
`treering.parts.coding_agents.session_hooks`.
"""

import json
import os
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from treering.core.errors import Unavailable
from treering.stores.sqlite.files import ReadOnlyFile
from treering.system.machine import make_folder, write_new

_FOLDER = ".ready"
_PATIENCE_MS = 200
_IGNORED = ".gitignore"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a space stands at one moment."""

    head: int
    """The number of the last event of its audit log."""
    revisions: Mapping[str, int]
    """By its id, the revision of each object asked for; an object that is not there is left out."""


def ready_folder(path: str | Path, *, make: bool = False) -> Path:
    """Return the folder of what is kept ready beside a space. `make`: make it where it is missing. Raises `OSError`."""
    file = Path(os.path.realpath(path))
    folder = file.with_name(file.name + _FOLDER)
    if make and not (folder / _IGNORED).is_file():
        make_folder(folder)
        with suppress(FileExistsError):  # another process was first
            write_new(folder / _IGNORED, b"*\n")  # else whoever ingests the folder around it reads this, too
    return folder


def remove_ready(path: str | Path) -> None:
    """Remove what is kept ready beside a space. Raises `OSError`."""
    folder = ready_folder(path)
    if folder.is_dir():
        for file in folder.iterdir():
            if file.name != _IGNORED:
                file.unlink(missing_ok=True)


def standing(path: str | Path, ids: Collection[str] = ()) -> Standing:
    """Look how a space stands. Raises `Unavailable` where it cannot be read at once, or is not a space."""
    try:
        with closing(_connected(str(path))) as connection, connection:
            (head,) = next(connection.execute("SELECT coalesce(max(seq), 0) FROM audit"))
            asked = "SELECT id, revision FROM objects WHERE id IN (SELECT value FROM json_each(?))"
            revisions: dict[str, int] = dict(connection.execute(asked, (json.dumps([*ids]),)))
    except apsw.Error as error:
        raise Unavailable(f"{path} cannot be read: {error}.", hint="Look with `treering status`.") from error
    return Standing(head, revisions)


def _connected(path: str) -> apsw.Connection:
    fixed = ReadOnlyFile.at(path)
    # Not for reading only where it can be written: such a connection would leave its log behind.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI if fixed else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(fixed.address if fixed else path, flags)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.set_busy_timeout(_PATIENCE_MS)
    return connection
