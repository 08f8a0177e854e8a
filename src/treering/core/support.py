"""What knowledge rests on, and the cascade when it goes.

When evidence is withdrawn, every dependent whose support falls to zero becomes stale in the same patch,
transitively, so that no reader ever meets a belief whose reason is gone (withdraw first, re-derive later:
MemoRepair, arXiv 2605.07242).
"""

from treering.core.draft import Draft
from treering.core.evidence import EvidenceRef
from treering.core.lifecycle import CURRENT, WITHDRAWN_BY_CASCADE
from treering.core.objects import Knowledge, Source

_LIVE = CURRENT["knowledge"]


def backing(item: Knowledge, draft: Draft) -> frozenset[str]:
    """Give the ids of the independent sources behind a piece of knowledge that still hold.

    A declaration without a source of its own counts as one: itself.
    """
    return frozenset(_backing(item, draft, visited=set()))


def cascade(draft: Draft) -> list[str]:
    """Make stale whatever lost its last support; give the ids. Runs until nothing more falls."""
    staled = []
    queue = list(draft.withdrawn)
    while queue:
        for item in draft.dependents(queue.pop(0)):
            if item.status in WITHDRAWN_BY_CASCADE and not backing(item, draft):
                draft.change(item, "staled", status="stale")
                staled.append(item.id)
                queue.append(item.id)
    return staled


def _backing(item: Knowledge, draft: Draft, *, visited: set[str]) -> set[str]:
    if item.id in visited:
        return set()
    visited.add(item.id)
    found = {ref.source_id for ref in item.evidence_refs if ref.role == "supports" and _holds(ref, draft)}
    for parent in draft.knowledge(item.derived_from):
        if parent.status in _LIVE:
            found |= _backing(parent, draft, visited=visited)
    if not found and _declared_outright(item):
        found.add(item.id)
    return found


def _holds(ref: EvidenceRef, draft: Draft) -> bool:
    source = draft.find(ref.source_id)
    return (
        isinstance(source, Source)
        and source.status == "active"
        and any(segment.segment_id == ref.segment_id for segment in source.segments)
    )


def _declared_outright(item: Knowledge) -> bool:
    return item.memory_source == "user_declared" and not item.evidence_refs and not item.derived_from
