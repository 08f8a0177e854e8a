"""Entries: the changes of an object in all copies of a space, and the state they lead to.

An entry is a change of one object or link, recorded by one audit event whose id identifies it in every copy. Entries
have one order, `order`, in every copy; folding them in that order gives the object. So copies with the same entries
have the same objects, in whatever order they received them.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, Protocol, TypeVar, cast

from pydantic import Field, ValidationError

from treering.core.audit import ERASED, AuditEvent
from treering.core.canonical import FrozenModel, Instant, is_none, parse_time
from treering.core.evidence import EvidenceRef, Segment, SegmentPlace, on_any_branch, segment_hash
from treering.core.objects import AnyObject, Channel, Knowledge, Object, Source
from treering.core.versions import SEVERAL, ContentsOnBranches, HeldContents, known_branches
from treering.extensions.sharing.merge_rules.notices import WITHHELD, is_notice, noticed, without_notice

_Member = TypeVar("_Member")
_SETTLED = frozenset({"contested", "settled", "staled", "withdrawn"})
"""Events caused by another change: their status is computed again, not folded."""
_LOCAL = frozenset({"type", "id", "salt", "revision", "updated_at"})
"""Fields that do not change, and fields that depend on when this copy received the object."""
_SETS = frozenset(
    "aliases subject_refs evidence_refs derived_from related_node_refs related_work_item_refs source_refs "
    "produced_object_refs artifact_refs owner_refs related_knowledge_refs depends_on blocked_by child_refs".split()
)
"""Fields to which an entry adds and from which it removes members, instead of replacing the whole."""
_WORDS = frozenset({"title", "summary", "payload"})
MAP = "repo"
"""The kind of a source that is the map of a repository."""
_BRANCHES = "branches"


class MergeEntry(FrozenModel):
    """One change: its author and time, and the object before and after.

    `before` may be the id of the event whose entry has that object as `after`. `link` is type, source and target of an
    added or removed link. An erasure has none of these. For a file or map of a repository, `knew` contains the latest
    readings (entries of the map) known in the copy that made the entry, each of which knew the earlier ones; `None` if
    that was not recorded.
    """

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
    knew: tuple[str, ...] | None = Field(default=None, exclude_if=is_none)

    @property
    def order(self) -> tuple[datetime, int, str]:
        """The position among all entries: by time, then by sequence number, then by id.

        The times of a log never decrease, and a merge is later than all entries it adds. So a change made with
        knowledge of another one comes after it, however wrong the clocks are.
        """
        return self.at, self.seq, self.event


ReadRevision = Callable[[str, int], Object | None]


@dataclass(frozen=True, slots=True)
class _LoggedReading:
    seq: int
    event: str
    """The id of the map's entry in all copies."""
    is_own: bool
    knew: tuple[str, ...]
    last: frozenset[str]
    """The latest readings of each map that the log knows from here on."""


class LoggedReadings:
    """The readings of a repository that a log knew at each of its events.

    A reading is an entry of the map of the repository, identified by the id of its event. `maps` contains by origin the
    ids of the maps, including archived ones; `events_of` returns the events of one.

    A repository may have several maps, and one of them may be erased. So the latest readings of each map are listed,
    even if a reading of another map knew them: then the knowledge about the remaining maps does not change.
    """

    def __init__(self, maps: Mapping[str, Iterable[str]], events_of: Callable[[str], Sequence[AuditEvent]]) -> None:
        self._maps = maps
        self._events_of = events_of
        self._readings: dict[str, list[_LoggedReading]] = {}
        self._events: dict[str, frozenset[str]] = {}

    def before(self, seq: int, item: Object | None) -> tuple[str, ...] | None:
        """Return the latest readings before an event about a file or a map; `None` for a file without a map."""
        if not isinstance(item, Source) or not (root := root_of(item)):
            return None
        readings = self._of(root)
        at = bisect_left(readings, seq, key=lambda one: one.seq)
        return tuple(sorted(readings[at - 1].last)) if at else () if item.kind == MAP else None

    def first_unknown(self, reading: MergeEntry, coming: Mapping[str, MergeEntry]) -> int:
        """Return the number of the first event with a reading that another reading did not know, or 0.

        `coming` are entries of maps by their ids, including the reading.
        """
        if not isinstance(reading.after, Source):
            return 0
        readings = self._of(reading.after.origin)
        knew = {one.event: one.knew for one in readings} | {name: one.knew or () for name, one in coming.items()}
        known, waiting = set[str](), [reading.event]
        while waiting:
            if (name := waiting.pop()) not in known:
                known.add(name)
                waiting += knew.get(name, ())
        # A reading made here knows all earlier ones in the log.
        own = (at for at in reversed(range(len(readings))) if readings[at].is_own and readings[at].event in known)
        start = next(own, 0)
        return next((one.seq for one in readings[start:] if one.event not in known), 0)

    def lacks_past(self, entry: MergeEntry, coming: Mapping[str, MergeEntry]) -> bool:
        """Return whether all readings that the author of an entry of a file knew are lost.

        `coming` are entries of maps by their ids.
        """
        root = root_of(entry.after) if isinstance(entry.after, Source) and entry.after.kind != MAP else ""
        if not root or not (entry.knew or root in self._maps):
            return False  # it is no file of a repository
        return not any(one in coming or one in self.logged(root) for one in entry.knew or ())

    def logged(self, root: str) -> frozenset[str]:
        """Return the ids of the logged readings of a repository."""
        if root not in self._events:
            self._events[root] = frozenset(one.event for one in self._of(root))
        return self._events[root]

    def _of(self, root: str) -> list[_LoggedReading]:
        if root not in self._readings:
            events = [one for identity in self._maps.get(root, ()) for one in self._events_of(identity)]
            readings: list[_LoggedReading] = []
            last: dict[str, frozenset[str]] = {}
            for event in sorted(events, key=lambda one: one.seq):
                merged = event.merged
                if "revision" not in (event.after or {}) or (merged is not None and "event" not in merged):
                    continue
                before = last.get(event.target, frozenset[str]())
                if merged is None:
                    name, knew = event.id, tuple(frozenset[str]().union(*last.values()))
                    last[event.target] = frozenset({name})
                else:
                    name, knew = merged["event"], _knew(merged) or ()
                    last[event.target] = before.difference(knew) | {name}
                known = frozenset[str]().union(*last.values())
                readings.append(_LoggedReading(event.seq, name, merged is None, knew, known))
            self._readings[root] = readings
        return self._readings[root]


def entries_of(
    target: str, events: Sequence[AuditEvent], revision: ReadRevision, readings: LoggedReadings
) -> list[MergeEntry]:
    """Return the entries of an object and the links from it in a log. For an erased object, only its erasure."""
    erased = next((event for event in events if event.event_type == ERASED), None)
    if erased:
        return [_entry(erased, target)]
    return [entry for event in events if (entry := entry_of(event, revision, readings))]


def entry_of(event: AuditEvent, revision: ReadRevision, readings: LoggedReadings) -> MergeEntry | None:
    """Return the entry recorded by an event, or `None` if it records none or its object was erased since."""
    target = event.target
    if event.event_type == ERASED:
        return _entry(event, target)
    if event.merged is not None and "event" not in event.merged:
        return None  # a state that was folded by a merge
    state = event.after or {}
    if link := state.get("link") or (event.before or {}).get("link"):
        return _entry(event, target, link=tuple(link), added="link" in state)
    if event.merged and (notice := event.merged.get(WITHHELD)):
        return _entry(event, target, after=Source.model_validate(notice))
    number = state.get("revision")
    after = revision(target, number) if number else None
    if after is None:
        return None
    base = base_of(event)
    before = revision(target, base) if base else None
    if event.merged is not None:
        return _entry(event, target, before=before, after=after)
    return _entry(event, target, before=before, after=after, knew=readings.before(event.seq, after))


def base_of(event: AuditEvent) -> int:
    """Return the number of the revision in this copy that an event changed, or 0."""
    return int((event.merged or event.before or {}).get("base" if event.merged else "revision", 0))


def _entry(event: AuditEvent, target: str, **more: Any) -> MergeEntry:
    merged = event.merged or {}
    return MergeEntry.model_construct(
        event=merged.get("event", event.id),
        at=parse_time(merged["at"]) if merged else event.timestamp,
        seq=merged.get("seq", event.seq),
        kind=event.event_type,
        actor=event.actor,
        channel=cast("Channel", event.channel),
        reason=event.reason,
        patch=merged.get("patch", event.patch_id),
        target=target,
        **{"before": None, "after": None, "link": None, "added": True, "knew": _knew(merged), **more},
    )


def _knew(merged: Mapping[str, Any]) -> tuple[str, ...] | None:
    return tuple(merged["knew"]) if "knew" in merged else None


def linked_by_id(entries: Iterable[MergeEntry]) -> Iterator[MergeEntry]:
    """Yield entries in order, with `before` replaced by the id of the entry that led to the same object, if any."""
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
    """Return entries with ids in `before` replaced by the objects; `None` for an unknown id."""
    given = list(entries)
    after = {one.event: one.after for one in (*known, *given)}
    return [
        one.model_copy(update={"before": after.get(one.before)}) if isinstance(one.before, str) else one
        for one in given
    ]


def same_words(one: Object, other: Object) -> bool:
    """Return whether two revisions of an object differ only in number and time."""
    return type(one) is type(other) and not _differing(one, other)


def _differing(one: Object, other: Object) -> list[str]:
    names = type(one).model_fields.keys() - _LOCAL
    return [name for name in sorted(names) if getattr(one, name) != getattr(other, name)]


def folded(entries: Iterable[MergeEntry]) -> Object | None:
    """Return the state that entries of one object lead to, without consequences of other objects; `None` if none.

    Each entry changes the fields that it originally changed. If two entries changed the text of knowledge without
    knowing each other, it becomes disputed with the later text.
    """
    item: Object | None = None
    last: Object | None = None
    for entry in sorted(entries, key=lambda one: one.order):
        if entry.after is None or isinstance(entry.before, str):
            continue
        if entry.kind == WITHHELD and isinstance(entry.after, Source):
            item = noticed(item, entry.after)
        else:
            item = entry.after if item is None or is_notice(item) else _with(item, entry)
        last = entry.after
    return item if item is None or last is None else _valid(item, last)


def _with(item: Object, entry: MergeEntry) -> Object:
    after, before = entry.after, entry.before
    if after is None or isinstance(before, str):
        return item
    names = _differing(before, after) if before else sorted(type(after).model_fields.keys() - _LOCAL)
    if entry.kind in _SETTLED and "last_verified_at" not in names:
        names = [name for name in names if name != "status"]
    changes = {**without_notice(item, names), **{name: _member(name, item, before, after) for name in names}}
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
    members = _evidence_changed if name == "evidence_refs" else _changed
    return members(getattr(item, name), old, value)


def _changed(members: Iterable[_Member], old: Collection[_Member], new: Collection[_Member]) -> tuple[_Member, ...]:
    """Return members after the changes from `old` to `new`."""
    left = [one for one in members if one not in old or one in new]
    return tuple(dict.fromkeys([*left, *(one for one in new if one not in old)]))


def _evidence_changed(
    refs: Sequence[EvidenceRef], old: Sequence[EvidenceRef], new: Sequence[EvidenceRef]
) -> tuple[EvidenceRef, ...]:
    """Return evidence after the changes from `old` to `new`, and in each reference the branches that lost it."""
    lost, lost_before, lost_after = map(_lost_by_reference, (refs, old, new))
    return tuple(
        ref.model_copy(
            update={"lost_on": _changed(lost.get(ref, ()), lost_before.get(ref, ()), lost_after.get(ref, ()))}
        )
        for ref in _changed(lost, lost_before, lost_after)
    )


def _lost_by_reference(refs: Sequence[EvidenceRef]) -> dict[EvidenceRef, tuple[str, ...]]:
    return dict(zip(on_any_branch(refs), (ref.lost_on for ref in refs), strict=True))


def _valid(item: Object, last: Object) -> Object:
    """Return the object, or the last version if the combined fields are not valid."""
    try:
        type(item).model_validate({name: getattr(item, name) for name in type(item).model_fields})
    except ValidationError:
        return last
    return item


class _Named(Protocol):
    """A source, or its head."""

    @property
    def kind(self) -> str: ...
    @property
    def origin(self) -> str: ...


def root_of(item: _Named) -> str:
    """Return the origin of the repository that a source is a file or the map of, or an empty text."""
    if item.kind == MAP:
        return item.origin
    root, of_root, _ = item.origin.partition("#")
    return root if of_root else ""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading of a repository in which branches appeared or vanished. `past`: the readings it knew, as bits."""

    order: tuple[datetime, int, str]
    bit: int
    past: int
    came: frozenset[str]
    """Branches that were read for the first time."""
    moved: frozenset[str]
    """Branches that were read at another commit than before."""
    gone: frozenset[str]


class BranchReadings:
    """The readings of a repository in all copies, and the contents of files on its branches.

    In a source, "every branch" means the branches known when it was written, and each branch first read later in a copy
    that knew it, because a new branch with the contents of all others is not recorded.
    """

    def __init__(self, entries: Iterable[MergeEntry]) -> None:
        """Create them from all entries of the maps of the repository."""
        self._bits: dict[str, int] = {}
        self._past: dict[int, int] = {}
        self._readings: list[_Reading] = []
        self._names: dict[int, frozenset[str]] = {}
        for entry in sorted(entries, key=lambda one: one.order):
            if not isinstance(entry.after, Source):
                continue
            before, after = _branches_of(entry.before), _branches_of(entry.after)
            bit = self._bits[entry.event] = 1 << len(self._bits)
            past = self._past[bit] = bit - 1 if entry.knew is None else self._closure(entry.knew)
            came, gone = after.keys() - before.keys(), before.keys() - after.keys()
            moved = frozenset(name for name in after.keys() & before.keys() if after[name] != before[name])
            self._readings.append(_Reading(entry.order, bit, past, frozenset(came), moved, frozenset(gone)))
        self._ever = frozenset(name for one in self._readings for name in one.gone)
        self._readings = [one for one in self._readings if one.came or one.gone or one.moved & self._ever]

    def __bool__(self) -> bool:
        return bool(self._readings)

    def contents(self, entries: Sequence[MergeEntry], root: str) -> dict[str, str]:
        """Fold the entries of all sources with the origin of a file; return its contents by branch.

        `root` is the origin of the repository. Versions from before the source was a file of it are skipped.
        """
        files = [one for one in entries if isinstance(one.after, Source) and root_of(one.after) == root]
        names = self._branches(self._all) if self._readings else _named_branches(files)
        on = self._folded(files, root, self._readings, names, {})
        gone = self._ever - names
        return {name: on[name] for name in on if name not in gone}

    def is_on_every(self, on: Mapping[str, str]) -> bool:
        """Return whether all known branches have the same contents; `False` without readings."""
        return bool(self and on) and len(set(on.values())) == 1 and on.keys() >= self._branches(self._all)

    @property
    def _all(self) -> int:
        return (1 << len(self._bits)) - 1

    def _closure(self, knew: Iterable[str]) -> int:
        bits = (self._bits.get(one, 0) for one in knew)
        return reduce(or_, (bit | self._past[bit] for bit in bits if bit), 0)

    def _known_to(self, entry: MergeEntry) -> int:
        return self._closure(entry.knew or ()) or self._all

    def _has_known_past(self, entry: MergeEntry) -> bool:
        """Return whether the readings known to the author's copy of an entry were recorded."""
        return bool(self._closure(entry.knew or ()))

    def _branches(self, past: int) -> frozenset[str]:
        """Return the branches known from some of the readings."""
        if past not in self._names:
            names = set[str]()
            for reading in self._readings:
                if reading.bit & past:
                    names = (names - reading.gone) | reading.came | reading.moved
            self._names[past] = frozenset(names)
        return self._names[past]

    def _folded(
        self,
        files: Sequence[MergeEntry],
        root: str,
        readings: Iterable[_Reading],
        every: frozenset[str],
        known: dict[int, dict[str, str]],
    ) -> dict[str, str]:
        """Fold entries of a file with readings. `known` is a cache: by reading, the contents before it."""
        on: dict[str, str] = {}
        steps: list[MergeEntry | _Reading] = [*files, *(one for one in readings if one.came)]
        for step in sorted(steps, key=lambda one: one.order):
            if isinstance(step, _Reading):
                self._spread(step, on, files, root, known)
                continue
            was, has = _held(step.before, root), _held(step.after, root)
            has_past = self._has_known_past(step)
            names = self._branches(self._known_to(step)) if has_past else every
            for name in sorted({*names, *_branches_named(was), *_branches_named(has)}):
                before, after = was.on(name), has.on(name)
                # Without a recorded past, a change of all branches applies to those with the contents it changed.
                if before != after and (has_past or not was.is_everywhere or on.get(name, before) == before):
                    on.pop(name, None)
                    on |= {name: after} if after is not None else {}
        return on

    def _spread(
        self,
        reading: _Reading,
        on: dict[str, str],
        files: Sequence[MergeEntry],
        root: str,
        known: dict[int, dict[str, str]],
    ) -> None:
        """Give new branches the contents that every branch had where the reading was made."""
        names = self._branches(reading.past)
        if reading.bit not in known:
            theirs = [one for one in files if self._has_known_past(one) and not self._known_to(one) & ~reading.past]
            past = [one for one in self._readings if one.bit & reading.past]
            known[reading.bit] = self._folded(theirs, root, past, names, known)
        view = known[reading.bit]
        everywhere = {view.get(name, "") for name in names}
        for name in sorted(reading.came):
            if len(everywhere) == 1 and all(everywhere):
                on[name] = next(iter(everywhere))
            elif name in view and name not in names:
                on.pop(name, None)


def with_each_branch(item: Source, entries: Iterable[MergeEntry], readings: BranchReadings) -> Source:
    """Return a source with the contents of each branch after all entries of its origin, in all sources and copies.

    Branches that only one copy read are unchanged; for others, the last reading counts. A source that is on no branch
    any more is archived.
    """
    history = [entry for entry in sorted(entries, key=lambda one: one.order) if isinstance(entry.after, Source)]
    changes: dict[str, Any] = {}
    if item.kind != MAP and (root := root_of(item)):
        on = readings.contents(history, root)
        changes |= {"status": "active"} if on and item.status == "archived" else {}
        held = _held_together(history, on, is_everywhere=readings.is_on_every(on))
        several = any(isinstance(one.after, Source) and one.after.fingerprint.startswith(SEVERAL) for one in history)
        if on and (several or held.text != item.fingerprint):
            changes |= {"fingerprint": held.text, "segments": _segments_together(item, held, history)}
        elif not on and (several or readings):
            changes |= {"status": "archived"}
    if len(history) > 1 and any(isinstance(one.after, Source) and _read_branches(one.after) for one in history):
        changes |= {"payload": {**item.payload, **_branches_together(history)}}
    return item.model_copy(update=changes) if changes else item


def _held_together(history: Sequence[MergeEntry], on: Mapping[str, str], *, is_everywhere: bool) -> HeldContents:
    if is_everywhere:
        return HeldContents((ContentsOnBranches(next(iter(on.values()))),))
    each = [
        ContentsOnBranches(one, tuple(sorted(name for name in on if on[name] == one)))
        for one in sorted(set(on.values()))
    ]
    leading = (name for one in history for held in _held(one.after).each[:1] for name in held.branches or ())
    first = next((on[name] for name in leading if name in on), min(on.values(), default=""))
    return HeldContents(tuple(each)).leading(first)


def _held(item: object, root: str = "") -> HeldContents:
    """Return the contents of a file of a repository; empty if it is not one, or is archived."""
    if not isinstance(item, Source) or item.status == "archived" or (root and root_of(item) != root):
        return HeldContents(())
    return HeldContents.parse(item.fingerprint)


def _branches_named(held: HeldContents) -> Iterator[str]:
    yield from (name for one in held.each for name in one.branches or ())


def _named_branches(files: Iterable[MergeEntry]) -> frozenset[str]:
    return frozenset(name for one in files for name in _branches_named(_held(one.after)))


def _segments_together(item: Source, held: HeldContents, history: Sequence[MergeEntry]) -> tuple[Segment, ...]:
    """Return the segments of all contents, each once per place, starting with those of the first contents."""
    read: dict[str, Source] = {}
    for entry in history:
        if isinstance(entry.after, Source):
            read |= dict.fromkeys(HeldContents.parse(entry.after.fingerprint).fingerprints, entry.after)
    segments: dict[str, Segment] = {}
    places: dict[str, dict[str, SegmentPlace]] = {}
    known: dict[tuple[str, int], str] = {}
    for contents in held.fingerprints:
        source, seen = read[contents], dict[str, int]()
        for segment in source.segments:
            place = segment.version_in(contents)
            if place is None:
                continue
            nth = seen[segment.excerpt] = seen.get(segment.excerpt, 0) + 1
            name = segment.segment_id if segment.segment_id in segments else known.get((segment.excerpt, nth), "")
            if not name or contents in places[name]:
                name = segment.segment_id
                segments[name] = segment if source.salt == item.salt else _salted(segment, item.salt)
                places[name] = {}
            known.setdefault((segment.excerpt, nth), name)
            places[name][contents] = place
    several = len(held.each) > 1
    return tuple(
        segment.model_copy(update={"position": at}).at_places([*places[name].values()], several=several)
        for at, (name, segment) in enumerate(segments.items())
    )


def _salted(segment: Segment, salt: str) -> Segment:
    return segment.model_copy(update={"hash": segment_hash(segment.excerpt, salt=salt)})


def _read_branches(item: object) -> Mapping[str, Any]:
    """Return the branches recorded in the map of a repository."""
    branches = item.payload.get(_BRANCHES) if isinstance(item, Source) else None
    return branches if isinstance(branches, Mapping) else {}


def _branches_of(item: object) -> dict[str, Any]:
    """Return the branches in a map, including the branch of a map from before maps contained several."""
    return {**known_branches(item.payload), **_read_branches(item)} if isinstance(item, Source) else {}


def _branches_together(history: Sequence[MergeEntry]) -> dict[str, Any]:
    on: dict[str, Any] = {}
    leading = ""
    for entry in history:
        before, after = _read_branches(entry.before), _read_branches(entry.after)
        for name in (*after, *(one for one in before if one not in after)):
            if name not in after:
                on.pop(name, None)
            elif name not in before or before[name] != after[name]:
                on[name] = after[name]
        if isinstance(entry.after, Source) and leading not in on:
            leading = str(entry.after.payload.get("leading") or "")
    return {_BRANCHES: on, "leading": leading if leading in on else next(iter(on), "")}
