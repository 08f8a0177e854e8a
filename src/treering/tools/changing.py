"""Changing an object that is there: finding it by the id that was given, and the operations for what changes."""

from typing import Any, TypeVar

from treering.core.errors import InvalidInput
from treering.core.ids import PREFIXES
from treering.core.objects import Activity, Knowledge, Node, Object, Source, WorkItem
from treering.core.patch import Operation, Transition, Update
from treering.tools.envelope import Call

_Kind = TypeVar("_Kind", Activity, Knowledge, Node, Source, WorkItem)


def found_of(call: Call, identity: str, cls: type[_Kind]) -> _Kind:
    """Return the object with an id. Raises `NotFound`, and `InvalidInput` for an object of another type."""
    item = call.engine.ledger.get(identity)
    if isinstance(item, cls):
        return item
    kind = cls.model_fields["type"].default
    raise InvalidInput(
        f"{identity} is not {_called(kind)}.", hint=f"Its id starts with {PREFIXES[kind]}:.", details={"id": identity}
    )


def changing(
    item: Object, changes: dict[str, Any], status: str | None, *, revision: int | None, resolution: str = ""
) -> list[Operation]:
    """Return the operations that change fields and move to a status; none where both are as they were."""
    expected = revision or item.revision
    operations: list[Operation] = []
    if changes:
        operations.append(Update(id=item.id, expected_revision=expected, changes=changes))
    if status and status != item.status:
        operations.append(Transition(id=item.id, expected_revision=expected, to=status, resolution=resolution))
    return operations


def _called(kind: str) -> str:
    words = kind.replace("_", " ")
    return words if kind == "knowledge" else f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
