"""Merging what another copy of a space, or another space, knows: entries of both come to one state.

The state depends on the entries alone (`versions`): fields by the order of all entries, then what follows from them,
worked out anew for every object that they may touch. What is contradicted becomes contested, exact duplicates and
sources of one origin become one, what lost its support becomes stale. What was erased anywhere is erased here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import render_time
from treering.core.errors import Conflict, InvalidInput
from treering.core.objects import Knowledge, Node, Object, Source, content_hash, stored_form
from treering.core.patch import Author, Effect, Erase, Link, LinkType, Patch, PatchRecord, record_hash
from treering.core.policy import ALL_CHANNELS, Policy
from treering.core.writing.copying import CopiedEvent, LedgerPart, Outcomes, append, keep_outcomes
from treering.core.writing.draft import Draft, Linked, Put, Unlinked, View, effect_of
from treering.core.writing.entry_checks import problem_of
from treering.core.writing.integrity import COPY, GAVE_WAY, copies_of
from treering.core.writing.journal import MERGE, MERGED
from treering.core.writing.settling import settle_together
from treering.core.writing.transaction import Session, carry_out, event_ids, policy_in_force, time_in
from treering.core.writing.versions import (
    ERASED,
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

MOST_AHEAD = timedelta(days=30)
"""How far the clock of another copy may be ahead: time here goes on behind the latest that was merged."""

_JOINED = "joined"
"""The event of what an object comes to by entries of several."""
_SHOWN = 60
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Parent:
    """The head of a log that was merged, and whose it is: the id of its first event."""

    log: str
    head: Anchor
    whole: bool = False
    """Whether all that the log told of up to its head was merged: the next merge may begin behind it."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """What is to be merged."""

    entries: Sequence[MergeEntry]
    parents: tuple[Parent, ...]
    by: Author
    reason: str
    touched: frozenset[str] = frozenset()
    """Objects that were changed or erased here since the last merge."""
    unsettled: frozenset[str] = frozenset()
    """Objects whose state may have followed from what was erased since the last merge, or is erased by this one."""
    after: Anchor | None = None
    """The head of the log that `touched` was read at; `None`: it does not matter."""
    told_anyway: bool = False
    """Whether the heads of the parents are written down also where nothing new came."""
    maps: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """By scope and origin, the ids of all maps of repositories that are held here, whatever their status."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did: entries that were new, and objects that came, changed, became contested or went."""

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


def merge(session: Session, incoming: Incoming) -> Merged:
    """Merge entries in one transaction. What is known already changes nothing, however often it comes.

    Raises `Conflict` where somebody wrote since `incoming.after`, and `InvalidInput` for entries that no space made.
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
    """Raise `InvalidInput` for entries that no space could have made; `details` has what is wrong by place."""
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
    """Erase what was erased elsewhere, and the same content under another id.

    Return the ids, and those of the objects whose state may have followed from what is gone.
    """
    gone = [entry for entry in incoming.entries if entry.kind == ERASED]
    here = {entry.target: item for entry in gone if (item := session.view.get(entry.target))}
    found = {one.id: one for item in here.values() for one in (item, *_twins_of(item, session))}
    if not found:
        return (), frozenset()
    before = Draft(view=session.view, policy=policy_in_force(session), now=time_in(session), patch_id="")
    for item in list(here.values()):
        found |= {one.id: one for one in copies_of(item, before) if one.status in GAVE_WAY}
    near = {one for item in found.values() for one in _near(item, session.view)}
    near |= {one for item in found.values() for one in _resting(item.id, session.view)}
    first = next(entry for entry in gone if entry.target in here)
    patch = Patch(
        id=session.fresh_id("patch"),
        source=Author(actor=first.actor, channel=first.channel, tool=incoming.by.tool),
        operations=tuple(Erase(id=one.id, expected_revision=one.revision) for _, one in sorted(found.items())),
        reason=first.reason,
        created_at=time_in(session),
    )
    allowed = {"erasing_channels": ALL_CHANNELS, "reviewed_operations": frozenset()}
    carry_out(session, patch, policy=policy_in_force(session).model_copy(update=allowed))
    return tuple(sorted(found)), frozenset(near - found.keys())


def _twins_of(item: Object, session: Session) -> Iterator[Object]:
    """Return what holds the same content under another id."""
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
    """What the ledger holds, each thing read once: all is read before anything is written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._items: dict[str, Object | None] = {}

    def get(self, identity: str) -> Object | None:
        """Return an object as it stands."""
        if identity not in self._items:
            self._items[identity] = self._session.view.get(identity)
        return self._items[identity]

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision of an object."""
        newest = self.get(identity)
        if newest is None or newest.revision == number:
            return newest
        return self._session.view.revision(identity, number)


def _near(item: Object, view: View) -> Iterator[str]:
    """Return the objects that may be rivals, copies or supports of one."""
    match item:
        case Knowledge():
            yield from view.knowledge_by_duplicate_key(item.duplicate_key())
            if key := item.claim_key():
                yield from view.knowledge_by_claim_key(key)
            yield from item.derived_from
            yield from (ref.source_id for ref in item.evidence_refs)
            return
        case Source():
            found = view.source_by_origin(item.scope, item.origin)
        case Node():
            found = view.node_by_slug(item.scope, item.kind, item.slug)
        case _:
            return
    yield from filter(None, [found])
    yield from (end for link in view.links_of(item.id) if link.type == COPY for end in (link.source, link.target))


def _resting(identity: str, view: View) -> Iterator[str]:
    """Return the knowledge that rests on an object, or on a copy to which its evidence may have been moved."""
    copies = {end for link in view.links_of(identity) if link.type == COPY for end in (link.source, link.target)}
    for one in sorted(copies | {identity}):
        yield from view.dependents(one)


@dataclass(slots=True)
class _Work:
    """One merge under way: what is new of each object, what it comes to, and what is to be written."""

    session: Session
    held: _Read
    policy: Policy
    now: datetime
    incoming: Incoming
    fresh: dict[str, list[MergeEntry]] = field(default_factory=dict)
    stories: dict[str, list[MergeEntry]] = field(default_factory=dict)
    states: dict[str, Object] = field(default_factory=dict)
    """By id, what the entries of an object come to, but for what follows from others."""
    single: set[str] = field(default_factory=set)
    """Of these objects, those that have one entry."""
    final: dict[str, Object] = field(default_factory=dict)
    tombstones: list[MergeEntry] = field(default_factory=list)
    withheld: int = 0
    twins: list[tuple[str, str]] = field(default_factory=list)
    """What gave way to what: sources of one origin, nodes of one name."""
    logged: LoggedReadings = field(init=False)
    _fresh_maps: dict[tuple[str, str], dict[str, None]] | None = None
    readings: dict[tuple[str, str], BranchReadings] = field(default_factory=dict)
    """By scope and origin, the readings of a repository that are told of here and come."""

    def __post_init__(self) -> None:
        self.logged = LoggedReadings(self.incoming.maps, self.session.events_of)

    def read(self) -> None:
        """Read what is known of the objects that entries tell of, and keep what is new."""
        told: dict[str, list[MergeEntry]] = {}
        for entry in self.incoming.entries:
            told.setdefault(entry.target, []).append(entry)
        for target, entries in told.items():
            known = self._story(target)
            if known and known[0].kind == ERASED:
                self.withheld += sum(entry.kind != ERASED for entry in entries)
                continue
            if gone := next((entry for entry in entries if entry.kind == ERASED), None):
                self.tombstones.append(gone)
                self.withheld += sum(entry.kind != ERASED for entry in entries)
                continue
            events = {entry.event for entry in known}
            new = {entry.event: entry for entry in entries if entry.event not in events}
            if new:
                ordered = sorted(new.values(), key=lambda entry: entry.order)
                self.fresh[target] = [
                    one for one in with_bases(ordered, known) if one.after is not None or one.link is not None
                ]

    def settle(self, unsettled: Collection[str]) -> None:
        """Work out what all entries come to, for everything that may have changed.

        `unsettled`: objects whose state may have followed from what this merge erased.
        """
        waiting = sorted({*self.fresh, *self._touched(), *unsettled, *self.incoming.unsettled})
        while waiting:
            self._reach(waiting)
            self.final = self._derived()
            waiting = sorted(
                {
                    one
                    for identity, item in self.final.items()
                    if (here := self.held.get(identity)) is None or not same_words(here, item)
                    for one in _resting(identity, self.session.view)
                }
                - self.states.keys()
            )

    def _touched(self) -> Iterator[str]:
        """Return what was changed here since the last merge, and what that merge may have joined or moved with it."""
        for identity in self.incoming.touched:
            yield identity
            here = self.held.get(identity)
            if here is None or (isinstance(here, Source) and here.revision > 1):
                yield from _resting(identity, self.session.view)
            # Sources and nodes are linked to their copies; knowledge is found by what it said when they were joined.
            for item in self._revisions(identity)[:-1] if isinstance(here, Knowledge) else ():
                yield from _near(item, self.session.view)

    def keep(self, erased: tuple[str, ...]) -> Merged:
        """Write what is new, and tell what came of it."""
        writer = _Writer(self.session, self.now, self.incoming)
        created: list[str] = []
        changed: list[str] = []
        contested: list[str] = []
        staled: list[str] = []
        for entry in self.tombstones:
            writer.tell(ERASED, entry.target, entry, None)
        for identity in sorted(self.fresh.keys() | self.final.keys(), key=self._first):
            here, final = self.held.get(identity), self.final.get(identity)
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
            self.stories[identity] = entries_of(identity, events, self.held.revision, self.logged)
        return self.stories[identity]

    def _told(self, identity: str) -> Sequence[MergeEntry]:
        """Return all entries of an object, those that came with them."""
        return [*self._story(identity), *self.fresh.get(identity, ())]

    def _revisions(self, identity: str) -> list[Object]:
        here = self.held.get(identity)
        numbers = range(1, here.revision + 1) if here else ()
        return [item for number in numbers if (item := self.held.revision(identity, number))]

    def _reach(self, waiting: list[str]) -> None:
        """Fold these objects, and those that they may be rivals, duplicates or supports of."""
        while waiting:
            identity = waiting.pop()
            if identity in self.states:
                continue
            here, fresh = self.held.get(identity), self.fresh.get(identity, ())
            # One entry comes to what it left: the log need not be asked for it.
            is_one = here is not None and here.revision == 1 and not fresh
            state = here if is_one else folded(self._told(identity))
            if state is None:
                continue
            if is_one and not self._may_have_met_others(here):
                self.single.add(identity)
            self.states[identity] = state
            for item in (state, here) if here else (state,):
                waiting += [one for one in _near(item, self.session.view) if one not in self.states]

    def _may_have_met_others(self, item: Object | None) -> bool:
        """Return whether an object of one entry may be a file that stands on other branches than it says.

        A file that was written since the last merge met no other file and no reading of another copy yet.
        """
        if not isinstance(item, Source) or not (root := root_of(item)):
            return False
        is_new = item.id in self.incoming.touched and item.id not in self.incoming.unsettled
        return not is_new or bool(self._maps_that_come(item.scope, root))

    def _maps_that_come(self, scope: str, root: str) -> tuple[str, ...]:
        if self._fresh_maps is None:
            self._fresh_maps = {}
            for identity, entries in self.fresh.items():
                for item in (one.after for one in entries):
                    if isinstance(item, Source) and item.kind == MAP:
                        self._fresh_maps.setdefault((item.scope, item.origin), {})[identity] = None
        return tuple(self._fresh_maps.get((scope, root), ()))

    def _readings(self, item: Source) -> BranchReadings:
        """Return the readings of the repository that a source is a file of; none where it is of none."""
        key = (item.scope, root_of(item))
        if key not in self.readings:
            maps = dict.fromkeys([*self.incoming.maps.get(key, ()), *self._maps_that_come(*key)])
            self.readings[key] = BranchReadings(one for identity in maps for one in self._told(identity))
        return self.readings[key]

    def _derived(self) -> dict[str, Object]:
        """Return the objects that were reached, with what follows from all of them."""
        draft = Draft(view=self.session.view, policy=self.policy, now=self.now, patch_id="", objects=dict(self.states))
        self.twins = sorted(settle_together(draft, self._told, self.single, self._readings).items())
        return draft.objects

    def _keep_links(self, writer: "_Writer") -> None:
        there: dict[tuple[str, str, str], bool] = {}
        for identity, entries in sorted(self.fresh.items()):
            links = [entry for entry in entries if entry.link is not None]
            for entry in links:
                if entry.link and writer.has_ends(entry.link):
                    there[entry.link] = writer.link(entry, there.get(entry.link))
            for key in {entry.link for entry in links if entry.link in there}:
                told = [*self._story(identity), *entries]
                last = max((one for one in told if one.link == key), key=lambda one: one.order)
                if key and there[key] != last.added:
                    writer.flip(key, added=last.added)
        for source, target in self.twins:
            key = (COPY, source, target)
            if not writer.stands(key) and not there.get(key):
                writer.flip(key, added=True)


class _Writer:
    """Makes the events and writes of a merge, and keeps them as one patch."""

    def __init__(self, session: Session, now: datetime, incoming: Incoming) -> None:
        self._session = session
        self._now = now
        self._incoming = incoming
        self._patch = session.fresh_id("patch")
        self._new_id = event_ids(session)
        self._start = self._head = session.head()
        self._entries: list[CopiedEvent] = []
        self._effects: list[Effect] = []
        self._made: set[str] = set()

    def put(
        self, identity: str, here: Object | None, fresh: Sequence[MergeEntry], final: Object, known: list[Object]
    ) -> None:
        """Write versions that came, oldest first, and then what all come to, where that is another thing."""
        for entry in fresh:
            base = 0
            if entry.before is not None and not isinstance(entry.before, str):
                base = _number(known, entry.before)
                if not base:
                    here = self._revision(_JOINED, here, entry.before, None)
                    known.append(here)
                    base = here.revision
            if entry.after is not None:
                here = self._revision(entry.kind, here, entry.after, _told(entry, base=base), entry)
                known.append(here)
        if here is None or not same_words(here, final):
            self._revision(_event_of(here, final), here, final, None)
        self._made.add(identity)

    def _revision(
        self,
        event: str,
        here: Object | None,
        item: Object,
        told: dict[str, Any] | None,
        entry: MergeEntry | None = None,
    ) -> Object:
        made = item.model_copy(update={"revision": here.revision + 1 if here else 1, "updated_at": self._now})
        before = _state(here) if here else None
        self._add(event, made.id, before, _state(made), told or {}, entry, Put(event, here, made))
        return made

    def has_ends(self, key: tuple[str, str, str]) -> bool:
        """Tell whether both ends of a link are there."""
        return all(end in self._made or self._session.view.exists(end) for end in key[1:])

    def stands(self, key: tuple[str, str, str]) -> bool:
        """Tell whether the link is there."""
        return any((link.type, link.source, link.target) == key for link in self._session.view.links_of(key[1]))

    def link(self, entry: MergeEntry, there: bool | None) -> bool:
        """Write what became of a link where the entry was made; return whether the link is there after that."""
        key = entry.link or ("", "", "")
        if (self.stands(key) if there is None else there) == entry.added:
            self.flip(key, added=not entry.added)
        self.flip(key, added=entry.added, entry=entry)
        return entry.added

    def flip(self, key: tuple[str, str, str], *, added: bool, entry: MergeEntry | None = None) -> None:
        """Add or remove a link."""
        kind, source, target = key
        link = Link.model_construct(type=cast("LinkType", kind), source=source, target=target, patch_id=self._patch)
        told = _told(entry, base=0) if entry else {}
        state = {"link": list(key)}
        before, after = (None, state) if added else (state, None)
        write = Linked(link) if added else Unlinked(link)
        self._add("linked" if added else "unlinked", source, before, after, told, entry, write)

    def tell(self, event: str, target: str, entry: MergeEntry, after: dict[str, Any] | None) -> None:
        """Write an event that changes nothing here."""
        self._add(event, target, None, after, _told(entry, base=0), entry, None)

    def close(self) -> tuple[Anchor, str]:
        """Keep everything with an event that names the heads of the logs that were merged."""
        if not self._entries and not self._incoming.told_anyway:
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
        after = {"parents": [_told_of(one) for one in self._incoming.parents]}
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
        told: dict[str, Any] | None,
        entry: MergeEntry | None,
        write: Put | Linked | Unlinked | None,
        *,
        patch_hash: str = "",
    ) -> None:
        by = self._incoming.by
        made = AuditEvent(
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
            merged=told,
        ).sealed()
        self._head = Anchor(seq=made.seq, hash=made.hash)
        self._entries.append(CopiedEvent(made, write))
        if write:
            self._effects.append(effect_of(write))


def _told_of(parent: Parent) -> dict[str, Any]:
    told = {"log": parent.log, "seq": parent.head.seq, "hash": parent.head.hash}
    return {**told, "whole": True} if parent.whole else told


def _told(entry: MergeEntry, *, base: int) -> dict[str, Any]:
    knew = {} if entry.knew is None else {"knew": list(entry.knew)}
    return {
        "event": entry.event,
        "at": render_time(entry.at),
        "seq": entry.seq,
        "base": base,
        "patch": entry.patch,
        **knew,
    }


def _event_of(here: Object | None, final: Object) -> str:
    changed = here is None or here.status != final.status
    return {"contested": "contested", "stale": "staled"}.get(final.status, _JOINED) if changed else _JOINED


def _number(known: Sequence[Object], item: Object) -> int:
    return next((one.revision for one in reversed(known) if same_words(one, item)), 0)


def _state(item: Object) -> dict[str, Any]:
    content = content_hash(stored_form(item), salt=item.salt)
    return {"revision": item.revision, "status": item.status, "hash": content}
