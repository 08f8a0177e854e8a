"""The working state of one patch: the objects of the ledger, overlaid with the changes of the patch so far."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

from pydantic import ValidationError

from treering.core.canonical import FrozenModel
from treering.core.errors import Conflict, Defect, InvalidPatch, NotFound
from treering.core.evidence import Segment
from treering.core.objects import SETTLED, Knowledge, Object, Source, WorkItem, invalid_fields, name_held, title_of
from treering.core.patch import (
    AddLink,
    Create,
    Effect,
    Link,
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
from treering.core.policy import Policy
from treering.core.scope import WHOLE_SPACE, Boundary

_Kind = TypeVar("_Kind", bound=Object)
_MAX_SETTLINGS = 32
"""Maximum changes of an object by settling; normally a few: contested, freed, superseded, stale."""
_HIDDEN_FIELDS = {"salt", "revision", "created_at", "updated_at", "segments", "origin_channel"}
_SHOWN_CHARS = 400
"""Maximum length of a shown value."""


class View(Protocol):
    """The current state of a ledger as needed to plan a patch."""

    def get(self, identity: str) -> Object | None:
        """Return the current revision, or `None`."""
        ...

    def revision(self, identity: str, number: int) -> Object | None:
        """Return a revision, or `None` if it does not exist or was erased."""
        ...

    def exists(self, identity: str) -> bool:
        """Return whether an object has this id, without reading it."""
        ...

    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object, without reading it, or `None`."""
        ...

    def ever_existed(self, identity: str) -> bool:
        """Return whether an object has or once had this id, even if it was erased."""
        ...

    def source_by_origin(self, scope: str, origin: str) -> str | None:
        """Return the id of the source with this origin in this scope that is not archived."""
        ...

    def node_by_slug(self, scope: str, kind: str, slug: str) -> str | None:
        """Return the id of the active node with this slug."""
        ...

    def knowledge_by_duplicate_key(self, key: str) -> Sequence[str]:
        """Return ids of knowledge with this `duplicate_key`, oldest first."""
        ...

    def knowledge_by_claim_key(self, key: str) -> Sequence[str]:
        """Return ids of knowledge with this `claim_key`, oldest first."""
        ...

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge whose evidence or derivation names this id, in order of id."""
        ...

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the links that start or end here."""
        ...

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the text of a segment id, even if the segment was removed, or `None`."""
        ...

    def cited(self, source_id: str, segment_id: str) -> "Cited | None":
        """Return a source as evidence needs it, without its other segments; `None` if it is no source."""
        ...


@dataclass(frozen=True, slots=True)
class Cited:
    """The state of a source, and one of its current segments, if it has it."""

    status: str
    fingerprint: str
    segment: Segment | None

    @classmethod
    def of(cls, source: Object | None, segment_id: str) -> "Cited | None":
        """Return it from the whole source."""
        if not isinstance(source, Source):
            return None
        segment = next((part for part in source.segments if part.segment_id == segment_id), None)
        return cls(source.status, source.fingerprint, segment)


@dataclass(frozen=True, slots=True)
class Put:
    """A new revision of an object; `before` is `None` for a new object."""

    event: str
    before: Object | None
    after: Object


@dataclass(frozen=True, slots=True)
class Linked:
    """An added link."""

    link: Link


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A removed link."""

    link: Link


@dataclass(frozen=True, slots=True)
class Erased:
    """An object that is erased, in every revision."""

    before: Object


Write = Put | Linked | Unlinked | Erased


@dataclass(slots=True)
class Draft:
    """All changes of a patch so far, over a view of the ledger. Only used while planning."""

    view: View
    policy: Policy
    now: datetime
    patch_id: str
    boundary: Boundary = WHOLE_SPACE
    """The scopes of objects whose ids errors may show."""
    hidden: frozenset[str] = frozenset()
    """Ids in the patch that are out of its sight: treated like unknown ones, except that they are not free."""
    writes: list[Write] = field(default_factory=list)
    objects: dict[str, Object] = field(default_factory=dict)
    name_holders: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    """By unique name, the ids of the objects that this patch assigned it to; some may have lost it again."""
    erased: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    """Ids of created objects that are duplicates, to the ids of the existing objects."""
    links: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    withdrawn: list[str] = field(default_factory=list)
    """Ids of objects that may support others no longer; the cascade starts here."""
    stored: dict[str, Object | None] = field(default_factory=dict)
    """A cache of the view, which does not change while planning."""
    citations: dict[tuple[str, str], Cited | None] = field(default_factory=dict)
    """The same for places of evidence."""
    settlings: Counter[str] | None = None
    """How often each object was changed since `settle_from_here`; `None` while operations are applied."""

    def resolve(self, identity: str) -> str:
        """Return the existing id if `identity` is a duplicate created by this patch."""
        return self.renamed.get(identity, identity)

    def find(self, identity: str) -> Object | None:
        """Return the object after this patch so far, or `None`."""
        identity = self.resolve(identity)
        if identity in self.erased:
            return None
        return self.objects.get(identity) or self.before(identity)

    def before(self, identity: str) -> Object | None:
        """Return the object before this patch."""
        if identity in self.hidden:
            return None
        if identity not in self.stored:
            self.stored[identity] = self.view.get(identity)
        return self.stored[identity]

    def cited(self, source_id: str, segment_id: str) -> Cited | None:
        """Return a source as evidence needs it, after this patch so far."""
        identity = self.resolve(source_id)
        if identity in self.erased or identity in self.hidden:
            return None
        if identity in self.objects or identity in self.stored:
            return Cited.of(self.find(identity), segment_id)
        place = (identity, segment_id)
        if place not in self.citations:
            self.citations[place] = self.view.cited(identity, segment_id)
        return self.citations[place]

    def shown(self, identity: str) -> str:
        """Return an id for an error message: `…` if it is out of the patch's sight."""
        item = self.find(identity)
        return identity if item is None or self.boundary.holds(item.scope) else "…"

    def exists(self, identity: str) -> bool:
        """Return whether the object exists after this patch so far."""
        identity = self.resolve(identity)
        if identity in self.erased or identity in self.hidden:
            return False
        return identity in self.objects or self.view.exists(identity)

    def is_fresh(self, identity: str) -> bool:
        """Return whether no object ever had this id."""
        return not (identity in self.objects or identity in self.erased or self.view.ever_existed(identity))

    def get(self, identity: str) -> Object:
        """Return the object after this patch so far. Raises `NotFound`."""
        item = self.find(identity)
        if item is None:
            raise _unknown(identity)
        return item

    def require(self, identity: str) -> None:
        """Raise `NotFound` if the object does not exist, without reading it."""
        if not self.exists(identity):
            raise _unknown(identity)

    def expect(self, identity: str, revision: int) -> Object:
        """Return the object if the author saw its current revision. Raises `Conflict` carrying the current one."""
        item = self.get(identity)
        base = self.before(item.id) if item.revision != revision else item
        if base is None or base.revision != revision:
            current = base.revision if base else item.revision
            raise Conflict(
                f"{identity} is at revision {current}, not {revision}.",
                hint="Read it again, check what changed, and retry with the current revision.",
                details={"id": identity, "expected": revision, "current": current},
            )
        return item

    def create(self, item: _Kind) -> _Kind:
        """Add the first revision of an object."""
        stamp = {"revision": 1, "created_at": self.now, "updated_at": self.now}
        first = cast("_Kind", item.model_copy(update=stamp))
        self._put(Put("created", None, first))
        return first

    def change(self, item: _Kind, event: str, **changes: Any) -> _Kind:
        """Add a revision with some fields changed, which must have been checked."""
        self._count_settling(item)
        stamp = {"revision": item.revision + 1, "updated_at": self.now}
        revised = cast("_Kind", item.model_copy(update={**changes, **stamp}))
        self._put(Put(event, item, revised))
        return revised

    def settle_from_here(self) -> None:
        """Limit the number of later changes per object; more raise `Defect` naming the objects."""
        self.settlings = Counter()

    def erase(self, item: Object) -> None:
        """Remove an object with all its revisions."""
        self.objects.pop(item.id, None)
        self.erased.add(item.id)
        self.writes.append(Erased(item))

    def has_link(self, link: Link) -> bool:
        """Return whether the link exists after this patch so far."""
        key = (link.type, link.source, link.target)
        if key in self.links:
            return self.links[key]
        return any((at.type, at.source, at.target) == key for at in self._stored_links(link.source))

    def links_of(self, identity: str) -> list[Link]:
        """Return the links that start or end at an object after this patch so far."""
        stored = {(one.type, one.source, one.target): one for one in self._stored_links(identity)}
        added = (Link(type=key[0], source=key[1], target=key[2]) for key in self.links if identity in key[1:])
        links = {(one.type, one.source, one.target): one for one in added} | stored
        return [one for key, one in links.items() if self.links.get(key, True)]

    def link(self, link: Link) -> bool:
        """Add a link; return whether it was new."""
        return self._set_link(link, present=True)

    def unlink(self, link: Link) -> bool:
        """Remove a link; return whether it existed."""
        return self._set_link(link, present=False)

    def knowledge(self, identities: Iterable[str]) -> list[Knowledge]:
        """Return the objects with these ids that are knowledge."""
        items = map(self.find, identities)
        return [item for item in items if isinstance(item, Knowledge)]

    def touched_knowledge(self) -> list[Knowledge]:
        """Return the knowledge this patch has written, in order of id."""
        return [item for _, item in sorted(self.objects.items()) if isinstance(item, Knowledge)]

    def dependents(self, identity: str) -> list[Knowledge]:
        """Return the knowledge that cites or is derived from `identity`, in order of id."""
        ids = set(self.view.dependents(identity))
        ids.update(item.id for item in self.touched_knowledge())
        return [item for item in self.knowledge(sorted(ids)) if rests_on(item, identity)]

    def _stored_links(self, identity: str) -> list[Link]:
        links = self.view.links_of(identity)
        return [link for link in links if self.hidden.isdisjoint((link.source, link.target))]

    def _put(self, write: Put) -> None:
        self.objects[write.after.id] = write.after
        self.writes.append(write)
        if name := name_held(write.after):
            self.name_holders.setdefault(name, []).append(write.after.id)

    def _count_settling(self, item: Object) -> None:
        if self.settlings is None:
            return
        self.settlings[item.id] += 1
        if self.settlings[item.id] > _MAX_SETTLINGS:
            raise _unsettled(
                [self.shown(name) for name, count in self.settlings.items() if count > _MAX_SETTLINGS // 2]
            )

    def _set_link(self, link: Link, *, present: bool) -> bool:
        if self.has_link(link) == present:
            return False
        self.links[(link.type, link.source, link.target)] = present
        stamped = link.model_copy(update={"patch_id": self.patch_id})
        self.writes.append(Linked(stamped) if present else Unlinked(stamped))
        return True


def _unknown(identity: str) -> NotFound:
    return NotFound(
        f"There is no object {identity}.",
        hint="Search for it first; reports and hits contain the ids.",
        details={"id": identity},
    )


def _unsettled(identities: list[str]) -> Defect:
    return Defect(
        f"The side effects of the patch do not converge: {', '.join(identities)} change again and again.",
        hint="This is a bug in Treering, not in the patch. Nothing was changed. Report it with the patch "
        "and these objects; a patch without them is not affected.",
        details={"ids": identities},
    )


def rests_on(item: Knowledge, identity: str) -> bool:
    """Return whether knowledge cites `identity` as evidence or is derived from it."""
    return identity in item.derived_from or any(ref.source_id == identity for ref in item.evidence_refs)


def revise(item: Object, changes: dict[str, Any]) -> Object:
    """Check changed fields against the object's type. Raises `InvalidPatch` naming each wrong field."""
    fields = {name: getattr(item, name) for name in type(item).model_fields}
    try:
        return type(item).model_validate({**fields, **changes})
    except ValidationError as error:
        problem = invalid_fields(error, model=type(item), refused=item.STAMPED | SETTLED)
        raise InvalidPatch(problem.message, hint=problem.hint, details=problem.details) from error


def effect_of(write: Write) -> Effect:
    """Describe a write for the record of its patch."""
    match write:
        case Put(event, before, after):
            return Effect(
                event=event, target=after.id, before=before.revision if before else None, after=after.revision
            )
        case Linked(link):
            return Effect(event="linked", target=link.source, link=link)
        case Unlinked(link):
            return Effect(event="unlinked", target=link.source, link=link)
        case Erased(before):
            return Effect(event="erased", target=before.id, before=before.revision)


def created(item: Object) -> OperationResult:
    """Return the result for a created object."""
    return OperationResult(outcome="created", id=item.id, revision=1)


def changed(item: Object) -> OperationResult:
    """Return the result for a changed object."""
    return OperationResult(outcome="updated", id=item.id, revision=item.revision)


def resolved_link(link: Link, draft: Draft) -> Link:
    """Return the link with the ids of duplicates replaced."""
    return link.model_copy(update={"source": draft.resolve(link.source), "target": draft.resolve(link.target)})


def merge_unique(known: tuple[str, ...], more: Sequence[str], *, without: str = "") -> tuple[str, ...]:
    """Return all texts once, in order."""
    return tuple(dict.fromkeys([*known, *(text for text in more if text != without)]))


class FieldChange(FrozenModel):
    """One field of one object before and after."""

    field: str
    before: Any = None
    after: Any = None


class ObjectChange(FrozenModel):
    """The changes of a patch to one object or link."""

    event: str
    id: str
    title: str
    fields: tuple[FieldChange, ...] = ()


def changes_of(writes: Iterable[Write]) -> tuple[ObjectChange, ...]:
    """Describe planned writes for review, in order."""
    return tuple(_change(write) for write in writes)


def fields_changed(before: Object | None, after: Object) -> tuple[FieldChange, ...]:
    """Return the fields that differ, except segments and those set by the ledger; long texts are cut."""
    old = before.model_dump(mode="json") if before else {}
    new = after.model_dump(mode="json")
    return tuple(
        FieldChange(field=name, before=_short(old.get(name)), after=_short(value))
        for name, value in new.items()
        if name not in _HIDDEN_FIELDS
        and value != old.get(name)
        and not (before is None and value in (None, "", [], {}))
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
    return value[:_SHOWN_CHARS] + "…" if isinstance(value, str) and len(value) > _SHOWN_CHARS else value


def recorded(operation: Operation, result: OperationResult, draft: Draft) -> RecordedOperation:
    """Return an operation as its record stores it, right after it was applied to the draft."""
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
    stored: RecordedOperation | Operation, revision: Callable[[str, int], Object | None]
) -> RecordedOperation | Operation:
    """Return an operation with its original content, or its stored form if the content was erased.

    `revision` returns a revision of an object, or `None` if it was erased. The content of a duplicate is not stored.
    """
    match stored:
        case RecordedCreate(id=identity, revision=number, merged=merged):
            item = None if merged else revision(identity, number)
            return Create(object=item) if item else stored
        case RecordedUpdate(id=identity, expected_revision=expected, revision=number, fields=fields):
            item = revision(identity, number)
            changes = (
                {name: value for name, value in item.model_dump(mode="json").items() if name in fields} if item else {}
            )
            return Update(id=identity, expected_revision=expected, changes=changes) if changes else stored
        case RecordedTransition(id=identity, expected_revision=expected, revision=number, to=to):
            item = revision(identity, number)
            why = item.resolution if isinstance(item, WorkItem) else ""
            return Transition(id=identity, expected_revision=expected, to=to, resolution=why) if item else stored
        case _:
            return stored
