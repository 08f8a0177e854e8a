"""The folder with files that are prepared for a space, and reads of a space that is not opened.

The folder is in the user's data folder, and only the user can open it. Others who can write next to the space, such as
the author of a repository, can neither add files nor truncate mapped ones.
"""

import json
import os
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import apsw

from treering.core.errors import InvalidInput, Unavailable
from treering.stores.sqlite.files import ReadOnlyFile
from treering.system.machine import check_private, make_folder, own_user, replace_file, write_new
from treering.system.settings import data_folder

_FOLDER = "ready"
_SPACE = "space"
"""The file with the path of the space."""
_FORMERLY_BESIDE = ".ready"
"""The suffix of the folder next to the space in which earlier versions stored the files. It is deleted."""
_PATIENCE_MS = 200


def ready_folder(path: str | Path, *, make: bool = False) -> Path:
    """Return the folder with the files prepared for a space. `make`: create it if it is missing.

    Raises `OSError`, also if other users can open the folder.
    """
    file = os.path.realpath(path)
    everything = _everything()
    folder = everything / sha256(os.fsencode(file)).hexdigest()[:32]
    for place in (everything, folder):
        if make:
            _make_private(place)
        check_private(place)
    if make and not (folder / _SPACE).exists():
        with suppress(FileExistsError):  # another process was first
            write_new(folder / _SPACE, os.fsencode(file))
        with suppress(OSError):
            _remove_outdated(everything, Path(file))
    return folder


def remove_ready(path: str | Path) -> None:
    """Delete the files prepared for a space, and those for spaces that no longer exist. Raises `OSError`."""
    folder = ready_folder(path)
    if folder.is_dir():
        for file in folder.iterdir():
            if file.name != _SPACE:
                file.unlink(missing_ok=True)
    _remove_outdated(folder.parent, Path(os.path.realpath(path)))


@dataclass(frozen=True, slots=True)
class ReadyFiles:
    """`ports.stores.ReadyValues` in the ready folder of a space."""

    space: str | Path

    def read(self, name: str) -> Any:
        """Return a value, or `None` if there is none or it is damaged."""
        with suppress(OSError):
            return unsealed((ready_folder(self.space) / name).read_bytes())
        return None

    def write(self, name: str, value: Any) -> None:
        """Store a value, unless the folder cannot be written."""
        with suppress(OSError):
            replace_file(ready_folder(self.space, make=True) / name, sealed(value))


def sealed(value: Any) -> bytes:
    """Return a value as a checksum and a line of JSON."""
    data = json.dumps(value).encode()
    return _checksum(data) + b" " + data


def unsealed(line: bytes) -> Any:
    """Return the value of a line that `sealed` returned; `None` if the line is damaged."""
    checksum, _, data = line.partition(b" ")
    return json.loads(data) if checksum == _checksum(data) else None


def _everything() -> Path:
    try:
        return data_folder() / _FOLDER
    except InvalidInput as error:
        raise FileNotFoundError(error.message) from error


def _make_private(folder: Path) -> None:
    """Create a folder. Delete one that other users can open first, because its files may be theirs."""
    with suppress(FileNotFoundError):
        if own_user() is not None and folder.lstat().st_mode & 0o077:
            # Imported here to save time in hooks that only read.
            import shutil

            shutil.rmtree(folder)
    make_folder(folder)


def _remove_outdated(everything: Path, file: Path) -> None:
    import shutil  # as above

    beside = file.with_name(file.name + _FORMERLY_BESIDE)
    if beside.is_dir() and not beside.is_symlink():
        shutil.rmtree(beside)
    for folder in _of_lost_spaces(everything):
        shutil.rmtree(folder, ignore_errors=True)


def _of_lost_spaces(everything: Path) -> Iterator[Path]:
    for named in everything.glob(f"*/{_SPACE}"):
        with suppress(OSError, ValueError):
            if not os.path.lexists(os.fsdecode(named.read_bytes())):
                yield named.parent


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).hexdigest().encode()


def missing(path: str | Path, ids: Collection[str]) -> set[str]:
    """Return the ids that no object of a space has. Raises `Unavailable` if the file cannot be read at once."""
    try:
        with closing(_connected(str(path))) as connection, connection:
            sql = "SELECT id FROM objects WHERE id IN (SELECT value FROM json_each(?))"
            existing = {identity for (identity,) in connection.execute(sql, (json.dumps([*ids]),))}
    except apsw.Error as error:
        raise Unavailable(f"{path} cannot be read: {error}.", hint="Check it with `treering status`.") from error
    return {*ids} - existing


def _connected(path: str) -> apsw.Connection:
    fixed = ReadOnlyFile.at(path)
    # A file that can be written is not opened read-only, because such a connection would not delete its log.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI if fixed else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(fixed.address if fixed else path, flags)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.set_busy_timeout(_PATIENCE_MS)
    return connection
