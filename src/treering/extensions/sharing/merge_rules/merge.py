"""Merging entries from another copy of a space, or from another space.

The merged state depends on the entries alone (`versions`): fields are folded in the order of all entries, and their
consequences are computed again for every affected object. Contradicting claims become contested, exact duplicates and
sources of one origin become one, unsupported knowledge becomes stale. An erasure in any copy erases here, too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from treering.core.audit import ERASED, Anchor, AuditEvent
from treering.core.canonical import render_time
from treering.core.errors import Conflict, InvalidInput
from treering.core.objects import Knowledge, Node, Object, Source, content_hash, stored_form
from treering.core.patch import Author, Effect, Erase, Link, LinkType, Patch, PatchRecord, record_hash
from treering.core.policy import ALL_CHANNELS, Policy
from treering.core.writing.draft import Draft, Linked, Put, Unlinked, View, effect_of
from treering.core.writing.integrity import COPY, GAVE_WAY, copies_of
from treering.core.writing.journal import MERGE, MERGED
from treering.core.writing.made_from import made_from
from treering.core.writing.transaction import Session, carry_out, event_ids, policy_in_force, time_in
from treering.extensions.sharing.ledger_parts import CopiedEvent, LedgerPart, Outcomes, append, keep_outcomes
from treering.extensions.sharing.merge_rules.entries import (
    MAP,
    BranchReadings,
    LoggedReadings,
    MergeEntry,
    entries_of,
    folded,
    root_of,
    same_words,
    with_bases,
)
from treering.extensions.sharing.merge_rules.entry_checks import problem_of
from treering.extensions.sharing.merge_rules.notices import WITHHELD, is_notice, lost_by, noticed
from treering.extensions.sharing.merge_rules.settling import settle_together

MOST_AHEAD = timedelta(days=30)
"""How far the clock of another copy may be ahead; time here continues after the latest merged change."""
_JOINED = "joined"
"""The event type of a state folded from several entries."""
_SHOWN = 60
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Parent:
    """The head of a merged log. `log` is the id of its first event."""

    log: str
    head: Anchor
    whole: bool = False
    """Whether all entries up to the head were merged, so that the next merge can begin after it."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """Entries to merge."""

    entries: Sequence[MergeEntry]
    parents: tuple[Parent, ...]
    by: Author
    reason: str
    touched: frozenset[str] = frozenset()
    """Objects changed or erased here that no merge has settled yet, except new sources other than repository files."""
    settled_from: int = 0
    """The sequence number from which on all objects are settled once these entries are merged."""
    unsettled: frozenset[str] = frozenset()
    """Objects whose state may depend on content that was erased since the last merge, or is erased by this one."""
    after: Anchor | None = None
    """The head of the log at which `touched` was read; `None` skips the check."""
    always_recorded: bool = False
    """Whether the heads of the parents are recorded even if there are no new entries."""
    maps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By origin, the ids of all maps of repositories in this space, whatever their scope and status."""
    has_lost_map: bool = False
    """Whether a map of a repository was erased, or may have been, in this space or in one that was merged."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge: the number of new entries, and the affected objects."""

    entries: int = 0
    patch_id: str = ""
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    staled: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()
    withheld: int = 0
    """Entries that were left out because their object was erased."""
    head: Anchor | None = None


def merge_entries(session: Session, incoming: Incoming) -> Merged:
    """Merge entries in the transaction of a session. Known entries change nothing.

    Raises `Conflict` if the ledger changed since `incoming.after`, and `InvalidInput` for impossible entries.
    """
    if incoming.after is not None and session.head() != incoming.after:
        raise Conflict("The space changed during the merge.", hint="Merge again.")
    _check(incoming.entries, session)
    now = _time(session, incoming.entries)
    erased, unsettled = _erase(session, incoming)
    work = _Work(session, _Read(session), policy_in_force(session), now, incoming)
    work.read()
    work.settle(unsettled)
    return work.keep(erased)


def _check(entries: Sequence[MergeEntry], session: Session) -> None:
    """Raise `InvalidInput` for entries that no space could have created; `details` has the problems by position."""
    latest = session.now() + MOST_AHEAD
    malformed = {
        place: f"The change {entry.event[:_SHOWN]} of {entry.target[:_SHOWN]} cannot be merged: {problem}."
        for place, entry in enumerate(entries)
        if (problem := problem_of(entry, session.view, latest))
    }
    if malformed:
        raise InvalidInput(
            next(iter(malformed.values())),
            hint="Nothing was merged. Ask its author to check their space with `treering lint audit`, and their clock.",
            details={"malformed": malformed},
        )


def _time(session: Session, entries: Iterable[MergeEntry]) -> datetime:
    now = time_in(session)
    return max(now, max((entry.at for entry in entries), default=now) + _TICK)


def _erase(session: Session, incoming: Incoming) -> tuple[tuple[str, ...], frozenset[str]]:
    """Erase objects that were erased elsewhere, and the same content under other ids.

    Each erasure is one patch with its own author and reason. Return the ids, and the ids of objects whose state may
    depend on the erased content.
    """
    erasures: dict[tuple[str, ...], list[MergeEntry]] = {}
    for entry in incoming.entries:
        if entry.kind == ERASED:
            erasures.setdefault((entry.actor, entry.channel, entry.reason), []).append(entry)
    erased, related = set[str](), set[str]()
    for gone in erasures.values():
        ids, dependent = _erase_together(gone, session, incoming)
        erased |= ids
        related |= dependent
    return tuple(sorted(erased)), frozenset(related - erased)


def _erase_together(
    gone: Sequence[MergeEntry], session: Session, incoming: Incoming
) -> tuple[frozenset[str], frozenset[str]]:
    """Erase the targets of entries with the same author and reason in one patch. Return as `_erase`."""
    here = {entry.target: item for entry in gone if (item := session.view.get(entry.target))}
    erasable = {one.id: one for item in here.values() for one in (item, *_twins_of(item, session))}
    if not erasable:
        return frozenset(), frozenset()
    before = Draft(view=session.view, policy=policy_in_force(session), now=time_in(session), patch_id="")
    for item in list(here.values()):
        erasable |= {one.id: one for one in copies_of(item, before) if one.status in GAVE_WAY}
    erasable |= {one.id: one for one in made_from(erasable.values(), session.view.dependents, session.view.get)}
    related = {one for item in erasable.values() for one in _related(item, session.view)}
    related |= {one for item in erasable.values() for one in _dependent(item.id, session.view)}
    first = next(entry for entry in gone if entry.target in here)
    patch = Patch(
        id=session.fresh_id("patch"),
        source=Author(actor=first.actor, channel=first.channel, tool=incoming.by.tool),
        operations=tuple(Erase(id=one.id, expected_revision=one.revision) for _, one in sorted(erasable.items())),
        reason=first.reason,
        created_at=time_in(session),
    )
    allowed = {"erasing_channels": ALL_CHANNELS, "reviewed_operations": frozenset()}
    carry_out(session, patch, policy=policy_in_force(session).model_copy(update=allowed))
    return frozenset(erasable), frozenset(related)


def _twins_of(item: Object, session: Session) -> Iterator[Object]:
    """Yield objects with the same content under another id."""
    view = session.view
    ids: list[str] = []
    if isinstance(item, Knowledge):
        ids = list(view.knowledge_by_duplicate_key(item.duplicate_key()))
    if isinstance(item, Source):
        ids = [end for link in view.links_of(item.id) if link.type == COPY for end in (link.source, link.target)]
        ids += filter(None, [view.source_by_origin(item.scope, item.origin)])
    for identity in dict.fromkeys(ids):
        other = view.get(identity)
        if other is None or other.id == item.id:
            continue
        if isinstance(other, Source) and isinstance(item, Source):
            words = {part.excerpt for part in item.segments}
            if not any(part.excerpt in words for part in other.segments):
                continue
        yield other


class _Read:
    """A cache of objects in the ledger: everything is read before anything is written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._items: dict[str, Object | None] = {}

    def get(self, identity: str) -> Object | None:
        """Return the current revision of an object."""
        if identity not in self._items:
            self._items[identity] = self._session.view.get(identity)
        return self._items[identity]

    def revision(self, identity: str, number: int) -> Object | None:
        """Return a revision of an object."""
        newest = self.get(identity)
        if newest is None or newest.revision == number:
            return newest
        return self._session.view.revision(identity, number)


def _related(item: Object, view: View) -> Iterator[str]:
    """Yield the objects that may be rivals, copies or supports of an object."""
    match item:
        case Knowledge():
            yield from view.knowledge_by_duplicate_key(item.duplicate_key())
            if key := item.claim_key():
                yield from view.knowledge_by_claim_key(key)
            yield from item.derived_from
            yield from (ref.source_id for ref in item.evidence_refs)
            return
        case Source():
            holder = view.source_by_origin(item.scope, item.origin)
        case Node():
            holder = view.node_by_slug(item.scope, item.kind, item.slug)
        case _:
            return
    yield from filter(None, [holder])
    yield from (end for link in view.links_of(item.id) if link.type == COPY for end in (link.source, link.target))


def _dependent(identity: str, view: View) -> Iterator[str]:
    """Yield the knowledge that depends on an object, or on a copy to which its evidence may have been moved."""
    copies = {end for link in view.links_of(identity) if link.type == COPY for end in (link.source, link.target)}
    for one in sorted(copies | {identity}):
        yield from view.dependents(one)


@dataclass(slots=True)
class _Work:
    """A merge in progress: new entries by object, the resulting states, and the objects to write."""

    session: Session
    stored: _Read
    policy: Policy
    now: datetime
    incoming: Incoming
    fresh: dict[str, list[MergeEntry]] = field(default_factory=dict)
    stories: dict[str, list[MergeEntry]] = field(default_factory=dict)
    states: dict[str, Object] = field(default_factory=dict)
    """By id, the states folded from the entries of each object, without consequences of other objects."""
    single: set[str] = field(default_factory=set)
    """Ids of the folded objects that have one entry."""
    final: dict[str, Object] = field(default_factory=dict)
    tombstones: list[MergeEntry] = field(default_factory=list)
    withheld: int = 0
    twins: list[tuple[str, str]] = field(default_factory=list)
    """Sources and nodes that were replaced by another one of the same name, with the other one."""
    logged: LoggedReadings = field(init=False)
    _fresh_maps: dict[str, dict[str, None]] | None = None
    readings: dict[tuple[str, str], BranchReadings] = field(default_factory=dict)
    """By scope and origin, the readings of a repository that are stored here or are in the entries."""

    def __post_init__(self) -> None:
        self.logged = LoggedReadings(self.incoming.maps, self.session.events_of)

    def read(self) -> None:
        """Read the stored entries of all affected objects, and select the new entries."""
        by_target: dict[str, list[MergeEntry]] = {}
        for entry in self.incoming.entries:
            by_target.setdefault(entry.target, []).append(entry)
        for target, entries in by_target.items():
            known = self._story(target)
            if known and known[0].kind == ERASED:
                self.withheld += sum(entry.kind != ERASED for entry in entries)
                continue
            if gone := next((entry for entry in entries if entry.kind == ERASED), None):
                self.tombstones.append(gone)
                self.withheld += sum(entry.kind != ERASED for entry in entries)
                continue
            events = {entry.event for entry in known}
            new = {one.event: one for one in entries if one.event not in events and not self._is_known_text(one)}
            if new:
                ordered = sorted(new.values(), key=lambda entry: entry.order)
                self.fresh[target] = [
                    one for one in with_bases(ordered, known) if one.after is not None or one.link is not None
                ]

    def _is_known_text(self, entry: MergeEntry) -> bool:
        """Return whether an entry is a notice about text that is known here, as in the copy of its author."""
        here, notice = self.stored.get(entry.target), entry.after
        if entry.kind != WITHHELD or not isinstance(notice, Source) or not isinstance(here, Source) or is_notice(here):
            return False
        hashes, view = notice.withheld.hashes if notice.withheld else {}, self.session.view
        is_current = lost_by(notice).isdisjoint(part.segment_id for part in here.segments)
        return is_current and all(here.withholds(one) or view.segment_text(here.id, one) is not None for one in hashes)

    def settle(self, unsettled: Collection[str]) -> None:
        """Fold all entries of everything that may have changed, and determine the consequences.

        `unsettled` are objects whose state may depend on content that this merge erased.
        """
        waiting = sorted({*self.fresh, *self._touched(), *unsettled, *self.incoming.unsettled})
        while waiting:
            self._reach(waiting)
            self.final = self._derived()
            waiting = sorted(
                {
                    one
                    for identity, item in self.final.items()
                    if (here := self.stored.get(identity)) is None or not same_words(here, item)
                    for one in _dependent(identity, self.session.view)
                }
                - self.states.keys()
            )

    def _touched(self) -> Iterator[str]:
        """Yield the objects changed here since the last merge, and objects joined or moved together with them."""
        for identity in self.incoming.touched:
            yield identity
            here = self.stored.get(identity)
            if here is None or (isinstance(here, Source) and here.revision > 1):
                yield from _dependent(identity, self.session.view)
            # Sources and nodes are linked to their copies; knowledge is found by its content when it was joined.
            for item in self._revisions(identity)[:-1] if isinstance(here, Knowledge) else ():
                yield from _related(item, self.session.view)

    def keep(self, erased: tuple[str, ...]) -> Merged:
        """Write the new entries and states, and return the result."""
        writer = _Writer(self.session, self.now, self.incoming)
        created: list[str] = []
        changed: list[str] = []
        contested: list[str] = []
        staled: list[str] = []
        for entry in self.tombstones:
            writer.note(ERASED, entry.target, entry, None)
        for identity in sorted(self.fresh.keys() | self.final.keys(), key=self._first):
            here, final = self.stored.get(identity), self.final.get(identity)
            put = [entry for entry in self.fresh.get(identity, ()) if entry.after is not None]
            if final is None or (not put and here is not None and same_words(here, final)):
                continue
            writer.put(identity, here, put, final, self._revisions(identity))
            (changed if here else created).append(identity)
            if final.status != (here.status if here else ""):
                contested += [identity] if final.status == "contested" else []
                staled += [identity] if final.status == "stale" else []
        self._keep_links(writer)
        head, patch_id = writer.close()
        fresh = sum(map(len, self.fresh.values())) + len(self.tombstones)
        gone = tuple(sorted({*erased, *(entry.target for entry in self.tombstones)}))
        return Merged(
            entries=fresh,
            patch_id=patch_id,
            created=tuple(created),
            changed=tuple(changed),
            contested=tuple(contested),
            staled=tuple(staled),
            erased=gone,
            withheld=self.withheld,
            head=head,
        )

    def _first(self, identity: str) -> tuple[Any, ...]:
        entries = self.fresh.get(identity)
        return (0, *entries[0].order, identity) if entries else (1, identity)

    def _story(self, identity: str) -> list[MergeEntry]:
        if identity not in self.stories:
            events = self.session.events_of(identity)
            self.stories[identity] = entries_of(identity, events, self.stored.revision, self.logged)
        return self.stories[identity]

    def _all_entries(self, identity: str) -> Sequence[MergeEntry]:
        """Return the stored and the new entries of an object."""
        return [*self._story(identity), *self.fresh.get(identity, ())]

    def _revisions(self, identity: str) -> list[Object]:
        here = self.stored.get(identity)
        numbers = range(1, here.revision + 1) if here else ()
        return [item for number in numbers if (item := self.stored.revision(identity, number))]

    def _reach(self, waiting: list[str]) -> None:
        """Fold these objects, and their possible rivals, duplicates and supports."""
        while waiting:
            identity = waiting.pop()
            if identity in self.states:
                continue
            here, fresh = self.stored.get(identity), self.fresh.get(identity, ())
            # The state after a single entry is stored, so the log need not be read.
            is_one = here is not None and here.revision == 1 and not fresh
            state = here if is_one else folded(self._all_entries(identity))
            if state is None:
                continue
            if is_one and not self._may_have_met_others(here):
                self.single.add(identity)
            self.states[identity] = state
            for item in (state, here) if here else (state,):
                waiting += [one for one in _related(item, self.session.view) if one not in self.states]

    def _may_have_met_others(self, item: Object | None) -> bool:
        """Return whether an object with one entry may be a file that is on other branches than it states.

        A file written since the last merge has not met other files or readings of another copy.
        """
        if not isinstance(item, Source) or not (root := root_of(item)):
            return False
        is_new = item.id in self.incoming.touched and item.id not in self.incoming.unsettled
        return not is_new or bool(self._incoming_maps(root))

    def _incoming_maps(self, root: str) -> tuple[str, ...]:
        if self._fresh_maps is None:
            self._fresh_maps = {}
            for identity, entries in self.fresh.items():
                for item in (one.after for one in entries):
                    if isinstance(item, Source) and item.kind == MAP:
                        self._fresh_maps.setdefault(item.origin, {})[identity] = None
        return tuple(self._fresh_maps.get(root, ()))

    def _readings(self, item: Source) -> BranchReadings:
        """Return the readings of the repository that a source is a file of, or no readings."""
        key = (item.scope, root_of(item))
        if key not in self.readings:
            maps = dict.fromkeys([*self.incoming.maps.get(key[1], ()), *self._incoming_maps(key[1])])
            entries = (
                one for identity in maps if self._is_map_in(identity, *key) for one in self._all_entries(identity)
            )
            self.readings[key] = BranchReadings(entries)
        return self.readings[key]

    def _is_map_in(self, identity: str, scope: str, root: str) -> bool:
        state = folded(self._all_entries(identity)) if identity in self.fresh else self.stored.get(identity)
        return isinstance(state, Source) and (state.scope, state.origin) == (scope, root)

    def _derived(self) -> dict[str, Object]:
        """Return the folded objects with the consequences of all of them."""
        draft = Draft(view=self.session.view, policy=self.policy, now=self.now, patch_id="", objects=dict(self.states))
        self.twins = sorted(settle_together(draft, self._all_entries, self.single, self._readings).items())
        return draft.objects

    def _keep_links(self, writer: "_Writer") -> None:
        there: dict[tuple[str, str, str], bool] = {}
        for identity, entries in sorted(self.fresh.items()):
            links = [entry for entry in entries if entry.link is not None]
            for entry in links:
                if entry.link and writer.has_ends(entry.link):
                    there[entry.link] = writer.link(entry, there.get(entry.link))
            for key in {entry.link for entry in links if entry.link in there}:
                history = [*self._story(identity), *entries]
                last = max((one for one in history if one.link == key), key=lambda one: one.order)
                if key and there[key] != last.added:
                    writer.flip(key, added=last.added)
        for source, target in self.twins:
            key = (COPY, source, target)
            if not writer.has_link(key) and not there.get(key):
                writer.flip(key, added=True)


class _Writer:
    """Creates the events and writes of a merge, and stores them as one patch."""

    def __init__(self, session: Session, now: datetime, incoming: Incoming) -> None:
        self._session = session
        self._now = now
        self._incoming = incoming
        self._patch = session.fresh_id("patch")
        self._new_id = event_ids(session)
        self._start = self._head = session.head()
        self._entries: list[CopiedEvent] = []
        self._effects: list[Effect] = []
        self._written: set[str] = set()
        self._maps = {identity for maps in incoming.maps.values() for identity in maps}

    def put(
        self, identity: str, here: Object | None, fresh: Sequence[MergeEntry], final: Object, known: list[Object]
    ) -> None:
        """Write the new versions, oldest first, and then the folded state if it differs."""
        for entry in fresh:
            base = 0
            if entry.before is not None and not isinstance(entry.before, str):
                base = next((one.revision for one in reversed(known) if same_words(one, entry.before)), 0)
                if not base:
                    here = self._revision(_JOINED, here, entry.before, None)
                    known.append(here)
                    base = here.revision
            if entry.after is not None:
                after = (
                    noticed(here, entry.after)
                    if entry.kind == WITHHELD and isinstance(entry.after, Source)
                    else entry.after
                )
                here = self._revision(entry.kind, here, after, _origin(entry, base=base), entry)
                known.append(here)
        if here is None or not same_words(here, final):
            self._revision(_event_of(here, final), here, final, None)
        self._written.add(identity)

    def _revision(
        self,
        event: str,
        here: Object | None,
        item: Object,
        origin: dict[str, Any] | None,
        entry: MergeEntry | None = None,
    ) -> Object:
        revised = item.model_copy(update={"revision": here.revision + 1 if here else 1, "updated_at": self._now})
        if isinstance(revised, Source) and revised.kind == MAP:
            self._maps.add(revised.id)
        before = _state(here) if here else None
        self._add(event, revised.id, before, _state(revised), origin or {}, entry, Put(event, here, revised))
        return revised

    def has_ends(self, key: tuple[str, str, str]) -> bool:
        """Return whether both ends of a link exist."""
        return all(end in self._written or self._session.view.exists(end) for end in key[1:])

    def has_link(self, key: tuple[str, str, str]) -> bool:
        """Return whether the link exists before the merge."""
        return any((link.type, link.source, link.target) == key for link in self._session.view.links_of(key[1]))

    def link(self, entry: MergeEntry, there: bool | None) -> bool:
        """Write an added or removed link; return whether the link exists after that."""
        key = entry.link or ("", "", "")
        if (self.has_link(key) if there is None else there) == entry.added:
            self.flip(key, added=not entry.added)
        self.flip(key, added=entry.added, entry=entry)
        return entry.added

    def flip(self, key: tuple[str, str, str], *, added: bool, entry: MergeEntry | None = None) -> None:
        """Add or remove a link."""
        kind, source, target = key
        link = Link.model_construct(type=cast("LinkType", kind), source=source, target=target, patch_id=self._patch)
        origin = _origin(entry, base=0) if entry else {}
        state = {"link": list(key)}
        before, after = (None, state) if added else (state, None)
        write = Linked(link) if added else Unlinked(link)
        self._add("linked" if added else "unlinked", source, before, after, origin, entry, write)

    def note(self, event: str, target: str, entry: MergeEntry, after: dict[str, Any] | None) -> None:
        """Write an event without a change."""
        self._add(event, target, None, after, _origin(entry, base=0), entry, None)

    def close(self) -> tuple[Anchor, str]:
        """Store everything, with an event that names the heads of the merged logs."""
        if not self._entries and not self._incoming.always_recorded:
            return self._head, ""
        by = self._incoming.by
        record = PatchRecord(
            id=self._patch,
            source=by,
            reason=self._incoming.reason,
            status="applied",
            created_at=self._now,
            effects=tuple(self._effects),
            decided_at=self._now,
        )
        after: dict[str, Any] = {"parents": [_parent_data(one) for one in self._incoming.parents]}
        if self._incoming.settled_from:
            after["settled_from"] = self._incoming.settled_from
        after["maps"] = sorted(self._maps)
        if self._incoming.has_lost_map:
            after["lost_map"] = True
        self._add(MERGED, MERGE, None, after, None, None, None, patch_hash=record_hash(record))
        append(self._session, LedgerPart(self._start, tuple(self._entries)))
        keep_outcomes(self._session, Outcomes((record,)))
        return self._head, self._patch

    def _add(
        self,
        event: str,
        target: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        origin: dict[str, Any] | None,
        entry: MergeEntry | None,
        write: Put | Linked | Unlinked | None,
        *,
        patch_hash: str = "",
    ) -> None:
        by = self._incoming.by
        audit_event = AuditEvent(
            id=self._new_id(),
            seq=self._head.seq + 1,
            event_type=event,
            actor=entry.actor if entry else by.actor,
            channel=entry.channel if entry else by.channel,
            target=target,
            before=before,
            after=after,
            reason=entry.reason if entry else self._incoming.reason,
            timestamp=self._now,
            patch_id=self._patch,
            prev_hash=self._head.hash,
            patch_hash=patch_hash,
            merged=origin,
        ).sealed()
        self._head = Anchor(seq=audit_event.seq, hash=audit_event.hash)
        self._entries.append(CopiedEvent(audit_event, write))
        if write:
            self._effects.append(effect_of(write))


def _parent_data(parent: Parent) -> dict[str, Any]:
    data = {"log": parent.log, "seq": parent.head.seq, "hash": parent.head.hash}
    return {**data, "whole": True} if parent.whole else data


def _origin(entry: MergeEntry, *, base: int) -> dict[str, Any]:
    more: dict[str, Any] = {} if entry.knew is None else {"knew": list(entry.knew)}
    if entry.kind == WITHHELD and entry.after:
        more[WITHHELD] = entry.after.model_dump(mode="json")
    return {
        "event": entry.event,
        "at": render_time(entry.at),
        "seq": entry.seq,
        "base": base,
        "patch": entry.patch,
        **more,
    }


def _event_of(here: Object | None, final: Object) -> str:
    changed = here is None or here.status != final.status
    return {"contested": "contested", "stale": "staled"}.get(final.status, _JOINED) if changed else _JOINED


def _state(item: Object) -> dict[str, Any]:
    content = content_hash(stored_form(item), salt=item.salt)
    return {"revision": item.revision, "status": item.status, "hash": content}
