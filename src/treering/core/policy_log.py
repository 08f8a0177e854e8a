"""The policy in the audit log: the event that puts one in force, and the policy that an event tells of.

The event holds the policy itself, so it is verified, exported and copied with the log, and nothing else has to be.
"""

from datetime import datetime
from typing import Any

from pydantic import ValidationError

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import canonical_json, digest
from treering.core.errors import Corrupt
from treering.core.journal import NewId
from treering.core.lengths import check_decision
from treering.core.patch import Author
from treering.core.policy import Policy

POLICY = "policy"
"""The target of events about the policy. No object and no patch has this id."""
POLICY_CHANGED = "policy_changed"


def policy_event(
    old: Policy, new: Policy, *, by: Author, reason: str, head: Anchor, now: datetime, new_id: NewId
) -> AuditEvent:
    """Tell what putting another policy in force leaves: who did it, both hashes, and the new policy."""
    check_decision(by, reason)
    return AuditEvent(
        id=new_id(),
        seq=head.seq + 1,
        event_type=POLICY_CHANGED,
        actor=by.actor,
        channel=by.channel,
        target=POLICY,
        before={"hash": policy_hash(old)},
        after={"hash": policy_hash(new), "policy": _data(new)},
        reason=reason,
        timestamp=now,
        patch_id="",
        prev_hash=head.hash,
    ).sealed()


def policy_in(event: AuditEvent) -> Policy:
    """Return the policy that an event put in force. Raises `Corrupt` where it tells of none."""
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
    """Hash what a policy says."""
    return digest(canonical_json(_data(policy)))


def _data(policy: Policy) -> dict[str, Any]:
    """Return every field as JSON data, sets in order: equal policies are equal texts."""
    data = policy.model_dump(mode="json")
    return {name: sorted(value) if isinstance(value, list) else value for name, value in data.items()}
