"""The operations of a patch as its record keeps them, and from those back to what was asked.

What an operation says is held once, by the revision it made: the record names that revision. So erasing an object
erases it here, too.
"""

from collections.abc import Callable

from treering.core.draft import Draft, resolved_link
from treering.core.objects import Object, WorkItem
from treering.core.patch import (
    AddLink,
    Create,
    Operation,
    OperationResult,
    RecordedCreate,
    RecordedOperation,
    RecordedTransition,
    RecordedUpdate,
    RemoveLink,
    Supersede,
    Transition,
    Update,
)


def recorded(operation: Operation, result: OperationResult, draft: Draft) -> RecordedOperation:
    """Return an operation as the record keeps it, right after it was applied to the draft."""
    match operation:
        case Create(object=item):
            merged = "" if result.id == item.id else item.id
            return RecordedCreate(id=result.id, revision=draft.get(result.id).revision, merged=merged)
        case Update(id=identity, expected_revision=expected, changes=changes):
            now = draft.get(identity).revision
            return RecordedUpdate(id=identity, expected_revision=expected, revision=now, fields=tuple(sorted(changes)))
        case Transition(id=identity, expected_revision=expected, to=to):
            now = draft.get(identity).revision
            return RecordedTransition(id=identity, expected_revision=expected, revision=now, to=to)
        case AddLink(link=link) | RemoveLink(link=link):
            return operation.model_copy(update={"link": resolved_link(link, draft)})
        case Supersede(by=by):
            return operation.model_copy(update={"by": draft.resolve(by)})
        case _:
            return operation


def asked(
    kept: RecordedOperation | Operation, revision: Callable[[str, int], Object | None]
) -> RecordedOperation | Operation:
    """Return an operation with what it said, or as it is kept where that is gone.

    `revision` gives a revision of an object, or `None` where it was erased. Of a duplicate what it said is not kept.
    """
    match kept:
        case RecordedCreate(id=identity, revision=number, merged=merged):
            item = None if merged else revision(identity, number)
            return Create(object=item) if item else kept
        case RecordedUpdate(id=identity, expected_revision=expected, revision=number, fields=fields):
            item = revision(identity, number)
            changes = (
                {name: value for name, value in item.model_dump(mode="json").items() if name in fields} if item else {}
            )
            return Update(id=identity, expected_revision=expected, changes=changes) if changes else kept
        case RecordedTransition(id=identity, expected_revision=expected, revision=number, to=to):
            item = revision(identity, number)
            why = item.resolution if isinstance(item, WorkItem) else ""
            return Transition(id=identity, expected_revision=expected, to=to, resolution=why) if item else kept
        case _:
            return kept
