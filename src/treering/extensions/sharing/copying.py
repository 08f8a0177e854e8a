"""Copying a ledger into another one of any technology: in parts, and compared record by record at the end."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice, repeat, zip_longest

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.errors import Conflict, Corrupt
from treering.core.patch import Link, PatchRecord, Remembered
from treering.core.writing.draft import Linked, Put, Unlinked
from treering.extensions.sharing.ledger_parts import CopiedEvent, LedgerPart, Outcomes, append, keep_outcomes
from treering.ports.ledger import Ledger, Record
from treering.ports.search import KeptVectors, Vectors

Told = Callable[[str, int, int | None], None]
"""Called with the current step, the amount done, and the total."""

PART = 200
"""Events per part: their content is held in memory at once and written in one transaction."""

_VECTORS = 500
"""Texts that are looked up together."""
_ROUNDS = 3
"""Attempts to catch up with a source that is being written."""
_PROGRESS_EVERY = 1_000
_KEYS = {"patch": "id", "receipt": "key"}
_OUTCOMES = tuple(_KEYS)
_PARSED: dict[str, type[AuditEvent] | type[PatchRecord]] = {"event": AuditEvent, "patch": PatchRecord}


class _StillWritten(Exception):
    """The source contains more than the copy: it was written meanwhile."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The content of a copy: the head of its audit log, and the number of records per table."""

    head: Anchor
    counts: dict[str, int]


def copy_ledger(source: Ledger, target: Ledger, *, told: Told, part: int = PART) -> CopyReport:
    """Copy a ledger into an empty one, or resume an interrupted copy; the source is only read.

    The copy continues after its last event, so it includes everything written meanwhile, erasures too. At the end all
    records of both are compared, and the copy is verified. Memory use is one part, plus the ids and hashes of
    `Ledger.verify`. Raises `Conflict` if the target contains other data or the source is written continuously;
    `Corrupt` if source or copy do not verify.
    """
    head = head_of_copy(source, target)
    for _ in range(_ROUNDS):
        head = append_rest(source, target, head, told=told, part=part)
        _copy_outcomes(source, target)
        try:
            counts = _compared(source, target, told)
        except _StillWritten:
            continue
        told("Verifying the copy", 0, None)
        target.verify(anchor=head)
        return CopyReport(head, counts)
    raise Conflict(
        f"The source changed during the copy: event {source.sequence()} was added.",
        hint="Stop all writers and call again; only new events are copied.",
    )


def head_of_copy(source: Ledger, target: Ledger) -> Anchor:
    """Return the head of the target. Raises `Conflict` if its log is not a prefix of the source's log."""
    head = head_of(target, target.sequence())
    if head_of(source, head.seq) != head:
        raise Conflict(
            f"The target is not empty and is not a copy of this source: its event {head.seq} differs.",
            hint="Choose a new file or another space; if the copy was written to, use it instead of the source.",
        )
    return head


def head_of(ledger: Ledger, seq: int) -> Anchor:
    """Return the head of a log as it was at a sequence number."""
    event = next(ledger.events(after=seq - 1, limit=1), None) if seq else None
    return Anchor(seq=seq, hash=event.hash) if event else Anchor(seq=0, hash=GENESIS)


def append_rest(source: Ledger, target: Ledger, head: Anchor, *, told: Told, part: int = PART) -> Anchor:
    """Append the source's records after `head` to a copy that ends there; return the new head."""
    total = source.sequence()
    while (piece := part_of(source, head, part)).entries:
        target.transact(partial(append, part=piece))
        last = piece.entries[-1].event
        head = Anchor(seq=last.seq, hash=last.hash)
        total = max(total, head.seq)
        told("Copying events", head.seq, total)
    return head


def copy_vectors(source: KeptVectors, target: Vectors, *, told: Told) -> int:
    """Copy vectors for the texts that are pending in the target; return their number."""
    copied, size = 0, _VECTORS
    while waiting := target.pending(size):
        if known := source.known([one.text_hash for one in waiting]):
            target.add(known)
            copied += len(known)
            told("Copying vectors", copied, None)
        elif len(waiting) < size:
            break
        else:
            size *= 2  # the source has no vectors for the first texts
    return copied


def part_of(ledger: Ledger, after: Anchor, limit: int) -> LedgerPart:
    """Read at most `limit` events after an anchor, and the objects and links they wrote, unless erased since."""
    events = list(ledger.events(after=after.seq, limit=limit))
    changes = {change.seq: change for change in ledger.changes(after.seq, len(events))}
    # Read last: an object that exists now existed when the changes were read.
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
    """Update the records of patches and the idempotency keys of the target to those of the source."""
    differing = _paired(source.records(only=_OUTCOMES), target.records(only=_OUTCOMES))
    while batch := list(islice(differing, PART)):
        target.transact(partial(keep_outcomes, outcomes=_outcomes(batch)))


def _outcomes(differing: Iterable[tuple[Record | None, Record | None]]) -> Outcomes:
    """Return the changes that turn records of the target into records of the source."""
    records: list[PatchRecord] = []
    keys: list[tuple[str, Remembered]] = []
    dropped: list[str] = []
    for ours, theirs in differing:
        match ours, theirs:
            case Record("patch", row), _:
                records.append(PatchRecord.model_validate(row))
            case Record("receipt", row), _:
                keys.append((row["key"], Remembered.model_validate(row["receipt"])))
            case None, Record("receipt", row):
                dropped.append(row["key"])
    return Outcomes(tuple(records), tuple(keys), tuple(dropped))


def _paired(ours: Iterator[Record], theirs: Iterator[Record]) -> Iterator[tuple[Record | None, Record | None]]:
    """Yield the differing records of two sequences ordered by table and key; `None` for a missing record."""
    sides = (zip(repeat(side), records) for side, records in enumerate((ours, theirs)))
    for _, group in groupby(heapq.merge(*sides, key=_place), key=_place):
        pair = dict(group)
        left, right = pair.get(0), pair.get(1)
        if left is None or right is None or (left != right and _content(left) != _content(right)):
            yield left, right


def _compared(source: Ledger, target: Ledger, told: Told) -> dict[str, int]:
    """Compare all records of both; return their number per table."""
    counts: dict[str, int] = {}
    for done, (ours, theirs) in enumerate(zip_longest(source.records(), target.records())):
        # Only records with different text have to be parsed.
        if ours is None or theirs is None or (ours != theirs and _content(ours) != _content(theirs)):
            raise _difference(ours, theirs)
        counts[ours.table] = counts.get(ours.table, 0) + 1
        if done % _PROGRESS_EVERY == 0:
            told("Comparing records", done, None)
    return counts


def _difference(ours: Record | None, theirs: Record | None) -> Exception:
    """Return the error for the first differing records; records written with events follow the events."""
    more = ours and ours.table == "event" and (theirs is None or theirs.table != "event")
    late = all(one is None or one.table in _KEYS for one in (ours, theirs))
    if more or late:
        return _StillWritten()
    table = (ours or theirs or Record("record", {})).table
    return Corrupt(
        f"The copy differs from the source in one {table}.",
        hint="Check both with lint audit at the scope /; delete the copy and create it again.",
    )


def _place(one: tuple[int, Record]) -> tuple[int, str]:
    """Return the place of a record of one side in the order of its sequence."""
    _, record = one
    return _OUTCOMES.index(record.table), record.row[_KEYS[record.table]]


def _content(record: Record) -> object:
    """Return the parsed content of a record, because older versions may have omitted default values."""
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
    """Return the ids of the ends of an event's link."""
    linking = _linking(event)
    return (linking.link.source, linking.link.target) if linking else ()
