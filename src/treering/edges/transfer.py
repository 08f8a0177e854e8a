"""A space as plain files: JSON lines for records, one file per text; and back, with the same ids and audit."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from treering.core.errors import Conflict, Corrupt, InvalidInput, NotFound, Unavailable
from treering.ports.ledger import Ledger, Record

FORMAT = "treering-export"
VERSION = 1
TABLES = ("event", "revision", "segment", "link", "patch", "receipt")
_MANIFEST = "manifest.json"
_BLOBS = "blobs"


def export_space(ledger: Ledger, folder: Path) -> dict[str, int]:
    """Write everything a ledger holds into a new folder; give the number of records per table.

    The folder appears only when it is complete. Raises `Conflict` where it exists already.
    """
    if folder.exists():
        raise Conflict(f"{folder} exists already.", hint="Name a new folder for the export.")
    partial = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / _BLOBS).mkdir(parents=True)
        counts = _write(ledger, partial)
        head = ledger.verify()
        manifest = {"format": FORMAT, "version": VERSION, "head": head.model_dump(), "counts": counts}
        (partial / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        partial.rename(folder)
    except OSError as error:
        raise Unavailable(f"{folder} cannot be written: {error.strerror}.", hint="Choose another place.") from error
    return counts


def import_space(ledger: Ledger, folder: Path) -> dict[str, int]:
    """Fill an empty ledger from an export; give the number of records per table.

    Raises `NotFound`, `InvalidInput` or `Corrupt` for a folder that is no whole export, `Conflict` where the
    ledger is not empty; nothing was changed then.
    """
    manifest = _read_manifest(folder)
    ledger.load(_read(folder))
    counts: dict[str, int] = manifest["counts"]
    return counts


def _write(ledger: Ledger, folder: Path) -> dict[str, int]:
    counts = dict.fromkeys(TABLES, 0)
    with ExitStack() as files:
        lines: dict[str, TextIO] = {
            table: files.enter_context((folder / f"{table}s.jsonl").open("w", encoding="utf-8")) for table in TABLES
        }
        for record in ledger.records():
            row = dict(record.row)
            if record.table == "segment":
                row["blob"] = _write_blob(folder, row.pop("text"))
            lines[record.table].write(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n")
            counts[record.table] += 1
    return counts


def _write_blob(folder: Path, text: str) -> str:
    data = text.encode()
    name = hashlib.sha256(data).hexdigest()
    path = folder / _BLOBS / name[:2] / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return name


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    if not path.is_file():
        raise NotFound(f"{folder} holds no export.", hint=f"Name a folder with a {_MANIFEST}.")
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Corrupt(f"{path} cannot be read.", hint="Export the space again.") from error
    if manifest.get("format") != FORMAT or manifest.get("version", 0) > VERSION:
        raise InvalidInput(f"{path} is not an export this Treering can read.", hint="Upgrade Treering.")
    return manifest


def _read(folder: Path) -> Iterator[Record]:
    for table in TABLES:
        path = folder / f"{table}s.jsonl"
        if not path.is_file():
            raise Corrupt(f"{path} is missing.", hint="Export the space again.")
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                yield _record(folder, table, line, f"{path.name} line {number}")


def _record(folder: Path, table: str, line: str, place: str) -> Record:
    try:
        row = json.loads(line)
        if table == "segment":
            row["text"] = _read_blob(folder, row.pop("blob"))
    except (json.JSONDecodeError, KeyError, AttributeError) as error:
        raise Corrupt(f"{place} cannot be read.", hint="Export the space again.") from error
    return Record(table, row)


def _read_blob(folder: Path, name: str) -> str:
    path = folder / _BLOBS / name[:2] / name
    data = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(data).hexdigest() != name:
        raise Corrupt(f"The blob {name} is missing or changed.", hint="Export the space again.")
    return data.decode()
