"""Transactions, once for all ledgers: commit, propose, decide and revert inside a write transaction.

A ledger begins its write transaction, passes a `Session` over it to these functions, and commits it, or rolls it back
after an error. So a ledger consists of a session, reads, and the transaction itself.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

from treering.core.audit import Anchor, AuditEvent
from treering.core.errors import Conflict, NotFound
from treering.core.patch import Author, Patch, PatchRecord, Receipt, Remembered, Waiting
from treering.core.policy import Policy, check_approval, check_gate, check_policy_change, check_reverter
from treering.core.writing.draft import View
from treering.core.writing.journal import (
    ERASED_KEY,
    Journal,
    LogEnd,
    NewId,
    Notice,
    approval,
    erased_by,
    erased_key,
    first_receipt,
    journal,
    patch_of,
    policy_event,
    proposal,
    rejection,
    require_new,
    require_same_request,
    reversal,
    without_request,
)
from treering.core.writing.plan import Plan, objects_of, plan, plan_revert

_CopiedRecord = TypeVar("_CopiedRecord", contravariant=True)
_Record = TypeVar("_Record")
_IMPORTER = Author(actor="treering", channel="system", tool="import")


class Session(Protocol):
    """A store inside its only write transaction: its current content, and methods to store more.

    There is no other writer, and others see nothing before the transaction ends.
    """

    @property
    def view(self) -> View:
        """The current objects and links."""
        ...

    @property
    def default_policy(self) -> Policy:
        """The policy in force until the audit log records one."""
        ...

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Prefetch everything that committing a patch will read, if that is quicker. Later reads are unchanged."""
        ...

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Prefetch everything that changing these objects will read, if that is quicker."""
        ...

    def recorded_policy(self) -> Policy | None:
        """Return the policy last recorded in the audit log, or `None`. Raises `Corrupt` if it was changed."""
        ...

    def now(self) -> datetime:
        """Return the time in UTC, from a clock shared by all writers of the store if there is one."""
        ...

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new object of `kind` (`patch`, `audit_event`)."""
        ...

    def fresh_salt(self) -> str:
        """Make a salt: 16 random bytes, in hex."""
        ...

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        ...

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        ...

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`. Raises `Corrupt` if it does not match the audit log."""
        ...

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the records of the patches that wait for review, by id."""
        ...

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches in audit events about any of these objects."""
        ...

    def events_of(self, target: str) -> Sequence[AuditEvent]:
        """Return the audit events about a target, oldest first."""
        ...

    def remembered(self, key: str) -> Remembered | None:
        """Return the result stored for exactly this idempotency key."""
        ...

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the idempotency keys with this prefix, with their results."""
        ...

    def remember(self, key: str, known: Remembered) -> None:
        """Store the result of a new idempotency key."""
        ...

    def forget(self, key: str) -> None:
        """Remove an idempotency key."""
        ...

    def keep(self, planned: Plan, result: Journal) -> None:
        """Store each write under the sequence number of its event, then all events and records of the journal."""
        ...

    def keep_notice(self, notice: Notice) -> None:
        """Store an event about a patch, and the patch's record."""
        ...

    def keep_event(self, event: AuditEvent) -> None:
        """Store an event that is about neither an object nor a patch."""
        ...


class ImportSession(Session, Protocol[_CopiedRecord]):
    """A store inside the transaction that fills it from an export."""

    def is_bare(self) -> bool:
        """Return whether the audit log only records the policy (the target `core.writing.journal.POLICY`)."""
        ...

    def clear(self) -> None:
        """Remove the events of a bare log."""
        ...

    def fill(self, records: Iterable[_CopiedRecord]) -> None:
        """Store the records of an export, in order. Raises `InvalidInput` for other data."""
        ...

    def verify(self) -> Anchor:
        """Check all stored content against the audit log; return its head. Raises `Corrupt`."""
        ...


def commit(session: Session, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
    """Apply a patch, or return the receipt stored for the key.

    Raises the errors of `core.writing.plan.plan`, `Denied` if the patch must wait for review, and `Conflict` if its id
    or its key was already used for something else.
    """
    session.read_ahead(patch, idempotency_key)
    if idempotency_key:
        known = _remembered(session, idempotency_key)
        if first := first_receipt(known, idempotency_key, patch.request):
            return first
    policy, now = policy_in_force(session), time_in(session)
    check_gate(patch, policy)
    require_new(patch, session.record(patch.id))
    receipt = _apply(session, patch, policy, now)
    if idempotency_key:
        session.remember(idempotency_key, Remembered(outcome=receipt, request=patch.request))
    return receipt


def preview(session: Session, patch: Patch) -> Plan:
    """Plan a patch without storing anything. Raises the errors of `core.writing.plan.plan`."""
    return plan(patch, session.view, policy=policy_in_force(session), now=time_in(session))


def propose(session: Session, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
    """Store a patch for review, or return the record of the patch stored for the key."""
    session.read_ahead(patch, idempotency_key)
    if idempotency_key and (known := _remembered(session, idempotency_key)):
        require_same_request(known, idempotency_key, patch.request)
        return _record(session, known.patch_id)
    require_new(patch, session.record(patch.id))
    now = time_in(session)
    plan(patch, session.view, policy=policy_in_force(session), now=now)
    notice = proposal(patch, _end(session, now), salt=session.fresh_salt())
    session.keep_notice(notice)
    if idempotency_key:
        waiting = Remembered(outcome=Waiting(patch_id=patch.id), request=patch.request)
        session.remember(idempotency_key, waiting)
    return notice.record


def approve(session: Session, patch_id: str, *, by: Author) -> Receipt:
    """Apply a proposed patch. Raises `NotFound`, `Denied`, `Conflict`, and the errors of `core.writing.plan.plan`."""
    record = _record(session, patch_id)
    patch = patch_of(record)
    session.read_ahead(patch, None)
    policy, now = policy_in_force(session), time_in(session)
    check_approval(record.source, by, policy)
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    return _keep(session, planned, approval(planned, _end(session, now), record=record, by=by, proposals=proposals))


def reject(session: Session, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
    """Reject a proposed patch. Raises `NotFound`, and `Conflict` if it was already decided."""
    record, now = _record(session, patch_id), time_in(session)
    notice = rejection(record, _end(session, now), by=by, reason=reason)
    session.keep_notice(notice)
    return notice.record


def revert(session: Session, patch_id: str, *, by: Author, reason: str) -> Receipt:
    """Revert an applied patch. Raises `NotFound`, `Denied`, and `Conflict` listing later changes."""
    policy, now = policy_in_force(session), time_in(session)
    check_reverter(by, policy)
    record, undoing = _record(session, patch_id), session.fresh_id("patch")
    session.read_ahead_of(objects_of(record))
    planned = plan_revert(record, session.view, patch_id=undoing, policy=policy, now=now)
    end = _end(session, now)
    return _keep(session, planned, reversal(planned, end, record=record, patch_id=undoing, by=by, reason=reason))


def carry_out(session: Session, patch: Patch, *, policy: Policy) -> Receipt:
    """Apply a patch that was decided elsewhere: it is planned with `policy`, and needs no review here."""
    return _apply(session, patch, policy, time_in(session))


def change_policy(session: Session, policy: Policy, *, by: Author, reason: str) -> bool:
    """Replace the policy; return whether it changed. Raises the errors of `check_policy_change`.

    The first recorded policy may be any, because it does not loosen a decision of the owner.
    """
    recorded = session.recorded_policy()
    if policy == (recorded or session.default_policy) and (recorded or policy == Policy()):
        return False
    if recorded:
        check_policy_change(recorded, policy, by)
    old, end = recorded or session.default_policy, _end(session, time_in(session))
    session.keep_event(policy_event(old, policy, end, by=by, reason=reason))
    return True


def load(session: ImportSession[_Record], records: Iterable[_Record]) -> None:
    """Fill an empty ledger from an export, and verify it. A policy set for the empty space stays in force.

    Raises `Conflict` if the space is not empty, `InvalidInput` for other data than an export, and `Corrupt` for an
    export that does not verify.
    """
    if not session.is_bare():
        raise Conflict("This space is not empty.", hint="Import into a new space.")
    held = session.recorded_policy()
    session.clear()
    session.fill(records)
    session.verify()
    if held:
        change_policy(session, held, by=_IMPORTER, reason="The policy of the space that was filled from an export.")


def policy_in_force(session: Session) -> Policy:
    """Return the policy in force in this transaction."""
    return session.recorded_policy() or session.default_policy


def missing_patch(patch_id: str) -> NotFound:
    """Return the error for an unknown id of a patch; also used for patches of other scopes, to reveal nothing."""
    return NotFound(f"There is no patch {patch_id}.", hint="Patch ids come from receipts and review lists.")


def time_in(session: Session) -> datetime:
    """Return the time for new events."""
    # Clocks of several writers differ, and may be set back, but the times of a log never decrease.
    now, last = session.now(), session.last_time()
    return max(now, last) if last else now


def event_ids(session: Session) -> NewId:
    """Return the function that makes the ids of events."""
    return partial(session.fresh_id, "audit_event")


def _end(session: Session, now: datetime) -> LogEnd:
    return LogEnd(session.head(), now, event_ids(session))


def _apply(session: Session, patch: Patch, policy: Policy, now: datetime) -> Receipt:
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    return _keep(session, planned, journal(planned, _end(session, now), patch=patch, proposals=proposals))


def _record(session: Session, patch_id: str) -> PatchRecord:
    record = session.record(patch_id)
    if record is None:
        raise missing_patch(patch_id)
    return record


def _proposals(session: Session, planned: Plan) -> Sequence[PatchRecord]:
    """Return the proposals if the plan erases, because those that mention erased objects are rejected."""
    return session.proposals() if erased_by(planned) else ()


def _keep(session: Session, planned: Plan, result: Journal) -> Receipt:
    session.keep(planned, result)
    if erased := erased_by(planned):
        patches = {record.id for record in result.records} | session.patches_about(erased)
        _erase_keys(session, patches)
    return result.receipt


def _remembered(session: Session, key: str) -> Remembered | None:
    if known := session.remembered(key):
        return known
    erased = session.keys(ERASED_KEY)
    return next((known for stored, known in erased if stored == erased_key(key, known)), None)


def _erase_keys(session: Session, patches: set[str]) -> None:
    """Replace the idempotency keys of patches, which may contain anything, by their hashes."""
    for key, known in list(session.keys()):
        if known.patch_id in patches and not key.startswith(ERASED_KEY):
            session.forget(key)
            session.remember(erased_key(key, known), without_request(known))
