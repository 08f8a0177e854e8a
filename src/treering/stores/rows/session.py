"""A write transaction of a ledger in a database: what it asks, and what it is told to keep."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from treering.core.audit import Anchor, AuditEvent
from treering.core.objects import Object
from treering.core.patch import PatchRecord, Remembered
from treering.core.policy import Policy
from treering.core.writing.draft import Erased, View, Write
from treering.core.writing.journal import Journal, Notice
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import ImportSession
from treering.ports.index import Change
from treering.ports.ledger import Record
from treering.ports.runtime import Clock, fresh_id, fresh_salt
from treering.stores.rows.read_checks import LogReads
from treering.stores.rows.records import changes_of

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Follower(Protocol[T_contra]):
    """A projection in the ledger's own database, which moves in the same transactions."""

    def is_prepared(self, transaction: T_contra, /) -> bool:
        """Tell whether everything is there as `prepare` would leave it, so that opening need not wait for a writer."""
        ...

    def prepare(self, transaction: T_contra, /) -> None:
        """Make what is missing. In a write transaction, when a space is opened that is not prepared."""
        ...

    def follow(self, transaction: T_contra, changes: Sequence[Change], /) -> None:
        """Apply changes inside the ledger's write transaction."""
        ...


class LogWrites(Protocol):
    """The audit log, patches and idempotency keys of a ledger, written."""

    def keep_events(self, events: Sequence[AuditEvent]) -> None:
        """Keep new events."""
        ...

    def keep_records(self, records: Sequence[PatchRecord]) -> None:
        """Keep the records of patches, in the place of earlier ones."""
        ...

    def keep_key(self, key: str, outcome: str) -> None:
        """Keep what a new idempotency key stands for, as JSON."""
        ...

    def forget(self, key: str) -> None:
        """Remove an idempotency key."""
        ...

    def clear(self) -> None:
        """Remove all events."""
        ...


class LedgerSession(ImportSession[Record], ABC, Generic[T]):
    """`core.writing.transaction.Session` over one transaction of a database. Followers see its changes at its end."""

    def __init__(
        self,
        transaction: T,
        view: View,
        log: LogReads,
        kept: LogWrites,
        *,
        clock: Clock,
        policy: Policy,
        followers: Sequence[Follower[T]],
    ) -> None:
        self._view = view
        self._default_policy = policy
        self._transaction = transaction
        self._log = log
        self._kept = kept
        self._clock = clock
        self._followers = followers
        self._changes: list[Change] = []

    @property
    @abstractmethod
    def reached(self) -> Anchor | None:
        """The head of the log that was kept, where something was."""

    @property
    def view(self) -> View:
        """The objects and links as they stand."""
        return self._view

    @property
    def default_policy(self) -> Policy:
        """The policy that holds as long as the audit log tells of none."""
        return self._default_policy

    def now(self) -> datetime:
        """Return the time by the clock."""
        return self._clock.now()

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing."""
        return fresh_id(kind, self._clock)

    def fresh_salt(self) -> str:
        """Make a salt."""
        return fresh_salt(self._clock)

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        return self._log.record(patch_id)

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the patches that wait for review, by id."""
        return self._log.proposals()

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches that events about these objects name."""
        return self._log.patches_about(identities)

    def events_of(self, target: str) -> Sequence[AuditEvent]:
        """Return the events about one thing, oldest first."""
        return self._log.events_of(target)

    def remembered(self, key: str) -> Remembered | None:
        """Return what is kept under exactly this key."""
        return self._log.remembered(key)

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the keys that begin so, each with what it stands for."""
        return self._log.keys(prefix)

    def remember(self, key: str, known: Remembered) -> None:
        """Keep what a new key stands for."""
        self._kept.keep_key(key, known.model_dump_json())

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._kept.forget(key)

    def keep(self, planned: Plan, result: Journal) -> None:
        """Keep writes, events and records, and what an erasure leaves to be done."""
        writes = list(zip(planned.writes, result.events, result.stored, strict=False))
        self._store([(write, event.seq, stored) for write, event, stored in writes])
        for write, event, _ in writes:
            self._changes += changes_of(write, event.seq)
        self._kept.keep_events(result.events)
        self._kept.keep_records(result.records)
        if erased := [write.before for write in planned.writes if isinstance(write, Erased)]:
            self._note_erased(erased, result.receipt.sequence)

    def keep_notice(self, notice: Notice) -> None:
        """Keep an event about a patch, and the patch's record."""
        self._kept.keep_events([notice.event])
        self._kept.keep_records([notice.record])

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event that is about neither an object nor a patch."""
        self._kept.keep_events([event])

    def is_bare(self) -> bool:
        """Tell whether the log tells of nothing but the policy."""
        return self._log.is_bare()

    def clear(self) -> None:
        """Remove the events of a log that is bare."""
        self._kept.clear()

    def finish(self) -> None:
        """Let followers apply the changes, as the last thing in the transaction."""
        for follower in self._followers if self._changes else ():
            follower.follow(self._transaction, self._changes)

    @abstractmethod
    def _store(self, writes: Sequence[tuple[Write, int, str]]) -> None:
        """Keep writes, each with its sequence number and the stored form of the object it puts."""

    @abstractmethod
    def _note_erased(self, erased: Sequence[Object], sequence: int) -> None:
        """Do what an erasure asks of what lies beside the ledger."""
