"""What a patch would change, field by field, for people to judge."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from treering.core.draft import Erased, Linked, Put, Unlinked, Write
from treering.core.objects import Object, title_of

_UNSAID = {"salt", "revision", "created_at", "updated_at", "segments", "origin_channel"}
_SHOWN = 400  # characters of a value


class FieldChange(BaseModel):
    """One field of one object before and after."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    field: str
    before: Any = None
    after: Any = None


class ObjectChange(BaseModel):
    """What a patch does to one object or link."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    event: str
    id: str
    title: str
    fields: tuple[FieldChange, ...] = ()


def changes_of(writes: Iterable[Write]) -> tuple[ObjectChange, ...]:
    """Describe planned writes in order."""
    return tuple(_change(write) for write in writes)


def fields_changed(before: Object | None, after: Object) -> tuple[FieldChange, ...]:
    """Return the fields that differ, but for what the ledger stamps and the segments; long texts are cut."""
    old = before.model_dump(mode="json") if before else {}
    new = after.model_dump(mode="json")
    return tuple(
        FieldChange(field=name, before=_short(old.get(name)), after=_short(value))
        for name, value in new.items()
        if name not in _UNSAID and value != old.get(name) and not (before is None and value in (None, "", [], {}))
    )


def _change(write: Write) -> ObjectChange:
    match write:
        case Put(event, before, after):
            return ObjectChange(event=event, id=after.id, title=title_of(after), fields=fields_changed(before, after))
        case Linked(link):
            return ObjectChange(event="linked", id=link.source, title=f"{link.type} {link.target}")
        case Unlinked(link):
            return ObjectChange(event="unlinked", id=link.source, title=f"{link.type} {link.target}")
        case Erased(before):
            return ObjectChange(event="erased", id=before.id, title=title_of(before))


def _short(value: Any) -> Any:
    return value[:_SHOWN] + "…" if isinstance(value, str) and len(value) > _SHOWN else value
