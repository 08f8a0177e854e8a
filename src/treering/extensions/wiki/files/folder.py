"""A wiki in a folder: read in its current state, and published as a whole.

A new wiki is prepared in a temporary folder next to it, which then replaces it, so that at every moment the folder has
the old wiki or the new one. Unchanged files stay the same files, and so do all files of other origin. Links are never
followed.
"""

import ctypes
import filecmp
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EBUSY, EINVAL, EMLINK, ENOSYS, ENOTSUP, EPERM, EXDEV
from pathlib import Path

from treering.core.errors import Conflict, InvalidInput
from treering.extensions.wiki.files.links import NoAddresses, SourceAddresses
from treering.extensions.wiki.files.manifest import MANIFEST, WikiManifest, read_manifest
from treering.extensions.wiki.files.rendering import (
    CitedText,
    FolderChanges,
    KnownFile,
    changes_for,
    is_edited,
    render_pages,
)
from treering.extensions.wiki.pages import PublishedWiki, WikiPage, WikiPlan
from treering.sources.reading.folder import read_bytes
from treering.system.machine import sync_folder

# What lies in a folder at a moment: to carry it into another one, and to see whether it changed meanwhile.


_MOST_ENTRIES = 50_000
_NO_LINKS = (EMLINK, ENOSYS, ENOTSUP, EPERM, EXDEV)


@dataclass(frozen=True, slots=True)
class FolderItem:
    """A file, folder or link, with what changes when it does. Links are not followed."""

    mode: int
    number: int
    size: int = 0
    changed: int = 0

    @property
    def is_file(self) -> bool:
        """Tell whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """Tell whether it is a folder."""
        return stat.S_ISDIR(self.mode)


Snapshot = Mapping[str, FolderItem]
"""By path below the folder, with `/`; a folder before what it holds."""


def snapshot(folder: Path) -> Snapshot:
    """Look at all that lies in a folder. Raises `InvalidInput` for one that cannot be replaced as a whole."""
    top = folder.lstat()
    if not stat.S_ISDIR(top.st_mode):
        raise InvalidInput(f"{folder} is not a folder.", hint="Give a folder, or a path that does not exist yet.")
    found: dict[str, FolderItem] = {}
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
        if len(found) >= _MOST_ENTRIES:
            raise InvalidInput(
                f"{folder} contains more than {_MOST_ENTRIES:,} files.", hint="Give the wiki its own folder."
            )
        found[path] = _item(status)
    return found


def is_unchanged(before: Snapshot, folder: Path) -> bool:
    """Tell whether a folder holds what it held."""
    now = dict(_walk(folder, ""))
    return now.keys() == before.keys() and all(_item(now[path]) == item for path, item in before.items())


def copy_item(item: FolderItem, source: Path, target: Path) -> None:
    """Put what is at one place at another as well: the same file under a second name where the disk can do that."""
    if item.is_folder:
        target.mkdir(exist_ok=True)
        shutil.copystat(source, target, follow_symlinks=False)
    elif stat.S_ISLNK(item.mode):
        target.symlink_to(os.readlink(source))  # noqa: PTH115 - the text of the link, as it is
    else:
        _second_name(source, target)


def _second_name(source: Path, target: Path) -> None:
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
        with suppress(FileNotFoundError):  # it went meanwhile: the comparison will tell
            status = entry.stat(follow_symlinks=False)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(Path(entry.path), f"{path}/")


def _item(status: os.stat_result) -> FolderItem:
    # What is in a folder is compared by itself; its own times change with any new name.
    if stat.S_ISDIR(status.st_mode):
        return FolderItem(status.st_mode, status.st_ino)
    return FolderItem(status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns)


def _can_be_carried(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


MOST_BYTES = 64 * 1024 * 1024
"""A file of a wiki that is larger is not read: no page is."""


def _no_text(_citation: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class WikiFolder:
    """The wiki in a folder. A `WikiPublisher`."""

    folder: Path
    addresses: SourceAddresses = field(default_factory=NoAddresses)
    """The targets of citations."""
    cited_text: CitedText = _no_text
    """Gives the text of cited lines, by which it is seen later whether they changed."""
    commit: str = ""
    """Of the repository, for the log."""
    date: str = ""
    """Of that commit, for the log, as YYYY-MM-DD."""

    def publish(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Replace the generated pages in the folder with these; all of them, or none.

        Raises `InvalidInput` for a folder that cannot be replaced as a whole, `Conflict` if it changed meanwhile,
        `Corrupt` for an unreadable manifest, `OSError`.
        """
        folder = self._place()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive_writer(folder.parent):
            _clear(folder)
            before = snapshot(folder) if folder.exists() else {}
            changes = self._changes(folder, before, plan, pages)
            if changes.manifest_text is not None:
                _switch(folder, before, changes)
        return changes.told

    def preview(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Return the changes of `publish` without making them. Raises the same errors."""
        folder = self._place()
        before = snapshot(folder) if folder.exists() else {}
        return self._changes(folder, before, plan, pages).told

    def manifest(self) -> WikiManifest:
        """Return the manifest of the written pages; an empty one if there is none. Raises `Corrupt`."""
        return _manifest(self._place())

    def known_files(self) -> dict[str, KnownFile]:
        """Return the current files of the pages in the manifest."""
        folder = self._place()
        return _known(folder, snapshot(folder) if folder.exists() else {}, self.manifest())

    def _changes(self, folder: Path, before: Snapshot, plan: WikiPlan, pages: Sequence[WikiPage]) -> FolderChanges:
        rendered = render_pages(plan, pages, addresses=self.addresses, cited_text=self.cited_text)
        manifest = _manifest(folder)
        known = _known(folder, before, manifest, [one.path for one in rendered])
        return changes_for(plan.title, rendered, manifest, known, commit=self.commit, date=self.date)

    def _place(self) -> Path:
        folder = Path(os.path.abspath(self.folder))  # noqa: PTH100 - `resolve` would follow a link in its place
        if folder.is_symlink():
            raise InvalidInput(f"{folder} is a symbolic link.", hint="Give the folder itself.")
        if folder.parent == folder or folder in (Path.home(), Path.cwd()):
            raise InvalidInput(f"A wiki cannot replace {folder}.", hint=f"Try {folder / 'wiki'}.")
        return folder.parent.resolve() / folder.name


def _manifest(folder: Path) -> WikiManifest:
    place = folder / MANIFEST
    if not place.is_symlink() and not place.exists():
        return WikiManifest()
    if place.is_symlink() or not place.is_file():
        raise InvalidInput(f"{place} is not a regular file.", hint="Remove it, or choose another folder.")
    return read_manifest(read_bytes(place, MOST_BYTES) or b"", place=str(place))


def _known(folder: Path, before: Snapshot, manifest: WikiManifest, more: Sequence[str] = ()) -> dict[str, KnownFile]:
    found: dict[str, KnownFile] = {}
    for path in {*manifest.files, *more}:
        blocked = any(above in before and not before[above].is_folder for above in _above(path))
        item = before.get(path)
        if blocked:
            found[path] = KnownFile(None)
        elif item is not None:
            data = read_bytes(folder / path, MOST_BYTES) if item.is_file else None
            found[path] = KnownFile(None if data is None or len(data) > MOST_BYTES else data)
    return found


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _beside(folder: Path, which: str) -> Path:
    return folder.with_name(f".{folder.name}.treering-{which}")


def _clear(folder: Path) -> None:
    """Remove what a killed process left beside the folder.

    What was not complete holds nothing that is not in the folder. What was complete is the new wiki, or the old one
    after the exchange: it goes where all in it is in the folder too or was written by Treering.
    """
    part, new = _beside(folder, "part"), _beside(folder, "new")
    restore_after_kill(new, folder)
    if new.is_dir() and not new.is_symlink():
        _check_disposable(new, folder)
        _discard(part)
        new.rename(part)
    _discard(part)


def _check_disposable(new: Path, folder: Path) -> None:
    records = [_manifest(new).files, _manifest(folder).files]
    for path, item in snapshot(new).items():
        if item.is_folder or path == MANIFEST or _is_same_file(new / path, folder / path):
            continue
        text = KnownFile(read_bytes(new / path, MOST_BYTES)).text if item.is_file else None
        if not any(path in files and not is_edited(files[path], text) for files in records):
            raise Conflict(
                f"{new / path} was left by an interrupted publication and exists nowhere else.",
                hint=f"Move it to its place, then delete {new}.",
            )


def _is_same_file(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    return other.is_file() and (one.samefile(other) or filecmp.cmp(one, other, shallow=False))


def _discard(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)


def _switch(folder: Path, before: Snapshot, changes: FolderChanges) -> None:
    part, new = _beside(folder, "part"), _beside(folder, "new")
    _stage(part, folder, before, changes)
    if not folder.exists():
        part.rename(folder)
        sync_folder(folder.parent)
        return
    part.rename(new)
    if not is_unchanged(before, folder):
        _give_up(new, part, folder)
    swap_folders(new, folder)
    if not is_unchanged(before, new):  # a person wrote while the folders were exchanged
        swap_folders(new, folder)
        _give_up(new, part, folder)
    new.rename(part)
    shutil.rmtree(part)


def _give_up(new: Path, part: Path, folder: Path) -> None:
    new.rename(part)
    shutil.rmtree(part)
    raise Conflict(f"{folder} changed during publication; nothing was done.", hint="Publish again.")


def _stage(part: Path, folder: Path, before: Snapshot, changes: FolderChanges) -> None:
    """Prepare the folder as it is to be."""
    part.mkdir()
    if folder.exists():
        shutil.copystat(folder, part)
    leaves = {MANIFEST, *changes.texts, *changes.told.removed}
    for path, item in before.items():
        if path not in leaves:
            copy_item(item, folder / path, part / path)
    for path, text in sorted(changes.texts.items()):
        (part / path).parent.mkdir(parents=True, exist_ok=True)
        _write(part / path, text)
    _write(part / MANIFEST, changes.manifest_text or "")
    for path in changes.told.removed:
        _remove_empty(part, path)
    for place in sorted({part, *((part / path).parent for path in changes.texts)}):
        sync_folder(place)


def _write(place: Path, text: str) -> None:
    with place.open("xb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _remove_empty(part: Path, path: str) -> None:
    """Remove the folders that held nothing but pages that are gone."""
    for above in reversed(_above(path)):
        with suppress(OSError):
            (part / above).rmdir()


# A prepared folder takes the place of another in one step.


_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_UNSUPPORTED = (ENOSYS, EINVAL, ENOTSUP)


@contextmanager
def exclusive_writer(folder: Path) -> Iterator[None]:
    """Keep other writers out that ask for the same; `folder` exists. It waits until they are done."""
    if os.name != "posix":
        yield
        return
    import fcntl  # there is none on Windows

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def swap_folders(new: Path, folder: Path) -> None:
    """Put `new` where `folder` is, and `folder` where `new` was. Raises `InvalidInput` for a mount point, `OSError`."""
    error = _exchange(new, folder)
    if error in _UNSUPPORTED:
        _rename_both(new, folder)
    elif error == EBUSY:
        raise InvalidInput(
            f"{folder} is in use: a disk is mounted there, or a program works in it.",
            hint=f"Give a folder below it, such as {folder / 'wiki'}.",
        )
    elif error:
        raise OSError(error, os.strerror(error), str(folder))
    sync_folder(folder.parent)


def restore_after_kill(new: Path, folder: Path) -> None:
    """Put an old folder back where a kill came between the two steps of a switch."""
    aside = _aside(new)
    if not aside.is_dir():
        return
    if not folder.exists():
        aside.rename(folder)
    elif not new.exists():
        aside.rename(new)
    sync_folder(folder.parent)


def _exchange(new: Path, folder: Path) -> int:
    """Return 0, or the number of the error."""
    call = _call_of_the_system()
    if call is None:
        return ENOSYS
    before, after = os.fsencode(new), os.fsencode(folder)
    if sys.platform == "darwin":
        outcome = call(before, after, _EXCHANGE)
    else:
        outcome = call(_AT_FDCWD, before, _AT_FDCWD, after, _EXCHANGE)
    return ctypes.get_errno() if outcome else 0


def _call_of_the_system() -> "ctypes._NamedFuncPointer | None":
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    found: ctypes._NamedFuncPointer | None = getattr(
        library, "renamex_np" if sys.platform == "darwin" else "renameat2", None
    )
    return found


def _rename_both(new: Path, folder: Path) -> None:
    aside = _aside(new)
    folder.rename(aside)
    new.rename(folder)
    aside.rename(new)


def _aside(new: Path) -> Path:
    return new.with_name(f"{new.name}-old")
