"""Files of memories: from bytes to what another system remembered, one result for each memory."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from pydantic import JsonValue, ValidationError

from treering.ports.adapter import Failed, KnowledgeDraft, Skipped, SourceDraft
from treering.ports.format import FileToRead, posix_path
from treering.sources import memory
from treering.sources.memory import (
    ForeignMemory,
    LeftOut,
    Told,
    besides,
    form_of,
    held,
    left_out,
    under_headings,
    written,
)
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import read_at_most
from treering.sources.reading.loose_json import Malformed, Record, first_words, listed, moment, parse, record, words
from treering.sources.reading.text import segment_inline_text
from treering.verbs.ingest.inline_items import InlineItem, InlineReader

# Agents of Letta: the blocks of their memory, from an agent file.


def claims_letta(found: Record) -> bool:
    """Tell whether a document is an agent file."""
    if isinstance(found.get("agents"), list) and isinstance(found.get("blocks"), list):
        return any(map(_is_block, listed(found["blocks"]))) or any(
            "block_ids" in record(agent) for agent in listed(found["agents"])
        )
    return isinstance(found.get("core_memory"), list) and any(map(_is_block, listed(found["core_memory"])))


def read_letta(found: Record) -> Iterator[Told]:
    """Read the blocks of all agents of a file."""
    agents = [record(one) for one in listed(found.get("agents"))] or [found]
    owners = _owners(agents)
    blocks = listed(found.get("blocks")) or listed(found.get("core_memory"))
    for place, one in enumerate(blocks):
        block = record(one)
        name = words(block.get("id")) or words(block.get("label"))
        if not words(block.get("value")).strip():
            yield LeftOut(name or f"blocks/{place}", "a block of memory without a value")
        else:
            yield _block(block, owners.get(name) or words(found.get("name")))
    spoken = sum(len(listed(agent.get("messages"))) for agent in agents)
    yield from left_out("messages", spoken, "message(s) of the agents are not memories and were skipped")


def _is_block(value: object) -> bool:
    found = record(value)
    return isinstance(found.get("label"), str) and isinstance(found.get("value"), str)


def _owners(agents: list[Record]) -> Mapping[str, str]:
    return {words(id_): words(agent.get("name")) for agent in agents for id_ in listed(agent.get("block_ids"))}


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


# Observations and summaries of sessions that claude-mem exported.


def claims_claude_mem(found: Record) -> bool:
    """Tell whether a document is an export of claude-mem."""
    observed = isinstance(found.get("observations"), list) and isinstance(found.get("sessions"), list)
    return observed and bool(found.keys() & {"exportedAt", "summaries", "prompts"})


def read_claude_mem(found: Record) -> Iterator[Told]:
    """Read the observations, then the summaries."""
    for place, one in enumerate(listed(found.get("observations"))):
        observed = record(one)
        text = _observed(observed)
        if text:
            yield _observation(observed, text, place)
        else:
            yield LeftOut(f"observations/{place}", "an observation without content")
    for place, one in enumerate(listed(found.get("summaries"))):
        summary = record(one)
        text = under_headings([(name.replace("_", " "), words(summary.get(name))) for name in _PARTS])
        if text:
            yield _summary(summary, text, place)
        else:
            yield LeftOut(f"summaries/{place}", "a summary without content")
    yield from left_out("prompts", len(listed(found.get("prompts"))), "prompt(s) are not memories and were skipped")


_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_TOLD = ("title", "subtitle", "narrative", "facts", "text")


def _observation(found: Record, text: str, place: int) -> ForeignMemory:
    title = words(found.get("title"))
    return ForeignMemory(
        "claude-mem",
        f"observation-{_number(found, place)}",
        text,
        title=title,
        at=written(found),
        metadata=besides(found, "id", *_TOLD),
        about=words(found.get("project")),
        claim=_decision(title, text) if words(found.get("type")) == "decision" and title else None,
    )


def _observed(found: Record) -> str:
    facts = "\n".join(f"- {fact}" for fact in _facts(found.get("facts")))
    told = [("", words(found.get(name))) for name in _TOLD if name != "facts"]
    return under_headings([*told, ("", facts)])


def _facts(value: object) -> Sequence[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):  # a column of a database that holds a list
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [words(value)]
    return [fact for one in listed(value) if (fact := words(one).strip())]


def _decision(title: str, text: str) -> KnowledgeDraft:
    return KnowledgeDraft("decision", title, {"question": title, "outcome": text}, segment=0, summary=text)


def _summary(found: Record, text: str, place: int) -> ForeignMemory:
    return ForeignMemory(
        "claude-mem",
        f"summary-{_number(found, place)}",
        text,
        title=first_words(found, "request"),
        at=written(found),
        metadata=besides(found, "id", *_PARTS),
    )


def _number(found: Record, place: int) -> str:
    value = found.get("id")
    return words(value) or (str(value) if isinstance(value, int) else f"at-{place}")


MAX_BYTES = 64_000_000
"""Of a file of memories: it is parsed as a whole, and takes some ten times as much memory while it is."""

_HEAD_BYTES = 256_000
_MEMBERS = re.compile(rb'"(?:memory|namespace|fact|wing|core_memory|blocks|observations)"\s*:|"passage-')
_DOCUMENTS = (".json", ".af")
_LINES = (".jsonl", ".ndjson")
_LOOKED_AT = 20
_FORMS: tuple[tuple[Callable[[Record], bool], Callable[[Record], Iterator[Told]]], ...] = (
    (claims_letta, read_letta),
    (claims_claude_mem, read_claude_mem),
    (memory.claims, memory.read),
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
    return posix_path(name).suffix.lower()


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
    if first and 2 * sum(map(memory.is_fact, first)) >= len(first):
        return memory.facts(list(values), {})
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


# Memories of a file as sources, each by itself.


_LONGEST_STATEMENT = 1_000
_TITLE_CHARS = 120
_NAME_CHARS = 300
_OURS = ("system", "flags")


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """Reads exports of other memories: a source per memory, and what it states as a candidate.

    What a memory says is what a system made of something that nobody shows: it stays a candidate until somebody
    reviews it. One that no longer holds, or holds text shaped like instructions, is kept and states nothing.
    """

    name: str = "memories"

    def claims(self, path: str, /) -> bool:
        """Tell by its name whether a file may hold memories."""
        return may_hold_memories(path)

    def read(
        self, stream: BinaryIO, file: FileToRead, *, origin: str
    ) -> Iterator[SourceDraft | Skipped | Failed] | None:
        """Return a result per memory; `None`: it is not a file of memories. Raises `OSError`."""
        found = parse_memories(stream, file.path)
        reader = InlineReader({"text": segment_inline_text}, file.limits, file.redact_secrets)
        return None if found is None else (_reading(one, reader, origin) for one in found)


def _reading(told: Told, reader: InlineReader, origin: str) -> SourceDraft | Skipped | Failed:
    place = f"{origin}#{_fitting(told.name)}"
    if isinstance(told, LeftOut):
        return Skipped(place, told.why)
    item = _item(told, place)
    if item is None:
        return Failed(
            place,
            "it contains data besides its text that cannot be stored: nested too deeply, or not valid Unicode",
        )
    draft = reader.read(item)
    if not isinstance(draft, SourceDraft) or draft.metadata.get("flags"):
        return draft
    claim = _claim(told, draft)
    # What it states was not read by the reader: it is searched for secrets with all the rest.
    return replace(draft, knowledge=(claim,), screened=False) if claim else draft


def _item(told: ForeignMemory, place: str) -> InlineItem | None:
    try:
        return InlineItem(
            kind="note",
            origin=place,
            title=_short(told.title),
            text=told.text,
            captured_at=told.at,
            metadata={**_renamed(told.metadata), "system": told.system},
        )
    except ValidationError:
        return None


def _claim(told: ForeignMemory, draft: SourceDraft) -> KnowledgeDraft | None:
    """Return what a memory states; `None`: nothing, or more than a statement can say."""
    text = draft.segments[0].text.strip()
    if not told.about or len(draft.segments) > 1 or len(text) > _LONGEST_STATEMENT:
        return None
    if told.claim:
        return replace(told.claim, title=_short(told.claim.title), imported=True)
    payload = {"subject": told.about, "predicate": "is described as", "object": text}
    return KnowledgeDraft("fact", _short(draft.title or text), payload, segment=0, summary=text, imported=True)


def _renamed(metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Keep what the other system called by a name that means something here under another one."""
    return {f"their_{name}" if name in _OURS else name: value for name, value in metadata.items()}


def _fitting(name: str) -> str:
    return " ".join(name.split())[:_NAME_CHARS]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE_CHARS else f"{line[: _TITLE_CHARS - 1]}…"


# Rooms of MemPalace as its export writes them: a Markdown page with a heading, a quote and a table per drawer.


_PAGE = re.compile(r"\A# (?P<wing>[^\n]{1,300}) / (?P<room>[^\n/]{1,300})\n\n## [^\n]{1,300}\n\n> ")
_DRAWER = re.compile(
    r"^## (?P<id>[^\n]{1,300})\n\n(?P<quote>>[^\n]*(?:\n>[^\n]*)*)\n\n"
    r"\| Field \| Value \|\n\|-+\|-+\|\n(?P<rows>(?:\|[^\n]*\|\n)*)",
    re.MULTILINE,
)
_ROW = re.compile(r"^\| (Source|Filed|Added by) \| (.*) \|$", re.MULTILINE)
_NAMES = {"Source": "source_file", "Filed": "filed_at", "Added by": "added_by"}


def is_room(text: str) -> bool:
    """Tell whether a text is the page of a room."""
    return bool(_PAGE.match(text) and _DRAWER.search(text))


def read_room(text: str) -> Iterator[ForeignMemory]:
    """Return the drawers of a room."""
    page = _PAGE.match(text)
    if page is None:
        return
    for drawer in _DRAWER.finditer(text):
        said = "\n".join(line.removeprefix(">").removeprefix(" ") for line in drawer["quote"].split("\n"))
        told = {_NAMES[name]: value for name, value in _ROW.findall(drawer["rows"]) if value != "unknown"}
        yield ForeignMemory(
            "mempalace",
            drawer["id"].strip(),
            said,
            at=moment(told.get("filed_at")),
            metadata={"wing": page["wing"], "room": page["room"], **told},
        )
