"""The consistency of a draft: references, contradicting claims, and the support of knowledge."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from treering.core.canonical import is_object, normalise
from treering.core.errors import InvalidPatch
from treering.core.evidence import EvidenceRef, any_place_holds
from treering.core.objects import Decision, Fact, Knowledge, Node, Object, Source, Summary, WorkItem
from treering.core.patch import Link, LinkType
from treering.core.policy import CITABLE, CURRENT, WITHDRAWN_BY_CASCADE, Policy
from treering.core.versions import SEVERAL, branches_with
from treering.core.writing.draft import Draft, Erased, Put

REFERENCE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "source": (),
    "node": (),
    "knowledge": ("subject_refs", "derived_from"),
    "activity": ("related_node_refs", "related_work_item_refs", "source_refs", "produced_object_refs"),
    "work_item": (
        "owner_refs",
        "related_node_refs",
        "related_knowledge_refs",
        "source_refs",
        "depends_on",
        "blocked_by",
        "child_refs",
    ),
}

ACYCLIC_FIELDS = ("depends_on", "parent_ref")
COPY: LinkType = "similar_to"
"""The link from a source or node to the one of the same name that a merge preferred."""
GAVE_WAY = frozenset({"archived", "merged"})
"""The statuses that a merge gives to an object in favor of its copy."""


def references_of(item: Object) -> tuple[str, ...]:
    """Return every id the object refers to, evidence included."""
    return tuple(dict.fromkeys(ref for _, ref in named_references(item)))


def fields_naming(item: Object, identities: Collection[str]) -> tuple[str, ...]:
    """Return the fields in which the object refers to any of the ids."""
    return tuple(dict.fromkeys(field for field, ref in named_references(item) if ref in identities))


def fields_by_reference(item: Object) -> dict[str, tuple[str, ...]]:
    """Return the fields of an object that contain each id which it names."""
    fields: dict[str, dict[str, None]] = {}
    for name, target in named_references(item):
        fields.setdefault(target, {})[name] = None
    return {target: tuple(names) for target, names in fields.items()}


def named_references(item: Object) -> Iterator[tuple[str, str]]:
    """Yield every id the object refers to, with its field."""
    for field in REFERENCE_FIELDS[item.type]:
        # An owner may also be the name of a person who is not a node.
        yield from ((field, ref) for ref in getattr(item, field) if field != "owner_refs" or is_object(ref))
    match item:
        case Knowledge():
            yield from (("evidence_refs", ref.source_id) for ref in item.evidence_refs)
        case WorkItem(parent_ref=str(parent)):
            yield "parent_ref", parent
        case Node(merged_into=str(into)):
            yield "merged_into", into
        case _:
            return


def rename_references(item: Object, renamed: Mapping[str, str]) -> Object:
    """Return the object with references to merged duplicates replaced."""
    if not renamed or not any(ref in renamed for ref in references_of(item)):
        return item
    changes: dict[str, object] = {
        field: tuple(renamed.get(ref, ref) for ref in getattr(item, field)) for field in REFERENCE_FIELDS[item.type]
    }
    if isinstance(item, WorkItem) and item.parent_ref:
        changes["parent_ref"] = renamed.get(item.parent_ref, item.parent_ref)
    return item.model_copy(update=changes)


def copies_of(item: Object, draft: Draft) -> list[Object]:
    """Return the objects that a merge joined with one: the same knowledge, or sources and nodes of the same name."""
    view = draft.view
    if isinstance(item, Knowledge):
        ids = view.knowledge_by_duplicate_key(item.duplicate_key())
    else:
        ids = [end for link in view.links_of(item.id) if link.type == COPY for end in (link.source, link.target)]
    others = map(draft.find, sorted(set(ids) - {item.id}))
    return [one for one in others if one and _sameness(one) == _sameness(item)]


def _sameness(item: Object) -> tuple[Any, ...]:
    match item:
        case Knowledge():
            return (item.duplicate_key(), item.valid_from, item.valid_until)
        case Source():
            return (item.scope, item.origin)
        case Node():
            return (item.scope, item.kind, item.slug)
        case _:
            return (item.id,)


def check_references(before: Object | None, after: Object, draft: Draft) -> None:
    """Raise `InvalidPatch` for a new reference to a missing object. Old ones may dangle; lint reports them."""
    old = set(references_of(before)) if before else set()
    for reference in references_of(after):
        if reference not in old and not draft.exists(reference):
            raise InvalidPatch(
                f"{after.id} refers to {reference}, which does not exist.",
                hint="Create it earlier, or in the same patch.",
                details={"id": after.id, "missing": reference},
            )


def check_acyclic(item: WorkItem, draft: Draft) -> None:
    """Raise `InvalidPatch` with the cycle if work would depend on itself or be its own ancestor."""
    for field in ACYCLIC_FIELDS:
        cycle = [draft.shown(step) for step in cycle_of(item, field, draft.find)]
        if cycle:
            raise InvalidPatch(
                f"{field} would form a cycle: {' -> '.join(cycle)}.",
                hint="Remove one of these references.",
                details={"cycle": cycle},
            )


def cycle_of(item: WorkItem, field: str, find: Callable[[str], Object | None]) -> list[str]:
    """Return the ids of a path from work back to itself by one of `ACYCLIC_FIELDS`, or an empty list."""
    visited: set[str] = set()
    paths = [[item.id, target] for target in _targets(item, field)]
    while paths:
        path = paths.pop()
        if path[-1] == item.id:
            return path
        if path[-1] in visited:
            continue
        visited.add(path[-1])
        step = find(path[-1])
        if isinstance(step, WorkItem):
            paths += [[*path, target] for target in _targets(step, field)]
    return []


def _targets(item: WorkItem, field: str) -> tuple[str, ...]:
    if field == "parent_ref":
        return (item.parent_ref,) if item.parent_ref else ()
    return item.depends_on


def update_child_refs(earlier: str | None, item: WorkItem, draft: Draft) -> None:
    """Update the parents' `child_refs` after a change of `parent_ref`."""
    if earlier == item.parent_ref:
        return
    for parent_id, belongs in ((earlier, False), (item.parent_ref, True)):
        parent = draft.find(parent_id) if parent_id else None
        if isinstance(parent, WorkItem):
            others = tuple(ref for ref in parent.child_refs if ref != item.id)
            draft.change(parent, "children_changed", child_refs=(*others, item.id) if belongs else others)


_LIVE = CURRENT["knowledge"]


def settle_claims(draft: Draft) -> list[str]:
    """Contest contradicted or disputed claims, let newer ones supersede, and free claims without rivals.

    Return the ids that became contested. Claims are compared by subject, validity and value, never by similarity.
    """
    contested: list[str] = []
    affected = [item for item in with_changed_branches(draft) if item.claim_key()]
    for touched in (*draft.touched_knowledge(), *affected):
        item = draft.find(touched.id)
        if isinstance(item, Knowledge) and item.status in _LIVE:
            contested += _settle(item, draft)
    for key in dict.fromkeys([*_touched_keys(draft), *filter(None, (item.claim_key() for item in affected))]):
        _free_rivals(key, draft)
    return contested


def rivals(item: Knowledge, draft: Draft) -> list[Knowledge]:
    """Return the current claims in conflict with `item`, oldest first."""
    key = item.claim_key()
    if key is None or not is_functional(item, draft.policy):
        return []
    touched = (other.id for other in draft.touched_knowledge() if other.claim_key() == key)
    ids = {*draft.view.knowledge_by_claim_key(key), *touched}
    return [other for other in draft.knowledge(sorted(ids)) if conflict(item, other, draft)]


def conflict(one: Knowledge, other: Knowledge, draft: Draft) -> bool:
    """Return whether two claims contest each other.

    An unsupported candidate is only a proposal. It contests other proposals, but no claim that is better supported.
    """
    return (
        contradict(one, other)
        and _may_meet(one, other, draft)
        and _is_proposal(one, draft) == _is_proposal(other, draft)
    )


def _is_proposal(item: Knowledge, draft: Draft) -> bool:
    return not item.was_active and not is_backed(item, draft)


def _may_meet(one: Knowledge, other: Knowledge, draft: Draft) -> bool:
    """Return whether two claims may apply to the same branch; claims about different branches do not contradict.

    Neither does a claim that replaces the other, even if only on some branches (`core.writing.replacement`).
    """
    first, second = branches_of(one, draft), branches_of(other, draft)
    if first is None and second is None:
        return True
    if first is not None and second is not None and first.isdisjoint(second):
        return False
    return not any(
        draft.has_link(Link(type="supersedes", source=by.id, target=old.id)) for by, old in ((one, other), (other, one))
    )


def branches_of(item: Knowledge, draft: Draft) -> frozenset[str] | None:
    """Return the branches of the evidence for knowledge; `None` for every branch, or if they are unknown."""
    cited = [draft.cited(ref.source_id, ref.segment_id) for ref in item.evidence_refs if ref.role == "supports"]
    branches = branches_with(
        (one.fingerprint, one.segment) for one in cited if one and one.status == "active" and one.segment
    )
    return None if branches is None else frozenset(branches)


def with_changed_branches(draft: Draft) -> list[Knowledge]:
    """Return knowledge with evidence in sources whose contents changed branches."""
    moved = [
        write.after.id
        for write in draft.writes
        if isinstance(write, Put)
        and isinstance(write.before, Source)
        and isinstance(write.after, Source)
        and write.before.fingerprint != write.after.fingerprint
        and SEVERAL in (write.before.fingerprint + write.after.fingerprint)
    ]
    return list({item.id: item for source in moved for item in draft.dependents(source)}.values())


def is_functional(item: Knowledge, policy: Policy) -> bool:
    """Return whether only one such claim can be true at a time, as for an attribute or the outcome of a question."""
    match item.payload:
        case Fact() as fact:
            return fact.value is not None or fact.relation in policy.functional_predicates
        case Decision():
            return True
        case _:
            return False


def is_newly_disputed(item: Knowledge, earlier: Sequence[EvidenceRef]) -> bool:
    """Return whether evidence against it was added. The same text in another place is no new evidence."""
    known = {(ref.source_id, ref.quote_hash) for ref in earlier if ref.role == "contradicts"}
    against = (ref for ref in item.evidence_refs if ref.role == "contradicts")
    return any((ref.source_id, ref.quote_hash) not in known for ref in against)


def contradict(one: Knowledge, other: Knowledge) -> bool:
    """Return whether two claims give different values for the same subject at the same time."""
    return (
        one.id != other.id
        and other.status in _LIVE
        and one.claim_key() == other.claim_key()
        and _end(one) != _end(other)
        and _overlap(one, other)
    )


def _end(item: Knowledge) -> Any:
    match item.payload:
        case Fact(object=end, value=value):
            return normalise(value if end is None else end)
        case Decision(outcome=outcome):
            return normalise(outcome)
        case _:
            return None


def _overlap(one: Knowledge, other: Knowledge) -> bool:
    one_ends_first = one.valid_until and other.valid_from and one.valid_until <= other.valid_from
    other_ends_first = other.valid_until and one.valid_from and other.valid_until <= one.valid_from
    return not (one_ends_first or other_ends_first)


def _settle(item: Knowledge, draft: Draft) -> list[str]:
    """Let the newer of two claims of one source supersede the other; contest the remaining contradictions."""
    for rival in rivals(item, draft):
        newer, older = _by_validity(item, rival)
        if draft.policy.newer_supersedes and newer and older and older.status != "candidate":
            draft.change(older, "superseded", status="superseded")
            draft.link(Link(type="supersedes", source=newer.id, target=older.id))
            draft.withdrawn.append(older.id)
            if older.id == item.id:
                return []
    remaining = rivals(item, draft)
    claims = [item, *remaining] if remaining or item.disputed else []
    contested = [claim for claim in claims if claim.status in {"candidate", "active"}]
    for claim in contested:
        draft.change(claim, "contested", status="contested")
    return [claim.id for claim in contested]


def _by_validity(one: Knowledge, other: Knowledge) -> tuple[Knowledge | None, Knowledge | None]:
    """Order two claims of the same source by the start of their validity; `None` if that is unknown."""
    sources = {ref.source_id for ref in one.evidence_refs} & {ref.source_id for ref in other.evidence_refs}
    if not sources or (one.status != "active" and other.status != "active"):
        return None, None
    if one.valid_from is None or other.valid_from is None or one.valid_from == other.valid_from:
        return None, None
    newer, older = (one, other) if one.valid_from > other.valid_from else (other, one)
    return (newer, older) if newer.status == "active" else (None, None)


def _touched_keys(draft: Draft) -> list[str]:
    """Return the keys of claims that the patch created, changed or erased, before and after."""
    states: list[Object | None] = []
    for write in draft.writes:
        match write:
            case Put(before=before, after=after):
                states += [before, after]
            case Erased(before=before):
                states.append(before)
            case _:
                pass
    keys = (item.claim_key() for item in states if isinstance(item, Knowledge))
    return list(dict.fromkeys(key for key in keys if key))


def _free_rivals(key: str, draft: Draft) -> None:
    """Free contested claims of this key that are no longer contradicted."""
    ids = {*draft.view.knowledge_by_claim_key(key), *(item.id for item in draft.touched_knowledge())}
    for other in draft.knowledge(sorted(ids)):
        if other.status == "contested" and not other.disputed and not rivals(other, draft):
            # A claim that was never verified becomes a candidate again, not active.
            verified = other.last_verified_at is not None and is_backed(other, draft)
            draft.change(other, "settled", status="active" if verified else "candidate")


def is_backed(item: Knowledge, draft: Draft) -> bool:
    """Return whether valid evidence, valid parents or a declaration without evidence supports knowledge."""
    return _is_backed(item, draft, visited=set())


def cascade(draft: Draft) -> list[str]:
    """Make knowledge stale that lost its last support, repeatedly; return the ids.

    An earlier version of a summary is archived instead, which also withdraws the support of later versions.
    """
    staled = []
    queue = list(draft.withdrawn)
    while queue:
        for item in draft.dependents(queue.pop(0)):
            if item.status in WITHDRAWN_BY_CASCADE and not is_backed(item, draft):
                draft.change(item, "staled", status="stale")
                staled.append(item.id)
                queue.append(item.id)
            elif is_earlier_version(item) and not is_backed(item, draft):
                draft.change(item, "withdrawn", status="archived")
                queue.append(item.id)
    return staled


def continues(item: Knowledge, parent: Knowledge) -> bool:
    """Return whether a summary is a later version of its parent, which it superseded but still depends on."""
    return is_earlier_version(parent) and _form(parent) == _form(item)


def _is_backed(item: Knowledge, draft: Draft, *, visited: set[str]) -> bool:
    if isinstance(item.payload, Summary):
        return _is_backed_summary(item, draft)
    if item.id in visited:
        return False
    visited.add(item.id)
    return (
        _declared_outright(item)
        or any_place_holds(item.evidence_refs, lambda ref: holds(ref, draft))
        or any(
            parent.status in _LIVE and _is_backed(parent, draft, visited=visited)
            for parent in draft.knowledge(item.derived_from)
        )
    )


def _is_backed_summary(item: Knowledge, draft: Draft) -> bool:
    """Return whether all evidence and parents of a summary are valid.

    Parents are not followed further: the cascade has already made unsupported ones stale.
    """
    if not item.evidence_refs and not item.derived_from:
        return item.memory_source == "user_declared"
    parents = draft.knowledge(item.derived_from)
    return (
        all(holds(ref, draft) for ref in item.evidence_refs)
        and len(parents) == len(item.derived_from)
        and all(parent.status in _LIVE or continues(item, parent) for parent in parents)
    )


def _form(item: Knowledge) -> str | None:
    return item.payload.form if isinstance(item.payload, Summary) else None


def is_earlier_version(item: Knowledge) -> bool:
    """Return whether a summary was superseded by a later version, which still depends on it."""
    return item.status == "superseded" and isinstance(item.payload, Summary)


def holds(ref: EvidenceRef, draft: Draft) -> bool:
    """Return whether evidence exists now, on any branch, here or withheld by its author."""
    cited = draft.cited(ref.source_id, ref.segment_id)
    if cited is None or cited.status not in CITABLE:
        return False
    if cited.segment is not None:
        return True
    source = draft.find(ref.source_id)
    return isinstance(source, Source) and source.withholds(ref.segment_id)


def _declared_outright(item: Knowledge) -> bool:
    return item.memory_source == "user_declared" and not item.evidence_refs and not item.derived_from
