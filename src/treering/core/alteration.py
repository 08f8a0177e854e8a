"""Changing what exists: fields, statuses, links, merges, successors, scopes."""

from typing import Any

from treering.core.contradiction import is_newly_disputed, rivals
from treering.core.creation import absorb, find_twin
from treering.core.draft import Draft, changed, resolved_link, revise, united
from treering.core.errors import InvalidPatch
from treering.core.grounding import check_lineage, check_segments, check_words, require_support, with_checked_evidence
from treering.core.lengths import FIELDS, check_length, check_object
from treering.core.lifecycle import check_transition
from treering.core.names import check_name_is_free
from treering.core.objects import Channel, Knowledge, Node, Object, Source, WorkItem
from treering.core.patch import Link, Merge, MoveScope, OperationResult, Supersede, Transition, Update
from treering.core.references import adopt, check_acyclic, rename_references
from treering.core.trust import changes_words, less_trusted


def update(operation: Update, draft: Draft, *, channel: Channel) -> OperationResult:
    """Change fields. Words that came through a less trusted channel bring the object down to that channel."""
    item = draft.expect(operation.id, operation.expected_revision)
    fixed = {*item.STAMPED, "status", "scope", "origin_channel", "merged_into", "disputed"} & operation.changes.keys()
    if fixed:
        raise InvalidPatch(
            f"{', '.join(sorted(fixed))} cannot be changed by an update.",
            hint="A status changes by a transition, a scope by a move; ids, revisions, times and disputes are the "
            "ledger's.",
            details={"fields": sorted(fixed)},
        )
    revised = rename_references(revise(item, operation.changes), draft.renamed)
    if revised == item:
        return OperationResult(outcome="unchanged", id=item.id, revision=item.revision)
    check_object(revised, changed=operation.changes, earlier=item)
    check_name_is_free(revised, draft)
    match item, revised:
        case Source(), Source():
            check_segments(revised, earlier=item.segments)
            check_words(revised, item.segments, draft)
            draft.withdrawn.append(item.id)
        case Knowledge(), Knowledge():
            revised = with_checked_evidence(revised, draft, earlier=item.evidence_refs)
            check_lineage(revised, draft)
            if revised.status == "active":
                require_support(revised, draft)
            if is_newly_disputed(revised, item.evidence_refs):
                revised = revised.model_copy(update={"disputed": True})
    made = draft.change(item, "updated", **_written(item, revised, operation, channel, draft))
    if isinstance(item, WorkItem) and isinstance(made, WorkItem):
        check_acyclic(made, draft)
        adopt(item.parent_ref, made, draft)
    return changed(made)


def _written(item: Object, revised: Object, operation: Update, channel: Channel, draft: Draft) -> dict[str, Any]:
    """Return the changed fields, and the channel where its trust falls."""
    fields = {name: getattr(revised, name) for name in operation.changes}
    if isinstance(revised, Knowledge):
        fields["disputed"] = revised.disputed
    differing = {name: value for name, value in fields.items() if value != getattr(item, name)}
    falls = changes_words(differing) and less_trusted(channel, item.origin_channel, draft.policy.channel_trust)
    return {**fields, "origin_channel": channel} if falls else fields


def transition(operation: Transition, draft: Draft) -> OperationResult:
    """Move to another status."""
    item = draft.expect(operation.id, operation.expected_revision)
    check_transition(item, operation.to)
    check_length("resolution", operation.resolution, FIELDS["resolution"])
    changes: dict[str, Any] = {"status": operation.to}
    match item:
        case Knowledge():
            changes |= _activation(item, draft) if operation.to == "active" else {}
            changes |= {"disputed": True} if operation.to == "contested" else {}
            if operation.to == "superseded":
                raise InvalidPatch(
                    f"{item.id} cannot become superseded without a successor.",
                    hint="Use a supersede operation, which names it.",
                )
        case Node() if operation.to == "merged":
            raise InvalidPatch(
                f"{item.id} cannot become merged without a node to merge into.", hint="Use a merge operation."
            )
        case Node() if operation.to == "active":
            check_name_is_free(item.model_copy(update=changes), draft)
        case WorkItem():
            changes |= _resolution(item, operation)
        case _:
            pass
    draft.withdrawn.append(item.id)
    return changed(draft.change(item, "transitioned", **changes))


def _activation(item: Knowledge, draft: Draft) -> dict[str, Any]:
    require_support(item, draft)
    against = rivals(item, draft)
    if item.status == "contested" and against:
        raise InvalidPatch(
            f"{item.id} is contradicted by {against[0].id}.",
            hint="Supersede the claim that lost, naming this one as its successor.",
            details={"id": item.id, "rivals": [rival.id for rival in against]},
        )
    return {"last_verified_at": draft.now, "disputed": False}


def _resolution(item: WorkItem, operation: Transition) -> dict[str, Any]:
    if operation.to == "resolved":
        resolution = operation.resolution or item.resolution
        if not resolution:
            raise InvalidPatch(
                f"{item.id} cannot become resolved without a resolution.", hint="Give resolution: what solved it."
            )
        return {"resolution": resolution}
    return {"resolution": operation.resolution} if operation.resolution else {}


def relate(link: Link, draft: Draft) -> OperationResult:
    """Add a link."""
    link = resolved_link(link, draft)
    if link.source == link.target:
        raise InvalidPatch(f"{link.source} cannot be linked to itself.", hint="Name another target.")
    draft.require(link.source)
    draft.require(link.target)
    return OperationResult(outcome="linked" if draft.link(link) else "unchanged", id=link.source)


def merge(operation: Merge, draft: Draft) -> OperationResult:
    """Fold a node into another."""
    item = draft.expect(operation.id, operation.expected_revision)
    into = draft.get(operation.into)
    if not isinstance(item, Node) or not isinstance(into, Node) or item.id == into.id:
        raise InvalidPatch(
            f"{item.id} cannot be merged into {into.id}: both must be nodes, and different ones.",
            hint="Name two node: ids.",
        )
    if into.status != "active":
        raise InvalidPatch(
            f"{item.id} cannot be merged into {into.id}, which is {into.status}.", hint="Merge into an active node."
        )
    check_transition(item, "merged")
    draft.change(into, "updated", aliases=united(into.aliases, (item.name, *item.aliases), without=into.name))
    return changed(draft.change(item, "merged", status="merged", merged_into=into.id))


def supersede(operation: Supersede, draft: Draft) -> OperationResult:
    """Replace knowledge by other knowledge that is believed."""
    item = draft.expect(operation.id, operation.expected_revision)
    by = draft.get(operation.by)
    if not isinstance(item, Knowledge) or not isinstance(by, Knowledge) or item.id == by.id:
        raise InvalidPatch(
            f"{by.id} cannot supersede {item.id}: both must be knowledge, and different.", hint="Name two know: ids."
        )
    if by.status not in {"active", "contested"}:
        raise InvalidPatch(
            f"{by.id} is {by.status}; only active knowledge can replace other knowledge.",
            hint="Promote it first, or create it as active with evidence.",
        )
    check_transition(item, "superseded")
    made = draft.change(item, "superseded", status="superseded")
    draft.link(Link(type="supersedes", source=by.id, target=item.id))
    draft.withdrawn.append(item.id)
    if by.status == "contested" and not by.disputed and not rivals(by, draft):
        # Naming the winner is the resolution: it is believed again, on the evidence it has.
        require_support(by, draft)
        draft.change(by, "settled", status="active", last_verified_at=draft.now)
    return changed(made)


def move(operation: MoveScope, draft: Draft) -> OperationResult:
    """Move to another scope; an exact duplicate there takes the evidence over."""
    item = draft.expect(operation.id, operation.expected_revision)
    if item.scope == operation.to:
        return OperationResult(outcome="unchanged", id=item.id, revision=item.revision)
    moved = item.model_copy(update={"scope": operation.to})
    check_name_is_free(moved, draft)
    if isinstance(moved, Knowledge) and (twin := find_twin(moved, draft)):
        draft.change(item, "merged", status="archived")
        return absorb(moved, twin, draft)
    return changed(draft.change(item, "moved", scope=operation.to))
