"""Verify the rows of a ledger against its audit log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from treering.core.audit import Anchor, AuditEvent, CheckedChain
from treering.core.canonical import render_time
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Knowledge, Node, Object, Source, title_of
from treering.core.patch import PatchRecord, Receipt, Remembered
from treering.core.writing.account import Account, LinkRow, account
from treering.core.writing.integrity import references_of
from treering.stores.rows.packing import unpack_model
from treering.stores.rows.read_checks import Body, Stored

ObjectRow = tuple[str | int | None, ...]
"""A row of the table `objects`, in the order of `OBJECT_COLUMNS`."""

OBJECT_COLUMNS = (
    *("id", "type", "kind", "status", "scope", "revision", "title", "channel", "created_at", "updated_at"),
    *("origin", "fingerprint", "slug", "duplicate_key", "claim_key"),
)


def current_row(item: Object) -> ObjectRow:
    """Return an object's row of the table `objects`."""
    knowledge = item if isinstance(item, Knowledge) else None
    return (
        item.id,
        item.type,
        item.kind,
        item.status,
        item.scope,
        item.revision,
        title_of(item),
        item.origin_channel,
        render_time(item.created_at),
        render_time(item.updated_at),
        item.origin if isinstance(item, Source) else None,
        item.fingerprint if isinstance(item, Source) else None,
        item.slug if isinstance(item, Node) else None,
        knowledge.duplicate_key() if knowledge else None,
        knowledge.claim_key() if knowledge else None,
    )


def targets_of(item: Knowledge) -> list[str]:
    """Return the ids that a piece of knowledge cites or is derived from, in order."""
    return sorted({*item.derived_from, *(ref.source_id for ref in item.evidence_refs)})


def place_of(segment: Segment) -> str:
    """Return the stored place of a segment: all of its data except the text."""
    return segment.model_dump_json(exclude={"excerpt"})


@dataclass(frozen=True, slots=True)
class KnownPlace:
    """The last place of a segment, and the revision that removed it, if any."""

    place: str
    vanished: int | None


@dataclass(frozen=True, slots=True)
class Placing:
    """The changes of places in a new revision of a source."""

    new: tuple[tuple[Segment, str], ...]
    """New segments with their places."""
    moved: tuple[tuple[str, str], ...]
    """Ids of segments that moved or were restored, with their places."""
    vanished: tuple[str, ...]
    """Ids of removed segments."""


def placing_of(segments: Iterable[Segment], known: Mapping[str, KnownPlace]) -> Placing:
    """Compare the segments of a new revision with the stored places."""
    new, moved, left = [], [], dict(known)
    for segment in segments:
        place, earlier = place_of(segment), left.pop(segment.segment_id, None)
        if earlier is None:
            new.append((segment, place))
        elif earlier != KnownPlace(place, None):
            moved.append((segment.segment_id, place))
    gone = tuple(segment_id for segment_id, known_place in left.items() if known_place.vanished is None)
    return Placing(tuple(new), tuple(moved), gone)


EventRow = tuple[int, str, str, str, Body]
"""The columns sequence number, target, time and hash, and the stored event."""

Stood = Mapping[str, tuple[int | None, Segment]]
"""By segment id, the revision that removed it, if any, and its last data."""


RevisionRow = tuple[str, int, int, Object]
"""The columns id, number and sequence number of a revision, and the parsed object."""


@dataclass(frozen=True, slots=True)
class ObjectRows:
    """All revisions of an object, and the rows that are read in place of them."""

    identity: str
    revisions: Sequence[RevisionRow]
    """Oldest first; empty if only the tables contain the object."""
    row: ObjectRow | None
    names: frozenset[str]
    """The ids that it refers to."""
    segments: Stood
    """All stored segments of a source."""


def by_object(revisions: Iterable[RevisionRow]) -> Iterator[list[RevisionRow]]:
    """Group revisions by object. They must be sorted by id and number."""
    return (list(group) for _, group in groupby(revisions, key=itemgetter(0)))


class LedgerRows(Protocol):
    """All rows of a ledger in one snapshot. Raises `Corrupt` for rows that cannot be parsed."""

    def event_rows(self) -> Iterator[EventRow]:
        """Return the audit log, by sequence number."""
        ...

    def link_rows(self) -> Iterable[LinkRow]:
        """Return all links, including removed ones, in the order in which they were added."""
        ...

    def patch_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return all patches by id: the columns id and status, and the stored record."""
        ...

    def keys(self, prefix: str) -> Iterable[tuple[str, Remembered]]:
        """Return the idempotency keys with a prefix, with their values."""
        ...

    def has_event(self, seq: int, digest: str) -> bool:
        """Return whether an event has this hash."""
        ...

    def objects(self) -> Iterator[ObjectRows]:
        """Return all objects with a revision or a row. Each revision is parsed once."""
        ...

    def dependencies(self) -> Iterable[tuple[str, str]]:
        """Return pairs of a target and the knowledge that depends on it, by id."""
        ...

    def count_segments(self) -> int:
        """Return the number of stored segments."""
        ...

    def stored_revisions(self) -> Iterable[Stored]:
        """Return the rows of all revisions, by sequence number."""
        ...

    def segment_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return source id, segment id and text of all segments, by both ids."""
        ...

    def receipt_rows(self) -> Iterable[tuple[str, Body]]:
        """Return all idempotency keys with their sealed values, by key."""
        ...

    def verify(self, *, anchor: Anchor | None) -> Anchor:
        """Check all rows against the audit log, and that the log contains the anchor; return the head of the log."""
        ...


def verify_rows(rows: LedgerRows, *, anchor: Anchor | None) -> Anchor:
    """Check the chain, all records against it, and the text of every segment.

    Returns the head of the log. Raises `Corrupt` for the first error.
    """
    chain = CheckedChain(_events(rows), anchor)
    logged = account(chain)
    seen: set[tuple[str, int]] = set()
    current = _Current()
    for item_rows in rows.objects():
        for identity, number, seq, item in item_rows.revisions:
            logged.check_revision(item, seq)
            seen.add((identity, number))
        current.add(item_rows)
    logged.check_complete(seen)
    logged.check_links(rows.link_rows())
    patches = _check_patches(rows, logged)
    _check_keys(rows, patches)
    current.check(rows)
    return chain.head


def wrong(what: str, identity: str) -> Corrupt:
    """Return the error for data that differs from the audit log."""
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before the damage.",
        details={"id": identity},
    )


def _events(rows: LedgerRows) -> Iterator[AuditEvent]:
    for *columns, body in rows.event_rows():
        event = unpack_model(AuditEvent, body)
        if columns != [event.seq, event.target, render_time(event.timestamp), event.hash]:
            raise wrong(f"the row of audit event {columns[0]} does not match the event", event.target)
        yield event


def _check_patches(rows: LedgerRows, told: Account) -> set[str]:
    identities: set[str] = set()
    for identity, status, body in rows.patch_rows():
        record = unpack_model(PatchRecord, body)
        told.check_patch(record)
        if (record.id, record.status) != (identity, status):
            raise wrong(f"the row of {identity} does not match its patch", identity)
        identities.add(identity)
    told.check_patches_complete(identities)
    return identities


def _check_keys(rows: LedgerRows, patches: set[str]) -> None:
    """Check the values of idempotency keys against the audit log."""
    for key, known in rows.keys(""):
        first = known.outcome
        is_logged = (
            rows.has_event(first.sequence, first.head) if isinstance(first, Receipt) else known.patch_id in patches
        )
        if not is_logged:
            raise wrong(f"the record of the idempotency key {key!r} does not match the audit log", key)


class _Current:
    """The rows that are read in place of revisions, collected object by object."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._segments = 0
        self._fault: Corrupt | None = None

    def add(self, found: ObjectRows) -> None:
        """Check one object. An error is raised at the end, because a missing revision is reported first."""
        try:
            item = _check_row(found)
            if isinstance(item, Source):
                _check_segments(found)
        except Corrupt as error:
            self._fault = self._fault or error
            return
        if isinstance(item, Knowledge):
            self._known |= {(target, item.id) for target in targets_of(item)}
        self._segments += len(found.segments)

    def check(self, rows: LedgerRows) -> None:
        """Raise the first error, or one for rows without an object. Raises `Corrupt`."""
        if self._fault:
            raise self._fault
        for target, dependent in sorted(self._known ^ set(rows.dependencies())):
            raise wrong(f"the dependency of {dependent} on {target} does not match its newest revision", dependent)
        if self._segments != rows.count_segments():
            raise wrong("a segment belongs to a source that does not exist", "segments")


def _check_row(found: ObjectRows) -> Object:
    identity, item = found.identity, found.revisions[-1][-1] if found.revisions else None
    if item is None or found.row != current_row(item):
        raise wrong(f"the row of {identity} does not match its newest revision", identity)
    if not found.names.issuperset(references_of(item)):
        raise wrong(f"the references of {identity} do not match its newest revision", identity)
    return item


def _check_segments(found: ObjectRows) -> None:
    """Check the stored places of segments."""
    if dict(found.segments) != _stood([item for *_, item in found.revisions]):
        raise wrong(f"the segments of {found.identity} do not match its revisions", found.identity)


def _stood(revisions: Sequence[Object]) -> dict[str, tuple[int | None, Segment]]:
    """Return all segments in the revisions of a source, with the revision that removed each."""
    stood: dict[str, tuple[int | None, Segment]] = {}
    for item in revisions:
        here = {segment.segment_id: segment for segment in item.segments} if isinstance(item, Source) else {}
        for name, (vanished, segment) in stood.items():
            if vanished is None and name not in here:
                stood[name] = item.revision, segment
        stood |= {name: (None, segment) for name, segment in here.items()}
    return stood
