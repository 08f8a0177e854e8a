"""Parts of a ledger, and storing them in a copy of it.

The audit log of an unfinished copy is the beginning of the original log, so the copy knows how far it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from treering.core.audit import Anchor, AuditEvent
from treering.core.errors import Conflict
from treering.core.objects import stored_form
from treering.core.patch import PatchRecord, Receipt, Remembered
from treering.core.writing.draft import Erased, Linked, Put, Unlinked, Write
from treering.core.writing.journal import Journal
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import Session


@dataclass(frozen=True, slots=True)
class CopiedEvent:
    """An audit event and its write, unless that was erased since. An erasure has no write."""

    event: AuditEvent
    write: Put | Linked | Unlinked | None = None


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """Consecutive events of a ledger that follow `after`."""

    after: Anchor
    entries: tuple[CopiedEvent, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Records of patches and idempotency keys of a ledger, which its events do not contain."""

    records: tuple[PatchRecord, ...] = ()
    keys: tuple[tuple[str, Remembered], ...] = ()
    """Keys to store; they replace earlier ones."""
    dropped: tuple[str, ...] = ()
    """Keys to remove."""


def append(session: Session, part: LedgerPart) -> None:
    """Store a part of another ledger. Raises `Conflict` if the log does not end where the part begins."""
    if session.head() != part.after:
        raise Conflict(
            f"The copy no longer ends at event {part.after.seq}: another process wrote to it.",
            hint="Let only one process fill a copy; wait until the other one has finished.",
        )
    run: list[tuple[Write, AuditEvent]] = []
    for entry in part.entries:
        if write := entry.write or _erasure(session, entry.event):
            run.append((write, entry.event))
            continue
        _store_run(session, run)
        session.keep_event(entry.event)
    _store_run(session, run)


def keep_outcomes(session: Session, outcomes: Outcomes) -> None:
    """Store records and idempotency keys of another ledger; they replace existing ones."""
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
    """Return the erasure that an event records if the copy contains the object."""
    if event.event_type != "erased" or not session.view.exists(event.target):
        return None
    # The newest revisions may be missing: they were erased at the source before they were read.
    newest = (event.before or {}).get("revision", 0)
    revisions = (session.view.revision(event.target, number) for number in range(newest, 0, -1))
    return next((Erased(item) for item in revisions if item), None)


def _store_run(session: Session, run: list[tuple[Write, AuditEvent]]) -> None:
    """Store consecutive writes, and empty the list."""
    if not run:
        return
    writes, events = tuple(write for write, _ in run), tuple(event for _, event in run)
    last = events[-1]
    receipt = Receipt(
        patch_id=last.patch_id, sequence=last.seq, committed_at=last.timestamp, results=(), head=last.hash
    )
    stored = tuple(stored_form(write.after) if isinstance(write, Put) else "" for write in writes)
    session.keep(_plan(writes), Journal(events, (), receipt, stored))
    run.clear()


def _plan(writes: Sequence[Write]) -> Plan:
    return Plan(tuple(writes), (), (), ())
