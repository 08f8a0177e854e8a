"""A discussion as files in a folder; see `extensions.discussions.files` for their content."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from treering.core.errors import InvalidInput, NotFound, Unavailable
from treering.extensions.discussions import operations
from treering.extensions.discussions.files import NAMES, STATE
from treering.extensions.discussions.memory import Discussion, DiscussionMemory
from treering.extensions.discussions.operations import DiscussionInput, known_discussion
from treering.extensions.discussions.restoring import Imported
from treering.extensions.discussions.wilmer import ImportedFile, WilmerImport
from treering.extensions.discussions.wilmer_files import STATE as WILMER_STATE
from treering.extensions.discussions.wilmer_files import WILMER_NAMES, WilmerFile, read_file, wilmer_files
from treering.system.machine import make_folder, replace_file
from treering.verbs.envelope import READS, WRITES, Call, Nothing, Operation, Value

ExportForm = Literal["treering", "wilmer", "wilmer-folder"]
"""The format: Treering's files, which contain everything, or WilmerAI's.

WilmerAI's names begin with the discussion's id, or are those in the folder of a discussion, which it reads now.
"""


def write_discussion(discussion: Discussion, folder: Path | str, *, form: ExportForm = "treering") -> dict[str, int]:
    """Write a discussion into a folder; return the number of entries of each file of lines or lists.

    `form`: Treering's files, or WilmerAI's, which contain no messages: `<id>_memories.jsonl`, `<id>_summary.jsonl` and
    `<id>_vector_memory.db`, or for `wilmer-folder` `memories.json`, `chat_summary.json` and `vector_memory.db`. Each
    file is complete or unchanged. Raises `Unavailable` if the folder cannot be written.
    """
    place = Path(folder)
    if form == "treering":
        files = {name: text.encode() for name, text in discussion.export().items()}
    else:
        files = wilmer_files(discussion, as_folder=form == "wilmer-folder")
    try:
        make_folder(place)
        for name, content in files.items():
            replace_file(place / name, content, private=True)
    except OSError as error:
        raise Unavailable(f"Cannot write {place}: {error.strerror}.", hint="Choose another folder.") from error
    lines = {name: content.count(b"\n") for name, content in files.items() if name.endswith(_LINES)}
    return lines | {name: len(json.loads(content)) for name, content in files.items() if name.endswith(_LIST)}


def read_discussion(discussion: Discussion, folder: Path | str) -> Imported:
    """Read the files of a folder into a discussion: Treering's (`extensions.discussions.restoring`) or WilmerAI's.

    Of WilmerAI's, reads the files with the discussion's id, or with the only id. Raises `NotFound` for a folder without
    any, `InvalidInput` for files of several ids, `Unavailable` if a file cannot be read.
    """
    place = Path(folder)
    texts = {name: _bytes(place / name).decode(errors="replace") for name in NAMES if (place / name).is_file()}
    if texts:
        return discussion.import_from(texts)
    names = _wilmer_names(place, discussion.id)
    if not names:
        raise NotFound(
            f"{place} does not contain a discussion.",
            hint=f"Give a folder with {NAMES[0]} or {STATE}, or with {discussion.id}_{WILMER_NAMES[0]}.",
        )
    return _import_files(WilmerImport(discussion.engine, discussion.ref), [place / name for name in names])


def _wilmer_names(folder: Path, identity: str) -> list[str]:
    """Return the names of the WilmerAI files of one discussion, the most detailed file first."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    by_id: dict[str, list[str]] = {}
    for ending in WILMER_NAMES:
        for name in names:
            if name.endswith(f"_{ending}") or name == ending:
                by_id.setdefault(name.removesuffix(ending).removesuffix("_"), []).append(name)
    if identity not in by_id and len(by_id) > 1:
        known = ", ".join(sorted(by_id)[:_MAX_IDS])
        raise InvalidInput(
            f"{folder} contains files of several discussions, but none of {identity!r}.",
            hint=f"Import one file, or import into a discussion with the same id: {known}.",
        )
    return by_id[identity] if identity in by_id else next(iter(by_id.values()), [])


def _import_files(into: WilmerImport, paths: Sequence[Path]) -> Imported:
    """Import files; a memory that is in several of them is imported once."""
    known: set[str] = set()
    files: list[WilmerFile] = []
    total = Imported()
    for path in paths:
        content = _bytes(path)
        one = into.bring(path.name, content, known=known)
        files.append(read_file(path.name, content))
        known |= {memory.text for memory in files[-1].memories}
        is_state = path.name.endswith(WILMER_STATE)
        total = replace(
            total,
            memories=total.memories + one.memories,
            summaries=total.summaries + (one.summary and not is_state),
            state=total.state or (one.summary and is_state),
            rejected=(*total.rejected, *(f"{path.name}: {each}" for each in one.rejected)),
        )
    return replace(total, summaries=total.summaries + into.append_waiting(files))


class FilesInput(DiscussionInput):
    """The discussion and the folder of its files."""

    path: Path = Field(description="A folder; for import, also a WilmerAI file.")


class ExportOptions(Value):
    """In which form."""

    form: ExportForm = Field(
        default="treering",
        description="Treering's files, or WilmerAI's, which contain no messages: with the id in their names, or as in "
        "its folder of a discussion.",
    )


class Exported(Value):
    """The written files. `counts`: the number of entries of each JSON file."""

    id: str
    folder: Path
    counts: dict[str, int]


class ImportReport(Value):
    """The imported content. `held`: the discussion already had messages, so only its state document was imported."""

    id: str
    held: bool
    report: Imported | ImportedFile


def _export(call: Call, given: FilesInput, options: ExportOptions) -> Exported:
    discussion = known_discussion(call, given.id)
    counts = write_discussion(discussion, given.path, form=options.form)
    return Exported(id=discussion.id, folder=given.path, counts=counts)


def _import(call: Call, given: FilesInput, _options: Nothing) -> ImportReport:
    discussion = DiscussionMemory(call.engine, within=call.scope).open(given.id)
    has_messages = discussion.log.exists()
    if given.path.is_dir():
        has_messages = has_messages and any((given.path / name).is_file() for name in NAMES)
        return ImportReport(id=discussion.id, held=has_messages, report=read_discussion(discussion, given.path))
    report = WilmerImport(call.engine, discussion.ref).bring(given.path.name, given.path.read_bytes())
    return ImportReport(id=discussion.id, held=has_messages, report=report)


EXPORT = Operation.of(
    "discussion export",
    "Export a discussion as plain files into a folder.",
    _export,
    rights=replace(READS, writes_files=True, needs_person=True),
)
IMPORT = Operation.of(
    "discussion import",
    "Import an exported folder or a WilmerAI file.",
    _import,
    rights=replace(WRITES, reads_files=True, needs_person=True),
    makes_space=True,
)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unavailable(f"Cannot read {path}: {error.strerror}.", hint="Check its permissions.") from error


_LINES, _LIST = ".jsonl", ".json"
_MAX_IDS = 10


OPERATIONS = (*operations.OPERATIONS, EXPORT, IMPORT)
"""All operations on discussions."""
