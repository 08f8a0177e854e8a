"""Checking a ledger's rows against its own audit log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from treering.core.account import Account, LinkRow, account
from treering.core.audit import Anchor, AuditEvent, verify_chain
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import PatchRecord, Receipt, Remembered
from treering.core.references import references_of
from treering.core.times import render_time
from treering.edges.ledger_rows.current import ObjectRow, current_row, targets_of
from treering.edges.ledger_rows.packing import unpack_model
from treering.edges.ledger_rows.read_checks import Body

EventRow = tuple[int, str, str, str, Body]
"""Sequence number, target, time and hash as they stand in columns, and the stored event."""

Stood = Mapping[str, tuple[int | None, Segment]]
"""By id of a segment, the revision it vanished with, if it did, and the segment as it stands or stood last."""


@dataclass(frozen=True, slots=True)
class CurrentRows:
    """What the tables that are read instead of the revisions say of an object, and its newest revision."""

    identity: str
    item: Object | None
    row: ObjectRow | None
    names: frozenset[str] | None
    """What it is noted to refer to; `None` where this is not kept."""
    segments: Stood
    """Of a source, all segments that are kept."""


class VerifiedRows(Protocol):
    """The rows of a ledger, all of one moment. What cannot be read raises `Corrupt`."""

    def event_rows(self) -> Iterator[EventRow]:
        """Return the audit log, by sequence number."""
        ...

    def revision_items(self) -> Iterator[tuple[str, int, int, Object]]:
        """Return every revision: id, number and the sequence number of its event as they stand in columns, and it."""
        ...

    def link_rows(self) -> Iterable[LinkRow]:
        """Return all links, also those that were removed."""
        ...

    def patch_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return all patches: id and status as they stand in columns, and the stored record."""
        ...

    def keys(self, prefix: str) -> Iterable[tuple[str, Remembered]]:
        """Return the idempotency keys that begin so, each with what it stands for."""
        ...

    def has_event(self, seq: int, digest: str) -> bool:
        """Tell whether the row of an event has this hash."""
        ...

    def current(self) -> Iterator[CurrentRows]:
        """Return all objects that have a revision or a row."""
        ...

    def revisions(self, identity: str) -> Sequence[Object]:
        """Return every revision of an object, oldest first."""
        ...

    def dependencies(self) -> Iterable[tuple[str, str]]:
        """Return what rests on what: the id of a target, and that of the knowledge that names it."""
        ...

    def count_segments(self) -> int:
        """Return how many segments are kept."""
        ...


def verify_rows(rows: VerifiedRows, *, anchor: Anchor | None) -> Anchor:
    """Check the chain, that the ledger holds exactly what the log tells of, and every segment's words.

    Returns the head of the log. Raises `Corrupt` naming the first thing that does not verify.
    """
    head = verify_chain(_events(rows), anchor=anchor)
    told = account(_events(rows))
    seen: set[tuple[str, int]] = set()
    for identity, number, seq, item in rows.revision_items():
        told.check_revision(item, seq)
        seen.add((identity, number))
    told.check_complete(seen)
    told.check_links(rows.link_rows())
    patches = _check_patches(rows, told)
    _check_keys(rows, patches)
    _check_current(rows)
    return head


def wrong(what: str, identity: str) -> Corrupt:
    """Return the error for something that is not what the audit log says."""
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )


def _events(rows: VerifiedRows) -> Iterator[AuditEvent]:
    for *columns, body in rows.event_rows():
        event = unpack_model(AuditEvent, body)
        if columns != [event.seq, event.target, render_time(event.timestamp), event.hash]:
            raise wrong(f"the row of audit event {columns[0]} does not agree with it", event.target)
        yield event


def _check_patches(rows: VerifiedRows, told: Account) -> set[str]:
    found: set[str] = set()
    for identity, status, body in rows.patch_rows():
        record = unpack_model(PatchRecord, body)
        told.check_patch(record)
        if (record.id, record.status) != (identity, status):
            raise wrong(f"the row of {identity} does not agree with its patch", identity)
        found.add(identity)
    told.check_patches_complete(found)
    return found


def _check_keys(rows: VerifiedRows, patches: set[str]) -> None:
    """Check what idempotency keys stand for: each row in itself, and what it says of the log."""
    for key, known in rows.keys(""):
        first = known.outcome
        told = rows.has_event(first.sequence, first.head) if isinstance(first, Receipt) else known.patch_id in patches
        if not told:
            raise wrong(f"what the idempotency key {key!r} stands for is not what the audit log says", key)


def _check_current(rows: VerifiedRows) -> None:
    """Check the tables that are read instead of the revisions."""
    known: set[tuple[str, str]] = set()
    segments = 0
    for found in rows.current():
        item = _check_row(found)
        if isinstance(item, Knowledge):
            known |= {(target, item.id) for target in targets_of(item)}
        if isinstance(item, Source):
            _check_segments(rows, item, found.segments)
            segments += len(found.segments)
    for target, dependent in sorted(known ^ set(rows.dependencies())):
        raise wrong(f"that {dependent} rests on {target} does not agree with its newest revision", dependent)
    if segments != rows.count_segments():
        raise wrong("a segment belongs to a source that does not exist", "segments")


def _check_row(found: CurrentRows) -> Object:
    identity, item = found.identity, found.item
    if item is None or found.row != current_row(item):
        raise wrong(f"the row of {identity} does not agree with its newest revision", identity)
    if found.names is not None and not found.names.issuperset(references_of(item)):
        raise wrong(f"what {identity} refers to does not agree with its newest revision", identity)
    return item


def _check_segments(rows: VerifiedRows, item: Source, found: Stood) -> None:
    """Check where segments stand now, or stood last."""
    revisions = rows.revisions(item.id) if item.revision > 1 else [item]
    if dict(found) != _stood(revisions):
        raise wrong(f"the segments of {item.id} do not agree with its revisions", item.id)


def _stood(revisions: Sequence[Object]) -> dict[str, tuple[int | None, Segment]]:
    """Return all segments that the revisions of a source have or had, and the revision each vanished with."""
    stood: dict[str, tuple[int | None, Segment]] = {}
    for item in revisions:
        here = {segment.segment_id: segment for segment in item.segments} if isinstance(item, Source) else {}
        for name, (vanished, segment) in stood.items():
            if vanished is None and name not in here:
                stood[name] = item.revision, segment
        stood |= {name: (None, segment) for name, segment in here.items()}
    return stood
