"""What was done to an object, whoever did it and in whichever copy of a space: entries, and what they come to together.

An entry is one change of one object or link, told by one audit event. The event's id names it everywhere. Entries have
one order, `order`, the same wherever they are; folding them in that order gives the object. So copies that know the
same entries hold the same object, in whatever order they came to know them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treering.core.audit import AuditEvent
from treering.core.canonical import Instant, parse_time
from treering.core.evidence import Locator, Segment, SegmentPlace, segment_hash
from treering.core.objects import AnyObject, Channel, Knowledge, Object, Source
from treering.core.versions import SEVERAL, ContentsOnBranches, HeldContents, known_branches

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
MAP = "repo"
"""The kind of a source that is the map of a repository."""


class MergeEntry(BaseModel):
    """One change: who made it, when, and what the object was before and after.

    `before` may be the id of the event whose entry gave the object as it was. `link` is type, source and target of a
    link that came (`added`) or went. An erasure has neither. Of a file of a repository, and of its map, `knew` names
    the readings of the repository that were known where the entry was made, by entries of the map: the last ones, each
    of which knew of those before it. `None` where nobody wrote them down.
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
    knew: tuple[str, ...] | None = Field(default=None, exclude_if=lambda knew: knew is None)

    @property
    def order(self) -> tuple[datetime, int, str]:
        """The place of the entry among all: by time; of one time by the place in its log, and by its id.

        The time of a log never runs back, and a merge sets it behind all that came. So what was changed knowing of
        another change comes after it, however wrong clocks are.
        """
        return self.at, self.seq, self.event


ReadRevision = Callable[[str, int], Object | None]


@dataclass(frozen=True, slots=True)
class _LoggedReading:
    seq: int
    event: str
    """The id of the entry of the map, here and elsewhere."""
    is_own: bool
    knew: tuple[str, ...]
    last: frozenset[str]
    """The last readings that the log knows of from here on."""


class LoggedReadings:
    """Which readings of a repository a log knew of at each of its events.

    A reading is told by an entry of the map of the repository, and named by the id of its event. `maps` gives by scope
    and origin the ids of the maps, also of those that are archived; `events_of` the events of one.
    """

    def __init__(
        self, maps: Mapping[tuple[str, str], Iterable[str]], events_of: Callable[[str], Sequence[AuditEvent]]
    ) -> None:
        self._maps = maps
        self._events_of = events_of
        self._told: dict[tuple[str, str], list[_LoggedReading]] = {}

    def before(self, seq: int, item: Object | None) -> tuple[str, ...] | None:
        """Return the last readings known before an event about a file or a map; `None` for a file of no map."""
        if not isinstance(item, Source) or not (root := root_of(item)):
            return None
        told = self._of(item.scope, root)
        at = bisect_left(told, seq, key=lambda one: one.seq)
        return tuple(sorted(told[at - 1].last)) if at else () if item.kind == MAP else None

    def first_unknown(self, reading: MergeEntry, coming: Mapping[str, MergeEntry]) -> int:
        """Return the number of the first event here that tells of a reading which another did not know of; 0 for none.

        `coming`: entries of maps by their ids, the reading among them.
        """
        if not isinstance(reading.after, Source):
            return 0
        told = self._of(reading.after.scope, reading.after.origin)
        knew = {one.event: one.knew for one in told} | {name: one.knew or () for name, one in coming.items()}
        known, waiting = set[str](), [reading.event]
        while waiting:
            if (name := waiting.pop()) not in known:
                known.add(name)
                waiting += knew.get(name, ())
        # What is read here is read knowing of all that the log tells of.
        start = next((at for at in reversed(range(len(told))) if told[at].is_own and told[at].event in known), 0)
        return next((one.seq for one in told[start:] if one.event not in known), 0)

    def _of(self, scope: str, root: str) -> list[_LoggedReading]:
        if (scope, root) not in self._told:
            events = [one for identity in self._maps.get((scope, root), ()) for one in self._events_of(identity)]
            told: list[_LoggedReading] = []
            for event in sorted(events, key=lambda one: one.seq):
                said, before = event.merged, told[-1].last if told else frozenset[str]()
                if "revision" not in (event.after or {}) or (said is not None and "event" not in said):
                    continue
                if said is None:
                    told.append(_LoggedReading(event.seq, event.id, True, tuple(before), frozenset({event.id})))
                else:
                    name, knew = said["event"], _knew(said) or ()
                    told.append(_LoggedReading(event.seq, name, False, knew, before.difference(knew) | {name}))
            self._told[scope, root] = told
        return self._told[scope, root]


def entries_of(
    target: str, events: Sequence[AuditEvent], revision: ReadRevision, readings: LoggedReadings
) -> list[MergeEntry]:
    """Return the entries that a log has of an object and the links from it. Of an erased object only the erasure."""
    erased = next((event for event in events if event.event_type == ERASED), None)
    if erased:
        return [_entry(erased, target)]
    return [entry for event in events if (entry := entry_of(event, revision, readings))]


def entry_of(event: AuditEvent, revision: ReadRevision, readings: LoggedReadings) -> MergeEntry | None:
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
    before = revision(target, base) if base else None
    if event.merged is not None:
        return _entry(event, target, before=before, after=after)
    return _entry(event, target, before=before, after=after, knew=readings.before(event.seq, after))


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
        **{"before": None, "after": None, "link": None, "added": True, "knew": _knew(said), **more},
    )


def _knew(said: Mapping[str, Any]) -> tuple[str, ...] | None:
    return tuple(said["knew"]) if "knew" in said else None


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


_BRANCHES = "branches"


def root_of(item: Source) -> str:
    """Return the origin of the repository that a source is a file or the map of; empty where it may be neither."""
    if item.kind == MAP:
        return item.origin
    root, of_root, _ = item.origin.partition("#")
    return root if of_root else ""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading of a repository that brought branches or found some gone; `past`: readings it knew of, as bits."""

    order: tuple[datetime, int, str]
    bit: int
    past: int
    came: frozenset[str]
    """Branches that were read for the first time there."""
    moved: frozenset[str]
    """Branches that were read there at another commit than before."""
    gone: frozenset[str]


class BranchReadings:
    """The readings of a repository, in whichever copy, and what files stand on its branches by them.

    What a source says of "every branch" is of the branches that were known where that was written, and of each that was
    read later by somebody who knew of it, for nothing is written where a branch that is new has what all have.
    """

    def __init__(self, told: Iterable[MergeEntry]) -> None:
        """Take all entries of the maps of the repository."""
        self._bits: dict[str, int] = {}
        self._past: dict[int, int] = {}
        self._readings: list[_Reading] = []
        self._names: dict[int, frozenset[str]] = {}
        for entry in sorted(told, key=lambda one: one.order):
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

    def contents(self, told: Sequence[MergeEntry], root: str) -> dict[str, str]:
        """Return by branch what the entries of a file, of all sources of its origin, come to.

        `root`: the origin of the repository. What a source said before it was a file of it is passed over.
        """
        files = [one for one in told if isinstance(one.after, Source) and root_of(one.after) == root]
        names = self._branches(self._all) if self._readings else _named_branches(files)
        on = self._folded(files, root, self._readings, names, {})
        gone = self._ever - names
        return {name: on[name] for name in on if name not in gone}

    def is_on_every(self, on: Mapping[str, str]) -> bool:
        """Tell whether all branches that are known have the same contents; without a reading none is known."""
        return bool(self and on) and len(set(on.values())) == 1 and on.keys() >= self._branches(self._all)

    @property
    def _all(self) -> int:
        return (1 << len(self._bits)) - 1

    def _closure(self, knew: Iterable[str]) -> int:
        bits = (self._bits.get(one, 0) for one in knew)
        return reduce(or_, (bit | self._past[bit] for bit in bits if bit), 0)

    def _known_to(self, entry: MergeEntry) -> int:
        return self._closure(entry.knew or ()) or self._all

    def _is_told(self, entry: MergeEntry) -> bool:
        """Tell whether it is known which readings were known where an entry was made."""
        return bool(self._closure(entry.knew or ()))

    def _branches(self, past: int) -> frozenset[str]:
        """Return the branches that are known by some of the readings."""
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
        """Fold entries of a file with readings; `known`: by reading what whoever read it knew, worked out before."""
        on: dict[str, str] = {}
        steps: list[MergeEntry | _Reading] = [*files, *(one for one in readings if one.came)]
        for step in sorted(steps, key=lambda one: one.order):
            if isinstance(step, _Reading):
                self._spread(step, on, files, root, known)
                continue
            was, has = _held(step.before, root), _held(step.after, root)
            told = self._is_told(step)
            names = self._branches(self._known_to(step)) if told else every
            for name in sorted({*names, *_branches_named(was), *_branches_named(has)}):
                before, after = was.on(name), has.on(name)
                # Whoever did not write down what they knew, knew of branches that had what they changed.
                if before != after and (told or not was.is_everywhere or on.get(name, before) == before):
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
        """Have a branch that was read for the first time hold what stood on every branch for whoever read it."""
        names = self._branches(reading.past)
        if reading.bit not in known:
            theirs = [one for one in files if self._is_told(one) and not self._known_to(one) & ~reading.past]
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
    """Return a source with what each branch has by all entries of its origin, of whichever source and copy.

    Branches that were read in one copy and not in another keep what they had; of one that was read in several, what was
    read last stands. A source that stands on no branch any more is archived.
    """
    told = [entry for entry in sorted(entries, key=lambda one: one.order) if isinstance(entry.after, Source)]
    changes: dict[str, Any] = {}
    if item.kind != MAP and (root := root_of(item)):
        on = readings.contents(told, root)
        changes |= {"status": "active"} if on and item.status == "archived" else {}
        held = _held_together(told, on, is_everywhere=readings.is_on_every(on))
        several = any(isinstance(one.after, Source) and one.after.fingerprint.startswith(SEVERAL) for one in told)
        if on and (several or held.text != item.fingerprint):
            changes |= {"fingerprint": held.text, "segments": _segments_together(item, held, told)}
        elif not on and (several or readings):
            changes |= {"status": "archived"}
    if len(told) > 1 and any(isinstance(one.after, Source) and _read_branches(one.after) for one in told):
        changes |= {"payload": {**item.payload, **_branches_together(told)}}
    return item.model_copy(update=changes) if changes else item


def _held_together(told: Sequence[MergeEntry], on: Mapping[str, str], *, is_everywhere: bool) -> HeldContents:
    if is_everywhere:
        return HeldContents((ContentsOnBranches(next(iter(on.values()))),))
    each = [
        ContentsOnBranches(one, tuple(sorted(name for name in on if on[name] == one)))
        for one in sorted(set(on.values()))
    ]
    leading = (name for one in told for held in _held(one.after).each[:1] for name in held.branches or ())
    first = next((on[name] for name in leading if name in on), min(on.values(), default=""))
    return HeldContents(tuple(each)).leading(first)


def _held(item: object, root: str = "") -> HeldContents:
    """Return what a source holds as a file of a repository; nothing where it is none of it, or archived."""
    if not isinstance(item, Source) or item.status == "archived" or (root and root_of(item) != root):
        return HeldContents(())
    return HeldContents.parse(item.fingerprint)


def _branches_named(held: HeldContents) -> Iterator[str]:
    yield from (name for one in held.each for name in one.branches or ())


def _named_branches(files: Iterable[MergeEntry]) -> frozenset[str]:
    return frozenset(name for one in files for name in _branches_named(_held(one.after)))


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


def _branches_of(item: object) -> dict[str, Any]:
    """Return the branches that a map tells of, also one from before branches were told apart."""
    return {**known_branches(item.payload), **_read_branches(item)} if isinstance(item, Source) else {}


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
