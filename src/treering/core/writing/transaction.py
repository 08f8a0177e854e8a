"""Writing, once for all ledgers: what a commit, a proposal, a decision and a revert mean inside a write transaction.

A ledger begins its write transaction, gives these functions a `Session` over it, and ends the transaction: with what
the session kept, or with nothing where an error came. So a ledger is a session, reads, and the transaction itself.
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

# What writing asks of a store: a `Session` over its open write transaction.


_CopiedRecord = TypeVar("_CopiedRecord", contravariant=True)


class Session(Protocol):
    """A store inside its one write transaction: what it holds now, and what it is told to keep.

    No other writer comes between. Nothing that is kept is seen by others before the transaction ends.
    """

    @property
    def view(self) -> View:
        """The objects and links as they stand."""
        ...

    @property
    def default_policy(self) -> Policy:
        """The policy that is in force until the audit log records one."""
        ...

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Read together what committing a patch will ask, where that is quicker; it is asked as always then."""
        ...

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Read together what changing these objects will ask, where that is quicker; it is asked as always then."""
        ...

    def recorded_policy(self) -> Policy | None:
        """Return the policy that the audit log recorded last, or `None`. Raises `Corrupt` where it was changed."""
        ...

    def now(self) -> datetime:
        """Return the time in UTC: by a clock that all writers of the store share, where it has one."""
        ...

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing of `kind` (`patch`, `audit_event`)."""
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
        """Return the record of a patch, or `None`. Raises `Corrupt` where it is not what the audit log says."""
        ...

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the records of the patches that wait for review, by id."""
        ...

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches that an audit event about one of these objects names."""
        ...

    def events_of(self, target: str) -> Sequence[AuditEvent]:
        """Return the audit events about one thing, oldest first."""
        ...

    def remembered(self, key: str) -> Remembered | None:
        """Return what is kept under exactly this idempotency key."""
        ...

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the idempotency keys that begin so, each with what it stands for."""
        ...

    def remember(self, key: str, known: Remembered) -> None:
        """Keep what a new idempotency key stands for."""
        ...

    def forget(self, key: str) -> None:
        """Remove an idempotency key."""
        ...

    def keep(self, planned: Plan, result: Journal) -> None:
        """Keep each write under the sequence number of its event, then all events and records of the journal."""
        ...

    def keep_notice(self, notice: Notice) -> None:
        """Keep an event about a patch, and the patch's record."""
        ...

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event that is about neither an object nor a patch."""
        ...


class ImportSession(Session, Protocol[_CopiedRecord]):
    """A store inside the transaction that fills it from an export."""

    def is_bare(self) -> bool:
        """Tell whether the audit log records nothing but the policy (the target `core.writing.journal.POLICY`)."""
        ...

    def clear(self) -> None:
        """Remove the events of a log that is bare."""
        ...

    def fill(self, records: Iterable[_CopiedRecord]) -> None:
        """Keep the records of an export, in the order they come. Raises `InvalidInput` for what is not an export."""
        ...

    def verify(self) -> Anchor:
        """Check everything that is kept against the audit log; return its head. Raises `Corrupt`."""
        ...


_Record = TypeVar("_Record")
_IMPORTER = Author(actor="treering", channel="system", tool="import")


def commit(session: Session, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
    """Apply a patch, or return the receipt that the key remembers.

    Raises what `core.writing.plan.plan` raises, `Denied` where the patch has to wait for review, and `Conflict` where
    its id or its key was used for something else.
    """
    session.read_ahead(patch, idempotency_key)
    if idempotency_key:
        known = _remembered(session, idempotency_key)
        if first := first_receipt(known, idempotency_key, patch.request):
            return first
    policy, now = policy_in_force(session), time_in(session)
    check_gate(patch, policy)
    require_new(patch, session.record(patch.id))
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    result = journal(planned, patch=patch, head=session.head(), now=now, new_id=event_ids(session), proposals=proposals)
    _keep(session, planned, result)
    if idempotency_key:
        session.remember(idempotency_key, Remembered(outcome=result.receipt, request=patch.request))
    return result.receipt


def preview(session: Session, patch: Patch) -> Plan:
    """Plan a patch; keep nothing. Raises what `core.writing.plan.plan` raises."""
    return plan(patch, session.view, policy=policy_in_force(session), now=time_in(session))


def propose(session: Session, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
    """Keep a patch for review, or return the record of the one that the key remembers."""
    session.read_ahead(patch, idempotency_key)
    if idempotency_key and (known := _remembered(session, idempotency_key)):
        require_same_request(known, idempotency_key, patch.request)
        return _record(session, known.patch_id)
    require_new(patch, session.record(patch.id))
    now = time_in(session)
    plan(patch, session.view, policy=policy_in_force(session), now=now)
    notice = proposal(patch, salt=session.fresh_salt(), head=session.head(), now=now, new_id=event_ids(session))
    session.keep_notice(notice)
    if idempotency_key:
        waiting = Remembered(outcome=Waiting(patch_id=patch.id), request=patch.request)
        session.remember(idempotency_key, waiting)
    return notice.record


def approve(session: Session, patch_id: str, *, by: Author) -> Receipt:
    """Apply a proposed patch. Raises `NotFound`, `Denied`, `Conflict`, and what `core.writing.plan.plan` raises."""
    record = _record(session, patch_id)
    patch = patch_of(record)
    session.read_ahead(patch, None)
    policy, now = policy_in_force(session), time_in(session)
    check_approval(record.source, by, policy)
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    result = approval(
        planned, record=record, by=by, head=session.head(), now=now, new_id=event_ids(session), proposals=proposals
    )
    return _keep(session, planned, result)


def reject(session: Session, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
    """Turn a proposed patch down. Raises `NotFound`, and `Conflict` where it was decided already."""
    record, now = _record(session, patch_id), time_in(session)
    notice = rejection(record, by=by, reason=reason, head=session.head(), now=now, new_id=event_ids(session))
    session.keep_notice(notice)
    return notice.record


def revert(session: Session, patch_id: str, *, by: Author, reason: str) -> Receipt:
    """Take back an applied patch. Raises `NotFound`, `Denied`, and `Conflict` saying what has changed since."""
    policy, now = policy_in_force(session), time_in(session)
    check_reverter(by, policy)
    record, undoing = _record(session, patch_id), session.fresh_id("patch")
    session.read_ahead_of(objects_of(record))
    planned = plan_revert(record, session.view, patch_id=undoing, policy=policy, now=now)
    result = reversal(
        planned,
        record=record,
        patch_id=undoing,
        by=by,
        reason=reason,
        head=session.head(),
        now=now,
        new_id=event_ids(session),
    )
    return _keep(session, planned, result)


def carry_out(session: Session, patch: Patch, *, policy: Policy) -> Receipt:
    """Apply a patch that was decided elsewhere: the policy in force here does not gate it, `policy` plans it."""
    now = time_in(session)
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    head, ids = session.head(), event_ids(session)
    return _keep(session, planned, journal(planned, patch=patch, head=head, now=now, new_id=ids, proposals=proposals))


def change_policy(session: Session, policy: Policy, *, by: Author, reason: str) -> bool:
    """Put another policy in force, and tell whether it was another. Raises `Denied` as `check_policy_change` does.

    The first policy that is set may be any: it does not loosen what somebody decided.
    """
    told = session.recorded_policy()
    if policy == (told or session.default_policy) and (told or policy == Policy()):
        return False
    if told:
        check_policy_change(told, policy, by)
    old, now = told or session.default_policy, time_in(session)
    session.keep_event(
        policy_event(old, policy, by=by, reason=reason, head=session.head(), now=now, new_id=event_ids(session))
    )
    return True


def load(session: ImportSession[_Record], records: Iterable[_Record]) -> None:
    """Fill an empty ledger from an export, and check it. A policy that was set for the empty space stays in force.

    Raises `Conflict` where it is not empty, `InvalidInput` for something else than an export, and `Corrupt`
    for one that does not verify.
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
    """Return the policy that holds in this transaction."""
    return session.recorded_policy() or session.default_policy


def missing_patch(patch_id: str) -> NotFound:
    """Return the error for an unknown id of a patch; one of another scope is answered in the same words."""
    return NotFound(f"There is no patch {patch_id}.", hint="Patch ids come from receipts and review lists.")


def time_in(session: Session) -> datetime:
    """Return the time of what is written now."""
    # Clocks of several writers differ, and may be set back; history runs forward all the same.
    now, last = session.now(), session.last_time()
    return max(now, last) if last else now


def event_ids(session: Session) -> NewId:
    """Return what makes the ids of events."""
    return partial(session.fresh_id, "audit_event")


def _record(session: Session, patch_id: str) -> PatchRecord:
    record = session.record(patch_id)
    if record is None:
        raise missing_patch(patch_id)
    return record


def _proposals(session: Session, planned: Plan) -> Sequence[PatchRecord]:
    """Return the proposals where the plan erases: those that mention what goes lose their content with it."""
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
    return next((known for kept, known in erased if kept == erased_key(key, known)), None)


def _erase_keys(session: Session, patches: set[str]) -> None:
    """Replace the idempotency keys of patches, which may hold anything, by what recognises a repetition."""
    for key, known in list(session.keys()):
        if known.patch_id in patches and not key.startswith(ERASED_KEY):
            session.forget(key)
            session.remember(erased_key(key, known), without_request(known))
