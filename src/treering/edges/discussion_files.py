"""A discussion as files in a folder: `memories.discussion.files` says what is in them."""

import os
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from pydantic import Field

from treering.core.errors import NotFound, Unavailable
from treering.edges.private_files import make_folder
from treering.edges.sources.wilmer.importing import ImportedFile, WilmerImport
from treering.memories.discussion.files import NAMES, STATE
from treering.memories.discussion.memory import Discussion, DiscussionMemory
from treering.memories.discussion.operations import DiscussionInput, known_discussion
from treering.memories.discussion.restoring import Imported
from treering.tools.envelope import Call, Nothing, Operation, Value
from treering.tools.rights import READS, WRITES


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


class FilesInput(DiscussionInput):
    """Which discussion, and where its files are."""

    path: Path = Field(description="A folder; to import, also a file of WilmerAI.")


class Exported(Value):
    """What was written. `counts`: the number of lines of each file but the state document."""

    id: str
    folder: Path
    counts: dict[str, int]


class ImportReport(Value):
    """What came in. `held`: the discussion had messages before, so that only the state document was read."""

    id: str
    held: bool
    report: Imported | ImportedFile


def _export(call: Call, given: FilesInput, _options: Nothing) -> Exported:
    discussion = known_discussion(call, given.id)
    return Exported(id=discussion.id, folder=given.path, counts=write_discussion(discussion, given.path))


def _import(call: Call, given: FilesInput, _options: Nothing) -> ImportReport:
    discussion = DiscussionMemory(call.engine, within=call.scope).open(given.id)
    held = discussion.log.exists()
    if given.path.is_dir():
        return ImportReport(id=discussion.id, held=held, report=read_discussion(discussion, given.path))
    content = given.path.read_bytes()
    brought = WilmerImport(call.engine, discussion.ref).bring(given.path.name, content)
    return ImportReport(id=discussion.id, held=held, report=brought)


EXPORT = Operation(
    "discussion export",
    "Write a discussion as plain files into a folder.",
    FilesInput,
    Nothing,
    Exported,
    _export,
    rights=replace(READS, writes_files=True, needs_person=True),
)
IMPORT = Operation(
    "discussion import",
    "Read a folder of an export, or a file of WilmerAI.",
    FilesInput,
    Nothing,
    ImportReport,
    _import,
    rights=replace(WRITES, reads_files=True, needs_person=True),
    makes_space=True,
)


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
