"""The ledger in memory: the reference that every other ledger must equal, and a fast one for tests."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from threading import RLock

from treering.core.audit import Anchor, AuditEvent
from treering.core.evidence import Segment
from treering.core.objects import Object, Source
from treering.core.patch import Link, Patch, PatchRecord, PatchStatus, Remembered
from treering.core.policy import Policy
from treering.core.scope import is_within
from treering.core.writing.journal import POLICY, Journal, Notice
from treering.core.writing.plan import Plan
from treering.core.writing.transaction import missing_patch
from treering.ports.index import Change
from treering.ports.ledger import (
    TABLES,
    Altered,
    AsOf,
    Head,
    ObjectRequest,
    ObjectsFound,
    Record,
    Selection,
    SourceState,
    head_of,
    missing_object,
    missing_segment,
    read_one_by_one,
    selects,
)
from treering.ports.ledger_writes import LedgerWrites, changes_in
from treering.ports.runtime import Clock, fresh_id, fresh_salt
from treering.testing.memory_tables import Tables

# What a transaction asks of a ledger in memory.


class MemorySession:
    """`core.writing.transaction.Session` over tables, for one transaction.

    Errors are raised before anything is stored, so there is nothing to roll back; an import has its own tables.
    """

    def __init__(self, tables: Tables, *, clock: Clock, policy: Policy) -> None:
        self.tables: Tables = tables
        self.default_policy = policy
        self._clock = clock

    @property
    def view(self) -> Tables:
        """The current objects and links."""
        return self.tables

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Do nothing: each answer is at hand."""

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Do nothing: each answer is at hand."""

    def recorded_policy(self) -> Policy | None:
        """Return the latest policy in the log, or `None`."""
        return self.tables.policy()

    def now(self) -> datetime:
        """Return the time by the clock."""
        return self._clock.now()

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new object."""
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

    def events_of(self, target: str) -> Sequence[AuditEvent]:
        """Return the events about one object, oldest first."""
        return [event for event in self.tables.events if event.target == target]

    def remembered(self, key: str) -> Remembered | None:
        """Return the value stored under exactly this key."""
        return self.tables.receipts.get(key)

    def keys(self, prefix: str = "") -> Iterable[tuple[str, Remembered]]:
        """Return the keys with this prefix, each with its value."""
        return [(key, known) for key, known in self.tables.receipts.items() if key.startswith(prefix)]

    def remember(self, key: str, known: Remembered) -> None:
        """Store the value of a new key."""
        self.tables.receipts[key] = known

    def forget(self, key: str) -> None:
        """Remove a key."""
        del self.tables.receipts[key]

    def keep(self, planned: Plan, result: Journal) -> None:
        """Store writes, events and records."""
        for write, event in zip(planned.writes, result.events, strict=False):
            self.tables.store(write, event.seq)
        self.tables.tell(result.events)
        self.tables.patches |= {record.id: record for record in result.records}

    def keep_notice(self, notice: Notice) -> None:
        """Store an event about a patch, and the patch's record."""
        self.tables.tell([notice.event])
        self.tables.patches[notice.record.id] = notice.record

    def keep_event(self, event: AuditEvent) -> None:
        """Store an event that is about neither an object nor a patch."""
        self.tables.tell([event])

    def is_bare(self) -> bool:
        """Return whether the log contains only the policy."""
        return all(event.target == POLICY for event in self.tables.events)

    def clear(self) -> None:
        """Do nothing: an import fills its own tables."""

    def fill(self, records: Iterable[Record]) -> None:
        """Store the records of an export."""
        self.tables = Tables.of(records)

    def verify(self) -> Anchor:
        """Verify all stored data against the audit log; return its head."""
        return self.tables.verify(None)


class MemoryLedger(LedgerWrites):
    """`ports.ledger.Ledger` in memory. One lock makes every call atomic.

    Its data cannot be changed from outside, so no read finds altered objects. `policy` is in force as long as the log
    contains none.
    """

    def __init__(self, *, clock: Clock, policy: Policy | None = None) -> None:
        self._default_policy = policy or Policy()
        self._clock = clock
        self._tables = Tables()
        self._lock = RLock()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        with self._lock:
            return self._tables.policy() or self._default_policy

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object in its current or an earlier state."""
        with self._lock:
            item = self._tables.get_as_of(identity, self.sequence(as_of))
        if item is None:
            raise missing_object(identity)
        return item

    def objects_at(
        self,
        identities: Sequence[str],
        as_of: AsOf,
        altered: Altered | None = None,  # noqa: ARG002 - see above
    ) -> Mapping[str, Object]:
        """Return the objects among these ids that existed at a point in history."""
        with self._lock:
            seq = self.sequence(as_of)
            items = ((identity, self._tables.get_as_of(identity, seq)) for identity in identities)
            return {identity: item for identity, item in items if item}

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision, oldest first."""
        with self._lock:
            rows = self._tables.revisions.get(identity)
            if not rows:
                raise missing_object(identity)
            return [row.item for row in rows]

    def heads(
        self,
        identities: Iterable[str],
        *,
        as_of: AsOf = None,
        altered: Altered | None = None,  # noqa: ARG002 - see above
    ) -> Mapping[str, Head]:
        """Return the heads of the existing objects among these ids."""
        with self._lock:
            seq = self.sequence(as_of)
            found = (self._tables.get_as_of(identity, seq) for identity in identities)
            return {item.id: head_of(item) for item in found if item}

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return the last state of a segment, even if it has vanished from its source."""
        with self._lock:
            for row in reversed(self._tables.revisions.get(source_id, [])):
                for segment in row.item.segments if isinstance(row.item, Source) else ():
                    if segment.segment_id == segment_id:
                        return segment
        raise missing_segment(source_id, segment_id)

    def sources_with(self, texts: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return the texts that segments have, also removed ones, with the ids of their sources."""
        with self._lock:
            revisions = [row.item for rows in self._tables.revisions.values() for row in rows]
        sources = (item for item in revisions if isinstance(item, Source))
        segments = ((segment.excerpt, source.id) for source in sources for segment in source.segments)
        return sorted({pair for pair in segments if pair[0] in texts})

    def segments(
        self,
        places: Sequence[tuple[str, str]],
        *,
        altered: Altered | None = None,  # noqa: ARG002 - see above
    ) -> Mapping[tuple[str, str], Segment]:
        """Return the given segments (source id, segment id) that are in their sources now."""
        with self._lock:
            sources = {source_id: self._tables.get(source_id) for source_id, _ in places}
        found = {
            (source.id, segment.segment_id): segment
            for source in sources.values()
            if isinstance(source, Source)
            for segment in source.segments
        }
        return {place: found[place] for place in places if place in found}

    def read(self, requests: Sequence[ObjectRequest]) -> Sequence[ObjectsFound]:
        """Read for several requests, all of one moment."""
        with self._lock:
            return [read_one_by_one(self, request) for request in requests]

    def select(
        self,
        selection: Selection,
        *,
        altered: Altered | None = None,  # noqa: ARG002 - see above
    ) -> Iterator[Object]:
        """Return the objects visible at the selection's scope, oldest first."""
        with self._lock:
            seq = self.sequence(selection.as_of)
            found = [self._tables.get_as_of(identity, seq) for identity in sorted(self._tables.revisions)]
        yield from [item for item in found if item and selects(selection, item)][-selection.newest :]

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Give, by origin, the sources in this scope below a root origin."""
        states: dict[str, SourceState] = {}
        with self._lock:
            for item in self._tables.current():
                if not isinstance(item, Source) or item.scope != scope:
                    continue
                below = item.origin == root or item.origin.startswith((f"{root}#", f"{root}/"))
                # An archived source gives way to a later one with the same origin.
                if below and (item.origin not in states or states[item.origin].status == "archived"):
                    states[item.origin] = SourceState(item.id, item.fingerprint, item.status, item.revision)
        return states

    def sources_at(self, *, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Return the given sources that are in this scope, by origin."""
        found = {origin: self.sources(scope=scope, root=origin).get(origin) for origin in origins}
        return {origin: state for origin, state in found.items() if state}

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes below one that objects lie in."""
        with self._lock:
            return sorted(
                {item.scope for item in self._tables.current() if item.scope != below and is_within(item.scope, below)}
            )

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of current objects by scope, type and status."""
        with self._lock:
            return Counter((item.scope, item.type, item.status) for item in self._tables.current())

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge whose evidence or derivation names this id."""
        with self._lock:
            return self._tables.dependents(identity)

    def referrers(self, identity: str) -> Sequence[str]:
        """Return ids of objects of which a revision names this id."""
        with self._lock:
            return self._tables.referrers(identity)

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        with self._lock:
            return self._tables.links_as_of(identity, self.sequence(as_of))

    def patch(self, patch_id: str) -> PatchRecord:
        """Return the record of a patch."""
        with self._lock:
            record = self._tables.patches.get(patch_id)
        if record is None:
            raise missing_patch(patch_id)
        return record

    def patches(self, *, status: PatchStatus | None = None, limit: int = 100) -> Sequence[PatchRecord]:
        """Return the newest patches."""
        with self._lock:
            newest = sorted(self._tables.patches.values(), key=lambda record: record.id, reverse=True)
        return [record for record in newest if status in (None, record.status)][:limit]

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history."""
        with self._lock:
            match as_of:
                case None:
                    return len(self._tables.events)
                case int():
                    return max(0, min(as_of, len(self._tables.events)))
                case datetime():
                    return sum(event.timestamp <= as_of for event in self._tables.events)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Return audit events in order."""
        with self._lock:
            found = self._tables.events[max(after, 0) :]
        yield from found[:limit]

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of objects in the `limit` events after `after`, in order."""
        with self._lock:
            first = max(after, 0)
            return changes_in(self._tables.events[first : first + max(limit, 0)], self._tables.revision)

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object or patch."""
        with self._lock:
            return [event for event in self._tables.events if event.target == identity]

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Check everything against the audit log, and return its head."""
        with self._lock:
            return self._tables.verify(anchor)

    def records(self, *, only: Collection[str] = TABLES) -> Iterator[Record]:
        """Return everything the ledger holds, or the records of some tables, of one moment."""
        with self._lock:
            found = [record for record in self._tables.records() if record.table in only]
        yield from found

    def compact(self) -> tuple[str, ...]:
        """Do nothing: memory retains no traces of erased objects."""
        return ()

    def out_of_reach(self) -> tuple[str, ...]:
        """Return nothing: memory has no other copies."""
        return ()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    @contextmanager
    def _writing(self) -> Iterator[MemorySession]:
        with self._lock:
            session = MemorySession(self._tables, clock=self._clock, policy=self._default_policy)
            yield session
            self._tables = session.tables

    def _planning(self) -> AbstractContextManager[MemorySession]:
        return self._writing()
