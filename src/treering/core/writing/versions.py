"""What was done to an object, whoever did it and in whichever copy of a space: entries, and what they come to together.

An entry is one change of one object or link, told by one audit event. The event's id names it everywhere. Entries have
one order, `order`, the same wherever they are; folding them in that order gives the object. So copies that know the
same entries hold the same object, in whatever order they came to know them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from treering.core.audit import AuditEvent
from treering.core.canonical import Instant, parse_time
from treering.core.objects import AnyObject, Channel, Knowledge, Object

ERASED = "erased"
_SETTLED = frozenset({"contested", "settled", "staled", "withdrawn"})
"""Events of what followed from something else: their status is worked out again, never taken over."""
_LOCAL = frozenset({"type", "id", "salt", "revision", "updated_at"})
"""Fields that do not change, and those that tell when this copy came to hold the object."""
_SETS = frozenset(
    "aliases subject_refs evidence_refs derived_from related_node_refs related_work_item_refs source_refs "
    "produced_object_refs artifact_refs owner_refs related_knowledge_refs depends_on blocked_by child_refs".split()
)
"""Fields of which every entry adds and takes away members, instead of replacing the whole."""
_WORDS = frozenset({"title", "summary", "payload"})


class MergeEntry(BaseModel):
    """One change: who made it, when, and what the object was before and after.

    `before` may be the id of the event whose entry gave the object as it was. `link` is type, source and target of a
    link that came (`added`) or went. An erasure has neither.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    event: str
    at: Instant
    seq: int
    kind: str
    actor: str
    channel: Channel
    reason: str = ""
    patch: str
    target: str
    before: AnyObject | str | None = None
    after: AnyObject | None = None
    link: tuple[str, str, str] | None = None
    added: bool = True

    @property
    def order(self) -> tuple[datetime, int, str]:
        """The place of the entry among all: by time; of one time by the place in its log, and by its id.

        The time of a log never runs back, and a merge sets it behind all that came. So what was changed knowing of
        another change comes after it, however wrong clocks are.
        """
        return self.at, self.seq, self.event


ReadRevision = Callable[[str, int], Object | None]


def entries_of(target: str, events: Sequence[AuditEvent], revision: ReadRevision) -> list[MergeEntry]:
    """Return the entries that a log has of an object and the links from it. Of an erased object only the erasure."""
    erased = next((event for event in events if event.event_type == ERASED), None)
    if erased:
        return [_entry(erased, target)]
    return [entry for event in events if (entry := entry_of(event, revision))]


def entry_of(event: AuditEvent, revision: ReadRevision) -> MergeEntry | None:
    """Return the entry that an event of a log tells of; `None` where it tells of none, or what it tells of is gone."""
    target = event.target
    if event.event_type == ERASED:
        return _entry(event, target)
    if event.merged is not None and "event" not in event.merged:
        return None  # what merging made of the entries
    state = event.after or {}
    if link := state.get("link") or (event.before or {}).get("link"):
        return _entry(event, target, link=tuple(link), added="link" in state)
    number = state.get("revision")
    after = revision(target, number) if number else None
    if after is None:
        return None
    base = base_of(event)
    return _entry(event, target, before=revision(target, base) if base else None, after=after)


def base_of(event: AuditEvent) -> int:
    """Return the number of the revision here that the change of an event was based on; 0 for none."""
    return int((event.merged or event.before or {}).get("base" if event.merged else "revision", 0))


def _entry(event: AuditEvent, target: str, **more: Any) -> MergeEntry:
    said = event.merged or {}
    return MergeEntry.model_construct(
        event=said.get("event", event.id),
        at=parse_time(said["at"]) if said else event.timestamp,
        seq=said.get("seq", event.seq),
        kind=event.event_type,
        actor=event.actor,
        channel=cast("Channel", event.channel),
        reason=event.reason,
        patch=said.get("patch", event.patch_id),
        target=target,
        **{"before": None, "after": None, "link": None, "added": True, **more},
    )


def linked_by_id(entries: Iterable[MergeEntry]) -> Iterator[MergeEntry]:
    """Return entries, in order, that name the entry they follow where an earlier one left the object just so."""
    known: dict[str, list[MergeEntry]] = {}
    for entry in sorted(entries, key=lambda one: one.order):
        if entry.after is not None:
            before, earlier = entry.before, known.setdefault(entry.target, [])
            if before is not None and not isinstance(before, str):
                same = next((one.event for one in reversed(earlier) if one.after and same_words(one.after, before)), "")
                entry = entry.model_copy(update={"before": same}) if same else entry
            earlier.append(entry)
        yield entry


def with_bases(entries: Iterable[MergeEntry], known: Iterable[MergeEntry]) -> list[MergeEntry]:
    """Return entries with the objects that they name by the id of an entry; one that names an unknown one has none."""
    given = list(entries)
    after = {one.event: one.after for one in (*known, *given)}
    return [
        one.model_copy(update={"before": after.get(one.before)}) if isinstance(one.before, str) else one
        for one in given
    ]


def same_words(one: Object, other: Object) -> bool:
    """Tell whether two revisions of an object say the same: all but the number and the time of the revision."""
    return type(one) is type(other) and not _differing(one, other)


def _differing(one: Object, other: Object) -> list[str]:
    names = type(one).model_fields.keys() - _LOCAL
    return [name for name in sorted(names) if getattr(one, name) != getattr(other, name)]


def folded(entries: Iterable[MergeEntry]) -> Object | None:
    """Return what entries of one object come to, but for what follows from other objects; `None` for none.

    Each entry changes the fields that it changed where it was made. Two that gave the words of a piece of knowledge
    another turn, each without knowing of the other, leave it disputed; the later one's words stand.
    """
    item: Object | None = None
    last: Object | None = None
    for entry in sorted(entries, key=lambda one: one.order):
        if entry.after is None or isinstance(entry.before, str):
            continue
        last = entry.after
        item = entry.after if item is None else _with(item, entry)
    return item if item is None or last is None else _valid(item, last)


def _with(item: Object, entry: MergeEntry) -> Object:
    after, before = entry.after, entry.before
    if after is None or isinstance(before, str):
        return item
    names = _differing(before, after) if before else sorted(type(after).model_fields.keys() - _LOCAL)
    if entry.kind in _SETTLED and "last_verified_at" not in names:
        names = [name for name in names if name != "status"]
    changes = {name: _member(name, item, before, after) for name in names}
    if isinstance(item, Knowledge) and isinstance(after, Knowledge) and before is not None:
        unseen = [name for name in _WORDS.intersection(names) if getattr(before, name) != getattr(item, name)]
        if any(getattr(after, name) != getattr(item, name) for name in unseen):
            changes["disputed"] = True
    return item.model_copy(update=changes) if changes else item


def _member(name: str, item: Object, before: Object | None, after: Object) -> Any:
    value = getattr(after, name)
    if name not in _SETS:
        return value
    old = getattr(before, name) if before else ()
    kept = [one for one in getattr(item, name) if one not in old or one in value]
    return tuple(dict.fromkeys([*kept, *(one for one in value if one not in old)]))


def _valid(item: Object, last: Object) -> Object:
    """Return the object, or the last version whole where the fields of several do not go together."""
    try:
        type(item).model_validate({name: getattr(item, name) for name in type(item).model_fields})
    except ValidationError:
        return last
    return item
