"""References between objects: where they stand, that they lead somewhere, and that work does not wait on itself."""

from collections.abc import Callable, Collection, Iterator, Mapping

from treering.core.errors import InvalidPatch
from treering.core.ids import is_object
from treering.core.objects import Knowledge, Node, Object, WorkItem
from treering.core.writing.draft import Draft

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


def references_of(item: Object) -> tuple[str, ...]:
    """Return every id the object refers to, evidence included."""
    return tuple(dict.fromkeys(ref for _, ref in named_references(item)))


def fields_naming(item: Object, identities: Collection[str]) -> tuple[str, ...]:
    """Return the fields in which the object refers to any of the ids."""
    return tuple(dict.fromkeys(field for field, ref in named_references(item) if ref in identities))


def named_references(item: Object) -> Iterator[tuple[str, str]]:
    """Yield every id the object refers to, with the field it stands in."""
    for field in REFERENCE_FIELDS[item.type]:
        # An owner may be a name of somebody who is not a node; that refers to nothing.
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
    """Return the object with references to merged duplicates pointed at what stands for them."""
    if not renamed or not any(ref in renamed for ref in references_of(item)):
        return item
    changes: dict[str, object] = {
        field: tuple(renamed.get(ref, ref) for ref in getattr(item, field)) for field in REFERENCE_FIELDS[item.type]
    }
    if isinstance(item, WorkItem) and item.parent_ref:
        changes["parent_ref"] = renamed.get(item.parent_ref, item.parent_ref)
    return item.model_copy(update=changes)


def check_references(before: Object | None, after: Object, draft: Draft) -> None:
    """Raise `InvalidPatch` for a new reference that leads nowhere. Old ones may dangle; lint reports them."""
    old = set(references_of(before)) if before else set()
    for reference in references_of(after):
        if reference not in old and not draft.exists(reference):
            raise InvalidPatch(
                f"{after.id} refers to {reference}, which does not exist.",
                hint="Create it earlier, or in the same patch.",
                details={"id": after.id, "missing": reference},
            )


def check_acyclic(item: WorkItem, draft: Draft) -> None:
    """Raise `InvalidPatch`, printing the cycle, where work would depend on itself or be its own ancestor."""
    for field in ACYCLIC_FIELDS:
        cycle = [draft.shown(step) for step in cycle_of(item, field, draft.find)]
        if cycle:
            raise InvalidPatch(
                f"{field} would form a cycle: {' -> '.join(cycle)}.",
                hint="Remove one of these references.",
                details={"cycle": cycle},
            )


def cycle_of(item: WorkItem, field: str, find: Callable[[str], Object | None]) -> list[str]:
    """Return the ids of a way from work back to itself by one of `ACYCLIC_FIELDS`; empty where there is none."""
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


def adopt(earlier: str | None, item: WorkItem, draft: Draft) -> None:
    """Keep the parents' `child_refs` in step with `parent_ref`."""
    if earlier == item.parent_ref:
        return
    for parent_id, belongs in ((earlier, False), (item.parent_ref, True)):
        parent = draft.find(parent_id) if parent_id else None
        if isinstance(parent, WorkItem):
            others = tuple(ref for ref in parent.child_refs if ref != item.id)
            draft.change(parent, "children_changed", child_refs=(*others, item.id) if belongs else others)
