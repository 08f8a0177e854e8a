"""Taking back what a patch did, object by object, or saying why it cannot be."""

from typing import Any

from treering.core.draft import Draft, changed
from treering.core.errors import Conflict, InvalidPatch
from treering.core.names import check_name_is_free
from treering.core.objects import Object, WorkItem
from treering.core.patch import Link, OperationResult, PatchRecord


def objects_of(record: PatchRecord) -> list[str]:
    """Return the ids of the objects a patch changed, the last first."""
    return list(dict.fromkeys(effect.target for effect in reversed(record.effects) if not effect.link))


def check_revertible(record: PatchRecord, draft: Draft) -> None:
    """Raise `Conflict` listing what has changed since, `InvalidPatch` where content was erased."""
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
        if item is None or item.revision != revision:
            changed.append({"id": target, "left_at": revision, "current": item.revision if item else None})
    if changed:
        raise Conflict(
            f"{len(changed)} of {len(last)} objects have changed since {record.id}, first {changed[0]['id']}.",
            hint="Revert the later patches first, or correct the objects by a new patch.",
            details={"changed": changed},
        )


def restore(target: str, record: PatchRecord, draft: Draft) -> OperationResult:
    """Put an object back to what it was before the patch."""
    item = draft.get(target)
    first = next(effect for effect in record.effects if effect.target == target and not effect.link)
    draft.withdrawn.append(target)
    if first.before is None:
        return changed(draft.change(item, "reverted", **_end_of_life(item)))
    earlier = draft.view.revision(target, first.before)
    if earlier is None:
        raise InvalidPatch(
            f"{record.id} cannot be reverted: revision {first.before} of {target} was erased.",
            hint="Correct the object by a new patch.",
        )
    fields = {name: getattr(earlier, name) for name in type(earlier).model_fields}
    restored = draft.change(item, "reverted", **fields)
    check_name_is_free(restored, draft)
    return changed(restored)


def restore_link(link: Link, *, was_added: bool, draft: Draft) -> None:
    """Put a link back to what it was before the patch."""
    if was_added:
        draft.unlink(link)
        return
    for end in (link.source, link.target):
        if not draft.exists(end):
            raise InvalidPatch(
                f"The link from {link.source} to {link.target} cannot be added again: {end} was erased.",
                hint="Correct the links that are left by a new patch.",
            )
    draft.link(link)


def _end_of_life(item: Object) -> dict[str, Any]:
    if isinstance(item, WorkItem):
        return {"status": "cancelled", "lifecycle_state": "archived"}
    return {"status": "archived"}
