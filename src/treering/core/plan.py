"""From a patch to the exact writes it means: every rule of the objects, once, for every ledger.

`plan` is pure. A ledger calls it inside its write transaction with a view of its current state, and stores the
writes it returns; so all ledgers agree on meaning and differ only in technology.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from treering.core.contradiction import rivals, settle_claims
from treering.core.draft import Draft, Put, View, Write, revise
from treering.core.errors import Conflict, IllegalTransition, InvalidPatch
from treering.core.evidence import EvidenceRef, Segment, segment_hash
from treering.core.lifecycle import INITIAL, check_transition
from treering.core.names import check_name_is_free
from treering.core.objects import Knowledge, Node, Object, Source, WorkItem
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
    RemoveLink,
    Supersede,
    Transition,
    Update,
)
from treering.core.policy import Policy, check_revision_of, check_trust
from treering.core.references import check_acyclic, check_references, rename_references
from treering.core.support import backing, cascade


@dataclass(frozen=True, slots=True)
class Plan:
    """What a patch means: writes in order, a result per operation, and what it made stale or contested."""

    writes: tuple[Write, ...]
    results: tuple[OperationResult, ...]
    staled: tuple[str, ...]
    contested: tuple[str, ...]


def plan(patch: Patch, view: View, *, policy: Policy, now: datetime) -> Plan:
    """Plan a patch against the current state.

    Raises `InvalidPatch`, `IllegalTransition`, `NotFound`, `Conflict` or `Denied`; nothing was changed then.
    """
    check_trust(patch, policy)
    draft = Draft(view=view, policy=policy, now=now, patch_id=patch.id)
    results = [_apply(operation, patch, draft) for operation in patch.operations]
    return _finish(draft, results)


def plan_revert(record: PatchRecord, view: View, *, patch_id: str, policy: Policy, now: datetime) -> Plan:
    """Plan taking back everything an applied patch did.

    Raises `Conflict` listing what has changed since, and `InvalidPatch` where content was erased.
    """
    draft = Draft(view=view, policy=policy, now=now, patch_id=patch_id)
    _check_revertible(record, draft)
    results = [_restore(target, record, draft) for target in _objects_of(record)]
    for effect in reversed(record.effects):
        if effect.link:
            _restore_link(effect.link, was_added=effect.event == "linked", draft=draft)
    return _finish(draft, results)


def _finish(draft: Draft, results: Sequence[OperationResult]) -> Plan:
    staled, contested = cascade(draft), settle_claims(draft)
    settled = -1
    while settled != len(draft.writes):
        # What one of them withdraws or frees may be the other's business again.
        settled = len(draft.writes)
        staled += cascade(draft)
        contested += settle_claims(draft)
    for write in draft.writes:
        if isinstance(write, Put):
            check_references(write.before, write.after, draft)
    current = tuple(
        result.model_copy(update={"revision": item.revision}) if (item := draft.objects.get(result.id)) else result
        for result in results
    )
    return Plan(tuple(draft.writes), current, tuple(dict.fromkeys(staled)), tuple(dict.fromkeys(contested)))


def _apply(operation: Operation, patch: Patch, draft: Draft) -> OperationResult:
    match operation:
        case Create(object=item):
            return _create(item.model_copy(update={"origin_channel": patch.source.channel}), draft)
        case Update():
            check_revision_of(draft.find(operation.id), patch.source, draft.policy)
            return _update(operation, draft)
        case Transition():
            return _transition(operation, draft)
        case AddLink(link=link):
            return _link(link, draft)
        case RemoveLink(link=link):
            known = draft.unlink(_resolved(link, draft))
            return OperationResult(outcome="unlinked" if known else "unchanged", id=link.source)
        case Merge():
            return _merge(operation, draft)
        case Supersede():
            return _supersede(operation, draft)
        case MoveScope():
            return _move(operation, draft)
        case Erase():
            item = draft.expect(operation.id, operation.expected_revision)
            draft.erase(item)
            draft.withdrawn.append(item.id)
            return OperationResult(outcome="erased", id=item.id)


def _create(item: Object, draft: Draft) -> OperationResult:
    if not draft.is_fresh(item.id):
        raise Conflict(f"{item.id} exists already, or was erased.", hint="Make a fresh id.", details={"id": item.id})
    if item.status not in INITIAL[item.type]:
        raise IllegalTransition(
            f"A {item.type} cannot start as {item.status!r}.",
            hint=f"It may start as: {', '.join(sorted(INITIAL[item.type]))}.",
            details={"to": item.status, "allowed": sorted(INITIAL[item.type])},
        )
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
            _adopt(None, made, draft)
            return _created(made)
        case _:
            return _created(draft.create(item))


def _create_source(item: Source, draft: Draft) -> OperationResult:
    twin = draft.view.source_by_origin(item.scope, item.origin) or next(
        (
            other.id
            for other in draft.objects.values()
            if isinstance(other, Source) and (other.scope, other.origin) == (item.scope, item.origin)
        ),
        None,
    )
    if twin and isinstance(known := draft.find(twin), Source) and known.status != "archived":
        raise Conflict(
            f"{item.origin!r} is already a source in {item.scope}.",
            hint="Update that source instead, with its current revision.",
            details={"id": twin, "current": known.revision},
        )
    _check_segments(item, earlier=())
    return _created(draft.create(item))


def _create_node(item: Node, draft: Draft) -> OperationResult:
    twin = draft.view.node_by_slug(item.scope, item.kind, item.slug) or next(
        (
            other.id
            for other in draft.objects.values()
            if isinstance(other, Node)
            and (other.scope, other.kind, other.slug, other.status) == (item.scope, item.kind, item.slug, "active")
        ),
        None,
    )
    known = draft.find(twin) if twin else None
    if not isinstance(known, Node) or known.status != "active":
        return _created(draft.create(item))
    draft.renamed[item.id] = known.id
    aliases = _union(known.aliases, (item.name, *item.aliases), without=known.name)
    if aliases != known.aliases:
        draft.change(known, "aliases_added", aliases=aliases)
    return OperationResult(outcome="duplicate", id=known.id, revision=known.revision)


def _create_knowledge(item: Knowledge, draft: Draft) -> OperationResult:
    item = _with_checked_evidence(item, draft)
    twin = _twin(item, draft)
    if twin:
        draft.renamed[item.id] = twin.id
        return _absorb(item, twin, draft)
    if item.status == "active":
        _require_support(item, draft)
        item = item.model_copy(update={"last_verified_at": draft.now})
    return _created(draft.create(item))


def _twin(item: Knowledge, draft: Draft) -> Knowledge | None:
    key = item.duplicate_key()
    ids = {*draft.view.knowledge_by_duplicate_key(key), *(other.id for other in draft.touched_knowledge())}
    for other in draft.knowledge(sorted(ids)):
        same = other.duplicate_key() == key and _validity(other) == _validity(item)
        if same and other.id != item.id and other.status not in {"superseded", "archived"}:
            return other
    return None


def _absorb(item: Knowledge, twin: Knowledge, draft: Draft) -> OperationResult:
    """Merge an exact duplicate into what is known: evidence is added, support grows."""
    known = {(ref.source_id, ref.segment_id, ref.role) for ref in twin.evidence_refs}
    fresh = tuple(ref for ref in item.evidence_refs if (ref.source_id, ref.segment_id, ref.role) not in known)
    changes: dict[str, Any] = {}
    if fresh:
        changes["evidence_refs"] = twin.evidence_refs + fresh
    if subjects := _union(twin.subject_refs, item.subject_refs):
        changes |= {"subject_refs": subjects} if subjects != twin.subject_refs else {}
    reaffirmed = item.status == "active" and twin.status in {"candidate", "stale"}
    if reaffirmed:
        _require_support(item, draft)
        changes |= {"status": "active", "last_verified_at": draft.now, "memory_source": item.memory_source}
    if changes:
        draft.change(twin, "evidence_added" if fresh else "updated", **changes)
    return OperationResult(outcome="duplicate", id=twin.id, revision=twin.revision)


def _update(operation: Update, draft: Draft) -> OperationResult:
    item = draft.expect(operation.id, operation.expected_revision)
    fixed = {*item.STAMPED, "status", "scope", "origin_channel", "merged_into"} & operation.changes.keys()
    if fixed:
        raise InvalidPatch(
            f"{', '.join(sorted(fixed))} cannot be changed by an update.",
            hint="A status changes by a transition, a scope by a move; ids, revisions and times are the ledger's.",
            details={"fields": sorted(fixed)},
        )
    revised = rename_references(revise(item, operation.changes), draft.renamed)
    if revised == item:
        return OperationResult(outcome="unchanged", id=item.id, revision=item.revision)
    check_name_is_free(revised, draft)
    match item, revised:
        case Source(), Source():
            _check_segments(revised, earlier=item.segments)
            _check_words(revised, item.segments, draft)
            draft.withdrawn.append(item.id)
        case Knowledge(), Knowledge():
            revised = _with_checked_evidence(revised, draft, earlier=item.evidence_refs)
            if revised.status == "active":
                _require_support(revised, draft)
    made = draft.change(item, "updated", **{name: getattr(revised, name) for name in operation.changes})
    if isinstance(item, WorkItem) and isinstance(made, WorkItem):
        check_acyclic(made, draft)
        _adopt(item.parent_ref, made, draft)
    return _changed(made)


def _transition(operation: Transition, draft: Draft) -> OperationResult:
    item = draft.expect(operation.id, operation.expected_revision)
    check_transition(item, operation.to)
    changes: dict[str, Any] = {"status": operation.to}
    match item:
        case Knowledge():
            changes |= _activation(item, draft) if operation.to == "active" else {}
            if operation.to == "superseded":
                raise InvalidPatch(f"{item.id} needs a successor.", hint="Use a supersede operation, naming it.")
        case Node() if operation.to == "merged":
            raise InvalidPatch(f"{item.id} needs a node to merge into.", hint="Use a merge operation.")
        case WorkItem():
            changes |= _resolution(item, operation)
        case _:
            pass
    draft.withdrawn.append(item.id)
    return _changed(draft.change(item, "transitioned", **changes))


def _activation(item: Knowledge, draft: Draft) -> dict[str, Any]:
    _require_support(item, draft)
    against = rivals(item.model_copy(update={"status": "active"}), draft)
    if item.status == "contested" and against:
        raise InvalidPatch(
            f"{item.id} is contradicted by {against[0].id}.",
            hint="Supersede the claim that lost, naming this one as its successor.",
            details={"id": item.id, "rivals": [rival.id for rival in against]},
        )
    return {"last_verified_at": draft.now}


def _resolution(item: WorkItem, operation: Transition) -> dict[str, Any]:
    if operation.to == "resolved":
        resolution = operation.resolution or item.resolution
        if not resolution:
            raise InvalidPatch(f"{item.id} needs a resolution to be resolved.", hint="Say what resolved it.")
        return {"resolution": resolution}
    return {"resolution": operation.resolution} if operation.resolution else {}


def _link(link: Link, draft: Draft) -> OperationResult:
    link = _resolved(link, draft)
    if link.type == "similar_to":
        raise InvalidPatch("'similar_to' links are derived, not written.", hint="Use 'references' or 'about'.")
    if link.source == link.target:
        raise InvalidPatch(f"{link.source} cannot be linked to itself.", hint="Name another target.")
    draft.get(link.source)
    draft.get(link.target)
    return OperationResult(outcome="linked" if draft.link(link) else "unchanged", id=link.source)


def _merge(operation: Merge, draft: Draft) -> OperationResult:
    item = draft.expect(operation.id, operation.expected_revision)
    into = draft.get(operation.into)
    if not isinstance(item, Node) or not isinstance(into, Node) or item.id == into.id:
        raise InvalidPatch("Only a node can be merged, into another node.", hint="Name two node: ids.")
    if into.status != "active":
        raise InvalidPatch(f"{into.id} is {into.status}.", hint="Merge into an active node.")
    check_transition(item, "merged")
    draft.change(into, "updated", aliases=_union(into.aliases, (item.name, *item.aliases), without=into.name))
    return _changed(draft.change(item, "merged", status="merged", merged_into=into.id))


def _supersede(operation: Supersede, draft: Draft) -> OperationResult:
    item = draft.expect(operation.id, operation.expected_revision)
    by = draft.get(operation.by)
    if not isinstance(item, Knowledge) or not isinstance(by, Knowledge) or item.id == by.id:
        raise InvalidPatch("Knowledge is superseded by other knowledge.", hint="Name two know: ids.")
    if by.status not in {"active", "contested"}:
        raise InvalidPatch(
            f"{by.id} is {by.status}; only active knowledge can replace other knowledge.",
            hint="Promote it first, or create it as active with evidence.",
        )
    check_transition(item, "superseded")
    made = draft.change(item, "superseded", status="superseded")
    draft.link(Link(type="supersedes", source=by.id, target=item.id))
    draft.withdrawn.append(item.id)
    if by.status == "contested" and not rivals(by, draft):
        # Naming the winner is the resolution: it is believed again, on the evidence it has.
        _require_support(by, draft)
        draft.change(by, "settled", status="active", last_verified_at=draft.now)
    return _changed(made)


def _move(operation: MoveScope, draft: Draft) -> OperationResult:
    item = draft.expect(operation.id, operation.expected_revision)
    if item.scope == operation.to:
        return OperationResult(outcome="unchanged", id=item.id, revision=item.revision)
    moved = item.model_copy(update={"scope": operation.to})
    check_name_is_free(moved, draft)
    if isinstance(moved, Knowledge) and (twin := _twin(moved, draft)):
        draft.change(item, "merged", status="archived")
        return _absorb(moved, twin, draft)
    return _changed(draft.change(item, "moved", scope=operation.to))


def _check_segments(item: Source, *, earlier: Sequence[Segment]) -> None:
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


def _check_words(item: Source, earlier: Sequence[Segment], draft: Draft) -> None:
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


def _with_checked_evidence(item: Knowledge, draft: Draft, *, earlier: Sequence[EvidenceRef] = ()) -> Knowledge:
    # A reference that was right when it was written may have lost its segment; that is the cascade's business.
    refs = tuple(ref if ref in earlier else _checked(ref, draft) for ref in item.evidence_refs)
    return item.model_copy(update={"evidence_refs": refs})


def _checked(ref: EvidenceRef, draft: Draft) -> EvidenceRef:
    source = draft.find(ref.source_id)
    if not isinstance(source, Source) or source.status != "active":
        raise InvalidPatch(
            f"The evidence names {ref.source_id}, which is no active source here.",
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


def _require_support(item: Knowledge, draft: Draft) -> None:
    if not backing(item, draft):
        raise InvalidPatch(
            f"{item.title!r} has no evidence that holds, so it cannot be active.",
            hint="Add evidence_refs (source_id and segment_id of a hit), or leave it a candidate.",
            details={"id": item.id},
        )


def _adopt(earlier: str | None, item: WorkItem, draft: Draft) -> None:
    """Keep the parents' `child_refs` in step with `parent_ref`."""
    if earlier == item.parent_ref:
        return
    for parent_id, belongs in ((earlier, False), (item.parent_ref, True)):
        parent = draft.find(parent_id) if parent_id else None
        if isinstance(parent, WorkItem):
            others = tuple(ref for ref in parent.child_refs if ref != item.id)
            draft.change(parent, "children_changed", child_refs=(*others, item.id) if belongs else others)


def _objects_of(record: PatchRecord) -> list[str]:
    return list(dict.fromkeys(effect.target for effect in reversed(record.effects) if not effect.link))


def _check_revertible(record: PatchRecord, draft: Draft) -> None:
    if record.status != "applied":
        raise Conflict(f"{record.id} is {record.status}, not applied.", hint="Only an applied patch is reverted.")
    if any(effect.event == "erased" for effect in record.effects):
        raise InvalidPatch(f"{record.id} erased content; that cannot be reverted.", hint="Ingest it again.")
    last = {effect.target: effect.after for effect in record.effects if effect.after}
    changed = []
    for target, revision in last.items():
        item = draft.view.get(target)
        if item is None or item.revision != revision:
            changed.append({"id": target, "left_at": revision, "current": item.revision if item else None})
    if changed:
        raise Conflict(
            f"{len(changed)} of {len(last)} objects have changed since {record.id}, first {changed[0]['id']}.",
            hint="Revert the later patches first, or correct the objects by a new patch.",
            details={"changed": changed},
        )


def _restore(target: str, record: PatchRecord, draft: Draft) -> OperationResult:
    item = draft.get(target)
    first = next(effect for effect in record.effects if effect.target == target and not effect.link)
    draft.withdrawn.append(target)
    if first.before is None:
        return _changed(draft.change(item, "reverted", **_end_of_life(item)))
    earlier = draft.view.revision(target, first.before)
    if earlier is None:
        raise InvalidPatch(f"Revision {first.before} of {target} is gone.", hint="Its content was erased.")
    fields = {name: getattr(earlier, name) for name in type(earlier).model_fields if name not in item.STAMPED}
    restored = draft.change(item, "reverted", **fields)
    check_name_is_free(restored, draft)
    return _changed(restored)


def _restore_link(link: Link, *, was_added: bool, draft: Draft) -> None:
    if was_added:
        draft.unlink(link)
        return
    for end in (link.source, link.target):
        if not draft.exists(end):
            raise InvalidPatch(f"{end} was erased, so its link cannot come back.", hint="Link what is still there.")
    draft.link(link)


def _end_of_life(item: Object) -> dict[str, Any]:
    if isinstance(item, WorkItem):
        return {"status": "cancelled", "lifecycle_state": "archived"}
    return {"status": "archived"}


def _resolved(link: Link, draft: Draft) -> Link:
    return link.model_copy(update={"source": draft.resolve(link.source), "target": draft.resolve(link.target)})


def _validity(item: Knowledge) -> tuple[datetime | None, datetime | None]:
    return item.valid_from, item.valid_until


def _union(known: tuple[str, ...], more: Sequence[str], *, without: str = "") -> tuple[str, ...]:
    return tuple(dict.fromkeys([*known, *(text for text in more if text != without)]))


def _created(item: Object) -> OperationResult:
    return OperationResult(outcome="created", id=item.id, revision=1)


def _changed(item: Object) -> OperationResult:
    return OperationResult(outcome="updated", id=item.id, revision=item.revision)
