"""A space as plain files: JSON lines for records, one file per text, Markdown notes; and back, with the same ids."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TextIO

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from treering.core.audit import GENESIS, Anchor
from treering.core.errors import Conflict, Corrupt, InvalidInput, NotFound, Unavailable
from treering.extensions.sharing.copying import copy_ledger, copy_vectors, head_of_copy
from treering.extensions.sharing.notes import write_notes
from treering.ports.index import CarryingIndex
from treering.ports.ledger import Ledger, Record
from treering.ports.models import Embedder
from treering.ports.runtime import collecting_seldom
from treering.ports.search import KeptVectors
from treering.ports.stores import Stores
from treering.spaces import wiring
from treering.spaces.wiring import Opening, author
from treering.system.address import Address
from treering.system.machine import make_folder, private, write_new
from treering.system.settings import Settings
from treering.verbs.engine import Progress, silent
from treering.verbs.envelope import DECIDES, READS, Call, Nothing, Operation, Value

FORMAT = "treering-export"
VERSION = 3
FILES = {
    "event": "events.jsonl",
    "revision": "revisions.jsonl",
    "segment": "segments.jsonl",
    "link": "links.jsonl",
    "patch": "patches.jsonl",
    "receipt": "receipts.jsonl",
}
_MANIFEST = "manifest.json"
_NOTES = "notes"
_BLOBS = "blobs"
_BLOB_NAME = re.compile(r"[0-9a-f]{64}")
_ROW: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_AGAIN = "Export the space again."


def export_space(ledger: Ledger, folder: Path) -> dict[str, int]:
    """Write everything in a ledger into a new folder; return the number of records per table.

    The folder appears only when it is complete. Raises `Conflict` if it already exists, and `Corrupt` if the ledger
    does not verify, so that a damaged space is never exported.
    """
    if folder.exists():
        raise Conflict(f"{folder} already exists.", hint="Choose a new folder for the export.")
    ledger.verify()
    partial = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        make_folder(partial / _BLOBS)
        manifest = _write(ledger, partial)
        make_folder(partial / _NOTES)
        write_notes(ledger, partial / _NOTES)
        write_new(partial / _MANIFEST, f"{manifest.model_dump_json(indent=2)}\n".encode())
        partial.rename(folder)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be written: {error.strerror}.", hint="Choose another folder.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest.counts


def import_space(ledger: Ledger, folder: Path) -> dict[str, int]:
    """Fill an empty ledger from an export; return the number of records per table.

    Raises `NotFound`, `InvalidInput` or `Corrupt` for an incomplete export, `Conflict` if the ledger is not empty;
    nothing was changed then.
    """
    manifest = _read_manifest(folder)
    ledger.load(_read(folder, manifest))
    return manifest.counts


class FolderInput(Value):
    """The folder of the plain files."""

    folder: Path = Field(description="A folder.")


class Moved(Value):
    """The records written or read."""

    folder: Path
    counts: dict[str, int]
    """The number of records per table."""


def _export(call: Call, given: FolderInput, _options: Nothing) -> Moved:
    return Moved(folder=given.folder, counts=export_space(call.engine.ledger, given.folder))


def _import(call: Call, given: FolderInput, _options: Nothing) -> Moved:
    counts = import_space(call.engine.ledger, given.folder)
    call.engine.vectoriser.start()
    return Moved(folder=given.folder, counts=counts)


EXPORT = Operation.of(
    "export",
    "Export a space as plain files into a new folder.",
    _export,
    rights=replace(READS, writes_files=True, needs_person=True),
)
IMPORT = Operation.of(
    "import",
    "Import an export into an empty space, with the same ids and the same audit log.",
    _import,
    rights=replace(DECIDES, reads_files=True),
    makes_space=True,
)


class _Manifest(BaseModel):
    """The contents of an export: the number of records per table, and the head of its audit log."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    format: str
    version: int
    head: Anchor
    counts: dict[str, int]


def _write(ledger: Ledger, folder: Path) -> _Manifest:
    counts, head = dict.fromkeys(FILES, 0), Anchor(seq=0, hash=GENESIS)
    with ExitStack() as files:
        lines: dict[str, TextIO] = {
            table: files.enter_context(open(folder / name, "x", encoding="utf-8", opener=private))
            for table, name in FILES.items()
        }
        for record in ledger.records():
            row = dict(record.row)
            if record.table == "event":
                head = Anchor(seq=row["seq"], hash=row["hash"])
            if record.table == "segment":
                row["blob"] = _write_blob(folder, row.pop("text"))
            lines[record.table].write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
            counts[record.table] += 1
    return _Manifest(format=FORMAT, version=VERSION, head=head, counts=counts)


def _write_blob(folder: Path, text: str) -> str:
    data = text.encode()
    name = hashlib.sha256(data).hexdigest()
    path = folder / _BLOBS / name[:2] / name
    if not path.exists():
        make_folder(path.parent)
        with open(path, "xb", opener=private) as file:
            file.write(data)
    return name


def _read_manifest(folder: Path) -> _Manifest:
    path = folder / _MANIFEST
    if not path.is_file():
        raise NotFound(f"{folder} is not an export.", hint=f"Give a folder with a {_MANIFEST}.")
    try:
        manifest = _Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise Corrupt(f"{path} cannot be read.", hint=_AGAIN) from error
    if manifest.format != FORMAT or manifest.version > VERSION:
        raise InvalidInput(f"{path} is not an export that this Treering can read.", hint="Upgrade Treering.")
    return manifest


def _read(folder: Path, manifest: _Manifest) -> Iterator[Record]:
    """Yield the records; raise `Corrupt` at the first that differs from the manifest."""
    for table, name in FILES.items():
        count, last = 0, None
        for last in _read_table(folder, table):
            count += 1
            yield last
        if count != manifest.counts.get(table):
            raise Corrupt(f"{name} has {count} lines instead of {manifest.counts.get(table)}.", hint=_AGAIN)
        head = manifest.head
        if table == "event" and last and (last.row.get("seq"), last.row.get("hash")) != (head.seq, head.hash):
            raise Corrupt(f"{name} does not end at the event named in {_MANIFEST}.", hint=_AGAIN)


def _read_table(folder: Path, table: str) -> Iterator[Record]:
    path = folder / FILES[table]
    if not path.is_file():
        raise Corrupt(f"{path} is missing.", hint=_AGAIN)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            yield _record(folder, table, line, f"{path.name} line {number}")


def _record(folder: Path, table: str, line: bytes, place: str) -> Record:
    try:
        row = _ROW.validate_json(line)
        if table == "segment":
            row["text"] = _read_blob(folder, str(row.pop("blob")))
    except (ValidationError, KeyError) as error:
        raise Corrupt(f"{place} cannot be read.", hint=_AGAIN) from error
    return Record(table, row)


def _read_blob(folder: Path, name: str) -> str:
    path = folder / _BLOBS / name[:2] / name
    data = path.read_bytes() if _BLOB_NAME.fullmatch(name) and path.is_file() else b""
    if hashlib.sha256(data).hexdigest() != name:
        raise Corrupt(f"The blob {name} is missing or was modified.", hint=_AGAIN)
    return data.decode()


class MoveReport(Value):
    """The verified content at the new address."""

    head: Anchor
    """The head of the audit log."""
    counts: dict[str, int]
    """The number of records per table."""
    vectors: int
    """The number of copied vectors. Passages without one are embedded when the space is next opened."""


def move(
    source: str | Address, target: str | Address, *, progress: Progress = silent, embedder: Embedder | None = None
) -> MoveReport:
    """Copy a space to another address, or resume an interrupted copy; `treering.move` is this function.

    The source stays unchanged. The copy has the same ids, revisions, audit events, patches and idempotency keys; both
    are compared record by record, and the copy is verified. Vectors and extracted statements are copied if both sides
    store them. Calling it again copies later writes. Until the copy is complete and verified, it cannot be opened.
    Raises `InvalidInput` for unsupported addresses, `NotFound` if there is no source, `Conflict` if the target contains
    other data or the source is written continuously, and the errors of opening.
    """
    settings = Settings.read()
    places = [settings.space_address(one) for one in (source, target)]
    _check_places(*places)
    with ExitStack() as closing, collecting_seldom():
        opened: list[Stores] = []
        # An anchor that is set is the source's. The target's log is behind it until the end.
        for place, known in zip(places, (settings, replace(settings, anchor="")), strict=True):
            create = bool(opened)
            opening = Opening(
                place, known, author(None, "agent", known), create=create, embedder=embedder, arriving=create
            )
            opened.append(wiring.open_stores(opening))
            closing.callback(opened[-1].close)
        old, new = opened
        head_of_copy(old.ledger, new.ledger)  # refuse a target that is no copy of this source before marking it
        if new.arrival:
            new.arrival.begin()
        if isinstance(new.index, CarryingIndex):
            new.index.carry_from(old.index)
        report = copy_ledger(old.ledger, new.ledger, told=progress)
        made = new.index.carried_vectors if isinstance(new.index, CarryingIndex) else 0
        if isinstance(old.index.vectors, KeptVectors):  # vectors embedded during the copy
            made += copy_vectors(old.index.vectors, new.index.vectors, told=progress)
        if new.arrival:
            new.arrival.end()
    return MoveReport(head=report.head, counts=report.counts, vectors=made)


def _check_places(source: Address, target: Address) -> None:
    for place in (source, target):
        if place.in_memory:
            raise InvalidInput(
                "A space in memory cannot be moved: it ends with its process.", hint="Give a file or a database."
            )
    same = source.url == target.url
    if source.file and target.file and target.file.exists():
        same = same or (source.file.exists() and source.file.samefile(target.file))
    if same:
        raise InvalidInput(f"{source} is the space itself.", hint="Choose another target.")
