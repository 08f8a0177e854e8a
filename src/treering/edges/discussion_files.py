"""A discussion as files in a folder: `memories.discussion.files` says what is in them."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from treering.core.errors import NotFound, Unavailable
from treering.edges.private_files import make_folder
from treering.memories.discussion.files import NAMES, STATE
from treering.memories.discussion.memory import Discussion
from treering.memories.discussion.restoring import Imported


def write_discussion(discussion: Discussion, folder: Path | str) -> dict[str, int]:
    """Write a discussion into a folder; return the number of lines of each file but the state document.

    Each file is whole, or as it was before. Raises `Unavailable` where the folder cannot be written.
    """
    texts, place = discussion.export(), Path(folder)
    try:
        make_folder(place)
        for name, text in texts.items():
            _write(place / name, text)
    except OSError as error:
        raise Unavailable(f"{place} cannot be written: {error.strerror}.", hint="Choose another folder.") from error
    return {name: text.count("\n") for name, text in texts.items() if name != STATE}


def read_discussion(discussion: Discussion, folder: Path | str) -> Imported:
    """Read the files of a folder into a discussion (`memories.discussion.restoring`).

    Raises `NotFound` for a folder without any of them, `Unavailable` where one cannot be read.
    """
    place = Path(folder)
    found = {name: _text(place / name) for name in NAMES if (place / name).is_file()}
    if not found:
        raise NotFound(f"{place} holds no discussion.", hint=f"Name a folder with {NAMES[0]} or {STATE}.")
    return discussion.import_from(found)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.", hint="Check its permissions.") from error


def _write(path: Path, text: str) -> None:
    """Write a file as a whole: under another name first, then in the place of the old one."""
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8") as file:
        partial = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
