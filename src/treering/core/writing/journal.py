"""Conversion of planned writes to audit events, records of patches, and the receipt.

Pure, and shared by all ledgers, so that all of them record a change in the same way.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import canonical_json, digest
from treering.core.errors import Conflict, Corrupt
from treering.core.objects import Object, content_hash, stored_form
from treering.core.patch import (
    Author,
    Link,
    Patch,
    PatchRecord,
    Receipt,
    Remembered,
    Waiting,
    check_decision,
    check_patch,
    record_hash,
)
from treering.core.policy import Policy
from treering.core.writing.draft import Erased, Linked, Put, Unlinked, Write, effect_of
from treering.core.writing.plan import Plan

ERASED_KEY = "erased:"
"""The prefix of idempotency keys of erased content."""
POLICY = "policy"
"""The target of events about the policy. No object and no patch has this id."""
POLICY_CHANGED = "policy_changed"
MERGE = "merge"
"""The target of events about a merge (`core.writing.merging`). No object and no patch has this id."""
MERGED = "space_merged"
_ERASED = "It names an object whose content was erased."

NewId = Callable[[], str]
"""Makes the id of an audit event."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The events and records of an applied patch.

    The first `len(plan.writes)` events belong to the writes, in order; events about patches follow. `records` are the
    new and changed patches. `stored` contains for each write the stored form of its object, which its event hashes;
    empty for other writes.
    """

    events: tuple[AuditEvent, ...]
    records: tuple[PatchRecord, ...]
    receipt: Receipt
    stored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """The event and record of a proposal or a rejection."""

    event: AuditEvent
    record: PatchRecord


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log to which events are added: its head, the time of the events, and the source of their ids."""

    head: Anchor
    now: datetime
    new_id: NewId


def journal(plan: Plan, end: LogEnd, *, patch: Patch, proposals: Iterable[PatchRecord] = ()) -> Journal:
    """Return the journal of a directly applied patch.

    `proposals` are those that wait for review; they are only needed if the plan erases (see `erased_by`).
    """
    record = PatchRecord(
        id=patch.id,
        source=patch.source,
        reason=patch.reason,
        status="applied",
        created_at=patch.created_at,
        operations=plan.operations,
        effects=tuple(map(effect_of, plan.writes)),
        decided_at=end.now,
        scope=patch.scope,
    )
    return _journal(plan, record, end, proposals=proposals)


def approval(
    plan: Plan, end: LogEnd, *, record: PatchRecord, by: Author, proposals: Iterable[PatchRecord] = ()
) -> Journal:
    """Return the journal of approving a proposed patch. Its writes are the proposer's; the approval is `by`'s."""
    applied = record.model_copy(
        update={
            "status": "applied",
            "operations": plan.operations,
            "effects": tuple(map(effect_of, plan.writes)),
            "salt": "",
            "decided_by": by.actor,
            "decided_at": end.now,
        }
    )
    check_decision(by, "")
    line = _decision("approved", record, applied, by, reason="")
    return _journal(plan, applied, end, decisions=(line,), proposals=proposals)


def reversal(plan: Plan, end: LogEnd, *, record: PatchRecord, patch_id: str, by: Author, reason: str) -> Journal:
    """Return the journal of reverting a patch by the patch `patch_id`."""
    check_decision(by, reason)
    undone = record.model_copy(update={"status": "reverted", "reverted_by": patch_id})
    undoing = PatchRecord(
        id=patch_id,
        source=by,
        reason=reason,
        status="applied",
        created_at=end.now,
        effects=tuple(map(effect_of, plan.writes)),
        decided_at=end.now,
        reverts=record.id,
    )
    line = _decision("reverted", record, undone, by, reason=reason, patch_id=patch_id)
    return _journal(plan, undoing, end, others=(undone,), decisions=(line,))


def proposal(patch: Patch, end: LogEnd, *, salt: str) -> Notice:
    """Return the notice of a proposed patch. `salt` (random, hex) keys the hash of its operations."""
    record = PatchRecord(
        id=patch.id,
        source=patch.source,
        reason=patch.reason,
        status="proposed",
        created_at=patch.created_at,
        operations=patch.operations,
        scope=patch.scope,
        salt=salt,
    )
    line = _Line("proposed", patch.source, patch.id, None, _standing(record), patch.reason, patch.id)
    return Notice(_chained([line], end)[0], record)


def rejection(record: PatchRecord, end: LogEnd, *, by: Author, reason: str) -> Notice:
    """Return the notice of rejecting a proposed patch. Raises `Conflict` if it was already decided."""
    require_proposed(record)
    check_decision(by, reason)
    rejected = _rejected(record, by, end.now)
    return Notice(_chained([_decision("rejected", record, rejected, by, reason=reason)], end)[0], rejected)


def patch_of(record: PatchRecord) -> Patch:
    """Return the patch that was proposed. Raises `Conflict` if it was already decided."""
    require_proposed(record)
    fields = {"id", "source", "operations", "reason", "created_at", "scope"}
    return Patch.model_validate({name: getattr(record, name) for name in fields})


def require_new(patch: Patch, known: PatchRecord | None) -> None:
    """Raise `Conflict` if a patch with this id already exists; `known` is its record.

    Raises `InvalidInput` if its author or reason is too long.
    """
    check_patch(patch)
    if known:
        raise Conflict(
            f"Patch {patch.id} already exists and is {known.status}.",
            hint="Generate a new id; to retry a commit safely, give it an idempotency key.",
            details={"id": patch.id, "status": known.status},
        )


def first_receipt(known: Remembered | None, key: str, request: str) -> Receipt | None:
    """Return the receipt stored for an idempotency key.

    Raises `Conflict` if the key belongs to a proposal or to another request.
    """
    require_same_request(known, key, request)
    if known is None:
        return None
    if isinstance(known.outcome, Waiting):
        raise Conflict(
            f"The idempotency key {key!r} belongs to the proposal {known.patch_id}.",
            hint="Review that proposal, or use another key.",
            details={"patch_id": known.patch_id},
        )
    return known.outcome.model_copy(update={"replayed": True})


def require_same_request(known: Remembered | None, key: str, request: str) -> None:
    """Raise `Conflict` if an idempotency key was already used for another request."""
    if known and known.request and request and known.request != request:
        raise Conflict(
            f"The idempotency key {key!r} was already used for a different call.",
            hint="Repeat the call exactly as it was first made, or use another key.",
            details={"patch_id": known.patch_id},
        )


def require_proposed(record: PatchRecord) -> None:
    """Raise `Conflict` if a patch does not wait for a decision."""
    if record.status != "proposed":
        raise Conflict(
            f"{record.id} is {record.status}, not proposed.",
            hint="Only a proposed patch can be shown, approved or rejected. To show a statement: `treering show ID`.",
            details={"id": record.id, "status": record.status},
        )


def erased_by(plan: Plan) -> tuple[str, ...]:
    """Return the ids whose content a plan erases. Proposals that mention one are rejected and lose their content."""
    return tuple(write.before.id for write in plan.writes if isinstance(write, Erased))


def erased_key(key: str, known: Remembered) -> str:
    """Return the replacement for the idempotency key of a patch that touched erased content.

    The key itself may contain anything, including the erased text. The replacement still identifies a repeated call,
    which therefore does not restore the content.
    """
    return ERASED_KEY + digest(key, salt=known.patch_id)


def without_request(known: Remembered) -> Remembered:
    """Remove the digest of the request from the result of a key: it could confirm a guess of the erased content."""
    return known.model_copy(update={"request": ""})


def mentions(record: PatchRecord, identities: Iterable[str]) -> bool:
    """Return whether a proposed patch contains one of the ids anywhere in its operations."""
    text = canonical_json([operation.model_dump(mode="json") for operation in record.operations])
    return any(identity in text for identity in identities)


@dataclass(frozen=True, slots=True)
class _Line:
    """An audit event before it is chained."""

    event_type: str
    author: Author
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str
    patch_id: str
    patch_hash: str = ""


def _journal(
    plan: Plan,
    record: PatchRecord,
    end: LogEnd,
    *,
    others: tuple[PatchRecord, ...] = (),
    decisions: tuple[_Line, ...] = (),
    proposals: Iterable[PatchRecord] = (),
) -> Journal:
    erased = erased_by(plan)
    dropped = [known for known in proposals if known.id != record.id and mentions(known, erased)]
    rejected = tuple(_rejected(known, record.source, end.now) for known in dropped)
    stored = tuple(stored_form(write.after) if isinstance(write, Put) else "" for write in plan.writes)
    lines = [
        *(_written(write, form, record) for write, form in zip(plan.writes, stored, strict=True)),
        *decisions,
        *(
            _decision("rejected", old, new, record.source, reason=_ERASED, patch_id=record.id)
            for old, new in zip(dropped, rejected, strict=True)
        ),
    ]
    if lines and all(line.target != record.id for line in lines):
        lines[-1] = replace(lines[-1], patch_hash=record_hash(record))
    events = _chained(lines, end)
    last = events[-1] if events else end.head
    receipt = Receipt(
        patch_id=record.id,
        sequence=last.seq,
        committed_at=end.now,
        results=plan.results,
        staled=plan.staled,
        contested=plan.contested,
        head=last.hash,
    )
    return Journal(events, (record, *others, *rejected), receipt, stored)


def _chained(lines: Iterable[_Line], end: LogEnd) -> tuple[AuditEvent, ...]:
    events, head = [], end.head
    for line in lines:
        event = AuditEvent(
            id=end.new_id(),
            seq=head.seq + 1,
            event_type=line.event_type,
            actor=line.author.actor,
            channel=line.author.channel,
            target=line.target,
            before=line.before,
            after=line.after,
            reason=line.reason,
            timestamp=end.now,
            patch_id=line.patch_id,
            prev_hash=head.hash,
            patch_hash=line.patch_hash,
        ).sealed()
        head = Anchor(seq=event.seq, hash=event.hash)
        events.append(event)
    return tuple(events)


def _written(write: Write, stored: str, record: PatchRecord) -> _Line:
    match write:
        case Put(event, before, after):
            known = _state(before, stored_form(before)) if before else None
            return _line(event, after.id, known, _state(after, stored), record)
        case Linked(link):
            return _line("linked", link.source, None, _relation(link), record)
        case Unlinked(link):
            return _line("unlinked", link.source, _relation(link), None, record)
        case Erased(before):
            return _line("erased", before.id, _state(before, stored_form(before)), None, record)


def _line(
    event: str, target: str, before: dict[str, Any] | None, after: dict[str, Any] | None, record: PatchRecord
) -> _Line:
    return _Line(event, record.source, target, before, after, record.reason, record.id)


def _decision(
    event: str, old: PatchRecord, new: PatchRecord, by: Author, *, reason: str, patch_id: str | None = None
) -> _Line:
    return _Line(event, by, old.id, {"status": old.status}, _standing(new), reason, patch_id or old.id)


def _standing(record: PatchRecord) -> dict[str, Any]:
    return {"status": record.status, "hash": record_hash(record)}


def _state(item: Object, stored: str) -> dict[str, Any]:
    return {"revision": item.revision, "status": item.status, "hash": content_hash(stored, salt=item.salt)}


def _relation(link: Link) -> dict[str, Any]:
    return {"link": [link.type, link.source, link.target]}


def _rejected(record: PatchRecord, by: Author, now: datetime) -> PatchRecord:
    decided = {"decided_by": by.actor, "decided_at": now}
    return record.model_copy(update={"status": "rejected", "operations": (), "salt": "", **decided})


def policy_event(old: Policy, new: Policy, end: LogEnd, *, by: Author, reason: str) -> AuditEvent:
    """Return the event for a change of the policy: its author, both hashes, and the new policy."""
    check_decision(by, reason)
    before, after = {"hash": policy_hash(old)}, {"hash": policy_hash(new), "policy": _data(new)}
    return _chained([_Line(POLICY_CHANGED, by, POLICY, before, after, reason, "")], end)[0]


def policy_in(event: AuditEvent) -> Policy:
    """Return the policy of a policy event. Raises `Corrupt` if it is not valid."""
    after = event.after or {}
    try:
        return Policy.model_validate(after["policy"])
    except (KeyError, ValidationError) as error:
        raise Corrupt(
            f"The policy in audit event {event.seq} cannot be read.",
            hint="Run lint audit at the scope /; restore the space from a backup or an export made before this.",
            details={"id": POLICY, "seq": event.seq},
        ) from error


def policy_hash(policy: Policy) -> str:
    """Hash all fields of a policy."""
    return digest(canonical_json(_data(policy)))


def _data(policy: Policy) -> dict[str, Any]:
    """Return every field as JSON data, with sets sorted, so that equal policies are equal texts."""
    data = policy.model_dump(mode="json")
    return {name: sorted(value) if isinstance(value, list) else value for name, value in data.items()}
