"""Writing, once for all ledgers: what a commit, a proposal, a decision and a revert mean inside a write transaction.

A ledger begins its write transaction, gives these functions a `Session` over it, and ends the transaction: with what
the session kept, or with nothing where an error came. So a ledger is a session, reads, and the transaction itself.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TypeVar

from treering.core.errors import Conflict, NotFound
from treering.core.journal import (
    ERASED_KEY,
    Journal,
    NewId,
    approval,
    erased_by,
    erased_key,
    first_receipt,
    journal,
    patch_of,
    proposal,
    rejection,
    require_new,
    require_same_request,
    reversal,
    without_request,
)
from treering.core.patch import Author, Patch, PatchRecord, Receipt, Remembered, Waiting
from treering.core.plan import Plan, plan, plan_revert
from treering.core.policy import Policy, check_approval, check_gate, check_policy_change, check_reverter
from treering.core.policy_log import policy_event
from treering.core.session import ImportSession, Session
from treering.core.undoing import objects_of

_Record = TypeVar("_Record")
_IMPORTER = Author(actor="treering", channel="system", tool="import")


def commit(session: Session, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
    """Apply a patch, or return the receipt that the key remembers.

    Raises what `core.plan.plan` raises, `Denied` where the patch has to wait for review, and `Conflict` where its id
    or its key was used for something else.
    """
    session.read_ahead(patch, idempotency_key)
    if idempotency_key:
        known = _remembered(session, idempotency_key)
        if first := first_receipt(known, idempotency_key, patch.request):
            return first
    policy, now = policy_in_force(session), _now(session)
    check_gate(patch, policy)
    require_new(patch, session.record(patch.id))
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    result = journal(
        planned, patch=patch, head=session.head(), now=now, new_id=_event_ids(session), proposals=proposals
    )
    _keep(session, planned, result)
    if idempotency_key:
        session.remember(idempotency_key, Remembered(outcome=result.receipt, request=patch.request))
    return result.receipt


def preview(session: Session, patch: Patch) -> Plan:
    """Plan a patch; keep nothing. Raises what `core.plan.plan` raises."""
    return plan(patch, session.view, policy=policy_in_force(session), now=_now(session))


def propose(session: Session, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
    """Keep a patch for review, or return the record of the one that the key remembers."""
    session.read_ahead(patch, idempotency_key)
    if idempotency_key and (known := _remembered(session, idempotency_key)):
        require_same_request(known, idempotency_key, patch.request)
        return _record(session, known.patch_id)
    require_new(patch, session.record(patch.id))
    now = _now(session)
    plan(patch, session.view, policy=policy_in_force(session), now=now)
    notice = proposal(patch, salt=session.fresh_salt(), head=session.head(), now=now, new_id=_event_ids(session))
    session.keep_notice(notice)
    if idempotency_key:
        waiting = Remembered(outcome=Waiting(patch_id=patch.id), request=patch.request)
        session.remember(idempotency_key, waiting)
    return notice.record


def approve(session: Session, patch_id: str, *, by: Author) -> Receipt:
    """Apply a proposed patch. Raises `NotFound`, `Denied`, `Conflict`, and what `core.plan.plan` raises."""
    record = _record(session, patch_id)
    patch = patch_of(record)
    session.read_ahead(patch, None)
    policy, now = policy_in_force(session), _now(session)
    check_approval(record.source, by, policy)
    planned = plan(patch, session.view, policy=policy, now=now)
    proposals = _proposals(session, planned)
    result = approval(
        planned, record=record, by=by, head=session.head(), now=now, new_id=_event_ids(session), proposals=proposals
    )
    return _keep(session, planned, result)


def reject(session: Session, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
    """Turn a proposed patch down. Raises `NotFound`, and `Conflict` where it was decided already."""
    record, now = _record(session, patch_id), _now(session)
    notice = rejection(record, by=by, reason=reason, head=session.head(), now=now, new_id=_event_ids(session))
    session.keep_notice(notice)
    return notice.record


def revert(session: Session, patch_id: str, *, by: Author, reason: str) -> Receipt:
    """Take back an applied patch. Raises `NotFound`, `Denied`, and `Conflict` saying what has changed since."""
    policy, now = policy_in_force(session), _now(session)
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
        new_id=_event_ids(session),
    )
    return _keep(session, planned, result)


def change_policy(session: Session, policy: Policy, *, by: Author, reason: str) -> bool:
    """Put another policy in force, and tell whether it was another. Raises `Denied` as `check_policy_change` does.

    The first policy that is set may be any: it does not loosen what somebody decided.
    """
    told = session.told_policy()
    if policy == (told or session.default_policy) and (told or policy == Policy()):
        return False
    if told:
        check_policy_change(told, policy, by)
    old, now = told or session.default_policy, _now(session)
    session.keep_event(
        policy_event(old, policy, by=by, reason=reason, head=session.head(), now=now, new_id=_event_ids(session))
    )
    return True


def load(session: ImportSession[_Record], records: Iterable[_Record]) -> None:
    """Fill an empty ledger from an export, and check it. A policy that was set for the empty space stays in force.

    Raises `Conflict` where it is not empty, `InvalidInput` for something else than an export, and `Corrupt`
    for one that does not verify.
    """
    if not session.is_bare():
        raise Conflict("This space is not empty.", hint="Import into a new space.")
    held = session.told_policy()
    session.clear()
    session.fill(records)
    session.verify()
    if held:
        change_policy(session, held, by=_IMPORTER, reason="The policy of the space that was filled from an export.")


def policy_in_force(session: Session) -> Policy:
    """Return the policy that holds in this transaction."""
    return session.told_policy() or session.default_policy


def missing_patch(patch_id: str) -> NotFound:
    """Return the error for the id of a patch that nobody made; one of another scope is answered in the same words."""
    return NotFound(f"There is no patch {patch_id}.", hint="Patch ids come from receipts and review lists.")


def _now(session: Session) -> datetime:
    # Clocks of several writers differ, and may be set back; history runs forward all the same.
    now, last = session.now(), session.last_time()
    return max(now, last) if last else now


def _event_ids(session: Session) -> NewId:
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
