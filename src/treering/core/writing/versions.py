"""What was done to an object, whoever did it and in whichever copy of a space: entries, and what they come to together.

An entry is one change of one object or link, told by one audit event. The event's id names it everywhere. Entries have
one order, `order`, the same wherever they are; folding them in that order gives the object. So copies that know the
same entries hold the same object, in whatever order they came to know them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from treering.core.audit import AuditEvent
from treering.core.canonical import Instant, parse_time
from treering.core.evidence import Locator, Segment, SegmentPlace, segment_hash
from treering.core.objects import AnyObject, Channel, Knowledge, Object, Source
from treering.core.versions import SEVERAL, ContentsOnBranches, HeldContents

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

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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


# A source that holds what stands on several branches (`core.versions`): each branch has what was read of it last.


_EVERY = ""
"""In the place of a branch: every one."""
_BRANCHES = "branches"


def with_each_branch(item: Source, entries: Iterable[MergeEntry]) -> Source:
    """Return a source with what each branch has by all entries of its origin, of whichever source and copy.

    Branches that were read in one copy and not in another keep what they had; of one that was read in several, what was
    read last stands. A source that never held several contents is returned as it is.
    """
    told = [entry for entry in sorted(entries, key=lambda one: one.order) if isinstance(entry.after, Source)]
    if len(told) < 2:
        return item
    changes: dict[str, Any] = {}
    if any(isinstance(one.after, Source) and one.after.fingerprint.startswith(SEVERAL) for one in told):
        held = _held_together(told)
        changes |= {"fingerprint": held.text, "segments": _segments_together(item, held, told)}
    if any(isinstance(one.after, Source) and _read_branches(one.after) for one in told):
        changes |= {"payload": {**item.payload, **_branches_together(told)}}
    return item.model_copy(update=changes) if changes else item


def _held_together(told: Sequence[MergeEntry]) -> HeldContents:
    on: dict[str, str] = {}
    leading: dict[str, None] = {}
    for entry in told:
        before, after = _by_branch(entry.before), _by_branch(entry.after)
        first = next((on[name] for name in leading if name in on), next(iter(on.values()), ""))
        on = _branches_after(on, before, after, first)
        if isinstance(entry.after, Source):
            leading |= dict.fromkeys(HeldContents.parse(entry.after.fingerprint).each[0].branches or ())
    if _EVERY in on:
        return HeldContents((ContentsOnBranches(on[_EVERY]),))
    first = next((on[name] for name in leading if name in on), min(on.values(), default=""))
    each = [
        ContentsOnBranches(one, tuple(sorted(name for name in on if on[name] == one)))
        for one in sorted(set(on.values()))
    ]
    return HeldContents(tuple(each)).leading(first)


def _by_branch(item: object) -> dict[str, str]:
    if not isinstance(item, Source):
        return {}
    each = HeldContents.parse(item.fingerprint).each
    return {name: one.fingerprint for one in each for name in ((_EVERY,) if one.branches is None else one.branches)}


def _branches_after(on: dict[str, str], before: dict[str, str], after: dict[str, str], first: str) -> dict[str, str]:
    """Return what each branch has after a change that was made where `before` was held.

    `first`: the contents that the source tells of itself. Contents of every branch change those that had the same
    before, for whoever read them knew of no others; where there are none, those that the source tells of.
    """
    every, was = after.get(_EVERY), before.get(_EVERY)
    if every is not None:
        unknown = {name: one for name, one in on.items() if name != _EVERY and name not in before}
        if not unknown:
            return {_EVERY: every}
        if was is None and before:
            return {**unknown, **dict.fromkeys(before, every)}
        if every == was:
            return on
        moved = [name for name, one in on.items() if one == was] or [name for name, one in on.items() if one == first]
        return {**on, **dict.fromkeys(moved, every)}
    left = dict(on)
    rest = left.pop(_EVERY, None)
    if rest is not None:
        left = dict.fromkeys(before.keys() - {_EVERY}, rest)
    for name in (before.keys() | after.keys()) - {_EVERY}:
        had, has = before.get(name, was), after.get(name)
        if has is None:
            left.pop(name, None)
        elif has != had:
            left[name] = has
        elif name not in before:
            left.setdefault(name, has if rest is None else rest)
    return left


def _segments_together(item: Source, held: HeldContents, told: Sequence[MergeEntry]) -> tuple[Segment, ...]:
    """Return the segments of all contents, each text of one place once; those of the first contents come first."""
    read: dict[str, Source] = {}
    for entry in told:
        if isinstance(entry.after, Source):
            read |= dict.fromkeys(HeldContents.parse(entry.after.fingerprint).fingerprints, entry.after)
    found: dict[str, Segment] = {}
    places: dict[str, dict[str, Locator]] = {}
    known: dict[tuple[str, int], str] = {}
    for contents in held.fingerprints:
        source, seen = read[contents], dict[str, int]()
        for segment in source.segments:
            locator = segment.place_in_contents(contents)
            if locator is None:
                continue
            nth = seen[segment.excerpt] = seen.get(segment.excerpt, 0) + 1
            name = segment.segment_id if segment.segment_id in found else known.get((segment.excerpt, nth), "")
            if not name or contents in places[name]:
                name = segment.segment_id
                found[name] = segment if source.salt == item.salt else _salted(segment, item.salt)
                places[name] = {}
            known.setdefault((segment.excerpt, nth), name)
            places[name][contents] = locator
    several = len(held.each) > 1
    return tuple(
        segment.model_copy(
            update={
                "position": at,
                "locator": next(iter(places[name].values())),
                "places": tuple(SegmentPlace(contents=one, locator=where) for one, where in places[name].items())
                if several
                else (),
            }
        )
        for at, (name, segment) in enumerate(found.items())
    )


def _salted(segment: Segment, salt: str) -> Segment:
    return segment.model_copy(update={"hash": segment_hash(segment.excerpt, salt=salt)})


def _read_branches(item: object) -> Mapping[str, Any]:
    """Return what the map of a repository tells of the branches that were read."""
    told = item.payload.get(_BRANCHES) if isinstance(item, Source) else None
    return told if isinstance(told, Mapping) else {}


def _branches_together(told: Sequence[MergeEntry]) -> dict[str, Any]:
    on: dict[str, Any] = {}
    leading = ""
    for entry in told:
        before, after = _read_branches(entry.before), _read_branches(entry.after)
        for name in (*after, *(one for one in before if one not in after)):
            if name not in after:
                on.pop(name, None)
            elif name not in before or before[name] != after[name]:
                on[name] = after[name]
        if isinstance(entry.after, Source) and leading not in on:
            leading = str(entry.after.payload.get("leading") or "")
    return {_BRANCHES: on, "leading": leading if leading in on else next(iter(on), "")}
