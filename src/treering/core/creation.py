"""Bringing new objects into a draft: starting states, names taken, duplicates merged."""

from datetime import datetime
from typing import Any

from treering.core.contradiction import is_newly_disputed
from treering.core.draft import Draft, created, united
from treering.core.errors import Conflict, IllegalTransition
from treering.core.grounding import check_lineage, check_segments, require_support, with_checked_evidence
from treering.core.lengths import check_object
from treering.core.lifecycle import INITIAL
from treering.core.names import bearer_of
from treering.core.objects import Knowledge, Node, Object, Source, WorkItem
from treering.core.patch import OperationResult
from treering.core.references import adopt, check_acyclic, rename_references
from treering.core.trust import less_trusted


def create(item: Object, draft: Draft) -> OperationResult:
    """Put a new object into the draft, or find what stands for it already."""
    if not draft.is_fresh(item.id):
        raise Conflict(f"{item.id} exists already, or was erased.", hint="Make a fresh id.", details={"id": item.id})
    if item.status not in INITIAL[item.type]:
        raise IllegalTransition(
            f"A {item.type} cannot start as {item.status!r}.",
            hint=f"It may start as: {', '.join(sorted(INITIAL[item.type]))}.",
            details={"to": item.status, "allowed": sorted(INITIAL[item.type])},
        )
    check_object(item)
    item = rename_references(item, draft.renamed)
    match item:
        case Source():
            return _create_source(item, draft)
        case Node():
            return _create_node(item, draft)
        case Knowledge():
            return _create_knowledge(item, draft)
        case WorkItem():
            made = draft.create(item.model_copy(update={"opened_at": item.opened_at or draft.now}))
            check_acyclic(made, draft)
            adopt(None, made, draft)
            return created(made)
        case _:
            return created(draft.create(item))


def _create_source(item: Source, draft: Draft) -> OperationResult:
    if known := bearer_of(item, draft):
        raise Conflict(
            f"{item.origin!r} is already a source in {item.scope}.",
            hint="Update that source instead, with its current revision.",
            details={"id": known.id, "current": known.revision},
        )
    check_segments(item, earlier=())
    return created(draft.create(item))


def _create_node(item: Node, draft: Draft) -> OperationResult:
    known = bearer_of(item, draft)
    if not isinstance(known, Node):
        return created(draft.create(item))
    draft.renamed[item.id] = known.id
    aliases = united(known.aliases, (item.name, *item.aliases), without=known.name)
    names: dict[str, Any] = {"aliases": aliases} if aliases != known.aliases else {}
    summary = _new_summary(item, known, draft)
    if names or summary:
        draft.change(known, "updated" if summary else "aliases_added", **names, **summary)
    return OperationResult(outcome="updated" if summary else "duplicate", id=known.id, revision=known.revision)


def _new_summary(item: Node, known: Node, draft: Draft) -> dict[str, Any]:
    """Return what changes where a node is sent again with another summary.

    A channel that only proposes knowledge leaves the words of others as they are; one that is trusted less brings the
    node down to it.
    """
    channel, policy = item.origin_channel, draft.policy
    if item.summary in ("", known.summary) or channel in policy.candidate_only_channels:
        return {}
    falls = less_trusted(channel, known.origin_channel, policy.channel_trust)
    return {"summary": item.summary, **({"origin_channel": channel} if falls else {})}


def _create_knowledge(item: Knowledge, draft: Draft) -> OperationResult:
    item = with_checked_evidence(item, draft)
    item = item.model_copy(update={"disputed": is_newly_disputed(item, ())})
    check_lineage(item, draft)
    twin = find_twin(item, draft)
    if twin:
        draft.renamed[item.id] = twin.id
        return absorb(item, twin, draft)
    if item.status == "active":
        require_support(item, draft)
        item = item.model_copy(update={"last_verified_at": draft.now})
    return created(draft.create(item))


def find_twin(item: Knowledge, draft: Draft) -> Knowledge | None:
    """Return knowledge that says exactly the same in the same scope, for the same time."""
    key = item.duplicate_key()
    ids = {*draft.view.knowledge_by_duplicate_key(key), *(other.id for other in draft.touched_knowledge())}
    for other in draft.knowledge(sorted(ids)):
        same = other.duplicate_key() == key and _validity(other) == _validity(item)
        if same and other.id != item.id and other.status not in {"superseded", "archived"}:
            return other
    return None


def absorb(item: Knowledge, twin: Knowledge, draft: Draft) -> OperationResult:
    """Merge an exact duplicate into what is known: evidence is added, support grows."""
    known = {(ref.source_id, ref.segment_id, ref.role) for ref in twin.evidence_refs}
    fresh = tuple(ref for ref in item.evidence_refs if (ref.source_id, ref.segment_id, ref.role) not in known)
    changes: dict[str, Any] = {}
    if fresh:
        changes["evidence_refs"] = twin.evidence_refs + fresh
    if is_newly_disputed(item, twin.evidence_refs) or (item.status == "contested" and item.disputed):
        changes["disputed"] = True
    if subjects := united(twin.subject_refs, item.subject_refs):
        changes |= {"subject_refs": subjects} if subjects != twin.subject_refs else {}
    reaffirmed = item.status == "active" and twin.status in {"candidate", "stale"}
    if reaffirmed:
        require_support(item, draft)
        changes |= {"status": "active", "last_verified_at": draft.now, "memory_source": item.memory_source}
    if changes:
        draft.change(twin, "evidence_added" if fresh else "updated", **changes)
    return OperationResult(outcome="duplicate", id=twin.id, revision=twin.revision)


def _validity(item: Knowledge) -> tuple[datetime | None, datetime | None]:
    return item.valid_from, item.valid_until
