"""Files that somebody damaged on purpose, and what reading each costs.

`python -m attacks.mutated_documents READER TIMES [FILE ...]` reads so many mutations of files of a reader (`pdf`,
`office`, `mail`, `html`, `openapi`, `notebook`, `markdown`, `code`, `conversations`, `tickets`, `memories`), of those
given or else of small ones, and prints what it cost as JSON.
"""

import gc
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib import import_module
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import yaml

from treering.extensions.conversations.exports import ConversationFormat, ExportBounds
from treering.extensions.conversations.memory_exports import MemoryFormat
from treering.extensions.conversations.tickets import TicketFormat
from treering.ports.adapter import Failed, ReadLimits, SourceDraft
from treering.ports.format import Collection, FileToRead
from treering.sources.formats import draft_file
from treering.sources.reading.bounded_process import BoundedProcess

_TESTS = Path(__file__).parents[1] / "tests" / "sources"
_MOST_CHANGES = 30
_ODD = (
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    float("nan"),
    "",
    "\ud800",
    "x" * 100_000,
    [],
    {},
    [[]],
    {"": None},
    ["a"],
    {"a": 1},
)
_EXPORTS: Mapping[str, Collection] = {
    "tickets": TicketFormat(),
    "memories": MemoryFormat(),
    "conversations": ConversationFormat(ExportBounds()),
}
_READ_HERE = ("notebook", "markdown")
_PAGE = b"""<!DOCTYPE html><html><head><meta charset="utf-8"><title>Retries &amp; waits</title></head><body>
<nav><a href="/">Home</a></nav><article><h1>Retries</h1><p>A request is tried <b>three</b> times.</p>
<table><tr><th>try</th><th>wait</th></tr><tr><td>1</td><td>2 s</td></tr></table><pre>a\n  b</pre>
<h2>Limits</h2><ul><li>60 s<li>10 s</ul></article><script>var a = "<p>";</script><footer>End</footer></body></html>"""


@dataclass(frozen=True, slots=True)
class Damage:
    """What the reading of many damaged files cost."""

    read: int
    failed: int
    other: int
    """Neither a source nor a failure of the item: a crash of the run."""
    slowest: float
    """Seconds for one file."""
    slowest_at: int
    """The number of the mutation: with it, the file can be made again."""
    memory_mb: float
    """The most that the child process had; of what is read in this process, the most that this one had."""


def mutated(data: bytes, random: Random) -> bytes:
    """Return a file with some of its bytes changed; for an office file or JSON mostly within its parts."""
    if data.startswith(b"PK") and random.random() < 0.8:
        return _repacked(data, random)
    if data[:1] in (b"{", b"[") and random.random() < 0.8:
        for lines in ([data], data.split(b"\n")):
            at = random.randrange(len(lines))
            try:
                value = json.loads(lines[at])
            except ValueError:  # JSON lines, or no JSON
                continue
            lines[at] = json.dumps(_revalued(value, random)).encode("utf-8", "surrogatepass")
            return b"\n".join(lines)
    return _changed(data, random)


def files_of(reader: str) -> Mapping[str, bytes]:
    """Return small files of a reader, by name."""
    sys.path.append(str(_TESTS.parent))
    made: Any = import_module("document_files")
    if reader == "pdf":
        return {"a.pdf": made.pdf_of("One two.\n\nThree.", "Four."), "b.pdf": made.pdf_bomb(4)}
    if reader == "mail":
        mail = made.eml_of("Words.", Message_ID="<1@x>")
        return {"a.eml": mail, "a.mbox": made.mbox_of(mail, made.eml_of("Yes.", In_Reply_To="<1@x>"))}
    if reader == "html":
        return {"a.html": _PAGE, "b.htm": _PAGE.replace(b"utf-8", b"cp1252") * 20, "c.mhtml": made.mhtml_of(_PAGE)}
    if reader in _EXPORTS:
        return _exports(reader)
    if reader == "openapi":
        return _described()
    if reader == "notebook":
        return {"a.ipynb": json.dumps(_NOTEBOOK).encode()}
    if reader == "markdown":
        pages = (_TESTS.parents[1] / "README.md", _TESTS.parents[1] / "docs" / "howto" / "write-an-adapter.md")
        return {page.name: page.read_bytes() for page in pages}
    if reader == "code":
        sources = (Path(__file__), _TESTS.parent / "docs" / "blocks.py")
        return {file.name: file.read_bytes() for file in sources}
    return {
        "a.docx": made.docx_of("Words.\nMore words."),
        "a.xlsx": made.xlsx_of(A=[["x", 1.5], ["=A1*2", date(2025, 1, 2)]]),
        "a.pptx": made.pptx_of(("Title", "Body", "Notes")),
        "a.odt": made.odt_of("Words."),
        "a.ods": made.ods_of("A", [["x", "1"]]),
        "a.odp": made.odp_of(("Title", "Body")),
        "a.epub": made.epub_of("Words."),
    }


def _described() -> Mapping[str, bytes]:
    sys.path.append(str(_TESTS))
    made: Any = import_module("test_openapi")
    told = {"pets.json": json.dumps(made.PETS), "old.json": json.dumps(made.SWAGGER)}
    return {name: text.encode() for name, text in told.items()} | {"pets.yaml": yaml.safe_dump(made.PETS).encode()}


def _conversations() -> Mapping[str, bytes]:
    made: Any = import_module("test_mangled_exports")
    return {f"{at}-{name}": content for at, (content, name) in enumerate(made.SAMPLES)}


def _exports(reader: str) -> Mapping[str, bytes]:
    sys.path += [str(_TESTS / reader), str(_TESTS.parent)]
    if reader == "tickets":
        made: Any = import_module("test_ticket_exports")
        tables = {"jira.csv": made.JIRA_TABLE, "linear.csv": made.LINEAR, "jira.xml": made.JIRA_XML}
        return {name: text.encode() for name, text in tables.items()} | {
            "github.json": json.dumps(made.GITHUB).encode(),
            "gitlab.json": json.dumps(made.GITLAB).encode(),
        }
    if reader == "conversations":
        sys.path.append(str(_TESTS / reader))
        return _conversations()
    made = import_module("test_memory_exports")
    samples = (made.MEM0, made.STORE, made.GRAPH, made.AGENT, made.SESSIONS)
    return {f"{at}.json": json.dumps(sample).encode() for at, sample in enumerate(samples)} | {
        "room.md": made.ROOM.encode()
    }


_NOTEBOOK = {
    "nbformat": 4,
    "metadata": {"kernelspec": {"name": "python3", "language": "python"}},
    "cells": [
        {"cell_type": "markdown", "id": "a1", "metadata": {}, "source": ["# Waits\n", "How long requests wait."]},
        {
            "cell_type": "code",
            "id": "b2",
            "metadata": {},
            "execution_count": 1,
            "source": "print(3 * 20)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["60\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "60", "image/png": "iVBOR"}, "metadata": {}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\u001b[31mno"]},
            ],
        },
    ],
}


def damage(files: Mapping[str, bytes], times: int, reader: str = "") -> Damage:
    """Read so many mutations of files, each made by its number; `reader` where it is one of exports."""
    read = _EXPORTS.get(reader)
    results, slowest, slowest_at = Counter[str](), 0.0, 0
    names = sorted(files)
    for at in range(times):
        name = names[at % len(names)]
        data = mutated(files[name], Random(at))
        began = time.monotonic()
        results[_outcome(name, data, read)] += 1
        took = time.monotonic() - began
        if took > slowest:
            slowest, slowest_at = took, at
    memory = _memory(resource.RUSAGE_SELF) if read or reader in _READ_HERE else _memory_of_children()
    return Damage(results["read"], results["failed"], results["other"], slowest, slowest_at, memory)


def _outcome(name: str, data: bytes, read: Collection | None) -> str:
    try:
        if read is not None:
            items = read.read(BytesIO(data), FileToRead(name, ReadLimits()), origin=f"file:/{name}")
            return "read" if SourceDraft in {type(one) for one in items or ()} else "failed"
        found = draft_file(data, path=name, origin=f"file:/{name}", commit=None, limits=ReadLimits())
    except Exception as error:  # noqa: BLE001 - whatever comes out is what the attack is after
        print(f"{name}: {error!r}", file=sys.stderr)
        return "other"
    return "read" if isinstance(found, SourceDraft) else "failed" if isinstance(found, Failed) else "other"


def _memory_of_children() -> float:
    """Return the most memory that a child had, after all have ended."""
    for process in [one for one in gc.get_objects() if isinstance(one, BoundedProcess)]:
        process._end()
    return _memory(resource.RUSAGE_CHILDREN)


def _memory(whose: int) -> float:
    return resource.getrusage(whose).ru_maxrss * (1 if sys.platform == "darwin" else 1_000) / 1e6


def _repacked(data: bytes, random: Random) -> bytes:
    with ZipFile(BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in random.sample(sorted(members), min(3, len(members))):
        members[name] = _changed(members[name], random)
    out = BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return out.getvalue()


def _revalued(value: Any, random: Random) -> Any:
    """Return a value with one of the values in it replaced by an odd one, or by a damaged text."""
    if value and isinstance(value, dict | list) and random.random() < 0.9:
        inner = dict(value) if isinstance(value, dict) else dict(enumerate(value))
        key = random.choice(list(inner))
        inner[key] = _revalued(inner[key], random)
        return inner if isinstance(value, dict) else list(inner.values())
    if isinstance(value, str) and random.random() < 0.5:
        return _changed(value.encode(), random).decode("utf-8", "surrogateescape")
    return random.choice(_ODD)


def _changed(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, _MOST_CHANGES)):
        if not changed:
            return b""
        at = random.randrange(len(changed))
        some = changed[at : at + random.randint(1, 40)]
        match random.randrange(8):
            case 0:
                del changed[at : at + len(some)]
            case 1:
                changed[at:at] = some * random.choice((1, 3, 50))
            case 2:
                there = random.randrange(len(changed))
                changed[there : there + len(some)] = some
            case 3:
                changed[at : at + 1] = str(random.choice((0, -1, 2**31, 2**63, 10**30))).encode()
            case 4:
                del changed[random.randrange(max(1, len(changed) * 9 // 10), len(changed) + 1) :]
            case 5:
                changed[at] ^= 1 << random.randrange(8)
            case _:
                changed[at] = random.randrange(256)
    return bytes(changed)


def _main(reader: str, times: str, files: Sequence[str]) -> None:
    chosen = {file.name: file.read_bytes() for file in map(Path, files)} or files_of(reader)
    print(json.dumps(asdict(damage(chosen, int(times), reader))))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], sys.argv[3:])
