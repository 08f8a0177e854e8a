"""Memories as objects of the ledger."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from treering.core.evidence import EvidenceRef
from treering.core.knowledge_payloads import Summary, SummaryForm
from treering.core.lengths import TITLE, shortened
from treering.core.objects import Knowledge, MemorySource
from treering.memories.discussion.generating import MemoryItem
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import Kept
from treering.tools.drafting import make
from treering.tools.engine import Engine
from treering.tools.envelope import Call


@dataclass(frozen=True, slots=True)
class Telling:
    """What a memory tells of: messages from position `first` to `last`, by its evidence or by other memories."""

    first: int | None
    last: int | None
    evidence: Sequence[EvidenceRef] = ()
    memories: Sequence[str] = ()


def memory_object(
    engine: Engine,
    place: Place,
    item: MemoryItem,
    telling: Telling,
    *,
    key: str,
    made_by: str,
    form: SummaryForm = "memory",
    memory_source: MemorySource = "system_generated",
) -> Knowledge:
    """Make the knowledge that a memory is, under a key that tells it from others of its discussion."""
    payload = Summary(
        form=form,
        key=key,
        **item.model_dump(exclude={"title", "summary"}),
        first=telling.first,
        last=telling.last,
        made_by=made_by,
    )
    fields = {
        "kind": "summary",
        "title": shortened(item.title, TITLE),
        "summary": item.summary,
        "status": "active",
        "evidence_refs": [ref.model_dump(mode="json") for ref in telling.evidence],
        "derived_from": list(telling.memories),
        "payload": payload.model_dump(mode="json"),
        "memory_source": memory_source,
    }
    return make(Call(engine, place.scope), Knowledge, fields)


def citing(messages: Iterable[Kept]) -> list[EvidenceRef]:
    """Cite messages, word for word."""
    return [
        EvidenceRef(source_id=message.source_id, segment_id=segment_id)
        for message in messages
        for segment_id in message.segment_ids
    ]
