"""Proposals from recorded messages: decisions, rules and causes of failures as candidates, with their messages."""

from collections.abc import Iterator, Sequence
from typing import Any

from treering.core.evidence import EvidenceRef
from treering.core.objects import Constraint, Decision, Knowledge, Source, title_of
from treering.core.patch import shortened
from treering.core.screening import instruction_flags
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.statements.extractive import Sentence, entities_of
from treering.extensions.statements.outcomes import Outcome, outcomes_of
from treering.verbs.crystallize.drafting import KnowledgeFields, draft_knowledge
from treering.verbs.crystallize.knowledge import is_recorded
from treering.verbs.crystallize.submission import WriteOptions, submit
from treering.verbs.envelope import Call

_MAX_CANDIDATES = 20
"""The maximum number of candidates of one recording: a person reviews them."""
_TITLE_CHARS = 120
_DEFAULT_SUBJECT = "the work"
_PERSON = "user"
_SPEAKERS = frozenset({_PERSON, "assistant"})


def propose_outcomes(call: Call, messages: Sequence[StoredMessage]) -> tuple[str, ...]:
    """Propose the decisions, rules and failures in messages; return the ids of the written candidates.

    Repetitions are merged into known candidates, and statements whose words are recorded are left out, as are messages
    shaped like instructions. Only people set rules.
    """
    drafts = [draft_knowledge(call, fields) for fields in _drafts(call, messages)][:_MAX_CANDIDATES]
    new = (operations for item, operations in drafts if not is_recorded(call, item, _statement(item)))
    operations = [operation for each in new for operation in each]
    options = WriteOptions(reason="said in a discussion")
    return submit(call, operations, options, mode="knowledge").ids


def _drafts(call: Call, messages: Sequence[StoredMessage]) -> Iterator[KnowledgeFields]:
    seen: set[str] = set()
    for message in messages:
        if message.deleted or message.role not in _SPEAKERS or instruction_flags(message.text):
            continue
        for outcome in outcomes_of(message.text):
            if outcome.content not in seen and (outcome.kind != "rule" or message.role == _PERSON):
                seen.add(outcome.content)
                yield _fields(outcome, _evidence(call, message, outcome))


def _fields(outcome: Outcome, evidence: EvidenceRef) -> KnowledgeFields:
    text = outcome.content
    common: dict[str, Any] = {
        "title": shortened(text, _TITLE_CHARS),
        "status": "candidate",
        "evidence_refs": (evidence,),
    }
    if outcome.kind == "decision":
        payload = {"question": text, "outcome": text, "rationale": outcome.reason}
        return KnowledgeFields(kind="decision", payload=payload, **common)
    if outcome.kind == "rule":
        return KnowledgeFields(kind="constraint", payload={"rule": text, "violation_impact": outcome.reason}, **common)
    subject = next(iter(entities_of([Sentence(text)])), _DEFAULT_SUBJECT)
    return KnowledgeFields(kind="fact", payload={"subject": subject, "predicate": "failed", "object": text}, **common)


def _statement(item: Knowledge) -> str:
    match item.payload:
        case Decision(question=text) | Constraint(rule=text):
            return text
    return title_of(item)


def _evidence(call: Call, message: StoredMessage, outcome: Outcome) -> EvidenceRef:
    """Return the segment of a message that contains the sentence; a long message has several."""
    source = call.engine.ledger.get(message.source_id) if len(message.segment_ids) > 1 else None
    beginning = outcome.text[:40]
    ids = (
        segment.segment_id
        for segment in (source.segments if isinstance(source, Source) else ())
        if segment.segment_id in message.segment_ids and beginning in " ".join(segment.excerpt.split())
    )
    return EvidenceRef(source_id=message.source_id, segment_id=next(ids, message.segment_ids[0]))
