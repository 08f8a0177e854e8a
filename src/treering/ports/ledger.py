"""The port of the system of record."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import render_time
from treering.core.errors import Corrupt, NotFound
from treering.core.evidence import Segment
from treering.core.filters import EVERYTHING, Filter, matches
from treering.core.objects import Activity, Knowledge, Object, Source, WorkItem, title_of
from treering.core.patch import Author, Link, Patch, PatchRecord, PatchStatus, Receipt
from treering.core.policy import Policy
from treering.core.scope import sees
from treering.core.writing.integrity import references_of
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import Session
from treering.ports.index import Change

_Place = TypeVar("_Place", bound=Hashable)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

AsOf = int | datetime | None
"""A point in a ledger's history: an audit sequence number, a time, or now."""


Altered = dict[str, str]
"""By id, the problem of an object that does not match the audit log; filled by reads that omit it."""


class noted:  # noqa: N801 - it is called like a function
    """Collect integrity errors in `altered`, if given. `Corrupt` errors that name no object still propagate.

    A class because a search enters it hundreds of times.
    """

    __slots__ = ("_altered",)

    def __init__(self, altered: Altered | None) -> None:
        """Use a mapping that collects the errors, or `None`."""
        self._altered = altered

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        """Record an error of integrity."""
        if self._altered is None or not isinstance(error, Corrupt) or not (identity := error.details.get("id")):
            return False
        self._altered[identity] = error.message
        return True


class Head(NamedTuple):
    """The metadata of an object for lists and checks, without its content."""

    id: str
    type: str
    kind: str
    status: str
    scope: str
    revision: int
    title: str
    origin_channel: str
    updated_at: datetime
    origin: str = ""
    """The origin of a source."""
    fingerprint: str = ""
    """The contents of a source (`core.versions`)."""


def head_of(item: Object) -> Head:
    """Return an object's head."""
    return Head(
        id=item.id,
        type=item.type,
        kind=item.kind,
        status=item.status,
        scope=item.scope,
        revision=item.revision,
        title=title_of(item),
        origin_channel=item.origin_channel,
        updated_at=item.updated_at,
        origin=item.origin if isinstance(item, Source) else "",
        fingerprint=item.fingerprint if isinstance(item, Source) else "",
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects to list. `where` filters by `type kind status scope title channel created_at updated_at origin`."""

    scope: str = "/"
    descend: bool = False
    types: tuple[str, ...] = ()
    """Empty: all types."""
    where: Filter = EVERYTHING
    as_of: AsOf = None
    newest: int = 0
    """Only this many objects, those with the greatest ids; 0: all."""


def selects(selection: Selection, item: Object) -> bool:
    """Return whether a selection includes an object: the reference implementation of `Ledger.select`."""
    fields = {
        "type": item.type,
        "kind": item.kind,
        "status": item.status,
        "scope": item.scope,
        "title": title_of(item),
        "channel": item.origin_channel,
        "created_at": render_time(item.created_at),
        "updated_at": render_time(item.updated_at),
        "origin": item.origin if isinstance(item, Source) else None,
    }
    return (
        sees(selection.scope, item.scope, descend=selection.descend)
        and (not selection.types or item.type in selection.types)
        and matches(selection.where, fields)
    )


def missing_object(identity: str) -> NotFound:
    """Return the error for an unknown id; also used for objects of other scopes, to reveal nothing."""
    return NotFound(
        f"There is no object {identity}.",
        hint="Reports and hits contain the ids. The object may be in another scope (name it, or set options.descend), "
        "have been erased, or not have existed at that time.",
        details={"id": identity},
    )


def missing_segment(source_id: str, segment_id: str) -> NotFound:
    """Return the error for a missing segment."""
    return NotFound(
        f"{source_id} has no segment {segment_id}.",
        hint="Take source_id and segment_id from a hit.",
        details={"source_id": source_id, "segment_id": segment_id},
    )


@dataclass(frozen=True, slots=True)
class SourceState:
    """The stored state of one origin."""

    id: str
    fingerprint: str
    status: str
    revision: int


TABLES = ("event", "revision", "segment", "link", "patch", "receipt")
"""The tables of an export, in the order of their records."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of an export: a table's name and one row of it as JSON data. All ledgers give the same records.

    In this order:
    `event` (an `AuditEvent`; by seq),
    `revision` (`id revision seq body`, the body being `core.objects.stored_form` as data; by seq, id, revision),
    `segment` (`source_id segment_id text`; by both ids),
    `link` (`type source target patch_id added removed`, the last two sequence numbers; by added and the rest),
    `patch` (a `PatchRecord`; by id), `receipt` (`key receipt`; by key).
    """

    table: str
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectRequest:
    """The objects to read in one snapshot. Unknown ids are not an error."""

    heads: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    """Ids of objects to read whole."""
    segments: tuple[tuple[str, str], ...] = ()
    """Source id and segment id of segments to read."""
    dependents: tuple[str, ...] = ()
    """Ids whose dependent knowledge is read in its current state: knowledge with them in its evidence or derivation."""
    resting: tuple[str, ...] = ()
    """The same, but only the heads are read, which costs a tenth."""
    referrers: tuple[str, ...] = ()
    """Ids whose referring objects are read, as of `as_of`: objects with them in a field at that time."""
    links: tuple[str, ...] = ()
    """Ids of objects whose links are read."""
    as_of: AsOf = None
    vanished: bool = False
    """Whether to also return segments that have vanished from their sources, in their last state."""


@dataclass(frozen=True, slots=True)
class ObjectsFound:
    """The result of one read of a ledger."""

    sequence: int
    """The audit sequence number of the snapshot."""
    policy: Policy
    """The current policy, which determines the trust of each channel."""
    heads: Mapping[str, Head] = field(default_factory=dict)
    """Heads of the requested ids, and of the sources cited by the objects."""
    objects: Mapping[str, Object] = field(default_factory=dict)
    segments: Mapping[tuple[str, str], Segment] = field(default_factory=dict)
    dependents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By requested id, ids of knowledge that cites it or is derived from it; these are in `objects`."""
    resting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same; these are in `heads`."""
    referrers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By requested id, ids of objects that refer to it in a field; these are in `objects`."""
    links: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)
    """By requested id, the links that start or end there."""
    altered: Mapping[str, str] = field(default_factory=dict)
    """By id, the problem of objects that do not match the audit log; they are omitted."""


def sources_named(items: Iterable[Object]) -> Iterator[str]:
    """Return the ids of the sources that objects cite or refer to."""
    for item in items:
        match item:
            case Knowledge():
                yield from (ref.source_id for ref in item.evidence_refs)
            case Activity() | WorkItem():
                yield from item.source_refs


class AnchorStore(Protocol):
    """Store the head of the audit log outside the ledger: in a file, a git note, on another machine.

    A hash chain alone cannot show that its end was cut off or that an old copy was restored; an anchor can.
    """

    def read(self) -> Anchor | None:
        """Return the last stored head, or `None` if there is none."""
        ...

    def write(self, anchor: Anchor) -> None:
        """Store a newer head. Called after each commit; an outdated anchor is harmless."""
        ...


class Ledger(Protocol):
    """The system of record of one space. Safe to use from many threads; any number of processes may write.

    Every read may raise `Unavailable` or `Corrupt`. Readers never wait for writers. A returned object, segment or link
    matches the audit log (as in `verify`, except the chain); otherwise `Corrupt` names its id, or, if a read takes
    `altered`, it is omitted and noted there.
    """

    @property
    def policy(self) -> Policy:
        """The current policy: the latest in the audit log, or the default if there is none.

        A write must satisfy the policy in force in its own transaction, whatever was read before.
        """
        ...

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
        """Apply a patch in one transaction, durable before this returns.

        The same key again returns the first receipt, with `replayed`. Raises the errors of `core.writing.plan.plan`,
        and `Unavailable` after a bounded wait; nothing was changed then.
        """
        ...

    def preview(self, patch: Patch) -> Plan:
        """Plan a patch against the current state without changing anything. Raises the errors of `commit`."""
        ...

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
        """Store a patch for review. It is checked against the current state and changes nothing.

        The same key again returns the record of the first patch with that key, whatever its status.
        """
        ...

    def approve(self, patch_id: str, *, by: Author) -> Receipt:
        """Apply a proposed patch. Raises `Denied` for your own proposal, `Conflict` if it is outdated."""
        ...

    def reject(self, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
        """Reject a proposed patch."""
        ...

    def revert(self, patch_id: str, *, by: Author, reason: str) -> Receipt:
        """Revert an applied patch. Raises `Conflict` with the changes since if that is not possible."""
        ...

    def change_policy(self, policy: Policy, *, by: Author, reason: str = "") -> bool:
        """Replace the policy, with an audit event that contains it; return whether it changed.

        Raises `Denied` if a channel without a person would loosen an existing policy.
        """
        ...

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object in its current or an earlier state. Raises `NotFound`."""
        ...

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision, oldest first. Raises `NotFound`."""
        ...

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return the heads of the existing objects among these ids.

        Current heads are quick to read and not verified: to show an object, read it or one of its segments.
        """
        ...

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return a segment, also one that has vanished from its source since. Raises `NotFound`."""
        ...

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]:
        """Return the given segments (source id, segment id) that are in their sources now.

        The cost depends on the segments, not on the size of their sources.
        """
        ...

    def sources_with(self, texts: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return the texts that segments have, also removed ones, each with the id of its source, in order.

        The cost depends on the texts, not on the size of the space.
        """
        ...

    def read(self, requests: Sequence[ObjectRequest]) -> Sequence[ObjectsFound]:
        """Read for several requests, in one round trip; the answers are in their order."""
        ...

    def select(self, selection: Selection, *, altered: Altered | None = None) -> Iterator[Object]:
        """Return the objects a read at the selection's scope sees, oldest first (by id)."""
        ...

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Return by origin the sources in exactly this scope at or below `root` (`root` with `#` or `/` and more)."""
        ...

    def sources_at(self, *, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Return the given sources that are in exactly this scope, by origin, as `sources` does."""
        ...

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes below a scope that contain objects of any status, in order."""
        ...

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of current objects by scope, type and status. Like current heads, it is not verified."""
        ...

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge whose evidence or derivation names this id."""
        ...

    def referrers(self, identity: str) -> Sequence[str]:
        """Return ids of objects with a revision that names this id in a field (`core.writing.integrity`), in order.

        To know whether the current revision names it, `read` the object.
        """
        ...

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        ...

    def patch(self, patch_id: str) -> PatchRecord:
        """Return the record of a patch. Raises `NotFound`."""
        ...

    def patches(self, *, status: PatchStatus | None = None, limit: int = 100) -> Sequence[PatchRecord]:
        """Return the newest patches."""
        ...

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history; 0 before the first event."""
        ...

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Return audit events in order."""
        ...

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of objects in the `limit` events after `after`, in order: the change feed.

        Each contains the object before and after; `before` is `None` for a new one. For an erased object there is only
        the erasure, without both: a reader deletes its data of that id. So applying the feed in any parts, with
        erasures in between, has the same result as applying it from the beginning.

        Events about links, patches and the policy are not changes, so the result may have fewer than `limit` entries.
        Sequence numbers have no gaps: with `upto = min(after + size, sequence())`, the changes up to `upto` are
        `changes(after, upto - after)`, and `upto` is the next `after`, whatever was returned. Raises `Corrupt` for a
        revision that does not match the audit log.
        """
        ...

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object."""
        ...

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Verify the audit chain, every revision against it, and every segment against its hash; return the head.

        Without an `anchor`, the ledger's own is used, if it has one. Raises `Corrupt` with the first mismatch.
        """
        ...

    def records(self, *, only: Collection[str] = TABLES) -> Iterator[Record]:
        """Return all records of the ledger for an export; `load` of them gives an identical ledger.

        `only` limits them to some tables; others are not read.
        """
        ...

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty ledger from an export, in one transaction. Raises `Conflict` if it is not empty.

        The policy comes from the export, unless one was set for the empty ledger, which then stays in force.
        """
        ...

    def transact(self, work: Callable[[Session], _Result]) -> _Result:
        """Call a function with a session in one transaction, which is rolled back if it raises; return its result.

        Unlike `commit`, this checks no rules: the function decides alone, as in copies and merges.
        """
        ...

    def compact(self) -> tuple[str, ...]:
        """Overwrite and release data left in files after erasure; return descriptions of data that is still pending.

        Does not raise if other processes are in the way: the rest is recorded with the erasure and done by the next
        `compact`, or when the space is next opened.
        """
        ...

    def out_of_reach(self) -> tuple[str, ...]:
        """Describe copies of erased data that only an administrator of the store can remove."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...


class _Reads(Protocol):
    """The reads of a `Ledger` that `read_one_by_one` needs."""

    @property
    def policy(self) -> Policy: ...

    def get(self, identity: str, *, as_of: AsOf = None) -> Object: ...

    def objects_at(
        self, identities: Sequence[str], as_of: AsOf, altered: Altered | None = None
    ) -> Mapping[str, Object]: ...

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]: ...

    def segment(self, source_id: str, segment_id: str) -> Segment: ...

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]: ...

    def dependents(self, identity: str) -> Sequence[str]: ...

    def referrers(self, identity: str) -> Sequence[str]: ...

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]: ...

    def sequence(self, as_of: AsOf = None) -> int: ...


def read_one_by_one(
    ledger: _Reads, request: ObjectRequest, dependents_of: Mapping[str, Sequence[str]] | None = None
) -> ObjectsFound:
    """Answer a request with a ledger's other reads: the reference implementation of `Ledger.read`.

    `dependents_of`: the dependents of all requested ids, if the ledger has read them together.
    """
    altered: Altered = {}
    if dependents_of is None:
        dependents_of = {one: ledger.dependents(one) for one in {*request.dependents, *request.resting}}
    dependents = {identity: tuple(dependents_of[identity]) for identity in request.dependents}
    resting = {identity: tuple(dependents_of[identity]) for identity in request.resting}
    objects = _objects(ledger, request.objects, request.as_of, altered)
    depending = [one for ids in dependents.values() for one in ids if one not in objects]
    objects |= _objects(ledger, depending, None, altered)
    naming = _referrers(ledger, request, altered)
    objects |= {item.id: item for items in naming.values() for item in items}
    referrers = {identity: tuple(item.id for item in items) for identity, items in naming.items()}
    links: dict[str, tuple[Link, ...]] = {}
    _collect(links, request.links, lambda one: tuple(ledger.links(one, as_of=request.as_of)), altered)
    segments: dict[tuple[str, str], Segment] = {}
    if request.as_of is None and not request.vanished:
        segments |= ledger.segments(request.segments, altered=altered)
    elif request.vanished:
        _collect(segments, request.segments, lambda place: ledger.segment(*place), altered)
    else:
        _collect(segments, request.segments, lambda place: _segment_as_of(ledger, place, request.as_of), altered)
    resting_ids = (one for ids in resting.values() for one in ids)
    wanted = dict.fromkeys((*request.heads, *resting_ids, *sources_named(objects.values())))
    heads = ledger.heads(wanted, as_of=request.as_of, altered=altered)
    return ObjectsFound(
        sequence=ledger.sequence(request.as_of),
        policy=ledger.policy,
        heads=heads,
        objects=objects,
        segments=segments,
        dependents=dependents,
        resting=resting,
        referrers=referrers,
        links=links,
        altered=altered,
    )


def _referrers(ledger: _Reads, request: ObjectRequest, altered: Altered) -> dict[str, list[Object]]:
    """Return, by requested id, the objects that refer to it in the requested state."""
    named = {identity: ledger.referrers(identity) for identity in request.referrers}
    everyone = [one for ids in named.values() for one in ids]
    referring = _objects(ledger, everyone, request.as_of, altered)
    return {
        identity: [referring[one] for one in ids if one in referring and identity in references_of(referring[one])]
        for identity, ids in named.items()
    }


def _objects(ledger: _Reads, identities: Sequence[str], as_of: AsOf, altered: Altered) -> dict[str, Object]:
    """Read objects together, in the order given, except missing and damaged ones."""
    wanted = list(dict.fromkeys(identities))
    objects = ledger.objects_at(wanted, as_of, altered) if wanted else {}
    return {identity: objects[identity] for identity in wanted if identity in objects}


def _collect(
    items: dict[_Place, _Item], places: Iterable[_Place], read: Callable[[_Place], _Item], altered: Altered
) -> None:
    """Read the items at some places into `items`, except missing and damaged ones."""
    for place in places:
        if place not in items:
            with suppress(NotFound), noted(altered):
                items[place] = read(place)


def _segment_as_of(ledger: _Reads, place: tuple[str, str], as_of: AsOf) -> Segment:
    source_id, segment_id = place
    item = ledger.get(source_id, as_of=as_of)
    for segment in item.segments if isinstance(item, Source) else ():
        if segment.segment_id == segment_id:
            return segment
    raise missing_segment(source_id, segment_id)
