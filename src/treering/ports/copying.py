"""Copying a ledger into another one, of whatever technology: in parts, and compared record by record at the end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.copying import CopiedEvent, LedgerPart, Outcomes
from treering.core.draft import Linked, Put, Unlinked
from treering.core.errors import Conflict, Corrupt
from treering.core.patch import Link, PatchRecord, Remembered
from treering.ports.ledger import Ledger, Record
from treering.ports.vectors import KeptVectors, Vectors

Told = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and of how much."""

PART = 200
"""Events in one part: all that they tell of is held in memory at once, and written in one transaction."""

_VECTORS = 500  # texts that are looked up together
_ROUNDS = 3  # times to go on behind a source that was written meanwhile
_TOLD_EVERY = 1_000
_KEYS = {"patch": "id", "receipt": "key"}
_OUTCOMES = tuple(_KEYS)
_PARSED: dict[str, type[AuditEvent] | type[PatchRecord]] = {"event": AuditEvent, "patch": PatchRecord}


class _StillWritten(Exception):
    """The source holds more than the copy: it was written since."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy holds: the head of its audit log, and the number of records per table."""

    head: Anchor
    counts: dict[str, int]


def copy_ledger(source: Ledger, target: Ledger, *, told: Told, part: int = PART) -> CopyReport:
    """Copy a ledger into an empty one, or go on with a copy that was broken off; the source is only read.

    The copy goes on behind the last event it holds, so whatever was written meanwhile comes too, erasures included. At
    the end all records of both are compared, and the copy is verified. Memory is held for one part at a time, and for
    the ids and hashes that `Ledger.verify` keeps. Raises `Conflict` where the target holds anything else, or the
    source does not stop being written; `Corrupt` where source or copy do not verify.
    """
    head = head_of_copy(source, target)
    for _ in range(_ROUNDS):
        head = append_rest(source, target, head, told=told, part=part)
        _copy_outcomes(source, target)
        try:
            counts = _compared(source, target, told)
        except _StillWritten:
            continue
        target.verify(anchor=head)
        return CopyReport(head, counts)
    raise Conflict(
        f"The source is being written: event {source.sequence()} came while it was copied.",
        hint="Let nobody write to it, and call again: only what is new is copied.",
    )


def head_of_copy(source: Ledger, target: Ledger) -> Anchor:
    """Return the head of the target. Raises `Conflict` where its log is not the beginning of the source's."""
    seq = target.sequence()
    if seq == 0:
        return Anchor(seq=0, hash=GENESIS)
    head = next(target.events(after=seq - 1, limit=1))
    same = next(source.events(after=seq - 1, limit=1), None)
    if same is None or same.hash != head.hash:
        raise Conflict(
            f"The target is not empty, and it is not a copy of this source: its event {seq} is another one.",
            hint="Name a new file or another space; where the copy was written to, use it instead of the source.",
        )
    return Anchor(seq=seq, hash=head.hash)


def append_rest(source: Ledger, target: Ledger, head: Anchor, *, told: Told, part: int = PART) -> Anchor:
    """Append to a copy that ends at `head` what the source has behind that; return the new head."""
    total = source.sequence()
    while (piece := part_of(source, head, part)).entries:
        target.append(piece)
        head = end_of(piece)
        total = max(total, head.seq)
        told("Copying events", head.seq, total)
    return head


def end_of(part: LedgerPart) -> Anchor:
    """Return the head of a log that ends with a part."""
    if not part.entries:
        return part.after
    last = part.entries[-1].event
    return Anchor(seq=last.seq, hash=last.hash)


def same_upto(source: Ledger, target: Ledger, head: Anchor, *, end: int) -> Anchor:
    """Compare what two ledgers hold behind an event, part by part; return the last event up to which they are equal.

    What the source has erased since is different in a target that has not come so far.
    """
    while head.seq < end:
        size = min(PART, end - head.seq)
        ours = part_of(source, head, size)
        if ours != part_of(target, head, size) or not ours.entries:
            break
        head = end_of(ours)
    return head


def copy_vectors(source: KeptVectors, target: Vectors, *, told: Told) -> int:
    """Give the texts that wait at the target the vectors that the source has; return their number."""
    made, size = 0, _VECTORS
    while waiting := target.pending(size):
        if known := source.known([one.text_hash for one in waiting]):
            target.add(known)
            made += len(known)
            told("Copying vectors", made, None)
        elif len(waiting) < size:
            break
        else:
            size *= 2  # those at the front have none
    return made


def part_of(ledger: Ledger, after: Anchor, limit: int) -> LedgerPart:
    """Read the events behind one, at most `limit`, and what is still there of what they wrote."""
    events = list(ledger.events(after=after.seq, limit=limit))
    changes = {change.seq: change for change in ledger.changes(after.seq, len(events))}
    # Read last: an object that is there now was there when the changes were read.
    there = ledger.heads({end for event in events for end in _ends(event)})
    entries: list[CopiedEvent] = []
    for event in events:
        change = changes.get(event.seq)
        if change and change.after:
            entries.append(CopiedEvent(event, Put(event.event_type, change.before, change.after)))
        else:
            entries.append(CopiedEvent(event, _linking(event) if there.keys() >= set(_ends(event)) else None))
    return LedgerPart(after, tuple(entries))


def _copy_outcomes(source: Ledger, target: Ledger) -> None:
    """Have the target hold the records of patches and the idempotency keys that the source holds."""
    records: list[PatchRecord] = []
    keys: list[tuple[str, Remembered]] = []
    dropped: list[str] = []
    for ours, theirs in _paired(source.records(only=_OUTCOMES), target.records(only=_OUTCOMES)):
        match ours, theirs:
            case Record("patch", row), _:
                records.append(PatchRecord.model_validate(row))
            case Record("receipt", row), _:
                keys.append((row["key"], Remembered.model_validate(row["receipt"])))
            case None, Record("receipt", row):
                dropped.append(row["key"])
        if len(records) + len(keys) + len(dropped) >= PART:
            target.keep_outcomes(Outcomes(tuple(records), tuple(keys), tuple(dropped)))
            records, keys, dropped = [], [], []
    if records or keys or dropped:
        target.keep_outcomes(Outcomes(tuple(records), tuple(keys), tuple(dropped)))


def _paired(ours: Iterator[Record], theirs: Iterator[Record]) -> Iterator[tuple[Record | None, Record | None]]:
    """Return the records that differ, from two sequences in the order of table and key; `None` where one is missing."""
    left, right = next(ours, None), next(theirs, None)
    while left or right:
        if right is None or (left and _place(left) < _place(right)):
            yield left, None
            left = next(ours, None)
        elif left is None or _place(right) < _place(left):
            yield None, right
            right = next(theirs, None)
        else:
            if _said(left) != _said(right):
                yield left, right
            left, right = next(ours, None), next(theirs, None)


def _compared(source: Ledger, target: Ledger, told: Told) -> dict[str, int]:
    """Compare all records of both; return their number per table."""
    counts: dict[str, int] = {}
    for done, (ours, theirs) in enumerate(zip_longest(source.records(), target.records())):
        if ours is None or theirs is None or _said(ours) != _said(theirs):
            raise _difference(ours, theirs)
        counts[ours.table] = counts.get(ours.table, 0) + 1
        if done % _TOLD_EVERY == 0:
            told("Comparing records", done, None)
    return counts


def _difference(ours: Record | None, theirs: Record | None) -> Exception:
    """Return what to raise for the first records that differ: what an event brings comes after the events."""
    more = ours and ours.table == "event" and (theirs is None or theirs.table != "event")
    late = all(one is None or one.table in _KEYS for one in (ours, theirs))
    if more or late:
        return _StillWritten()
    table = (ours or theirs or Record("record", {})).table
    return Corrupt(
        f"The copy differs from the source in one {table}.",
        hint="Check both with lint audit at the scope /; remove the copy, and make it anew.",
    )


def _place(record: Record) -> tuple[int, str]:
    return _OUTCOMES.index(record.table), record.row[_KEYS[record.table]]


def _said(record: Record) -> object:
    """Return what a record says. An older version may have left out what has its default."""
    if model := _PARSED.get(record.table):
        return model.model_validate(record.row)
    if record.table == "receipt":
        return record.row["key"], Remembered.model_validate(record.row["receipt"])
    return record


def _linking(event: AuditEvent) -> Linked | Unlinked | None:
    match event.event_type, event.after, event.before:
        case "linked", {"link": [kind, source, target]}, _:
            return Linked(Link(type=kind, source=source, target=target, patch_id=event.patch_id))
        case "unlinked", _, {"link": [kind, source, target]}:
            return Unlinked(Link(type=kind, source=source, target=target, patch_id=event.patch_id))
        case _:
            return None


def _ends(event: AuditEvent) -> tuple[str, ...]:
    """Return the ids of what a link that an event tells of joins."""
    linking = _linking(event)
    return (linking.link.source, linking.link.target) if linking else ()
