"""Planning: convert a patch to exact writes, applying every rule of the objects, once for all ledgers.

`plan` is pure. A ledger calls it inside its write transaction with a view of its current state, and stores the writes
it returns, so ledgers differ only in technology.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from treering.core.errors import Conflict, Denied, InvalidPatch
from treering.core.objects import Object, WorkItem
from treering.core.patch import (
    AddLink,
    Create,
    Erase,
    Link,
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
from treering.core.scope import is_within
from treering.core.writing.alteration import (
    check_name_is_free,
    create,
    erase,
    merge,
    move,
    relate,
    supersede,
    transition,
    update,
)
from treering.core.writing.draft import Draft, Put, View, Write, changed, recorded, resolved_link
from treering.core.writing.integrity import cascade, check_references, references_of, settle_claims
from treering.core.writing.replacement import settle_replacements

_BOOKKEEPING = ("revision", "updated_at")
_REFERRING = ("_refs", "_ref", "_from", "_on", "_by")
"""Suffixes of the names of fields that refer to objects (`core.writing.integrity`)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Writes in order, a result per operation, and the ids that became stale or contested."""

    writes: tuple[Write, ...]
    results: tuple[OperationResult, ...]
    staled: tuple[str, ...]
    contested: tuple[str, ...]
    operations: tuple[RecordedOperation, ...] = ()
    """The operations as stored in the record of the patch; none if nothing was written."""


def plan(patch: Patch, view: View, *, policy: Policy, now: datetime) -> Plan:
    """Plan a patch against the current state.

    Raises `InvalidPatch`, `IllegalTransition`, `NotFound`, `Conflict` or `Denied`, and `Defect` if the consequences of
    the patch do not converge; nothing was changed then.
    """
    check_trust(patch, policy)
    hidden = _hidden_from(patch, view)
    draft = Draft(view=view, policy=policy, now=now, patch_id=patch.id, boundary=patch.boundary, hidden=hidden)
    results: list[OperationResult] = []
    applied: list[RecordedOperation] = []
    erased = {one.id for one in patch.operations if isinstance(one, Erase)}
    for operation in patch.operations:
        results.append(_apply(operation, patch, draft, erased))
        applied.append(recorded(operation, results[-1], draft))
    planned = _finish(draft, results)
    return replace(planned, operations=tuple(applied)) if planned.writes else planned


def plan_revert(record: PatchRecord, view: View, *, patch_id: str, policy: Policy, now: datetime) -> Plan:
    """Plan the reversal of an applied patch.

    Raises `Conflict` listing later changes, and `InvalidPatch` if content was erased.
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
        # Withdrawing support can free claims, and the other way round.
        settled = len(draft.writes)
        staled += settle_replacements(draft)
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


def _apply(operation: Operation, patch: Patch, draft: Draft, erased: Set[str]) -> OperationResult:
    match operation:
        case Create(object=item):
            return create(item.model_copy(update={"origin_channel": patch.source.channel}), draft)
        case Update():
            check_revision_of(draft.find(operation.id), operation.changes, patch.source, draft.policy)
            return update(operation, draft, channel=patch.source.channel)
        case Transition():
            return transition(operation, draft, channel=patch.source.channel)
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
            return erase(operation, draft, named=erased)


def objects_of(record: PatchRecord) -> list[str]:
    """Return the ids of the objects a patch changed, last change first."""
    return list(dict.fromkeys(effect.target for effect in reversed(record.effects) if not effect.link))


def check_revertible(record: PatchRecord, draft: Draft) -> None:
    """Raise `Conflict` listing later changes, or `InvalidPatch` if content was erased."""
    if record.status != "applied":
        raise Conflict(
            f"{record.id} is {record.status}; only an applied patch can be reverted.", hint="List the patches."
        )
    if any(effect.event == "erased" for effect in record.effects):
        raise InvalidPatch(f"{record.id} erased content, so it cannot be reverted.", hint="Ingest the content again.")
    last = {effect.target: effect.after for effect in record.effects if effect.after}
    changed = []
    for target, revision in last.items():
        item = draft.before(target)
        if item is None or not _is_as_left(item, revision, draft):
            changed.append({"id": target, "left_at": revision, "current": item.revision if item else None})
    if changed:
        raise Conflict(
            f"{len(changed)} of {len(last)} objects have changed since {record.id}, first {changed[0]['id']}.",
            hint="Revert the later patches first, or correct the objects with a new patch.",
            details={"changed": changed},
        )


def _is_as_left(item: Object, revision: int, draft: Draft) -> bool:
    """Return whether an object is the same as at a revision, even if it was changed and changed back."""
    if item.revision == revision:
        return True
    left = draft.view.revision(item.id, revision)
    return left is not None and left == item.model_copy(update={name: getattr(left, name) for name in _BOOKKEEPING})


def restore(target: str, record: PatchRecord, draft: Draft) -> OperationResult:
    """Restore an object to its state before the patch."""
    item = draft.get(target)
    first = next(effect for effect in record.effects if effect.target == target and not effect.link)
    draft.withdrawn.append(target)
    if first.before is None:
        return changed(draft.change(item, "reverted", **_end_of_life(item)))
    earlier = draft.view.revision(target, first.before)
    if earlier is None:
        raise InvalidPatch(
            f"{record.id} cannot be reverted: revision {first.before} of {target} was erased.",
            hint="Correct the object with a new patch.",
        )
    fields = {name: getattr(earlier, name) for name in type(earlier).model_fields}
    restored = draft.change(item, "reverted", **fields)
    check_name_is_free(restored, draft)
    return changed(restored)


def restore_link(link: Link, *, was_added: bool, draft: Draft) -> None:
    """Restore a link to its state before the patch."""
    if was_added:
        draft.unlink(link)
        return
    for end in (link.source, link.target):
        if not draft.exists(end):
            raise InvalidPatch(
                f"The link from {link.source} to {link.target} cannot be restored: {end} was erased.",
                hint="Correct the remaining links with a new patch.",
            )
    draft.link(link)


def _end_of_life(item: Object) -> dict[str, Any]:
    if isinstance(item, WorkItem):
        return {"status": "cancelled", "lifecycle_state": "archived"}
    return {"status": "archived"}


def _hidden_from(patch: Patch, view: View) -> frozenset[str]:
    """Return the ids in a patch that are out of its sight. Raises `Denied` for changes of objects above its scope."""
    scope = patch.scope
    if scope is None:
        return frozenset()
    named = {identity for operation in patch.operations for identity in named_in(operation, view)}
    scopes = {identity: scope_of_it for identity in named if (scope_of_it := view.scope_of(identity)) is not None}
    boundary = patch.boundary
    hidden = frozenset(identity for identity, scope_of_it in scopes.items() if not boundary.holds(scope_of_it))
    seen = {identity: scope_of_it for identity, scope_of_it in scopes.items() if identity not in hidden}
    for operation in patch.operations:
        _check_place(operation, scope, seen)
    return hidden


def _check_place(operation: Operation, scope: str, scopes: Mapping[str, str]) -> None:
    match operation:
        case Create(object=item):
            _require(item.id, item.scope, scope)
        case MoveScope(id=identity, to=to):
            _require(identity, scopes.get(identity, scope), scope)
            _require(identity, to, scope)
        case Merge(id=identity, into=into):
            _require(identity, scopes.get(identity, scope), scope)
            _require(into, scopes.get(into, scope), scope)
        case AddLink(link=link) | RemoveLink(link=link):
            # A link belongs to both of its ends; one of them must be within the scope.
            if not any(is_within(scopes.get(end, scope), scope) for end in (link.source, link.target)):
                _require(link.source, scopes.get(link.source, scope), scope)
        case Update(id=identity) | Transition(id=identity) | Supersede(id=identity) | Erase(id=identity):
            _require(identity, scopes.get(identity, scope), scope)


def _require(identity: str, actual: str, scope: str) -> None:
    if not is_within(actual, scope):
        raise Denied(
            f"A call at scope {scope} may not change {identity}, which is in {actual}.",
            hint=f"Repeat the call at scope {actual}.",
            details={"id": identity, "scope": actual},
        )


def named_in(operation: Operation, view: View) -> Iterable[str]:
    """Return the ids in an operation, except those its object already refers to."""
    match operation:
        case Create(object=item):
            return references_of(item)
        case Update(id=identity, changes=changes):
            return (identity, *_fresh_references(identity, changes, view))
        case Merge(id=identity, into=into):
            return (identity, into)
        case Supersede(id=identity, by=by):
            return (identity, by)
        case AddLink(link=link) | RemoveLink(link=link):
            return (link.source, link.target)
        case Transition(id=identity) | MoveScope(id=identity) | Erase(id=identity):
            return (identity,)


def _fresh_references(identity: str, changes: Mapping[str, Any], view: View) -> set[str]:
    given = set(_texts([value for name, value in changes.items() if name.endswith(_REFERRING)]))
    item = view.get(identity) if given else None
    return given - set(references_of(item)) if item else given


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for part in value.values():
                yield from _texts(part)
        case list() | tuple():
            for part in value:
                yield from _texts(part)
        case _:
            yield from filter(None, [getattr(value, "source_id", "")])
