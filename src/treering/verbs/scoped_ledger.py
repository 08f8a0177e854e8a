"""The view of the ledger for a call at one scope.

Every verb uses this view, so none can show, name or change hidden objects: their ids are treated like unknown ones.
Scopes organize; they do not protect.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import canonical_json, is_patch
from treering.core.errors import Corrupt, Denied, NotFound
from treering.core.evidence import Segment
from treering.core.objects import Object, Source
from treering.core.patch import Author, Link, Patch, PatchRecord, PatchStatus, Receipt
from treering.core.policy import Policy
from treering.core.scope import ROOT, WHOLE_SPACE, Boundary, sees
from treering.core.versions import TreeView
from treering.core.writing.draft import Linked, Put, Unlinked, Write
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import Session, missing_patch
from treering.ports.index import Change
from treering.ports.ledger import (
    TABLES,
    Altered,
    AsOf,
    Head,
    Ledger,
    ObjectRequest,
    ObjectsFound,
    Record,
    Selection,
    SourceState,
    missing_object,
    missing_segment,
)

_Result = TypeVar("_Result")
_MAX_PATCHES = 10_000
_EVENTS_PER_BATCH = 500
_SCOPED = '["/'
"""The prefix of stored idempotency keys of a scope."""


class ScopedLedger:
    """A `ports.ledger.Ledger` limited to a scope and its ancestors, and with `descend` to the scopes below it.

    A patch gets the scope of its call, which the ledger enforces (`core.writing.plan`). The audit chain, the policy,
    the change feed, exports and upkeep cover the whole space.

    With a `tree` of a repository, searches and lists (`read`, `select`, `segments`, `sources`) return its contents:
    files of other branches are left out, and files have the lines that they have in the tree. Reads by id (`get`,
    `heads`, `history`) and the audit log cover all branches.
    """

    boundary = WHOLE_SPACE
    """The scopes outside of which a caller may neither read nor name anything."""

    def __init__(self, ledger: Ledger, *, scope: str, descend: bool, tree: TreeView | None = None) -> None:
        self.whole = ledger
        self._scope = scope
        self._descend = descend
        self._tree = tree

    @property
    def tree(self) -> TreeView | None:
        """The tree that it is limited to, if any."""
        return self._tree

    @property
    def on_all_branches(self) -> "ScopedLedger":
        """The same view of all branches."""
        return type(self)(self.whole, scope=self._scope, descend=self._descend) if self._tree else self

    @property
    def policy(self) -> Policy:
        """The policy of the whole space."""
        return self.whole.policy

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
        """Apply a patch at the scope; the receipt names no object out of sight."""
        with self._hiding_ids_out_of_sight():
            receipt = self.whole.commit(self._placed(patch), idempotency_key=self._key(idempotency_key))
        return self._visible(receipt)

    def preview(self, patch: Patch) -> Plan:
        """Plan a patch at the scope; the plan shows no write out of sight."""
        with self._hiding_ids_out_of_sight():
            planned = self.whole.preview(self._placed(patch))
        known = self._ids([link for write in planned.writes for link in _ends(write)])
        made = {write.after.id for write in planned.writes if isinstance(write, Put) and self._sees(write.after.scope)}
        seen = known | made
        return Plan(
            writes=tuple(write for write in planned.writes if self._shows(write, seen)),
            results=planned.results,
            staled=tuple(identity for identity in planned.staled if identity in seen),
            contested=tuple(identity for identity in planned.contested if identity in seen),
        )

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
        """Store a patch at the scope for review."""
        with self._hiding_ids_out_of_sight():
            return self.whole.propose(self._placed(patch), idempotency_key=self._key(idempotency_key))

    def approve(self, patch_id: str, *, by: Author) -> Receipt:
        """Apply a proposed patch of the scope."""
        return self._visible(self.whole.approve(self.patch(patch_id).id, by=by))

    def reject(self, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
        """Reject a proposed patch of the scope."""
        return self.whole.reject(self.patch(patch_id).id, by=by, reason=reason)

    def revert(self, patch_id: str, *, by: Author, reason: str) -> Receipt:
        """Revert an applied patch of the scope."""
        return self._visible(self.whole.revert(self.patch(patch_id).id, by=by, reason=reason))

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object, now or as of an earlier moment. Raises `NotFound`."""
        with self._as_missing(identity):
            item = self.whole.get(identity, as_of=as_of)
        if not self._sees(item.scope):
            raise missing_object(identity)
        return item_in_tree(item, self._tree) or item

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision of an object in sight, oldest first. Raises `NotFound`."""
        with self._as_missing(identity):
            revisions = self.whole.history(identity)
        if not self._sees(revisions[-1].scope):
            raise missing_object(identity)
        return revisions

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return by id the heads of existing objects in sight."""
        found = self.whole.heads(identities, as_of=as_of, altered=altered)
        return {identity: head for identity, head in found.items() if self._sees(head.scope)}

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return a segment, even if it was removed from its source since. Raises `NotFound`."""
        if not self.heads([source_id]):
            raise missing_segment(source_id, segment_id)
        return self.whole.segment(source_id, segment_id)

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]:
        """Return by place the segments that are in their sources now."""
        heads = self.heads(source_id for source_id, _ in places)
        found = self.whole.segments([place for place in places if place[0] in heads], altered=altered)
        return _segments_in_tree(found, heads, self._tree)

    def sources_with(self, texts: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return the texts that segments of the whole space have, with the ids of their sources."""
        return self.whole.sources_with(texts)

    def read(self, requests: Sequence[ObjectRequest]) -> Sequence[ObjectsFound]:
        """Answer several requests with objects in sight."""
        found = self.whole.read([replace(request, heads=tuple(_named(request))) for request in requests])
        return [self._in_sight(each, request.as_of) for request, each in zip(requests, found, strict=True)]

    def select(self, selection: Selection, *, altered: Altered | None = None) -> Iterator[Object]:
        """Return the selected objects in sight, oldest first (by id)."""
        found = self.whole.select(replace(selection, newest=0), altered=altered)
        seen = (here for item in found if self._sees(item.scope) and (here := item_in_tree(item, self._tree)))
        return iter(deque(seen, maxlen=selection.newest)) if selection.newest else seen

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Return by origin the sources in exactly this scope at or below `root`, such as `root#…` and `root/…`."""
        return self._in_tree(self.whole.sources(scope=scope, root=root)) if self._sees(scope) else {}

    def sources_at(self, *, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Return by origin the sources in exactly this scope."""
        return self._in_tree(self.whole.sources_at(scope=scope, origins=origins)) if self._sees(scope) else {}

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes below one that contain objects."""
        return [scope for scope in self.whole.scopes(below) if self._sees(scope)]

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of objects in sight by scope, type and status, on all branches."""
        return {key: number for key, number in self.whole.counts().items() if self._sees(key[0])}

    def dependents(self, identity: str) -> Sequence[str]:
        """Return the ids of knowledge in sight whose evidence or derivation names this id."""
        return self._seen_of(self.whole.dependents(identity))

    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects in sight with a revision that names this id."""
        return self._seen_of(self.whole.referrers(identity))

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links of an object with both ends in sight."""
        with self._as_missing(identity):
            found = self.whole.links(identity, as_of=as_of)
        seen = self.heads({end for link in found for end in (link.source, link.target)}, as_of=as_of).keys()
        return [link for link in found if {link.source, link.target} <= seen]

    def patch(self, patch_id: str) -> PatchRecord:
        """Return the record of a patch of the scope. Raises `NotFound`."""
        record = self.whole.patch(patch_id)
        if not self._holds(record):
            raise missing_patch(patch_id)
        return record

    def patches(self, *, status: PatchStatus | None = None, limit: int = 100) -> Sequence[PatchRecord]:
        """Return the newest patches of the scope."""
        return [record for record in self.whole.patches(status=status, limit=_MAX_PATCHES) if self._holds(record)][
            :limit
        ]

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history: that of the whole space."""
        return self.whole.sequence(as_of)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Yield the events of the whole space about objects in sight."""
        batch: list[AuditEvent] = []
        for event in self.whole.events(after=after, limit=limit):
            batch.append(event)
            if len(batch) == _EVENTS_PER_BATCH:
                yield from self._about(batch)
                batch = []
        yield from self._about(batch)

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of the whole space, as its index covers the whole space, too."""
        return self.whole.changes(after, limit)

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object or patch."""
        return self._about(self.whole.events_of(identity))

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Verify the whole space. Raises `Corrupt`, which may name objects out of sight."""
        return self.whole.verify(anchor=anchor)

    def records(self, *, only: Collection[str] = TABLES) -> Iterator[Record]:
        """Return the records of the whole space, or of some tables."""
        return self.whole.records(only=only)

    def change_policy(self, policy: Policy, *, by: Author, reason: str = "") -> bool:  # noqa: ARG002 - as its port
        """Raise `Denied`: verbs use this view, and none may change its own rules."""
        raise Denied(
            "A verb cannot change the policy of its space.",
            hint="Let a person change the policy file and open the space with it.",
        )

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty space."""
        self.whole.load(records)

    def transact(self, work: Callable[[Session], _Result]) -> _Result:  # noqa: ARG002 - as its port
        """Raise `Denied`: only whole spaces are copied and merged."""
        raise Denied("A verb cannot copy or merge spaces.", hint="Use `treering merge` or `treering move`.")

    def compact(self) -> tuple[str, ...]:
        """Overwrite and release erased content in files; return descriptions of what is not overwritten yet."""
        return self.whole.compact()

    def out_of_reach(self) -> tuple[str, ...]:
        """Describe copies of erased data that only an administrator can remove."""
        return self.whole.out_of_reach()

    def close(self) -> None:
        """Release files and connections."""
        self.whole.close()

    def _in_sight(self, found: ObjectsFound, as_of: AsOf) -> ObjectsFound:
        heads = {identity: head for identity, head in found.heads.items() if self._sees(head.scope)}
        objects = {
            identity: here
            for identity, item in found.objects.items()
            if self._sees(item.scope) and (here := item_in_tree(item, self._tree))
        }
        segments = {place: segment for place, segment in found.segments.items() if place[0] in heads}
        seen = self._may_be_named(found.altered) if found.altered else frozenset()
        return replace(
            found,
            heads={
                identity: head
                for identity, head in heads.items()
                if self._tree is None or self._tree.stands(head.origin, head.fingerprint)
            },
            objects=objects,
            segments=_segments_in_tree(segments, heads, self._tree),
            dependents={
                identity: tuple(one for one in ids if one in objects) for identity, ids in found.dependents.items()
            },
            resting={identity: tuple(one for one in ids if one in heads) for identity, ids in found.resting.items()},
            referrers={
                identity: tuple(one for one in ids if one in objects) for identity, ids in found.referrers.items()
            },
            links=self._links_in_sight(found.links, as_of),
            altered={identity: what for identity, what in found.altered.items() if identity in seen},
        )

    def _in_tree(self, states: Mapping[str, SourceState]) -> Mapping[str, SourceState]:
        if self._tree is None:
            return states
        return {origin: state for origin, state in states.items() if self._tree.stands(origin, state.fingerprint)}

    def _links_in_sight(self, links: Mapping[str, Sequence[Link]], as_of: AsOf) -> dict[str, tuple[Link, ...]]:
        """Return by object its links with both ends in sight."""
        ends = {end for each in links.values() for link in each for end in (link.source, link.target)}
        seen = self.heads(ends, as_of=as_of, altered={}).keys() if ends else frozenset()
        return {
            identity: tuple(link for link in each if {link.source, link.target} <= seen)
            for identity, each in links.items()
        }

    def _may_be_named(self, altered: Mapping[str, str]) -> frozenset[str]:
        """Return the altered objects in sight; at the root also those whose scope cannot be read."""
        unreadable: Altered = {}
        seen = self.heads(altered, altered=unreadable).keys()
        return frozenset(seen | unreadable.keys() if self._scope == ROOT else seen)

    @contextmanager
    def _as_missing(self, identity: str) -> Iterator[None]:
        """Answer an altered object of another scope like an unknown id."""
        try:
            yield
        except Corrupt:
            if not self.heads([identity]):
                raise missing_object(identity) from None
            raise

    @contextmanager
    def _hiding_ids_out_of_sight(self) -> Iterator[None]:
        try:
            yield
        except Corrupt as error:
            named = error.details.get("id")
            if named and self._scope != ROOT and not self.heads([named]):
                raise Corrupt(
                    "The space does not verify against its audit log.",
                    hint="Run lint audit at the scope / for details.",
                ) from None
            raise

    def _placed(self, patch: Patch) -> Patch:
        return patch.model_copy(update={"scope": self._scope})

    def _key(self, key: str | None) -> str | None:
        """Return the key as the ledger stores it: each scope has its own keys."""
        bare = key is None or (self._scope == ROOT and not key.startswith(_SCOPED))
        return key if bare else canonical_json([self._scope, key])

    def _visible(self, receipt: Receipt) -> Receipt:
        seen = self._ids([*receipt.staled, *receipt.contested])
        staled = tuple(identity for identity in receipt.staled if identity in seen)
        contested = tuple(identity for identity in receipt.contested if identity in seen)
        return receipt.model_copy(update={"staled": staled, "contested": contested})

    def _shows(self, write: Write, seen: frozenset[str]) -> bool:
        ends = _ends(write)
        return seen.issuperset(ends) if isinstance(write, Linked | Unlinked) else ends[0] in seen

    def _about(self, events: Sequence[AuditEvent]) -> list[AuditEvent]:
        if self._descend and self._scope == ROOT:
            return list(events)
        targets = {event.target for event in events}
        patches = {target for target in targets if is_patch(target)}
        seen = self._ids(targets - patches) | {
            target for target in patches if self._sees(scope_of_patch(self.whole, target))
        }
        return [event for event in events if event.target in seen]

    def _holds(self, record: PatchRecord) -> bool:
        """Return whether a patch belongs to this scope. A patch without a scope belongs to the root."""
        return self._sees(record.scope) if record.scope else self._scope == ROOT

    def _ids(self, identities: Iterable[str]) -> frozenset[str]:
        return frozenset(self.heads(identities))

    def _seen_of(self, identities: Sequence[str]) -> list[str]:
        seen = self._ids(identities)
        return [identity for identity in identities if identity in seen]

    def _sees(self, scope: str) -> bool:
        return sees(self._scope, scope, descend=self._descend)


class ReadingLedger(ScopedLedger):
    """A view that refuses changes, for operations that are declared read-only."""

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:  # noqa: ARG002 - as its port
        """Raise `Denied`."""
        raise _only_reads()

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:  # noqa: ARG002 - as its port
        """Raise `Denied`."""
        raise _only_reads()

    def approve(self, patch_id: str, *, by: Author) -> Receipt:  # noqa: ARG002 - as its port
        """Raise `Denied`."""
        raise _only_reads()

    def reject(self, patch_id: str, *, by: Author, reason: str) -> PatchRecord:  # noqa: ARG002 - as its port
        """Raise `Denied`."""
        raise _only_reads()

    def revert(self, patch_id: str, *, by: Author, reason: str) -> Receipt:  # noqa: ARG002 - as its port
        """Raise `Denied`."""
        raise _only_reads()

    def load(self, records: Iterable[Record]) -> None:  # noqa: ARG002 - as its port
        """Raise `Denied`."""
        raise _only_reads()

    def compact(self) -> tuple[str, ...]:
        """Raise `Denied`."""
        raise _only_reads()


def _only_reads() -> Denied:
    return Denied("This operation is declared read-only.", hint="Declare `writes` in its rights if it must write.")


def item_in_tree(item: Object, tree: TreeView | None) -> Object | None:
    """Return an object as it is in a tree: a file with its lines there; `None` for a file that is not in it."""
    if tree is None or not isinstance(item, Source) or not tree.has(item.origin):
        return item
    contents = tree.contents(item.origin, item.fingerprint)
    if contents is None:
        return None
    if all(not segment.places for segment in item.segments):
        return item
    placed = (segment.in_contents(contents) for segment in item.segments)
    return item.model_copy(update={"segments": tuple(segment for segment in placed if segment)})


def _segments_in_tree(
    found: Mapping[tuple[str, str], Segment], heads: Mapping[str, Head], tree: TreeView | None
) -> Mapping[tuple[str, str], Segment]:
    """Return the segments that are in a tree, at their places there."""
    if tree is None:
        return found
    placed = dict[tuple[str, str], Segment]()
    for place, segment in found.items():
        head = heads.get(place[0])
        if head is None or not tree.has(head.origin):
            placed[place] = segment
        elif here := segment.in_contents(tree.contents(head.origin, head.fingerprint)):
            placed[place] = here
    return placed


def on_all_branches(ledger: Ledger) -> Ledger:
    """Return the ledger of a call, not limited to a tree."""
    return ledger.on_all_branches if isinstance(ledger, ScopedLedger) else ledger


def whole(ledger: Ledger) -> Ledger:
    """Return the ledger of the whole space behind a scoped one."""
    return ledger.whole if isinstance(ledger, ScopedLedger) else ledger


def boundary_of(ledger: Ledger) -> Boundary:
    """Return the scopes outside of which the callers of a ledger may neither read nor name anything."""
    return ledger.boundary if isinstance(ledger, ScopedLedger) else WHOLE_SPACE


def scope_of_patch(ledger: Ledger, patch_id: str) -> str:
    """Return the scope of a patch; the root if it has none or its record cannot be read."""
    with suppress(NotFound, Corrupt):
        return ledger.patch(patch_id).scope or ROOT
    return ROOT


def _named(request: ObjectRequest) -> dict[str, None]:
    """Return the ids whose scopes decide which parts of a request are in sight."""
    return dict.fromkeys((*request.heads, *(source_id for source_id, _ in request.segments)))


def _ends(write: Write) -> tuple[str, ...]:
    match write:
        case Put(after=after):
            return (after.id,)
        case Linked(link) | Unlinked(link):
            return (link.source, link.target)
        case _:
            return (write.before.id,)
