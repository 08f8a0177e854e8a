"""How one line of an object's history is shown."""

from treering.core.audit import AuditEvent
from treering.core.times import render_time
from treering.tools.envelope import Value


class HistoryEntry(Value):
    """One line of an object's history."""

    seq: int
    time: str
    event: str
    actor: str
    status: str = ""
    revision: int | None = None
    reason: str = ""
    patch_id: str = ""


def change_of(event: AuditEvent) -> HistoryEntry:
    """Show an audit event."""
    after = event.after or {}
    return HistoryEntry(
        seq=event.seq,
        time=render_time(event.timestamp),
        event=event.event_type,
        actor=event.actor,
        status=str(after.get("status", "")),
        revision=after.get("revision"),
        reason=event.reason,
        patch_id=event.patch_id,
    )
