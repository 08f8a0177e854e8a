"""A wiki in a folder: read as it lies, and published whole.

A wiki is prepared in a folder beside and then exchanged with the one that is there, so that at every moment the folder
is the old wiki or the new one. Files that do not change are the same files in both; so is everything that is not
Treering's. Links are never followed.
"""

import filecmp
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from treering.core.errors import Conflict, InvalidInput
from treering.edges.private_files import sync_folder
from treering.edges.sources.folder import read_bytes
from treering.edges.wiki_files.snapshot import Snapshot, carry, same, snapshot
from treering.edges.wiki_files.switching import exchange, lone_writer, recover
from treering.memories.wiki.files.addresses import NoAddresses, SourceAddresses
from treering.memories.wiki.files.changes import FolderChanges, KnownFile, changes_for, is_edited
from treering.memories.wiki.files.manifest import MANIFEST, WikiManifest, read_manifest
from treering.memories.wiki.files.rendering import CitedText, render_pages
from treering.memories.wiki.pages import PublishedWiki, WikiPage, WikiPlan

MOST_BYTES = 64 * 1024 * 1024
"""A file of a wiki that is larger is not read: no page is."""


def _no_text(_citation: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class WikiFolder:
    """The wiki in a folder. A `WikiPublisher`."""

    folder: Path
    addresses: SourceAddresses = field(default_factory=NoAddresses)
    """Where citations lead."""
    cited_text: CitedText = _no_text
    """Gives the text of cited lines, by which it is seen later whether they changed."""
    commit: str = ""
    """Of the repository, for the log."""
    date: str = ""
    """Of that commit, for the log, as YYYY-MM-DD."""

    def publish(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Make the folder hold these pages and no other generated ones; all of them, or none.

        Raises `InvalidInput` for a folder that cannot be replaced as a whole, `Conflict` where somebody changed it
        meanwhile, `Corrupt` for a manifest that cannot be read, `OSError`.
        """
        folder = self._place()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lone_writer(folder.parent):
            _clear(folder)
            before = snapshot(folder) if folder.exists() else {}
            changes = self._changes(folder, before, plan, pages)
            if changes.manifest_text is not None:
                _switch(folder, before, changes)
        return changes.told

    def preview(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Return what `publish` would do, and do nothing. Raises as it does."""
        folder = self._place()
        before = snapshot(folder) if folder.exists() else {}
        return self._changes(folder, before, plan, pages).told

    def manifest(self) -> WikiManifest:
        """Return what was written there; an empty one where nothing was. Raises `Corrupt`."""
        return _manifest(self._place())

    def known_files(self) -> dict[str, KnownFile]:
        """Return the files that lie there under the names of the manifest, and what became of them."""
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
            raise InvalidInput(f"{folder} is a symbolic link.", hint="Name the folder itself.")
        if folder.parent == folder or folder in (Path.home(), Path.cwd()):
            raise InvalidInput(f"A wiki cannot take the place of {folder}.", hint=f"Try {folder / 'wiki'}.")
        return folder.parent.resolve() / folder.name


def _manifest(folder: Path) -> WikiManifest:
    place = folder / MANIFEST
    if not place.is_symlink() and not place.exists():
        return WikiManifest()
    if place.is_symlink() or not place.is_file():
        raise InvalidInput(f"{place} is not a regular file.", hint="Remove it, or name another folder.")
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
    recover(new, folder)
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
                f"{new / path} was left by a publication that was killed, and is nowhere else.",
                hint=f"Move it to where it belongs, and remove {new}.",
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
    if not same(before, folder):
        _give_up(new, part, folder)
    exchange(new, folder)
    if not same(before, new):  # a person wrote while the folders were exchanged
        exchange(new, folder)
        _give_up(new, part, folder)
    new.rename(part)
    shutil.rmtree(part)


def _give_up(new: Path, part: Path, folder: Path) -> None:
    new.rename(part)
    shutil.rmtree(part)
    raise Conflict(f"{folder} changed while the wiki was published; nothing was done.", hint="Publish again.")


def _stage(part: Path, folder: Path, before: Snapshot, changes: FolderChanges) -> None:
    """Prepare the folder as it is to be."""
    part.mkdir()
    if folder.exists():
        shutil.copystat(folder, part)
    leaves = {MANIFEST, *changes.texts, *changes.told.removed}
    for path, item in before.items():
        if path not in leaves:
            carry(item, folder / path, part / path)
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
