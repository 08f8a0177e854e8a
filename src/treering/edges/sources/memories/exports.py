"""Files of memories: from bytes to what another system remembered, one result for each memory."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

from treering.edges.sources.folder import read_at_most
from treering.edges.sources.loose_json import Malformed, Record, parse, record
from treering.edges.sources.memories import claude_mem, graphiti, letta
from treering.edges.sources.memories.memory import LeftOut, Told
from treering.edges.sources.memories.mempalace_pages import is_room, read_room
from treering.edges.sources.memories.records import form_of, held
from treering.edges.sources.text import decode

MAX_BYTES = 64_000_000
"""Of a file of memories: it is parsed as a whole, and takes some ten times as much memory while it is."""

_HEAD_BYTES = 256_000
_MEMBERS = re.compile(rb'"(?:memory|namespace|fact|wing|core_memory|blocks|observations)"\s*:|"passage-')
_DOCUMENTS = (".json", ".af")
_LINES = (".jsonl", ".ndjson")
_LOOKED_AT = 20
_FORMS: tuple[tuple[Callable[[Record], bool], Callable[[Record], Iterator[Told]]], ...] = (
    (letta.claims, letta.read),
    (claude_mem.claims, claude_mem.read),
    (graphiti.claims, graphiti.read),
)
"""Documents that hold more than a list of memories: how to tell each, and how to read it."""


def may_hold_memories(name: str) -> bool:
    """Tell by a file's name whether it is worth a look."""
    return _ending(name) in {*_DOCUMENTS, *_LINES, ".md"}


def parse_memories(stream: BinaryIO, name: str) -> Iterator[Told] | None:
    """Return the memories of a file and what of it was left out; `None`: it is not a file of memories.

    `stream` can seek. Raises `OSError` where the stream does.
    """
    head = stream.read(_HEAD_BYTES)
    if not (head.startswith(b"# ") if _ending(name) == ".md" else _MEMBERS.search(head)):
        return None
    stream.seek(0)
    data = read_at_most(stream, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return None
    found = _read(data, _ending(name))
    return None if found is None else _each_once(found)


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _read(data: bytes, ending: str) -> Iterator[Told] | None:
    if ending == ".md":
        decoded = decode(data)
        text = "" if decoded is None else decoded.text.replace("\r\n", "\n")
        return read_room(text) if is_room(text) else None
    if ending in _LINES:
        return _records([parse(line) for line in data.splitlines() if line.strip()])
    value = parse(data.removeprefix(b"\xef\xbb\xbf"))
    return _records(value) if isinstance(value, list) else _document(value)


def _document(value: object) -> Iterator[Told] | None:
    found = record(value)
    read = next((read for claims, read in _FORMS if claims(found)), None)
    return read(found) if read else _records(held(found))


def _records(values: Sequence[object]) -> Iterator[Told] | None:
    """Read a list of which at least half of the first are memories of a form known here."""
    first = values[:_LOOKED_AT]
    if first and 2 * sum(map(graphiti.is_fact, first)) >= len(first):
        return graphiti.facts(list(values), {})
    if first and 2 * sum(form_of(one) is not None for one in first) >= len(first):
        return map(_record, values, range(len(values)))
    return None


def _record(value: object, place: int) -> Told:
    form = form_of(value)
    if form is not None:
        return form.read(record(value))
    why = value.why if isinstance(value, Malformed) else "it is not a memory of a form known here"
    return LeftOut(f"item {place + 1}", why)


def _each_once(found: Iterator[Told]) -> Iterator[Told]:
    """Leave out a memory that comes twice: which of the two holds, nobody can tell."""
    seen: set[str] = set()
    for one in found:
        if one.name in seen:
            yield LeftOut(one.name, "an earlier part of this file has the same id")
        else:
            yield one
        seen.add(one.name)
