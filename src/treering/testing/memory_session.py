"""What a transaction asks of a ledger in memory."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from treering.core.audit import Anchor, AuditEvent
from treering.core.journal import Journal, Notice
from treering.core.patch import Patch, PatchRecord, Remembered
from treering.core.plan import Plan
from treering.core.policy import Policy
from treering.core.policy_log import POLICY
from treering.ports.clock import Clock, fresh_id, fresh_salt
from treering.ports.ledger import Record
from treering.testing.memory_tables import Tables


class MemorySession:
    """`core.session.Session` over tables, for one transaction.

    What raises does so before anything is kept, so there is nothing to roll back; an import has tables of its own.
    """

    def __init__(self, tables: Tables, *, clock: Clock, policy: Policy) -> None:
        self.tables = tables
        self.default_policy = policy
        self._clock = clock

    @property
    def view(self) -> Tables:
        """The objects and links as they stand."""
        return self.tables

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Do nothing: each answer is at hand."""

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Do nothing: each answer is at hand."""

    def told_policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`."""
        return self.tables.policy()

    def now(self) -> datetime:
        """Return the time by the clock."""
        return self._clock.now()

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing."""
        return fresh_id(kind, self._clock)

    def fresh_salt(self) -> str:
        """Make a salt."""
        return fresh_salt(self._clock)

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        return self.tables.head()

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        return self.tables.events[-1].timestamp if self.tables.events else None

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        return self.tables.patches.get(patch_id)

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the patches that wait for review, by id."""
        return [record for _, record in sorted(self.tables.patches.items()) if record.status == "proposed"]

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches that events about these objects name."""
        wanted = frozenset(identities)
        return {event.patch_id for event in self.tables.events if event.target in wanted}

    def remembered(self, key: str) -> Remembered | None:
        """Return what is kept under exactly this key."""
        return self.tables.receipts.get(key)

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the keys that begin so, each with what it stands for."""
        return [(key, known) for key, known in self.tables.receipts.items() if key.startswith(prefix)]

    def remember(self, key: str, known: Remembered) -> None:
        """Keep what a new key stands for."""
        self.tables.receipts[key] = known

    def forget(self, key: str) -> None:
        """Remove a key."""
        del self.tables.receipts[key]

    def keep(self, planned: Plan, result: Journal) -> None:
        """Keep writes, events and records."""
        for write, event in zip(planned.writes, result.events, strict=False):
            self.tables.store(write, event.seq)
        self.tables.tell(result.events)
        self.tables.patches |= {record.id: record for record in result.records}

    def keep_notice(self, notice: Notice) -> None:
        """Keep an event about a patch, and the patch's record."""
        self.tables.tell([notice.event])
        self.tables.patches[notice.record.id] = notice.record

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event that is about neither an object nor a patch."""
        self.tables.tell([event])

    def is_bare(self) -> bool:
        """Tell whether the log tells of nothing but the policy."""
        return all(event.target == POLICY for event in self.tables.events)

    def clear(self) -> None:
        """Do nothing: what is filled is a set of tables of its own."""

    def fill(self, records: Iterable[Record]) -> None:
        """Keep the records of an export."""
        self.tables = Tables.of(records)

    def verify(self) -> Anchor:
        """Check everything that is kept against the audit log; return its head."""
        return self.tables.verify(None)
