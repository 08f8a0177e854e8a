"""Files and folders for their owner alone, from the first moment: no other user can open them before a mode is set.

The modes apply to POSIX systems. A file or folder that is there already keeps the mode it has.
"""

import os
from pathlib import Path

_FOLDER = 0o700
_FILE = 0o600


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing. Raises `OSError`."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=_FOLDER, exist_ok=True)


def private(path: str, flags: int) -> int:
    """Open a file, for its owner alone where this makes it: the `opener` of `open`."""
    return os.open(path, flags, _FILE)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, durably. Raises `FileExistsError` and other `OSError`."""
    with open(path, "xb", opener=private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(file: Path, data: bytes, *, mode: int | None = None) -> None:
    """Give a file new contents in one step, durably; where it is a link, what that leads to. Raises `OSError`.

    Its mode stays. `mode`: that of a new file; default for its owner alone.
    """
    # Imported here: the hooks of coding agents write no such file, and have no time for it.
    from tempfile import NamedTemporaryFile

    place = Path(os.path.realpath(file))
    kept = place.stat().st_mode & 0o777 if place.exists() else mode
    with NamedTemporaryFile(dir=place.parent, delete=False) as new:
        new.write(data)
        new.flush()
        os.fsync(new.fileno())
    if kept is not None:
        Path(new.name).chmod(kept)
    Path(new.name).replace(place)


def sync_folder(folder: Path) -> None:
    """Make durable what was made, renamed or removed in a folder."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
