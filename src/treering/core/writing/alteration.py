"""Operations on objects: create and change them, their statuses, links, merges, successors and scopes."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from treering.core.errors import Conflict, IllegalTransition, InvalidPatch
from treering.core.evidence import EvidenceRef, Segment, on_any_branch, segment_hash
from treering.core.objects import SETTLED, Channel, Knowledge, Node, Object, Source, Summary, WorkItem, name_held
from treering.core.patch import (
    FIELDS,
    Erase,
    Link,
    Merge,
    MoveScope,
    OperationResult,
    Supersede,
    Transition,
    Update,
    check_length,
    check_object,
)
from treering.core.policy import INITIAL, changes_words, check_transition, less_trusted
from treering.core.versions import GIT_BLOB, SEVERAL, HeldContents
from treering.core.writing.draft import Cited, Draft, changed, created, merge_unique, resolved_link, revise
from treering.core.writing.integrity import (
    GAVE_WAY,
    check_acyclic,
    copies_of,
    holds,
    is_backed,
    is_newly_disputed,
    rename_references,
    rivals,
    update_child_refs,
)
from treering.core.writing.replacement import replace


def update(operation: Update, draft: Draft, *, channel: Channel) -> OperationResult:
    """Change fields. Text from a less trusted channel lowers the trust of the object to that of the channel."""
    item = draft.expect(operation.id, operation.expected_revision)
    fixed = (item.STAMPED | SETTLED) & operation.changes.keys()
    if fixed:
        raise InvalidPatch(
            f"{', '.join(sorted(fixed))} cannot be changed by an update.",
            hint="Change a status by a transition, a scope by a move, merged_into by a merge. The ledger sets "
            "ids, revisions, times and disputes.",
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
            is_only_marked = operation.changes.keys() == {"evidence_refs"} and _cites_the_same(item, revised)
            if revised.status == "active" and not is_only_marked:
                require_support(revised, draft)
            if is_newly_disputed(revised, item.evidence_refs):
                revised = revised.model_copy(update={"disputed": True})
    revised_item = draft.change(item, _event(item, revised), **_written(item, revised, operation, channel, draft))
    if isinstance(item, WorkItem) and isinstance(revised_item, WorkItem):
        check_acyclic(revised_item, draft)
        update_child_refs(item.parent_ref, revised_item, draft)
    return changed(revised_item)


def _event(item: Object, revised: Object) -> str:
    """Return the kind of the event: whether evidence was only lost on a branch, or something else changed."""
    if not (isinstance(item, Knowledge) and isinstance(revised, Knowledge)):
        return "updated"
    pairs = zip(item.evidence_refs, revised.evidence_refs, strict=False)
    is_lost = any(set(after.lost_on) - set(before.lost_on) for before, after in pairs)
    return "evidence_lost" if is_lost and _cites_the_same(item, revised) else "updated"


def _cites_the_same(item: Knowledge, revised: Knowledge) -> bool:
    return on_any_branch(revised.evidence_refs) == on_any_branch(item.evidence_refs)


def _written(item: Object, revised: Object, operation: Update, channel: Channel, draft: Draft) -> dict[str, Any]:
    """Return the changed fields, and the channel if it lowers the trust."""
    fields = {name: getattr(revised, name) for name in operation.changes}
    if isinstance(revised, Knowledge):
        fields["disputed"] = revised.disputed
    differing = {name: value for name, value in fields.items() if value != getattr(item, name)}
    falls = changes_words(differing) and less_trusted(channel, item.origin_channel, draft.policy.channel_trust)
    return {**fields, "origin_channel": channel} if falls else fields


def transition(operation: Transition, draft: Draft, *, channel: Channel) -> OperationResult:
    """Move to another status. A candidate confirmed by a more trusted channel gets the trust of that channel."""
    item = draft.expect(operation.id, operation.expected_revision)
    check_transition(item, operation.to)
    check_length("resolution", operation.resolution, FIELDS["resolution"])
    changes: dict[str, Any] = {"status": operation.to}
    match item:
        case Knowledge():
            changes |= _activation(item, draft, channel) if operation.to == "active" else {}
            changes |= {"disputed": True} if operation.to == "contested" else {}
            if operation.to == "superseded":
                raise InvalidPatch(
                    f"{item.id} cannot become superseded without a successor.",
                    hint="Use a supersede operation, which names the successor.",
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


def _activation(item: Knowledge, draft: Draft, channel: Channel) -> dict[str, Any]:
    require_support(item, draft)
    against = rivals(item, draft)
    if item.status == "contested" and against:
        raise InvalidPatch(
            f"{item.id} is contradicted by {against[0].id}.",
            hint="Supersede the losing claim, naming this one as its successor.",
            details={"id": item.id, "rivals": [rival.id for rival in against]},
        )
    # Readings activate stale knowledge on behalf of their caller, who has not seen it.
    confirmed = _confirmed(item, channel, draft) if item.status == "candidate" else {}
    return {"last_verified_at": draft.now, "disputed": False, **confirmed}


def _confirmed(item: Knowledge, channel: Channel, draft: Draft) -> dict[str, Any]:
    """Return the channel of a confirmation if it is trusted more than the channel of the knowledge."""
    rises = less_trusted(item.origin_channel, channel, draft.policy.channel_trust)
    return {"origin_channel": channel} if rises else {}


def _resolution(item: WorkItem, operation: Transition) -> dict[str, Any]:
    if operation.to == "resolved":
        resolution = operation.resolution or item.resolution
        if not resolution:
            raise InvalidPatch(
                f"{item.id} cannot become resolved without a resolution.", hint="Set resolution: how it was solved."
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
            hint="Give the ids of two nodes (node:…).",
        )
    if into.status != "active":
        raise InvalidPatch(
            f"{item.id} cannot be merged into {into.id}, which is {into.status}.", hint="Merge into an active node."
        )
    check_transition(item, "merged")
    draft.change(into, "updated", aliases=merge_unique(into.aliases, (item.name, *item.aliases), without=into.name))
    return changed(draft.change(item, "merged", status="merged", merged_into=into.id))


def supersede(operation: Supersede, draft: Draft) -> OperationResult:
    """Replace knowledge by other active knowledge."""
    item = draft.expect(operation.id, operation.expected_revision)
    by = draft.get(operation.by)
    if item.id == by.id:
        raise InvalidPatch(
            f"{item.id} cannot supersede itself.",
            hint="A replacement has a different payload or valid_from. To change wording or evidence, correct "
            "it: `crystallize` in mode `knowledge` with its id.",
            details={"id": item.id},
        )
    if not isinstance(item, Knowledge) or not isinstance(by, Knowledge):
        raise InvalidPatch(
            f"{by.id} cannot supersede {item.id}: both must be knowledge.",
            hint="Give the ids of two knowledge objects (know:…).",
        )
    if by.status not in {"active", "contested"}:
        raise InvalidPatch(
            f"{by.id} is {by.status}; only active knowledge can replace other knowledge.",
            hint="Promote it first, or create it as active with evidence.",
        )
    check_transition(item, "superseded")
    replaced = replace(item, by, draft)
    if by.status == "contested" and not by.disputed and not rivals(by, draft):
        # Naming the winner settles the dispute: it becomes active again, on the evidence it has.
        require_support(by, draft)
        draft.change(by, "settled", status="active", last_verified_at=draft.now)
    return changed(replaced)


def move(operation: MoveScope, draft: Draft) -> OperationResult:
    """Move to another scope. An exact duplicate there receives the evidence instead."""
    item = draft.expect(operation.id, operation.expected_revision)
    if item.scope == operation.to:
        return OperationResult(outcome="unchanged", id=item.id, revision=item.revision)
    moved = item.model_copy(update={"scope": operation.to})
    check_name_is_free(moved, draft)
    if isinstance(moved, Knowledge) and (existing := find_duplicate(moved, draft)):
        draft.change(item, "merged", status="archived")
        return merge_duplicate(moved, existing, draft)
    return changed(draft.change(item, "moved", scope=operation.to))


def erase(operation: Erase, draft: Draft, *, named: Collection[str]) -> OperationResult:
    """Erase an object, and the copies of it that a merge archived in its favor.

    An object in favor of which such a copy was archived gets a new revision, so that the next merge determines its
    state without the copy. `named` are the ids of all objects that the patch erases.
    """
    item = draft.expect(operation.id, operation.expected_revision)
    gone = [item]
    for other in copies_of(item, draft):
        if other.id in named:
            continue
        if other.status in GAVE_WAY:
            gone.append(other)
        elif item.status in GAVE_WAY:
            draft.change(other, "updated")
    for one in gone:
        draft.erase(one)
        draft.withdrawn.append(one.id)
    return OperationResult(outcome="erased", id=item.id)


def create(item: Object, draft: Draft) -> OperationResult:
    """Add a new object to the draft, or find the existing duplicate."""
    if not draft.is_fresh(item.id):
        raise Conflict(f"{item.id} already exists or was erased.", hint="Generate a new id.", details={"id": item.id})
    if item.status not in INITIAL[item.type]:
        raise IllegalTransition(
            f"A {item.type} cannot be created as {item.status!r}.",
            hint=f"Allowed: {', '.join(sorted(INITIAL[item.type]))}.",
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
            work = draft.create(item.model_copy(update={"opened_at": item.opened_at or draft.now}))
            check_acyclic(work, draft)
            update_child_refs(None, work, draft)
            return created(work)
        case _:
            return created(draft.create(item))


def _create_source(item: Source, draft: Draft) -> OperationResult:
    if known := other_holder(item, draft):
        raise Conflict(
            f"{item.origin!r} is already a source in {item.scope}.",
            hint="Update that source instead, with its current revision.",
            details={"id": known.id, "current": known.revision},
        )
    if item.withheld:
        raise InvalidPatch("Only a merge records a withheld source.", hint="Leave out the field 'withheld'.")
    check_segments(item, earlier=())
    return created(draft.create(item))


def _create_node(item: Node, draft: Draft) -> OperationResult:
    known = other_holder(item, draft)
    if not isinstance(known, Node):
        return created(draft.create(item))
    draft.renamed[item.id] = known.id
    aliases = merge_unique(known.aliases, (item.name, *item.aliases), without=known.name)
    names: dict[str, Any] = {"aliases": aliases} if aliases != known.aliases else {}
    summary = _new_summary(item, known, draft)
    if names or summary:
        draft.change(known, "updated" if summary else "aliases_added", **names, **summary)
    return OperationResult(outcome="updated" if summary else "duplicate", id=known.id, revision=known.revision)


def _new_summary(item: Node, known: Node, draft: Draft) -> dict[str, Any]:
    """Return the changes if a node is created again with another summary.

    A channel that only proposes knowledge does not change the text of others; a less trusted one lowers the trust of
    the node to its own.
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
    existing = find_duplicate(item, draft)
    if existing:
        draft.renamed[item.id] = existing.id
        return merge_duplicate(item, existing, draft)
    if item.status == "active":
        require_support(item, draft)
        item = item.model_copy(update={"last_verified_at": draft.now})
    return created(draft.create(item))


def find_duplicate(item: Knowledge, draft: Draft) -> Knowledge | None:
    """Return other knowledge with exactly the same content, scope and validity."""
    key = item.duplicate_key()
    ids = {*draft.view.knowledge_by_duplicate_key(key), *(other.id for other in draft.touched_knowledge())}
    for other in draft.knowledge(sorted(ids)):
        same = other.duplicate_key() == key and _validity(other) == _validity(item)
        if same and other.id != item.id and other.status not in {"superseded", "archived"}:
            return other
    return None


def merge_duplicate(item: Knowledge, existing: Knowledge, draft: Draft) -> OperationResult:
    """Merge an exact duplicate into existing knowledge: add its evidence and subjects.

    The evidence of an active duplicate replaces evidence that is gone.
    """
    known = {ref.key for ref in existing.evidence_refs}
    fresh = tuple(ref for ref in item.evidence_refs if ref.key not in known)
    changes: dict[str, Any] = {}
    remaining = existing.evidence_refs
    if item.status == "active" and item.evidence_refs:
        remaining = tuple(ref for ref in remaining if holds(ref, draft))
    if (refs := remaining + fresh) != existing.evidence_refs:
        changes["evidence_refs"] = refs
    if is_newly_disputed(item, existing.evidence_refs) or (item.status == "contested" and item.disputed):
        changes["disputed"] = True
    if subjects := merge_unique(existing.subject_refs, item.subject_refs):
        changes |= {"subject_refs": subjects} if subjects != existing.subject_refs else {}
    reaffirmed = item.status == "active" and existing.status in {"candidate", "stale"}
    if reaffirmed:
        require_support(item, draft)
        changes |= {"status": "active", "last_verified_at": draft.now, "memory_source": item.memory_source}
    if item.status == "active":
        changes |= _confirmed(existing, item.origin_channel, draft)
    if changes:
        draft.change(existing, "evidence_added" if fresh else "updated", **changes)
    return OperationResult(outcome="duplicate", id=existing.id, revision=existing.revision)


def _validity(item: Knowledge) -> tuple[datetime | None, datetime | None]:
    return item.valid_from, item.valid_until


def check_segments(item: Source, *, earlier: Sequence[Segment]) -> None:
    """Raise `InvalidPatch` if a segment id is repeated or a hash does not match its text."""
    known = {segment.segment_id: segment.hash for segment in earlier}
    seen: set[str] = set()
    for segment in item.segments:
        right = segment.hash == segment_hash(segment.excerpt, salt=item.salt)
        same = known.get(segment.segment_id, segment.hash) == segment.hash
        if segment.segment_id in seen or not right or not same:
            raise InvalidPatch(
                f"Segment {segment.segment_id} of {item.origin!r} is repeated, or its hash does not match its text.",
                hint="A segment id always names the same text; changed text needs a new segment id.",
                details={"segment_id": segment.segment_id},
            )
        seen.add(segment.segment_id)


def check_words(item: Source, earlier: Sequence[Segment], draft: Draft) -> None:
    """Raise `InvalidPatch` if the id of an earlier segment is used again for a different text."""
    known = {segment.segment_id for segment in earlier}
    for segment in item.segments:
        if segment.segment_id not in known and draft.view.segment_text(item.id, segment.segment_id) not in (
            None,
            segment.excerpt,
        ):
            raise InvalidPatch(
                f"Segment {segment.segment_id} of {item.origin!r} was already used for a different text.",
                hint="A segment id always names the same text; changed text needs a new segment id.",
                details={"segment_id": segment.segment_id},
            )


def with_checked_evidence(item: Knowledge, draft: Draft, *, earlier: Sequence[EvidenceRef] = ()) -> Knowledge:
    """Return the knowledge with its evidence checked. Raises `InvalidPatch` for missing evidence."""
    # An existing reference may have lost its segment; the cascade handles that.
    known = on_any_branch(earlier)
    cited = zip(item.evidence_refs, on_any_branch(item.evidence_refs), strict=True)
    refs = tuple(ref if one in known else _checked(ref, draft) for ref, one in cited)
    return item.model_copy(update={"evidence_refs": refs})


def _checked(ref: EvidenceRef, draft: Draft) -> EvidenceRef:
    source = draft.cited(ref.source_id, ref.segment_id)
    if source is None or source.status != "active":
        raise InvalidPatch(
            f"The evidence cites {ref.source_id}, which is not an active source in this scope.",
            hint="Ingest the source first; take source_id and segment_id from a hit.",
            details={"source_id": ref.source_id},
        )
    segment = source.segment
    if segment is None:
        raise InvalidPatch(
            f"{ref.source_id} no longer has segment {ref.segment_id}.",
            hint="Query again; the source may have been ingested again.",
            details={"source_id": ref.source_id, "segment_id": ref.segment_id},
        )
    if ref.quote_hash not in ("", segment.hash):
        raise InvalidPatch(
            f"The quote hash does not match segment {ref.segment_id} of {ref.source_id}.",
            hint="Omit quote_hash to cite the segment as it is now, or read it again.",
            details={"segment_id": ref.segment_id},
        )
    if ref.lines and not ref.lines[0] <= ref.lines[1] <= len(segment.excerpt.splitlines()):
        raise InvalidPatch(
            f"Segment {ref.segment_id} of {ref.source_id} has no lines {ref.lines[0]} to {ref.lines[1]}.",
            hint="Count them from 1 in the text of the segment, or leave lines out.",
            details={"segment_id": ref.segment_id},
        )
    now = {"quote_hash": segment.hash, "source_id": draft.resolve(ref.source_id), "verified_at": draft.now}
    return ref.model_copy(update={**now, "contents": _contents(source, segment)})


def _contents(source: Cited, segment: Segment) -> str:
    """Return the contents of a repository file that contain the segment; empty for other sources."""
    if not source.fingerprint.startswith((GIT_BLOB, SEVERAL)):
        return ""
    return segment.places[0].contents if segment.places else HeldContents.parse(source.fingerprint).fingerprints[0]


def check_lineage(item: Knowledge, draft: Draft) -> None:
    """Raise `InvalidPatch` if a summary would be derived from itself, because its parents are not followed further.

    Other knowledge may be: its support is counted with each parent visited once.
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
            f"{item.title!r} would be derived from itself.",
            hint="Remove its own descendants from derived_from.",
            details={"id": item.id},
        )


def require_support(item: Knowledge, draft: Draft) -> None:
    """Raise `InvalidPatch` if no valid evidence supports the knowledge."""
    if not is_backed(item, draft):
        raise InvalidPatch(
            f"{item.title!r} has no valid evidence, so it cannot be active.",
            hint="Add evidence_refs (source_id and segment_id of a hit), or leave it as a candidate.",
            details={"id": item.id},
        )


def other_holder(item: Source | Node, draft: Draft) -> Source | Node | None:
    """Return the other object that has the unique name of `item` after the patch so far, or `None`."""
    name = name_held(item)
    if name is None:
        return None
    held = _earlier_holder(item, draft)
    for identity in (*([held] if held else []), *draft.name_holders.get(name, ())):
        other = draft.find(identity)
        if isinstance(other, Source | Node) and other.id != item.id and name_held(other) == name:
            return other
    return None


def check_name_is_free(item: Object, draft: Draft) -> None:
    """Raise `Conflict` if another source of the scope has this origin, or another active node this slug."""
    if not isinstance(item, Source | Node) or name_held(item) is None:
        return
    if known := other_holder(item, draft):
        raise Conflict(
            f"{known.origin if isinstance(known, Source) else known.slug!r} in {known.scope} is already {known.id}.",
            hint="Archive or merge one of the two first.",
            details={"id": known.id, "current": known.revision},
        )


def _earlier_holder(item: Source | Node, draft: Draft) -> str | None:
    if isinstance(item, Source):
        return draft.view.source_by_origin(item.scope, item.origin)
    return draft.view.node_by_slug(item.scope, item.kind, item.slug)
