"""The change feed: what audit events tell of changes of objects, with the objects as they stood."""

from collections.abc import Callable, Iterable
from functools import cache

from treering.core.audit import AuditEvent
from treering.core.objects import Object
from treering.ports.projection import Change

ReadRevision = Callable[[str, int], Object | None]
"""Gives one revision of an object by id and number, or `None` where the object was erased since."""


def changes_told(events: Iterable[AuditEvent], revision: ReadRevision) -> list[Change]:
    """Return the changes of objects that events tell of, in order: the reference meaning of `Ledger.changes`."""
    # What one event ends with, the next about the same object begins with.
    read = cache(revision)
    return [change for event in events if (change := _change(event, read))]


def revisions_told(events: Iterable[AuditEvent]) -> list[tuple[str, int]]:
    """Return id and number of the revisions that `changes_told` may ask for, each once: to read them together."""
    told = (event for event in events if event.event_type != "erased")
    states = ((event.target, state) for event in told for state in (event.before, event.after))
    return list(dict.fromkeys((target, number) for target, state in states if (number := _revision_in(state))))


def _change(event: AuditEvent, revision: ReadRevision) -> Change | None:
    if event.event_type == "erased":
        return Change(event.seq, event.target, None, None)
    number, earlier = _revision_in(event.after), _revision_in(event.before)
    after = revision(event.target, number) if number else None
    if after is None:
        return None  # about a link, a patch, or an object that is gone
    return Change(event.seq, event.target, revision(event.target, earlier) if earlier else None, after)


def _revision_in(state: dict[str, object] | None) -> int:
    number = state.get("revision") if state else None
    return number if isinstance(number, int) else 0
