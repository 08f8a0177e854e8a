"""A write transaction of a ledger in a database."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from treering.core.audit import Anchor, AuditEvent
from treering.core.patch import PatchRecord, Remembered
from treering.core.policy import Policy
from treering.core.writing.draft import Erased, View, Write
from treering.core.writing.journal import Journal, Notice
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import ImportSession
from treering.ports.index import Change
from treering.ports.ledger import Record
from treering.ports.runtime import Clock, fresh_id, fresh_salt
from treering.stores.rows.ledger_log import LedgerLog
from treering.stores.rows.read_checks import ReadChecks
from treering.stores.rows.records import changes_of

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Follower(Protocol[T_contra]):
    """An index in the ledger's own database that is updated in the same transactions."""

    def is_prepared(self, transaction: T_contra, /) -> bool:
        """Return whether everything exists that `prepare` creates, so that opening a space needs no write."""
        ...

    def prepare(self, transaction: T_contra, /) -> None:
        """Create missing tables and content. Called in a write transaction when a space is opened."""
        ...

    def follow(self, transaction: T_contra, changes: Sequence[Change], /) -> None:
        """Apply changes in the ledger's write transaction."""
        ...


@dataclass(frozen=True, slots=True)
class LedgerParts(Generic[T]):
    """The parts that all transactions of a ledger share."""

    clock: Clock
    policy: Policy
    """The policy of a space whose audit log contains none."""
    followers: Sequence[Follower[T]]
    checks: ReadChecks = field(default_factory=ReadChecks)


class LedgerSession(ImportSession[Record], ABC, Generic[T]):
    """`core.writing.transaction.Session` over one database transaction. At its end, followers apply its changes."""

    def __init__(self, transaction: T, view: View, log: LedgerLog, parts: LedgerParts[T]) -> None:
        self._view = view
        self._transaction = transaction
        self._log = log
        self._parts = parts
        self._changes: list[Change] = []

    @property
    def reached(self) -> Anchor | None:
        """The head of the log after this transaction, or `None` if it wrote no event."""
        return self._log.reached

    def recorded_policy(self) -> Policy | None:
        """Return the last policy in the log, or `None`."""
        return self._log.end.recorded_policy

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        return self._log.end.head

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        return self._log.end.time_of_last

    @property
    def view(self) -> View:
        """The current objects and links."""
        return self._view

    @property
    def default_policy(self) -> Policy:
        """The policy of a space whose audit log contains none."""
        return self._parts.policy

    def now(self) -> datetime:
        """Return the current time."""
        return self._parts.clock.now()

    def fresh_id(self, kind: str) -> str:
        """Create the id of a new object or patch."""
        return fresh_id(kind, self._parts.clock)

    def fresh_salt(self) -> str:
        """Create a salt."""
        return fresh_salt(self._parts.clock)

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        return self._log.record(patch_id)

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the patches that wait for review, by id."""
        return self._log.proposals()

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches in the events about these objects."""
        return self._log.patches_about(identities)

    def events_of(self, target: str) -> Sequence[AuditEvent]:
        """Return the events about an id, oldest first."""
        return self._log.events_of(target)

    def remembered(self, key: str) -> Remembered | None:
        """Return the value of an idempotency key."""
        return self._log.remembered(key)

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the keys with a prefix, with their values."""
        return self._log.keys(prefix)

    def remember(self, key: str, known: Remembered) -> None:
        """Store the value of a new key."""
        self._log.keep_key(key, known.model_dump_json())

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._log.forget(key)

    def keep(self, planned: Plan, result: Journal) -> None:
        """Store writes, events and records, and note erased objects."""
        writes = list(zip(planned.writes, result.events, result.stored, strict=False))
        self._store([(write, event.seq, stored) for write, event, stored in writes])
        for write, event, _ in writes:
            self._changes += changes_of(write, event.seq)
        self._log.keep_events(result.events)
        self._log.keep_records(result.records)
        if any(isinstance(write, Erased) for write in planned.writes):
            self._note_erased(result.receipt.sequence)

    def keep_notice(self, notice: Notice) -> None:
        """Store an event about a patch, and the patch's record."""
        self._log.keep_events([notice.event])
        self._log.keep_records([notice.record])

    def keep_event(self, event: AuditEvent) -> None:
        """Store an event that is about neither an object nor a patch."""
        self._log.keep_events([event])

    def is_bare(self) -> bool:
        """Return whether the log contains only events about the policy."""
        return self._log.is_bare()

    def clear(self) -> None:
        """Remove all events of a log that contains only events about the policy."""
        self._log.clear()

    def finish(self) -> None:
        """Apply the changes to followers, at the end of the transaction."""
        for follower in self._parts.followers if self._changes else ():
            follower.follow(self._transaction, self._changes)

    @abstractmethod
    def _store(self, writes: Sequence[tuple[Write, int, str]]) -> None:
        """Store writes, each with its sequence number and the stored form of the object."""

    def _note_erased(self, sequence: int) -> None:
        """Note that a patch erased objects, if their pages must be overwritten later."""
