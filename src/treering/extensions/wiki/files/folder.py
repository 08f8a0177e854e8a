"""A wiki in a folder, published atomically.

A new wiki is prepared in a temporary folder next to the old one and then replaces it, so that the folder always has
either the old or the new wiki. Unchanged files and files of other origin are preserved. Symbolic links are not
followed.
"""

import filecmp
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from treering.core.errors import Conflict, InvalidInput
from treering.extensions.wiki.files.addresses import SourceAddress, no_address
from treering.extensions.wiki.files.changes import FolderChanges, KnownFile, changes_for, is_edited
from treering.extensions.wiki.files.manifest import MANIFEST, WikiManifest, read_manifest
from treering.extensions.wiki.files.rendering import CitedText, render_pages
from treering.extensions.wiki.files.snapshot import Snapshot, copy_item, is_unchanged, snapshot
from treering.extensions.wiki.files.swapping import exclusive_writer, restore_after_kill, swap_folders
from treering.extensions.wiki.pages import PublishedWiki, WikiPage, WikiPlan
from treering.sources.reading.folder import read_bytes
from treering.system.machine import sync_folder

MOST_BYTES = 64 * 1024 * 1024
"""Larger files are not read; no page is that large."""


def _no_text(_citation: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class WikiFolder:
    """The wiki in a folder. A `WikiPublisher`."""

    folder: Path
    addresses: SourceAddress = no_address
    """The targets of citations."""
    cited_text: CitedText = _no_text
    """Returns the text of cited lines, to detect later changes."""
    commit: str = ""
    """The commit of the repository, for the log."""
    date: str = ""
    """The date of the commit, for the log, as YYYY-MM-DD."""

    def publish(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Replace the generated pages in the folder with these, atomically.

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
        return changes.published

    def preview(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Return the changes of `publish` without making them. Raises the same errors."""
        folder = self._place()
        before = snapshot(folder) if folder.exists() else {}
        return self._changes(folder, before, plan, pages).published

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
        folder = Path(os.path.abspath(self.folder))  # noqa: PTH100 - `resolve` follows symbolic links
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
    files: dict[str, KnownFile] = {}
    for path in {*manifest.files, *more}:
        blocked = any(above in before and not before[above].is_folder for above in _above(path))
        item = before.get(path)
        if blocked:
            files[path] = KnownFile(None)
        elif item is not None:
            data = read_bytes(folder / path, MOST_BYTES) if item.is_file else None
            files[path] = KnownFile(None if data is None or len(data) > MOST_BYTES else data)
    return files


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _sibling(folder: Path, which: str) -> Path:
    return folder.with_name(f".{folder.name}.treering-{which}")


def _clear(folder: Path) -> None:
    """Remove the temporary folders of a killed process.

    An incomplete one (`part`) has no content of its own. A complete one (`new`) is the new wiki, or the old one after
    the swap; it is removed only if all its files are also in the folder or were written by Treering.
    """
    part, new = _sibling(folder, "part"), _sibling(folder, "new")
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
    part, new = _sibling(folder, "part"), _sibling(folder, "new")
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
    """Prepare the new folder."""
    part.mkdir()
    if folder.exists():
        shutil.copystat(folder, part)
    replaced = {MANIFEST, *changes.texts, *changes.published.removed}
    for path, item in before.items():
        if path not in replaced:
            copy_item(item, folder / path, part / path)
    for path, text in sorted(changes.texts.items()):
        (part / path).parent.mkdir(parents=True, exist_ok=True)
        _write(part / path, text)
    _write(part / MANIFEST, changes.manifest_text or "")
    for path in changes.published.removed:
        _remove_empty(part, path)
    for place in sorted({part, *((part / path).parent for path in changes.texts)}):
        sync_folder(place)


def _write(place: Path, text: str) -> None:
    with place.open("xb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _remove_empty(part: Path, path: str) -> None:
    """Remove folders that are empty now."""
    for above in reversed(_above(path)):
        with suppress(OSError):
            (part / above).rmdir()
