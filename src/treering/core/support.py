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


def is_backed(item: Knowledge, draft: Draft) -> bool:
    """Tell whether anything that holds supports a piece of knowledge: a source, or a declaration without one."""
    return _is_backed(item, draft, visited=set())


def cascade(draft: Draft) -> list[str]:
    """Make stale whatever lost its last support; return the ids. Runs until nothing more falls.

    An earlier version of a summary is archived instead: it is the step over which the later ones lose theirs.
    """
    staled = []
    queue = list(draft.withdrawn)
    while queue:
        for item in draft.dependents(queue.pop(0)):
            if item.status in WITHDRAWN_BY_CASCADE and not is_backed(item, draft):
                draft.change(item, "staled", status="stale")
                staled.append(item.id)
                queue.append(item.id)
            elif _is_earlier_version(item) and not is_backed(item, draft):
                draft.change(item, "withdrawn", status="archived")
                queue.append(item.id)
    return staled


def continues(item: Knowledge, parent: Knowledge) -> bool:
    """Tell whether a summary is a later version of its parent, which gave way to it and still carries it."""
    return _is_earlier_version(parent) and _form(parent) == _form(item)


def _is_backed(item: Knowledge, draft: Draft, *, visited: set[str]) -> bool:
    if isinstance(item.payload, Summary):
        return _is_backed_summary(item, draft)
    if item.id in visited:
        return False
    visited.add(item.id)
    return (
        _declared_outright(item)
        or any(ref.role == "supports" and _holds(ref, draft) for ref in item.evidence_refs)
        or any(
            parent.status in _LIVE and _is_backed(parent, draft, visited=visited)
            for parent in draft.knowledge(item.derived_from)
        )
    )


def _is_backed_summary(item: Knowledge, draft: Draft) -> bool:
    """Tell whether all that a summary rests on holds.

    Parents are not followed further: one that stands is backed, or the cascade would have made it fall.
    """
    if not item.evidence_refs and not item.derived_from:
        return item.memory_source == "user_declared"
    parents = draft.knowledge(item.derived_from)
    return (
        all(_holds(ref, draft) for ref in item.evidence_refs)
        and len(parents) == len(item.derived_from)
        and all(_carries(parent, item) for parent in parents)
    )


def _carries(parent: Knowledge, item: Knowledge) -> bool:
    """Tell whether a summary may rest on it: on what is current, and on the earlier version that it continues."""
    return parent.status in _LIVE or continues(item, parent)


def _form(item: Knowledge) -> str | None:
    return item.payload.form if isinstance(item.payload, Summary) else None


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
