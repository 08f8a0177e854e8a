"""The audit log: one event per change, each hashing its content and the event before it.

A chain shows an edit, a deletion or a reordering inside the log. A cut tail or a restored old copy shows only
against an `Anchor` kept outside the store.
"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from treering.core.canonical import Instant, canonical_json, digest
from treering.core.errors import Corrupt

GENESIS = "0" * 40
LINK_EVENTS = frozenset({"linked", "unlinked"})
"""Types of events that change a link; the linked objects stay the same."""


class AuditEvent(BaseModel):
    """One change. `before` and `after` name revision, status and content hash, never the content of an object.

    A field added later is left out where it is empty: events written before it keep their hashes.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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
    patch_hash: str = Field(default="", exclude_if=lambda digest: not digest)
    """Hash of the record of a patch that was applied directly; the last event of such a patch carries it. An event
    about a patch itself carries the hash of its record in `after`."""
    merged: dict[str, Any] | None = Field(default=None, exclude_if=lambda merged: merged is None)
    """Of an event that merging another space made: which event of whose log it repeats (`core.writing.merging`)."""
    hash: str = ""

    def sealed(self) -> "AuditEvent":
        """Return the event with its hash."""
        return self.model_copy(update={"hash": event_hash(self)})


class Anchor(BaseModel):
    """The head of a log, stored outside the database."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    seq: int
    hash: str


def event_hash(event: AuditEvent) -> str:
    """Hash everything an event says, with the hash of the event before it."""
    return digest(canonical_json(event.model_dump(mode="json", exclude={"hash"})))


def verify_chain(events: Iterable[AuditEvent], *, anchor: Anchor | None = None, after: Anchor | None = None) -> Anchor:
    """Check that events follow one another without gap or edit, and pass through `anchor`; return the head.

    `after`: what the first of them follows; `None`: the beginning. Raises `Corrupt` naming the first event that does
    not verify.
    """
    chain = CheckedChain(events, anchor, after=after)
    for _ in chain:
        pass
    return chain.head


class CheckedChain:
    """Events that are checked, as `verify_chain` checks them, while somebody reads them once; `head`: of those read."""

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


def _broken(seq: int, what: str) -> Corrupt:
    return Corrupt(
        f"The audit log does not verify: {what}.",
        hint="Restore the space from a backup or an export made before the damage, and compare it with the anchor.",
        details={"seq": seq},
    )
