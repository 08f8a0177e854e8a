"""What an object may rest on: segments that say what was hashed, evidence that is there, support that holds."""

from collections.abc import Sequence

from treering.core.draft import Draft
from treering.core.errors import InvalidPatch
from treering.core.evidence import EvidenceRef, Segment, segment_hash
from treering.core.knowledge_payloads import Summary
from treering.core.objects import Knowledge, Source
from treering.core.support import is_backed


def check_segments(item: Source, *, earlier: Sequence[Segment]) -> None:
    """Raise `InvalidPatch` where a segment id is repeated or a hash does not match its text."""
    known = {segment.segment_id: segment.hash for segment in earlier}
    seen: set[str] = set()
    for segment in item.segments:
        right = segment.hash == segment_hash(segment.excerpt, salt=item.salt)
        same = known.get(segment.segment_id, segment.hash) == segment.hash
        if segment.segment_id in seen or not right or not same:
            raise InvalidPatch(
                f"Segment {segment.segment_id} of {item.origin!r} is repeated, or its hash does not match its text.",
                hint="A segment id names one text for ever; a changed text is a new segment.",
                details={"segment_id": segment.segment_id},
            )
        seen.add(segment.segment_id)


def check_words(item: Source, earlier: Sequence[Segment], draft: Draft) -> None:
    """Raise `InvalidPatch` where a segment comes back after a while with other words."""
    known = {segment.segment_id for segment in earlier}
    for segment in item.segments:
        if segment.segment_id not in known and draft.view.segment_text(item.id, segment.segment_id) not in (
            None,
            segment.excerpt,
        ):
            raise InvalidPatch(
                f"Segment {segment.segment_id} of {item.origin!r} named another text before.",
                hint="A segment id names one text for ever; a changed text is a new segment.",
                details={"segment_id": segment.segment_id},
            )


def with_checked_evidence(item: Knowledge, draft: Draft, *, earlier: Sequence[EvidenceRef] = ()) -> Knowledge:
    """Return the knowledge with its evidence checked. Raises `InvalidPatch` for evidence that is not there."""
    # A reference that was right when it was written may have lost its segment; that is the cascade's business.
    refs = tuple(ref if ref in earlier else _checked(ref, draft) for ref in item.evidence_refs)
    return item.model_copy(update={"evidence_refs": refs})


def _checked(ref: EvidenceRef, draft: Draft) -> EvidenceRef:
    source = draft.find(ref.source_id)
    if not isinstance(source, Source) or source.status != "active":
        raise InvalidPatch(
            f"The evidence names {ref.source_id}, which is not an active source in this scope.",
            hint="Ingest the source first; take source_id and segment_id from a hit.",
            details={"source_id": ref.source_id},
        )
    segment = next((part for part in source.segments if part.segment_id == ref.segment_id), None)
    if segment is None:
        raise InvalidPatch(
            f"{ref.source_id} has no segment {ref.segment_id} now.",
            hint="Query again: the source may have been ingested anew.",
            details={"source_id": ref.source_id, "segment_id": ref.segment_id},
        )
    if ref.quote_hash not in ("", segment.hash):
        raise InvalidPatch(
            f"The quote hash does not match segment {ref.segment_id} of {ref.source_id}.",
            hint="Leave quote_hash out to take the segment as it stands, or read it again.",
            details={"segment_id": ref.segment_id},
        )
    return ref.model_copy(update={"quote_hash": segment.hash, "source_id": source.id, "verified_at": draft.now})


def check_lineage(item: Knowledge, draft: Draft) -> None:
    """Raise `InvalidPatch` where a summary would rest on itself: its parents are taken at their word.

    Other knowledge may: whoever counts what is behind it passes each parent once.
    """
    if item.id not in item.derived_from and not (item.derived_from and draft.dependents(item.id)):
        return
    seen: set[str] = set()
    summaries = isinstance(item.payload, Summary)
    queue = list(item.derived_from)
    while queue:
        identity = draft.resolve(queue.pop())
        fresh = identity != item.id and identity not in seen
        seen.add(identity)
        for parent in draft.knowledge([identity] if fresh else []):
            summaries = summaries or isinstance(parent.payload, Summary)
            queue += parent.derived_from
    if summaries and item.id in seen:
        raise InvalidPatch(
            f"{item.title!r} would rest on itself.",
            hint="Leave out of derived_from what derives from it.",
            details={"id": item.id},
        )


def require_support(item: Knowledge, draft: Draft) -> None:
    """Raise `InvalidPatch` where nothing that holds supports the knowledge."""
    if not is_backed(item, draft):
        raise InvalidPatch(
            f"{item.title!r} has no evidence that holds, so it cannot be active.",
            hint="Add evidence_refs (source_id and segment_id of a hit), or leave it a candidate.",
            details={"id": item.id},
        )
