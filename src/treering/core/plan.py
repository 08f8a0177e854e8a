"""From a patch to the exact writes it means: every rule of the objects, once, for every ledger.

`plan` is pure. A ledger calls it inside its write transaction with a view of its current state, and stores the
writes it returns; so all ledgers agree on meaning and differ only in technology.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from treering.core.alteration import merge, move, relate, supersede, transition, update
from treering.core.confinement import confined
from treering.core.contradiction import settle_claims
from treering.core.creation import create
from treering.core.draft import Draft, Put, View, Write, resolved_link
from treering.core.patch import (
    AddLink,
    Create,
    Erase,
    Merge,
    MoveScope,
    Operation,
    OperationResult,
    Patch,
    PatchRecord,
    RecordedOperation,
    RemoveLink,
    Supersede,
    Transition,
    Update,
)
from treering.core.policy import Policy, check_revision_of, check_trust
from treering.core.recording import recorded
from treering.core.references import check_references
from treering.core.support import cascade
from treering.core.undoing import check_revertible, objects_of, restore, restore_link


@dataclass(frozen=True, slots=True)
class Plan:
    """What a patch means: writes in order, a result per operation, and what it made stale or contested."""

    writes: tuple[Write, ...]
    results: tuple[OperationResult, ...]
    staled: tuple[str, ...]
    contested: tuple[str, ...]
    operations: tuple[RecordedOperation, ...] = ()
    """The operations as the record of the patch keeps them; none where nothing was written."""


def plan(patch: Patch, view: View, *, policy: Policy, now: datetime) -> Plan:
    """Plan a patch against the current state.

    Raises `InvalidPatch`, `IllegalTransition`, `NotFound`, `Conflict` or `Denied`; nothing was changed then. Raises
    `Defect` where what follows from the patch does not settle.
    """
    check_trust(patch, policy)
    view = confined(patch, view)
    draft = Draft(view=view, policy=policy, now=now, patch_id=patch.id, scope=patch.scope)
    results: list[OperationResult] = []
    kept: list[RecordedOperation] = []
    for operation in patch.operations:
        results.append(_apply(operation, patch, draft))
        kept.append(recorded(operation, results[-1], draft))
    planned = _finish(draft, results)
    return replace(planned, operations=tuple(kept)) if planned.writes else planned


def plan_revert(record: PatchRecord, view: View, *, patch_id: str, policy: Policy, now: datetime) -> Plan:
    """Plan taking back everything an applied patch did.

    Raises `Conflict` listing what has changed since, and `InvalidPatch` where content was erased.
    """
    draft = Draft(view=view, policy=policy, now=now, patch_id=patch_id)
    check_revertible(record, draft)
    results = [restore(target, record, draft) for target in objects_of(record)]
    for effect in reversed(record.effects):
        if effect.link:
            restore_link(effect.link, was_added=effect.event == "linked", draft=draft)
    return _finish(draft, results)


def _finish(draft: Draft, results: Sequence[OperationResult]) -> Plan:
    draft.settle_from_here()
    staled: list[str] = []
    contested: list[str] = []
    settled = None
    while settled != len(draft.writes):
        # What one of them withdraws or frees may be the other's business again.
        settled = len(draft.writes)
        staled += cascade(draft)
        contested += settle_claims(draft)
    for write in draft.writes:
        if isinstance(write, Put):
            check_references(write.before, write.after, draft)
    current = tuple(
        result.model_copy(update={"revision": item.revision})
        if (item := draft.objects.get(result.id)) and item.revision != result.revision
        else result
        for result in results
    )
    return Plan(tuple(draft.writes), current, tuple(dict.fromkeys(staled)), tuple(dict.fromkeys(contested)))


def _apply(operation: Operation, patch: Patch, draft: Draft) -> OperationResult:
    match operation:
        case Create(object=item):
            return create(item.model_copy(update={"origin_channel": patch.source.channel}), draft)
        case Update():
            check_revision_of(draft.find(operation.id), operation.changes, patch.source, draft.policy)
            return update(operation, draft, channel=patch.source.channel)
        case Transition():
            return transition(operation, draft)
        case AddLink(link=link):
            return relate(link, draft)
        case RemoveLink(link=link):
            known = draft.unlink(resolved_link(link, draft))
            return OperationResult(outcome="unlinked" if known else "unchanged", id=link.source)
        case Merge():
            return merge(operation, draft)
        case Supersede():
            return supersede(operation, draft)
        case MoveScope():
            return move(operation, draft)
        case Erase():
            item = draft.expect(operation.id, operation.expected_revision)
            draft.erase(item)
            draft.withdrawn.append(item.id)
            return OperationResult(outcome="erased", id=item.id)
