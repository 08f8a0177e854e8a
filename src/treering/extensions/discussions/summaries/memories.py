"""Memories: short records of messages, as values and as objects of the ledger."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from treering.core.canonical import render_time
from treering.core.evidence import EvidenceRef, Turn
from treering.core.objects import Knowledge, MemorySource, Summary, SummaryForm
from treering.core.patch import TITLE, shortened
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.verbs.crystallize.drafting import make
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of the messages from position `first` to `last`."""

    id: str
    item: GeneratedMemory
    first: int
    last: int
    at: datetime | None = None
    """The time of its first message, or if it was imported without messages, of the memory itself."""
    condensed: bool = False
    """Whether it replaces older memories."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The messages that a memory covers, from position `first` to `last`, with its evidence or parent memories."""

    first: int | None
    last: int | None
    evidence: Sequence[EvidenceRef] = ()
    memories: Sequence[str] = ()


def memory_object(
    engine: Engine,
    ref: DiscussionRef,
    item: GeneratedMemory,
    coverage: Coverage,
    *,
    key: str,
    made_by: str,
    form: SummaryForm = "memory",
    memory_source: MemorySource = "system_generated",
    valid_from: datetime | None = None,
) -> Knowledge:
    """Return the knowledge object of a memory. The key is unique within the discussion.

    `valid_from`: its time, if its evidence has none.
    """
    payload = Summary(
        form=form,
        key=key,
        **item.model_dump(exclude={"title", "summary"}),
        first=coverage.first,
        last=coverage.last,
        made_by=made_by,
    )
    fields = {
        "kind": "summary",
        "title": shortened(item.title, TITLE),
        "summary": item.summary,
        "status": "active",
        "evidence_refs": [ref.model_dump(mode="json") for ref in coverage.evidence],
        "derived_from": list(coverage.memories),
        "payload": payload.model_dump(mode="json"),
        "memory_source": memory_source,
        "valid_from": valid_from and render_time(valid_from),
    }
    return make(Call(engine, ref.scope), Knowledge, fields)


def citing(messages: Iterable[StoredMessage]) -> list[EvidenceRef]:
    """Return evidence that cites messages word for word."""
    return [
        EvidenceRef(source_id=message.source_id, segment_id=segment_id)
        for message in messages
        for segment_id in message.segment_ids
    ]


def read_memories(engine: Engine, identities: Sequence[str]) -> list[Memory]:
    """Read the active memories among some ids, in the given order."""
    heads = engine.ledger.heads(identities)
    active = [identity for identity in identities if identity in heads and heads[identity].status == "active"]
    items = [engine.ledger.get(identity) for identity in active]
    return memories_in(engine, [item for item in items if isinstance(item, Knowledge)])


def memories_in(engine: Engine, items: Sequence[Knowledge]) -> list[Memory]:
    """Return the pieces of knowledge that are memories of messages, as memories."""
    pairs = [(item, item.payload) for item in items if isinstance(item.payload, Summary)]
    pairs = [(item, payload) for item, payload in pairs if payload.form in _FORMS]
    times = _times(engine, [item for item, _ in pairs])
    return [_memory(item, payload, times[item.id]) for item, payload in pairs]


def _memory(item: Knowledge, payload: Summary, at: datetime | None) -> Memory:
    words = GeneratedMemory(
        title=item.title[:_TITLE_CHARS],
        summary=item.summary,
        entities=payload.entities,
        key_phrases=payload.key_phrases,
        topics=payload.topics,
        sentiment=payload.sentiment,
        utterances=payload.utterances,
    )
    first, last = (_NOWHERE if position is None else position for position in (payload.first, payload.last))
    return Memory(item.id, words, first=first, last=last, at=at, condensed=payload.form == "condensation")


def _times(engine: Engine, items: Sequence[Knowledge]) -> dict[str, datetime | None]:
    """Return the time of the first message of each memory, or its own if it was imported without messages."""
    first = {item.id: _first_evidence(engine, item) for item in items}
    places = [(ref.source_id, ref.segment_id) for ref in first.values() if ref]
    segments = engine.ledger.segments(list(dict.fromkeys(places)))
    times: dict[str, datetime | None] = {}
    for item in items:
        ref = first[item.id]
        segment = segments.get((ref.source_id, ref.segment_id)) if ref else None
        times[item.id] = segment.locator.at if segment and isinstance(segment.locator, Turn) else item.valid_from
    return times


def _first_evidence(engine: Engine, item: Knowledge) -> EvidenceRef | None:
    """Return the first evidence of a memory; a condensation has the first evidence of its first parent."""
    while not item.evidence_refs and item.derived_from:
        parent = engine.ledger.get(item.derived_from[0])
        if not isinstance(parent, Knowledge):
            return None
        item = parent
    return item.evidence_refs[0] if item.evidence_refs else None


_NOWHERE = -1
"""The position of memories whose messages are not stored because they were imported without them."""
_FORMS = frozenset({"memory", "condensation"})
_TITLE_CHARS = 300
