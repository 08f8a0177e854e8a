"""Archives made to harm who reads them in: exports of a space, folders of a discussion, exports of chats."""

import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import treering
from attacks.attack import Attack, Count
from treering.core.errors import TreeringError
from treering.extensions.conversations.exports import read_conversations
from treering.extensions.sharing.transfer import FILES, export_space, import_space
from treering.surfaces.python.space import Space

SECRET = "the launch code is heliotrope"
_TIMES = 400
_CHARS_TOLD = 64_000_000
_ODD: Sequence[Any] = (
    None,
    True,
    -1,
    2**70,
    1e308,
    "",
    "../../x",
    "\x00",
    "\ud800",
    [],
    {},
    [[]],
    {"a": {}},
    "x" * 10_000,
)


def _space(folder: Path, name: str) -> Space:
    return treering.open(f"sqlite:{folder / name}.db", background=False)


def _exported(folder: Path) -> Path:
    """Export a space that holds a bit of everything."""
    with _space(folder, "whole") as space:
        items = [{"text": "# Kiln\n\nThe kiln burns gas.\n\n# Oven\n\nBread.", "origin": "kiln.md"}, {"text": "Two."}]
        report = space.ingest("source", input={"items": items})
        source = space.engine.ledger.get(report.items[0].source_id)
        quote = {"source_id": source.id, "segment_id": source.segments[0].segment_id}  # type: ignore[union-attr]
        fact = {"subject": "kiln", "predicate": "fuel", "value": "gas"}
        given = {"kind": "fact", "title": "Fuel", "payload": fact, "evidence_refs": [quote]}
        known = space.crystallize("knowledge", input=given, options={"idempotency_key": "one"}).ids[-1]
        space.crystallize("work_item", input={"title": "Ask", "links": [{"type": "about", "target": known}]})
        export_space(space.engine.ledger, folder / "export")
    return folder / "export"


def _imported(folder: Path, name: str, export: Path) -> tuple[str, int]:
    """Import an export into an empty space; return what went wrong, and how many records the space holds then."""
    with _space(folder, name) as space:
        try:
            import_space(space.engine.ledger, export)
            space.engine.ledger.verify()
            problem = ""
        except TreeringError as error:
            problem = type(error).__name__
        except Exception as error:  # noqa: BLE001 - what is attacked may raise anything
            return f"untranslated {type(error).__name__}", 0
        held = sum(1 for record in space.engine.ledger.records() if record.table != "event" or record.row["seq"] > 0)
        return problem, held


def _changed_rows(folder: Path) -> Count:
    """Change one value of one row; count imports that end in a traceback, half done, or in an altered space."""
    whole, chance, reached, wrong = _exported(folder), random.Random(5), 0, set[str]()
    for number in range(_TIMES):
        copy = folder / "changed"
        shutil.copytree(whole, copy)
        table = chance.choice(sorted(FILES.values()))
        lines = (copy / table).read_text(encoding="utf-8").splitlines()
        if lines:
            place = chance.randrange(len(lines))
            lines[place] = json.dumps(_changed(json.loads(lines[place]), chance))
            (copy / table).write_text("\n".join(lines) + "\n", encoding="utf-8")
        problem, held = _imported(folder, f"changed{number}", copy)
        if problem.startswith("untranslated") or (problem and held):
            reached += 1
            wrong.add(f"{table}: {problem}")
        shutil.rmtree(copy)
        for left in folder.glob(f"changed{number}.db*"):
            left.unlink()
    return Count(_TIMES, reached, ", ".join(sorted(wrong)))


def _changed(row: Any, chance: random.Random) -> Any:
    """Put something odd at a random place of a value, or leave a member out."""
    if isinstance(row, dict) and row and chance.random() < 0.9:
        name = chance.choice(sorted(row))
        if chance.random() < 0.15:
            return {key: value for key, value in row.items() if key != name}
        return {**row, name: _changed(row[name], chance)}
    if isinstance(row, list) and row and chance.random() < 0.7:
        place = chance.randrange(len(row))
        return [*row[:place], _changed(row[place], chance), *row[place + 1 :]]
    return chance.choice(_ODD)


def _ways_out(folder: Path) -> Count:
    """Have texts of an export read from outside of it, or things that are no files; count what comes in or raises."""
    whole = _exported(folder)
    hidden = folder / "secret.md"
    hidden.write_text(SECRET, encoding="utf-8")
    reached, wrong = 0, []
    for number, (name, harm) in enumerate(_HARMS.items()):
        copy = folder / f"out{number}"
        shutil.copytree(whole, copy)
        harm(copy, hidden)
        problem, held = _imported(folder, f"space{number}", copy)
        with _space(folder, f"space{number}") as space:
            told = json.dumps([record.row for record in space.engine.ledger.records()], default=str)
        bad = SECRET in told or problem.startswith("untranslated") or (bool(problem) and held > 0)
        wrong += [f"{name}: {problem}"] if bad else []
        reached += bad
    return Count(len(_HARMS), reached, ", ".join(wrong))


def _named(name: str) -> Callable[[Path, Path], None]:
    return lambda export, _: _with_blob(export, name)


def _with_blob(export: Path, name: str) -> None:
    lines = (export / "segments.jsonl").read_text(encoding="utf-8").splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "blob": name})
    (export / "segments.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _linked_blob(export: Path, hidden: Path) -> None:
    name = sha256(hidden.read_bytes()).hexdigest()
    place = export / "blobs" / name[:2] / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(hidden)
    _with_blob(export, name)


def _no_text(export: Path, _: Path) -> None:
    data = b"\xff\xfe no text \xc3"
    name = sha256(data).hexdigest()
    (export / "blobs" / name[:2]).mkdir(exist_ok=True)
    (export / "blobs" / name[:2] / name).write_bytes(data)
    _with_blob(export, name)


def _pipe(export: Path, _: Path) -> None:
    (export / "links.jsonl").unlink()
    os.mkfifo(export / "links.jsonl")


def _linked_table(export: Path, hidden: Path) -> None:
    (export / "links.jsonl").unlink()
    (export / "links.jsonl").symlink_to(hidden)


def _device(export: Path, _: Path) -> None:
    (export / "links.jsonl").unlink()
    (export / "links.jsonl").symlink_to("/dev/zero")


def _deep(export: Path, _: Path) -> None:
    with (export / "events.jsonl").open("ab") as file:
        file.write(b"[" * 200_000 + b"]" * 200_000 + b"\n")


_HARMS: Mapping[str, Callable[[Path, Path], None]] = {
    "a text named by a way out": _named("../../secret.md"),
    "a text named by an absolute path": _named("/etc/passwd"),
    "a text that is a link": _linked_blob,
    "bytes that are not text": _no_text,
    "a pipe": _pipe,
    "a table that is a link": _linked_table,
    "a device": _device,
    "deep nesting": _deep,
    "a manifest that is not JSON": lambda export, _: (export / "manifest.json").write_bytes(b"\xff{") and None,
    "a manifest of another form": lambda export, _: (export / "manifest.json").write_text("[]") and None,
}


def _chats(_: Path) -> Count:
    """Read exports of chats that unpack to far more than they are, or name members like ways out."""
    reached = tried = 0
    for data in _archives():
        tried += 1
        try:
            found = read_conversations(data, "export.zip")
        except TreeringError:
            continue
        except Exception:  # noqa: BLE001 - what is attacked may raise anything
            reached += 1
            continue
        reached += sum(len(str(message)) for one in found.conversations for message in one.messages) > _CHARS_TOLD
    return Count(tried, reached)


def _archives() -> Iterator[bytes]:
    told = [{"mapping": {}, "title": "x", "create_time": 0}]
    huge = json.dumps([{**told[0], "title": "x" * 1_000}]).encode() + b" " * 400_000_000
    for members in (
        {"conversations.json": huge},
        {f"{number}.json": b"[]" for number in range(70_000)},
        {"../../conversations.json": json.dumps(told).encode()},
        {"/etc/conversations.json": json.dumps(told).encode()},
        {"conversations.json": b"[" * 500_000},
        {"conversations.json": b'{"a":' * 500_000},
        {"conversations.json": b"\xff\xfe\x00"},
        {
            "conversations.json": b"["
            + b'{"mapping":{"a":{"parent":"a","children":["a"],"message":null}}},' * 9
            + b"{}]"
        },
    ):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        yield file.getvalue()
        yield file.getvalue()[:-20]


ATTACKS: Sequence[Attack] = (
    Attack("an export with a changed row ends in a traceback or half a space", _changed_rows),
    Attack("an export reads files outside of it", _ways_out),
    Attack("an export of chats that unpacks to too much", _chats),
)
