"""The parts shared by ledgers in a database: consistent reads, write transactions, verification."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Generic, TypeVar, get_args

from treering.core.audit import Anchor, AuditEvent
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Channel, Object, ObjectType
from treering.core.patch import Link, PatchRecord, PatchStatus
from treering.core.policy import Policy
from treering.core.writing.transaction import missing_patch
from treering.ports.index import Change
from treering.ports.ledger import (
    TABLES,
    Altered,
    AnchorStore,
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
from treering.ports.ledger_writes import LedgerWrites, ReadRevision, changes_in
from treering.ports.runtime import collecting_seldom
from treering.stores.rows.damage import rows_of
from treering.stores.rows.ledger_log import LedgerLog
from treering.stores.rows.objects import StoredObjects
from treering.stores.rows.records import events_in_batches, records_of
from treering.stores.rows.session import LedgerParts, LedgerSession
from treering.stores.rows.verification import LedgerRows

T = TypeVar("T")

_BATCH = 400
"""Objects of a selection that are read in one snapshot."""
_IDS_PER_OBJECT = 100
"""Ids of a whole selection that are read at a time, for each object that is read at a time: a list may be sorted."""


class Snapshot(ABC):
    """The reads of `ports.ledger.Ledger` in one snapshot."""

    def __init__(self, objects: StoredObjects, log: LedgerLog, policy: Policy) -> None:
        self.log = log
        self.objects = objects
        self._default_policy = policy

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self.log.end.recorded_policy or self._default_policy

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object, as of now or a point in history."""
        item = self.objects_at([identity], as_of).get(identity)
        if item is None:
            raise missing_object(identity)
        return item

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision, oldest first."""
        revisions = self.objects.revisions(identity)
        if not revisions:
            raise missing_object(identity)
        return revisions

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return the heads of objects. Unknown ids are left out."""
        wanted = list(dict.fromkeys(identities))
        if as_of is None:
            return self._heads(wanted, altered)
        return {identity: head_of(item) for identity, item in self.objects_at(wanted, as_of, altered).items()}

    @abstractmethod
    def _heads(self, identities: Sequence[str], altered: Altered | None) -> Mapping[str, Head]: ...

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return a segment, even if it was removed from its source."""
        segment = self.objects.segment(source_id, segment_id)
        if segment is None:
            raise missing_segment(source_id, segment_id)
        return segment

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]:
        """Return the segments (source id, segment id) that their sources contain now. Others are left out."""
        return self.objects.segments(places, altered)

    def read(self, requests: Sequence[ObjectRequest]) -> list[ObjectsFound]:
        """Answer several requests."""
        return [
            read_one_by_one(self, request, self.objects.dependents_of((*request.dependents, *request.resting)))
            for request in requests
        ]

    @abstractmethod
    def candidates(self, selection: Selection, behind: str, limit: int) -> list[str]:
        """Return the ids of objects that may be selected, from the one behind `behind` on (empty: from the first).

        They are in ascending order, or in descending order if only the newest objects are selected.
        """

    def objects_at(
        self, identities: Sequence[str], as_of: AsOf, altered: Altered | None = None
    ) -> Mapping[str, Object]:
        """Return objects by id, as of now or a point in history. Unknown ids are left out.

        Errors are passed to `altered`, if given, and the object is left out.
        """
        if as_of is None:
            return self.objects.current(identities, altered)
        return self.objects.as_of(identities, self.sequence(as_of), altered)

    @abstractmethod
    def sources(self, scope: str, root: str) -> Mapping[str, SourceState]:
        """Return the sources of this scope below a root origin, by origin."""

    @abstractmethod
    def sources_at(self, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Return the sources of this scope with these origins, by origin."""

    @abstractmethod
    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes of objects at or below a scope."""

    @abstractmethod
    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of current objects by scope, type and status."""

    def dependents(self, identity: str) -> Sequence[str]:
        """Return the ids of knowledge that cites an object or is derived from it."""
        return self.objects.dependents(identity)

    @abstractmethod
    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects with a revision that refers to an id."""

    @abstractmethod
    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history."""
        return self.log.sequence(as_of)

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of objects in the `limit` events after a sequence number, in order."""
        events = self.log.events(after=after, limit=limit)
        read = self._revisions_told(events)

        def revision(identity: str, number: int) -> Object | None:
            item = read(identity, number)
            if item is None:
                self.log.require_erased(identity, number)
            return item

        return changes_in(events, revision)

    def _revisions_told(self, _events: Sequence[AuditEvent]) -> ReadRevision:
        """Return a function that reads the revisions in events."""
        return self.objects.revision


class DatabaseLedger(LedgerWrites, Generic[T]):
    """`ports.ledger.Ledger` over a database. Followers are updated in the same transactions.

    `read` and `write` open a transaction, `ask` one for a single query, `read_whole` one for long reads that do not
    block others. `snapshot` returns the reads of a transaction, `rows` all of its rows.
    """

    def __init__(
        self,
        place: str,
        parts: LedgerParts[T],
        *,
        read: Callable[[], AbstractContextManager[T]],
        write: Callable[[], AbstractContextManager[T]],
        read_whole: Callable[[], AbstractContextManager[T]],
        snapshot: Callable[[T, LedgerParts[T]], Snapshot],
        rows: Callable[[T], LedgerRows],
        anchor: AnchorStore | None,
        ask: Callable[[], AbstractContextManager[T]] | None = None,
    ) -> None:
        self._place = place
        self._parts = parts
        self._hold = read
        self._hold_to_ask = ask or read
        self._hold_to_write = write
        self._hold_whole = read_whole
        self._snapshot = snapshot
        self._rows = rows
        self._anchor = anchor

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        with self._read(once=True) as snapshot:
            return snapshot.policy

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object, as of now or a point in history."""
        with self._read() as snapshot:
            return snapshot.get(identity, as_of=as_of)

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision, oldest first."""
        with self._read() as snapshot:
            return snapshot.history(identity)

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return the heads of objects. Unknown ids are left out."""
        with self._read() as snapshot:
            return snapshot.heads(identities, as_of=as_of, altered=altered)

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return a segment, even if it was removed from its source."""
        with self._read() as snapshot:
            return snapshot.segment(source_id, segment_id)

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]:
        """Return the segments (source id, segment id) that their sources contain now. Others are left out."""
        with self._read() as snapshot:
            return snapshot.segments(places, altered=altered)

    def sources_with(self, texts: Collection[str]) -> Sequence[tuple[str, str]]:
        """Return the texts that segments have, also removed ones, with the ids of their sources, in order."""
        with self._read() as snapshot:
            return snapshot.objects.sources_with(texts)

    def read(self, requests: Sequence[ObjectRequest]) -> Sequence[ObjectsFound]:
        """Answer several requests from one snapshot."""
        with self._read() as snapshot:
            return snapshot.read(requests)

    def select(self, selection: Selection, *, altered: Altered | None = None) -> Iterator[Object]:
        """Return the objects visible at the selection's scope, oldest first.

        They are read in batches, so that many objects do not fill the memory.
        """
        selected = self._selected(selection, altered)
        return reversed([*islice(selected, selection.newest)]) if selection.newest else selected

    def _selected(self, selection: Selection, altered: Altered | None) -> Iterator[Object]:
        """Yield the selected objects, the newest first if only the newest are selected."""
        size = min(_BATCH, selection.newest or _BATCH)
        behind, ids, is_last = "", list[str](), False
        while ids or not is_last:
            with self._read() as snapshot:
                if not ids:
                    limit = size if selection.newest else _IDS_PER_OBJECT * size
                    ids = snapshot.candidates(selection, behind, limit)
                    is_last = len(ids) < limit
                batch, ids = ids[:size], ids[size:]
                items = snapshot.objects_at(batch, selection.as_of, altered)
            behind = batch[-1] if batch else ""
            yield from (item for one in batch if (item := items.get(one)) and selects(selection, item))
            size = min(_BATCH, 2 * size)  # if few of the candidates are selected

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Return the sources of this scope below a root origin, by origin."""
        with self._read(once=True) as snapshot:
            return snapshot.sources(scope, root)

    def sources_at(self, *, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Return the sources of this scope with these origins, by origin."""
        with self._read(once=True) as snapshot:
            return snapshot.sources_at(scope, origins)

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes of objects at or below a scope."""
        with self._read(once=True) as snapshot:
            return snapshot.scopes(below)

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of current objects by scope, type and status."""
        with self._read(once=True) as snapshot:
            return snapshot.counts()

    def dependents(self, identity: str) -> Sequence[str]:
        """Return the ids of knowledge that cites an object or is derived from it."""
        with self._read(once=True) as snapshot:
            return snapshot.dependents(identity)

    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects with a revision that refers to an id."""
        with self._read(once=True) as snapshot:
            return snapshot.referrers(identity)

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        with self._read() as snapshot:
            return snapshot.links(identity, as_of=as_of)

    def patch(self, patch_id: str) -> PatchRecord:
        """Return the record of a patch."""
        with self._read() as snapshot:
            record = snapshot.log.record(patch_id)
        if record is None:
            raise missing_patch(patch_id)
        return record

    def patches(self, *, status: PatchStatus | None = None, limit: int = 100) -> Sequence[PatchRecord]:
        """Return the newest patches."""
        with self._read() as snapshot:
            return snapshot.log.newest_records(status, limit)

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history."""
        with self._read(once=True) as snapshot:
            return snapshot.sequence(as_of)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Return audit events in order. They are read in batches, so that a long log does not fill the memory."""

        def batch(after: int, limit: int) -> Sequence[AuditEvent]:
            with self._read() as snapshot:
                return snapshot.log.events(after=after, limit=limit)

        return events_in_batches(batch, after=after, limit=limit)

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of objects in the `limit` events after a sequence number, in order."""
        with self._read() as snapshot:
            return snapshot.changes(max(after, 0), max(limit, 0))

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object or patch."""
        with self._read() as snapshot:
            return snapshot.log.events_of(identity)

    def records(self, *, only: Collection[str] = TABLES) -> Iterator[Record]:
        """Return all records of the ledger, or of some tables, from one snapshot."""
        with rows_of("the ledger"), self._hold_whole() as transaction:
            yield from records_of(self._rows(transaction), only)

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Check the audit chain, every revision against it, and every segment against its hash."""
        expected = anchor or self._kept_anchor()
        with rows_of("the ledger"), self._hold_whole() as transaction, collecting_seldom():
            return self._rows(transaction).verify(anchor=expected)

    @abstractmethod
    def _session(self, transaction: T) -> LedgerSession[T]:
        """Return the session of a write transaction."""

    @contextmanager
    def _read(self, *, once: bool = False) -> Iterator[Snapshot]:
        """Open a snapshot, and report damaged rows as `Corrupt`. `once`: for a single query."""
        with rows_of("the ledger"), (self._hold_to_ask if once else self._hold)() as transaction:
            yield self._snapshot(transaction, self._parts)

    @contextmanager
    def _writing(self) -> Iterator[LedgerSession[T]]:
        """Open the write transaction. After the commit, update the anchor."""
        with self._hold_to_write() as transaction:
            session = self._session(transaction)
            yield session
            session.finish()
        if self._anchor and (reached := session.reached):
            self._anchor.write(reached)

    @contextmanager
    def _planning(self) -> Iterator[LedgerSession[T]]:
        with self._hold() as transaction:
            yield self._session(transaction)

    def _kept_anchor(self) -> Anchor | None:
        return self._anchor.read() if self._anchor else None

    def _check_anchor(self) -> None:
        """Check that the log contains the event of the stored anchor, if any. Raises `Corrupt`."""
        stored = self._kept_anchor()
        if stored is None or stored.seq == 0:
            return
        with rows_of("the ledger"), self._hold() as transaction:
            if self._rows(transaction).has_event(stored.seq, stored.hash):
                return
        raise Corrupt(
            f"{self._place} does not contain audit event {stored.seq}, which its anchor names.",
            hint="Its log was truncated or an older copy was restored: restore the newest copy, then run lint audit.",
            details={"seq": stored.seq},
        )


_TYPES, _CHANNELS = frozenset(get_args(ObjectType)), frozenset(get_args(Channel))


def checked_head(head: Head) -> Head:
    """Return the head if its type and channel are known. Raises `Corrupt` otherwise."""
    if head.type in _TYPES and head.origin_channel in _CHANNELS:
        return head
    raise Corrupt(
        f"The row of {head.id} contains an unknown type or channel.",
        hint="Run lint audit.",
        details={"id": head.id},
    )


def newest_states(rows: Iterable[tuple[str, SourceState]]) -> dict[str, SourceState]:
    """Return the state of the source with each origin. `rows`: origins and states in the order of ids."""
    states: dict[str, SourceState] = {}
    for origin, state in rows:
        # A later source with the same origin replaces an archived one.
        if origin not in states or states[origin].status == "archived":
            states[origin] = state
    return states
