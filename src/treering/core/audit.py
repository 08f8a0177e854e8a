"""The audit log: one event per change, each with the hash of its content and of the previous event.

The chain reveals an edit, a deletion or a reordering inside the log. A truncated log or a restored old copy is only
revealed by an `Anchor` stored outside the database.
"""

from collections.abc import Iterable, Iterator
from operator import not_
from typing import Any

from pydantic import Field

from treering.core.canonical import FrozenModel, Instant, canonical_json, digest, is_none
from treering.core.errors import Corrupt

GENESIS = "0" * 40
ERASED = "erased"
"""The type of the event of an erasure."""
LINK_EVENTS = frozenset({"linked", "unlinked"})
"""Types of events that change a link; the linked objects stay the same."""


class AuditEvent(FrozenModel):
    """One change. `before` and `after` contain revision, status and content hash, never the content of an object.

    Fields added later are left out if they are empty, so that older events keep their hashes.
    """

    id: str
    seq: int
    event_type: str
    actor: str
    channel: str
    target: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    reason: str = ""
    timestamp: Instant
    patch_id: str
    prev_hash: str
    patch_hash: str = Field(default="", exclude_if=not_)
    """Hash of the record of a patch that was applied directly; the last event of such a patch carries it. An event
    about a patch itself carries the hash of its record in `after`."""
    merged: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """If merging another space wrote the event: the event and log it repeats (`core.writing.merging`)."""
    hash: str = ""

    def sealed(self) -> "AuditEvent":
        """Return the event with its hash."""
        return self.model_copy(update={"hash": event_hash(self)})


class Anchor(FrozenModel):
    """The head of a log, stored outside the database."""

    seq: int
    hash: str


def event_hash(event: AuditEvent) -> str:
    """Hash all fields of an event, including the hash of the previous one."""
    return digest(canonical_json(event.model_dump(mode="json", exclude={"hash"})))


def verify_chain(events: Iterable[AuditEvent], *, anchor: Anchor | None = None, after: Anchor | None = None) -> Anchor:
    """Check that events are consecutive and unchanged and include `anchor`; return the head.

    `after` is the event before the first of them; `None` means the beginning. Raises `Corrupt` naming the first event
    that does not verify.
    """
    chain = CheckedChain(events, anchor, after=after)
    for _ in chain:
        pass
    return chain.head


class CheckedChain:
    """Events that are checked like in `verify_chain` while they are read, once. `head` is the last event read."""

    def __init__(self, events: Iterable[AuditEvent], anchor: Anchor | None, *, after: Anchor | None = None) -> None:
        self.head: Anchor = after or Anchor(seq=0, hash=GENESIS)
        self._events = events
        self._anchor = anchor

    def __iter__(self) -> Iterator[AuditEvent]:
        met = self._anchor == self.head
        for event in self._events:
            if event.seq != self.head.seq + 1:
                raise _broken(event.seq, f"event {self.head.seq + 1} is missing")
            if event.prev_hash != self.head.hash or event.hash != event_hash(event):
                raise _broken(event.seq, f"event {event.seq} was changed")
            self.head = Anchor(seq=event.seq, hash=event.hash)
            if self._anchor and self._anchor.seq == event.seq:
                met = self._anchor == self.head
            yield event
        if self._anchor and not met:
            raise _broken(self._anchor.seq, f"the log does not match the anchor at event {self._anchor.seq}")


def _broken(seq: int, problem: str) -> Corrupt:
    return Corrupt(
        f"The audit log does not verify: {problem}.",
        hint="Restore the space from a backup or an export made before the damage, and compare it with the anchor.",
        details={"seq": seq},
    )
