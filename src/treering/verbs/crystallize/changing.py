"""Find the object that a call names, and make the operations that change it."""

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field

from treering.core.canonical import PREFIXES, is_object
from treering.core.characters import label
from treering.core.errors import InvalidInput, InvalidPatch, nearest
from treering.core.objects import SETTLED, UNKNOWN_FIELD, Activity, Knowledge, Node, Object, Source, WorkItem, title_of
from treering.core.patch import Operation, Transition, Update
from treering.ports.ledger import Head, Ledger
from treering.verbs.envelope import Call, Value
from treering.verbs.naming import id_named

_Kind = TypeVar("_Kind", Activity, Knowledge, Node, Source, WorkItem)


class ChangeInput(Value):
    """The fields of a new object, or changes to the one with this `id`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    id: str | None = Field(default=None, description="The object to change; omit it to create a new one.")
    revision: int | None = Field(default=None, ge=1, description="The revision you read.")

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of the object itself."""
        return dict(self.model_extra or {})


def found_of(call: Call, identity: str, cls: type[_Kind]) -> _Kind:
    """Return the object named by its id, its title or its number in an answer.

    Raises `NotFound`, and `InvalidInput` for an object of another type or if several have the title.
    """
    kind = cls.model_fields["type"].default
    item = call.engine.ledger.get(id_named(call.engine, identity, (kind,), strict=True))
    if isinstance(item, cls):
        return item
    named = identity if is_object(identity) else f"{identity} ({label(title_of(item))})"
    raise InvalidInput(
        f"{named} is not {_called(kind)}.", hint=f"Its id starts with {PREFIXES[kind]}:.", details={"id": identity}
    )


def replacement_of(ledger: Ledger, identity: str) -> Head | None:
    """Return the head of the knowledge that superseded this knowledge; `None` if none is visible."""
    links = [one for one in ledger.links(identity) if one.type == "supersedes" and one.target == identity]
    return next(iter(ledger.heads([one.source for one in links]).values()), None) if links else None


def changing(
    item: Object,
    changes: dict[str, Any],
    status: str | None,
    *,
    revision: int | None,
    resolution: str = "",
    beside: Iterable[str] = (),
) -> list[Operation]:
    """Return the operations that change fields and the status; none if both stay the same.

    `beside`: other names that the call accepts. Raises `InvalidPatch` for an unknown name, with the nearest known one.
    """
    _check_names(item, changes, beside)
    expected = revision or item.revision
    operations: list[Operation] = []
    if changes:
        operations.append(Update(id=item.id, expected_revision=expected, changes=changes))
    if status and status != item.status:
        operations.append(Transition(id=item.id, expected_revision=expected, to=status, resolution=resolution))
    return operations


def _check_names(item: Object, changes: dict[str, Any], beside: Iterable[str]) -> None:
    """Raise `InvalidPatch` for unknown fields; the ledger refuses the fields that no update changes."""
    fields = type(item).model_fields
    wrong = [name for name in changes if name not in fields or name == "merged_into"]
    if wrong:
        raise InvalidPatch(
            f"{wrong[0]}: {UNKNOWN_FIELD}",
            hint=nearest(wrong[0], sorted({*(fields.keys() - item.STAMPED - SETTLED), *beside})),
            details={
                "fields": [{"field": name, "problem": UNKNOWN_FIELD, "kind": "extra_forbidden"} for name in wrong]
            },
        )


def _called(kind: str) -> str:
    words = kind.replace("_", " ")
    return words if kind == "knowledge" else f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
