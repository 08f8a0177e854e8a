"""What knowledge rests on, and the cascade when it goes.

When evidence is withdrawn, every dependent whose support falls to zero becomes stale in the same patch,
transitively, so that no reader ever meets a belief whose reason is gone (withdraw first, re-derive later:
MemoRepair, arXiv 2605.07242).
"""

from treering.core.draft import Draft
from treering.core.evidence import EvidenceRef
from treering.core.knowledge_payloads import Summary
from treering.core.lifecycle import CURRENT, WITHDRAWN_BY_CASCADE
from treering.core.objects import Knowledge, Source

_LIVE = CURRENT["knowledge"]


def backing(item: Knowledge, draft: Draft) -> frozenset[str]:
    """Return the ids of the independent sources behind a piece of knowledge that still hold.

    A declaration without a source of its own counts as one: itself.
    """
    return frozenset(_backing(item, draft, visited=set()))


def cascade(draft: Draft) -> list[str]:
    """Make stale whatever lost its last support; return the ids. Runs until nothing more falls.

    An earlier version of a summary is archived instead: it is the step over which the later ones lose theirs.
    """
    staled = []
    queue = list(draft.withdrawn)
    while queue:
        for item in draft.dependents(queue.pop(0)):
            if item.status in WITHDRAWN_BY_CASCADE and not backing(item, draft):
                draft.change(item, "staled", status="stale")
                staled.append(item.id)
                queue.append(item.id)
            elif _is_earlier_version(item) and not backing(item, draft):
                draft.change(item, "withdrawn", status="archived")
                queue.append(item.id)
    return staled


def continues(item: Knowledge, parent: Knowledge) -> bool:
    """Tell whether a summary is a later version of its parent, which gave way to it and still carries it."""
    return _is_earlier_version(parent) and _form(parent) == _form(item)


def _backing(item: Knowledge, draft: Draft, *, visited: set[str]) -> set[str]:
    if isinstance(item.payload, Summary):
        return _backing_of_summary(item, draft)
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


def _backing_of_summary(item: Knowledge, draft: Draft) -> set[str]:
    """Return what a summary rests on, where all of it holds, and else nothing.

    Parents are not followed further: one that stands is backed, or the cascade would have made it fall.
    """
    if not item.evidence_refs and not item.derived_from:
        return {item.id} if item.memory_source == "user_declared" else set()
    if not all(_holds(ref, draft) for ref in item.evidence_refs):
        return set()
    parents = draft.knowledge(item.derived_from)
    if len(parents) < len(item.derived_from) or not all(_carries(parent, item) for parent in parents):
        return set()
    return {ref.source_id for ref in item.evidence_refs} | {parent.id for parent in parents}


def _carries(parent: Knowledge, item: Knowledge) -> bool:
    """Tell whether a summary may rest on it: on what is current, and on the earlier version that it continues."""
    return parent.status in _LIVE or continues(item, parent)


def _form(item: Knowledge) -> str:
    return item.payload.form if isinstance(item.payload, Summary) else ""


def _is_earlier_version(item: Knowledge) -> bool:
    return item.status == "superseded" and isinstance(item.payload, Summary)


def _holds(ref: EvidenceRef, draft: Draft) -> bool:
    source = draft.find(ref.source_id)
    return (
        isinstance(source, Source)
        and source.status == "active"
        and any(segment.segment_id == ref.segment_id for segment in source.segments)
    )


def _declared_outright(item: Knowledge) -> bool:
    return item.memory_source == "user_declared" and not item.evidence_refs and not item.derived_from
