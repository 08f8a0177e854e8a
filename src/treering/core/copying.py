"""Copying a ledger piece by piece: what a piece holds, and how a session keeps it.

The audit log of a copy that was begun is the beginning of the log that is copied, so the copy says how far it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from treering.core.audit import Anchor, AuditEvent
from treering.core.draft import Erased, Linked, Put, Unlinked, Write
from treering.core.errors import Conflict
from treering.core.journal import Journal
from treering.core.objects import stored_form
from treering.core.patch import PatchRecord, Receipt, Remembered
from treering.core.plan import Plan
from treering.core.session import Session


@dataclass(frozen=True, slots=True)
class CopiedEvent:
    """An audit event, and what it wrote as far as that is still there.

    An erasure is told by its event alone.
    """

    event: AuditEvent
    write: Put | Linked | Unlinked | None = None


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """Events of a ledger that follow one another, behind `after`."""

    after: Anchor
    entries: tuple[CopiedEvent, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Records of patches and idempotency keys of a ledger, which its events do not hold."""

    records: tuple[PatchRecord, ...] = ()
    keys: tuple[tuple[str, Remembered], ...] = ()
    """Keys to keep, in the place of earlier ones."""
    dropped: tuple[str, ...] = ()
    """Keys that are no more."""


def append(session: Session, part: LedgerPart) -> None:
    """Keep a part of another ledger. Raises `Conflict` where the log does not end where the part begins."""
    if session.head() != part.after:
        raise Conflict(
            f"The copy does not end at event {part.after.seq} any more: somebody else wrote to it.",
            hint="Let one process at a time fill a copy; where another one does, wait for it.",
        )
    run: list[tuple[Write, AuditEvent]] = []
    for entry in part.entries:
        if write := entry.write or _erasure(session, entry.event):
            run.append((write, entry.event))
            continue
        _keep_run(session, run)
        session.keep_event(entry.event)
    _keep_run(session, run)


def keep_outcomes(session: Session, outcomes: Outcomes) -> None:
    """Keep records and idempotency keys of another ledger, in the place of those that are there."""
    if outcomes.records:
        head = session.head()
        first = outcomes.records[0]
        receipt = Receipt(
            patch_id=first.id, sequence=head.seq, committed_at=first.created_at, results=(), head=head.hash
        )
        session.keep(_plan(()), Journal((), outcomes.records, receipt))
    for key in (*outcomes.dropped, *(key for key, _ in outcomes.keys if session.remembered(key))):
        session.forget(key)
    for key, known in outcomes.keys:
        session.remember(key, known)


def _erasure(session: Session, event: AuditEvent) -> Erased | None:
    """Return the erasure an event tells of, where the copy holds the object."""
    if event.event_type != "erased" or not session.view.exists(event.target):
        return None
    # The newest revisions may never have come: they were erased at the source before they were read.
    newest = (event.before or {}).get("revision", 0)
    held = (session.view.revision(event.target, number) for number in range(newest, 0, -1))
    return next((Erased(item) for item in held if item), None)


def _keep_run(session: Session, run: list[tuple[Write, AuditEvent]]) -> None:
    """Keep writes that follow one another, and empty the list."""
    if not run:
        return
    writes, events = tuple(write for write, _ in run), tuple(event for _, event in run)
    last = events[-1]
    receipt = Receipt(
        patch_id=last.patch_id, sequence=last.seq, committed_at=last.timestamp, results=(), head=last.hash
    )
    session.keep(_plan(writes), Journal(events, (), receipt, _stored(writes)))
    run.clear()


def _plan(writes: Sequence[Write]) -> Plan:
    return Plan(tuple(writes), (), (), ())


def _stored(writes: Iterable[Write]) -> tuple[str, ...]:
    return tuple(stored_form(write.after) if isinstance(write, Put) else "" for write in writes)
