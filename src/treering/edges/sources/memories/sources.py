"""Memories of a file as sources, each by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from pydantic import JsonValue, ValidationError

from treering.edges.sources.memories.exports import may_hold_memories, parse_memories
from treering.edges.sources.memories.memory import ForeignMemory, LeftOut, Told
from treering.edges.sources.text import segment_inline_text
from treering.ports.adapter import Failed, KnowledgeDraft, Skipped, SourceDraft
from treering.ports.format import FileToRead
from treering.tools.inline_items import InlineItem, InlineReader

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
            "it holds something besides its text that cannot be kept: it is nested too deeply, or is not valid Unicode",
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
