"""What messages say was decided, and why something failed, as candidates with the messages as evidence."""

from collections.abc import Iterator, Sequence
from typing import Any

from treering.core.evidence import EvidenceRef
from treering.core.injection import instruction_flags
from treering.core.objects import Source
from treering.derived.extractive import Sentence, entities_of
from treering.derived.outcomes import Outcome, outcomes_of
from treering.memories.discussion.log.blocks import StoredMessage
from treering.tools.drafting import KnowledgeFields, draft_knowledge
from treering.tools.envelope import Call
from treering.tools.submission import WriteOptions, submit

MOST = 20
"""So many candidates of one recording: a person reviews them."""

_TITLE_CHARS = 120
_NOBODY = "the work"
_SPEAKERS = frozenset({"user", "assistant"})


def propose_outcomes(call: Call, messages: Sequence[StoredMessage]) -> tuple[str, ...]:
    """Propose the decisions and failures that messages tell of; return the ids of what was written.

    The same said again is merged into what is known. A message shaped like instructions proposes nothing.
    """
    drafts = [draft_knowledge(call, fields) for fields in _drafts(call, messages)][:MOST]
    operations = [operation for _, operations in drafts for operation in operations]
    options = WriteOptions(reason="said in a discussion")
    return submit(call, operations, options, verb="crystallize", mode="knowledge").ids


def _drafts(call: Call, messages: Sequence[StoredMessage]) -> Iterator[KnowledgeFields]:
    seen: set[str] = set()
    for message in messages:
        if message.deleted or message.role not in _SPEAKERS or instruction_flags(message.text):
            continue
        for outcome in outcomes_of(message.text):
            if outcome.text not in seen:
                seen.add(outcome.text)
                yield _fields(outcome, _evidence(call, message, outcome))


def _fields(outcome: Outcome, evidence: EvidenceRef) -> KnowledgeFields:
    said = outcome.text
    title = said if len(said) <= _TITLE_CHARS else f"{said[: _TITLE_CHARS - 1]}…"
    given: dict[str, Any] = {"title": title, "status": "candidate", "evidence_refs": (evidence,)}
    if outcome.kind == "decision":
        payload = {"question": said, "rationale": outcome.reason}
        return KnowledgeFields(kind="decision", payload=payload, **given)
    subject = next(iter(entities_of([Sentence(said)])), _NOBODY)
    return KnowledgeFields(kind="fact", payload={"subject": subject, "predicate": "failed", "object": said}, **given)


def _evidence(call: Call, message: StoredMessage, outcome: Outcome) -> EvidenceRef:
    """Return the segment of a message that holds the sentence; a long message has several."""
    held = call.engine.ledger.get(message.source_id) if len(message.segment_ids) > 1 else None
    begins = outcome.text[:40]
    found = (
        segment.segment_id
        for segment in (held.segments if isinstance(held, Source) else ())
        if segment.segment_id in message.segment_ids and begins in " ".join(segment.excerpt.split())
    )
    return EvidenceRef(source_id=message.source_id, segment_id=next(found, message.segment_ids[0]))
