"""The items of a folder at one moment, to copy them and to detect changes."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import EMLINK, ENOSYS, ENOTSUP, EPERM, EXDEV
from pathlib import Path

from treering.core.errors import InvalidInput

_MOST_ENTRIES = 50_000
_NO_LINKS = (EMLINK, ENOSYS, ENOTSUP, EPERM, EXDEV)


@dataclass(frozen=True, slots=True)
class FolderItem:
    """A file, folder or symbolic link, with the values that change when it is written."""

    mode: int
    number: int
    size: int = 0
    changed: int = 0

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.mode)


Snapshot = Mapping[str, FolderItem]
"""Items by path below the folder, with `/`; a folder comes before its content."""


def snapshot(folder: Path) -> Snapshot:
    """List all items of a folder. Raises `InvalidInput` if it cannot be replaced as a whole."""
    top = folder.lstat()
    if not stat.S_ISDIR(top.st_mode):
        raise InvalidInput(f"{folder} is not a folder.", hint="Give a folder, or a path that does not exist yet.")
    items: dict[str, FolderItem] = {}
    for path, status in _walk(folder, ""):
        if path == ".git":
            raise InvalidInput(
                f"{folder} is the root of a git work tree, which is never replaced as a whole.",
                hint=f"Give a folder below it, such as {folder / 'wiki'}.",
            )
        if status.st_dev != top.st_dev or not _can_be_carried(status.st_mode):
            raise InvalidInput(
                f"{folder / path} is neither a file nor a folder of the same disk.",
                hint="Publish to a folder that contains only files.",
            )
        if len(items) >= _MOST_ENTRIES:
            raise InvalidInput(
                f"{folder} contains more than {_MOST_ENTRIES:,} files.", hint="Give the wiki its own folder."
            )
        items[path] = _item(status)
    return items


def is_unchanged(before: Snapshot, folder: Path) -> bool:
    """Return whether a folder is unchanged since a snapshot."""
    now = dict(_walk(folder, ""))
    return now.keys() == before.keys() and all(_item(now[path]) == item for path, item in before.items())


def copy_item(item: FolderItem, source: Path, target: Path) -> None:
    """Copy an item; a file is hard-linked if the disk supports it."""
    if item.is_folder:
        target.mkdir(exist_ok=True)
        shutil.copystat(source, target, follow_symlinks=False)
    elif stat.S_ISLNK(item.mode):
        target.symlink_to(os.readlink(source))  # noqa: PTH115 - the text of the link, not resolved
    else:
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copy2(source, target, follow_symlinks=False)


def _walk(folder: Path, below: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        path = f"{below}{entry.name}"
        with suppress(FileNotFoundError):  # deleted in the meantime; the comparison detects it
            status = entry.stat(follow_symlinks=False)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(Path(entry.path), f"{path}/")


def _item(status: os.stat_result) -> FolderItem:
    # The items of a folder are compared separately, and its times change with every new name.
    if stat.S_ISDIR(status.st_mode):
        return FolderItem(status.st_mode, status.st_ino)
    return FolderItem(status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns)


def _can_be_carried(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
