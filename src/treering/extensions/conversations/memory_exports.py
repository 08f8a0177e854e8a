"""Files of memories: from bytes to the memories of another system, one result for each."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import BinaryIO

from pydantic import JsonValue, ValidationError

from treering.core.patch import shortened
from treering.extensions.conversations import claude_export, claude_mem, foreign_memories
from treering.extensions.conversations.foreign_memories import (
    ForeignMemory,
    LeftOut,
    Told,
    besides,
    held,
    left_out,
    reader_of,
    written,
)
from treering.extensions.conversations.loose_json import (
    Malformed,
    Record,
    first_words,
    listed,
    moment,
    parse,
    record,
    words,
)
from treering.ports.adapter import Failed, KnowledgeDraft, Skipped, SourceDraft
from treering.ports.format import FileToRead, posix_path
from treering.sources.reading.binary import Archive, Refused, ZipBounds, open_archive
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_at_most
from treering.sources.reading.text import segment_inline_text
from treering.verbs.ingest.inline_items import InlineItem, InlineReader


def claims_letta(found: Record) -> bool:
    """Return whether a document is an agent file of Letta."""
    if isinstance(found.get("agents"), list) and isinstance(found.get("blocks"), list):
        return any(map(_is_block, listed(found["blocks"]))) or any(
            "block_ids" in record(agent) for agent in listed(found["agents"])
        )
    return isinstance(found.get("core_memory"), list) and any(map(_is_block, listed(found["core_memory"])))


def read_letta(found: Record) -> Iterator[Told]:
    """Read the blocks of all agents of a file, and their files and skills."""
    agents = [record(one) for one in listed(found.get("agents"))] or [found]
    owners = {words(id_): words(agent.get("name")) for agent in agents for id_ in listed(agent.get("block_ids"))}
    blocks = listed(found.get("blocks")) or listed(found.get("core_memory"))
    for place, one in enumerate(blocks):
        block = record(one)
        name = words(block.get("id")) or words(block.get("label"))
        if not words(block.get("value")).strip():
            yield LeftOut(name or f"blocks/{place}", "a block of memory without a value")
        else:
            yield _block(block, owners.get(name) or words(found.get("name")))
    yield from map(_file, listed(found.get("files")), range(len(listed(found.get("files")))))
    for one in listed(found.get("skills")):
        yield from _skill(record(one))
    spoken = sum(len(listed(agent.get("messages"))) for agent in agents)
    yield from left_out("messages", spoken, "message(s) of the agents are not memories and were skipped")


def _is_block(value: object) -> bool:
    found = record(value)
    return isinstance(found.get("label"), str) and isinstance(found.get("value"), str)


def _block(block: Record, agent: str) -> ForeignMemory:
    label = words(block.get("label"))
    about = agent or label if label == "persona" else label
    return ForeignMemory(
        "letta",
        words(block.get("id")) or label,
        words(block.get("value")),
        title=f"{label} ({agent})" if agent else label,
        at=written(block),
        metadata=besides(block, "id", "value") | ({"agent": agent} if agent else {}),
        about=about,
    )


def _file(value: object, place: int) -> Told:
    row = record(value)
    name, text = first_words(row, "original_file_name", "file_name"), words(row.get("content"))
    if not text.strip():
        return LeftOut(name or f"files/{place}", "a file without content")
    return ForeignMemory("letta", words(row.get("id")) or f"file-{place}-{name}", text, title=name, at=written(row))


def _skill(skill: Record) -> Iterator[ForeignMemory]:
    for path, text in record(skill.get("files")).items():
        if words(text).strip():
            name = f"{words(skill.get('name'))}/{path}"
            yield ForeignMemory("letta", f"skill-{name}", words(text), title=name)


MAX_BYTES = 64_000_000
"""The maximum size of a file of memories, which is parsed as a whole with about ten times as much memory."""
MAX_DATABASE_BYTES = 500_000_000
"""The maximum size of a database, most of which is not parsed."""

_HEAD_BYTES = 256_000
_MEMBERS = re.compile(
    rb'"(?:memory|memories|category_ids|categories|namespace|fact|wing|core_memory|blocks|observations'
    rb'|conversations_memory|project_memories|memory_files|prompt_template)"\s*:|"passage-'
)
_DOCUMENTS = (".json", ".af")
_LINES = (".jsonl", ".ndjson")
_DATABASE = re.compile(r"(?:.*/)?claude-mem[^/]*\.db", re.IGNORECASE)
_LOOKED_AT = 20
_FORMS: tuple[tuple[Callable[[Record], bool], Callable[[Record], Iterator[Told]]], ...] = (
    (claims_letta, read_letta),
    (claude_mem.claims_claude_mem, claude_mem.read_claude_mem),
    (claude_export.claims_memories, claude_export.read_memories),
    (claude_export.claims_project, claude_export.read_project),
    (foreign_memories.claims, foreign_memories.read),
)
"""Formats of documents that contain more than a list of memories, with their tests and readers."""


def may_hold_memories(name: str) -> bool:
    """Return whether a file of this name may contain memories."""
    return _ending(name) in {*_DOCUMENTS, *_LINES, ".md"} or bool(_DATABASE.fullmatch(name))


def parse_memories(stream: BinaryIO, name: str) -> Iterator[Told] | None:
    """Return the memories and skipped parts of a file; `None` if it is not a file of memories.

    `stream` must be seekable. Raises the `OSError` of the stream.
    """
    head = stream.read(_HEAD_BYTES)
    if not _may_begin(head, _ending(name)):
        return None
    stream.seek(0)
    most = MAX_DATABASE_BYTES if _ending(name) == ".db" else MAX_BYTES
    data = read_at_most(stream, most + 1)
    if len(data) > most:
        return None
    results = _read(data, _ending(name))
    return None if results is None else _each_once(results)


_MEMBER = re.compile(r"(?:[^/]+/){0,3}(?:memories|projects)(?:\.json|/[^/]+\.json)")
_DESIGN_CHAT = re.compile(r"(?:[^/]+/){0,3}design_chats/[^/]+\.json")


def parse_archive(stream: BinaryIO, bounds: ZipBounds) -> Iterator[Told] | None:
    """Return the memories and projects in a zip file of Claude.ai; `None` if there are none.

    `stream` must be seekable. Raises the `OSError` of the stream.
    """
    archive = open_archive(stream, bounds)
    if isinstance(archive, Refused):
        return None
    results = _members(archive)
    first = next(results, None)
    return None if first is None else _each_once(chain([first], results))


def _members(archive: Archive) -> Iterator[Told]:
    for name in filter(_MEMBER.fullmatch, archive.names):
        data = archive.read(name)
        if isinstance(data, Refused):
            yield LeftOut(name, data.why)
        else:
            yield from _read(data, ".json") or ()
    chats = sum(bool(_DESIGN_CHAT.fullmatch(name)) for name in archive.names)
    yield from left_out("design_chats", chats, "design chat(s) were skipped")


def _may_begin(head: bytes, ending: str) -> bool:
    match ending:
        case ".md":
            return head.startswith(b"# ")
        case ".db":
            return claude_mem.is_database(head)
        case ".af":  # long histories may precede the blocks of memory
            return True
        case _:
            return _MEMBERS.search(head) is not None


def _ending(name: str) -> str:
    return posix_path(name).suffix.lower()


def _read(data: bytes, ending: str) -> Iterator[Told] | None:
    if ending == ".md":
        decoded = decode(data)
        text = "" if decoded is None else decoded.text.replace("\r\n", "\n")
        return read_room(text) if is_room(text) else None
    if ending == ".db":
        return claude_mem.read_database(data)
    if ending in _LINES:
        return _records([parse(line) for line in data.splitlines() if line.strip()])
    value = parse(data.removeprefix(b"\xef\xbb\xbf"))
    if isinstance(value, str):  # Letta's server encodes some agent files twice
        value = parse(value.encode(errors="replace"))
    return _records(value) if isinstance(value, list) else _document(value)


def _document(value: object) -> Iterator[Told] | None:
    document = record(value)
    read = _reader_of(document)
    return read(document) if read else _records(held(document))


def _reader_of(document: Record) -> Callable[[Record], Iterator[Told]] | None:
    return next((read for claims, read in _FORMS if claims(document)), None)


def _records(values: Sequence[object]) -> Iterator[Told] | None:
    """Read a list if at least half of its first elements are memories of a known format."""
    if values and all(_reader_of(record(one)) for one in values):
        return chain.from_iterable(_document(one) or () for one in values)
    first = values[:_LOOKED_AT]
    if first and 2 * sum(map(foreign_memories.is_fact, first)) >= len(first):
        return foreign_memories.facts(values, {})
    if first and 2 * sum(reader_of(one) is not None for one in first) >= len(first):
        return map(_record, values, range(len(values)))
    return None


def _record(value: object, place: int) -> Told:
    read = reader_of(value)
    if read is not None:
        return read(record(value))
    why = value.why if isinstance(value, Malformed) else "it is not a memory of a form known here"
    return LeftOut(f"item {place + 1}", why)


def _each_once(results: Iterator[Told]) -> Iterator[Told]:
    """Skip repetitions of a memory: it is unknown which one is valid."""
    seen: set[str] = set()
    for one in results:
        if one.name in seen:
            yield LeftOut(one.name, "an earlier part of this file has the same id")
        else:
            yield one
        seen.add(one.name)


_LONGEST_STATEMENT = 1_000
_TITLE_CHARS = 120
_NAME_CHARS = 300
_OURS = ("system", "flags")


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """Reads exports of other memories: a source per memory, and its statement as a candidate.

    The statement was derived from data that is not in the export, so it stays a candidate until it is reviewed. A
    memory that is no longer valid, or contains text shaped like instructions, is stored without a candidate.
    """

    name: str = "memories"

    def claims(self, path: str, /) -> bool:
        """Return whether a file of this name may contain memories."""
        return may_hold_memories(path)

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per memory; `None` if it is not a file of memories. Raises `OSError`."""
        results = parse_memories(stream, file.path)
        return None if results is None else drafts(results, file, origin)


def drafts(results: Iterator[Told], file: FileToRead, origin: str) -> Iterator[SourceDraft | Skipped | Failed]:
    """Return the sources of the memories of a file."""
    reader = InlineReader({"text": segment_inline_text}, file.limits, file.redact_secrets)
    return (draft_memory(one, reader, origin) for one in results)


def draft_memory(part: Told, reader: InlineReader, origin: str) -> SourceDraft | Skipped | Failed:
    """Return the source of a memory, or the reason why there is none."""
    place = f"{origin}#{' '.join(part.name.split())[:_NAME_CHARS]}"
    if isinstance(part, LeftOut):
        return Skipped(place, part.why)
    item = _item(part, place)
    if item is None:
        return Failed(
            place,
            "it contains data besides its text that cannot be stored: nested too deeply, or not valid Unicode",
        )
    draft = reader.read(item)
    if not isinstance(draft, SourceDraft) or draft.metadata.get("flags"):
        return draft
    claim = _claim(part, draft)
    # The reader did not see the statement, which is therefore screened for secrets later.
    return replace(draft, knowledge=(claim,), screened=False) if claim else draft


def _item(foreign: ForeignMemory, place: str) -> InlineItem | None:
    try:
        return InlineItem(
            kind="note",
            origin=place,
            title=_short(foreign.title),
            text=foreign.text,
            captured_at=foreign.at,
            metadata={**_renamed(foreign.metadata), "system": foreign.system},
        )
    except ValidationError:
        return None


def _claim(foreign: ForeignMemory, draft: SourceDraft) -> KnowledgeDraft | None:
    """Return the statement of a memory; `None` if there is none, or if it is too long for one."""
    text = draft.segments[0].text.strip()
    if not foreign.about or len(draft.segments) > 1 or len(text) > _LONGEST_STATEMENT:
        return None
    if foreign.claim:
        return replace(foreign.claim, title=_short(foreign.claim.title), imported=True)
    payload = {"subject": foreign.about, "predicate": "is described as", "object": text}
    return KnowledgeDraft("fact", _short(draft.title or text), payload, segment=0, summary=text, imported=True)


def _renamed(metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return metadata with a prefix for names that have a meaning of their own here."""
    return {f"their_{name}" if name in _OURS else name: value for name, value in metadata.items()}


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), _TITLE_CHARS)


_PAGE = re.compile(r"\A# (?P<wing>[^\n]{1,300}) / (?P<room>[^\n/]{1,300})\n\n## [^\n]{1,300}\n\n> ")
_DRAWER = re.compile(
    r"^## (?P<id>[^\n]{1,300})\n\n(?P<quote>>[^\n]*(?:\n>[^\n]*)*)\n\n"
    r"\| Field \| Value \|\n\|-+\|-+\|\n(?P<rows>(?:\|[^\n]*\|\n)*)",
    re.MULTILINE,
)
_ROW = re.compile(r"^\| (Source|Filed|Added by) \| (.*) \|$", re.MULTILINE)
_NAMES = {"Source": "source_file", "Filed": "filed_at", "Added by": "added_by"}


def is_room(text: str) -> bool:
    """Return whether a text is a page of MemPalace's export: a heading, with a quote and a table per drawer."""
    return bool(_PAGE.match(text) and _DRAWER.search(text))


def read_room(text: str) -> Iterator[ForeignMemory]:
    """Return the drawers of a room."""
    page = _PAGE.match(text)
    if page is None:
        return
    for drawer in _DRAWER.finditer(text):
        quote = "\n".join(line.removeprefix(">").removeprefix(" ") for line in drawer["quote"].split("\n"))
        fields = {_NAMES[name]: value for name, value in _ROW.findall(drawer["rows"]) if value != "unknown"}
        yield ForeignMemory(
            "mempalace",
            drawer["id"].strip(),
            quote,
            at=moment(fields.get("filed_at")),
            metadata={"wing": page["wing"], "room": page["room"], **fields},
        )
