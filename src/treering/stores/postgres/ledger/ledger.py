"""The ledger on Postgres: many spaces in one database, any number of processes on any number of machines."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from treering.core.audit import Anchor, AuditEvent
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Object
from treering.core.patch import Link, PatchRecord, PatchStatus
from treering.core.policy import Policy
from treering.core.writing.transaction import missing_patch
from treering.ports.copying import LedgerWrites
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
    missing_object,
)
from treering.ports.runtime import Clock
from treering.stores.postgres.connection.space import Transactions
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.ledger.rows import SpaceRows
from treering.stores.postgres.ledger.session import LedgerFollower, PostgresSession
from treering.stores.postgres.ledger.snapshot import Snapshot
from treering.stores.rows.read_checks import ReadChecks
from treering.stores.rows.records import events_in_batches, records_of
from treering.stores.rows.row_failures import rows_of
from treering.stores.rows.verification import verify_rows


class PostgresLedger(LedgerWrites):
    """`ports.ledger.Ledger` over a `PostgresSpace`. Followers move in the same transactions.

    `policy` holds as long as the space tells of none. Events carry the server's time, which all writers share; with
    `server_time=False` that of `clock`, as tests want it.
    """

    def __init__(
        self,
        space: Transactions,
        *,
        clock: Clock,
        policy: Policy | None = None,
        followers: Sequence[LedgerFollower] = (),
        anchor: AnchorStore | None = None,
        server_time: bool = True,
    ) -> None:
        self._space = space
        self._clock = clock
        self._default_policy = policy or Policy()
        self._anchor = anchor
        self._server_time = server_time
        self._checks = ReadChecks()
        self._followers = tuple(followers)
        if not self._is_prepared():
            with space.write() as transaction:
                for follower in self._followers:
                    follower.prepare(transaction)
        self._check_anchor()

    @property
    def policy(self) -> Policy:
        """The policy in force, as the space holds it now."""
        with self._read() as snapshot:
            return snapshot.policy

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object as it stands, or as it stood."""
        with self._read() as snapshot:
            return snapshot.get(identity, as_of=as_of)

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision, oldest first."""
        with self._read() as snapshot:
            revisions = snapshot.objects.revisions(identity)
        if not revisions:
            raise missing_object(identity)
        return revisions

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return the heads of those of the ids that exist."""
        with self._read() as snapshot:
            return snapshot.heads(identities, as_of=as_of, altered=altered)

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return a segment, also one that has vanished from its source since."""
        with self._read() as snapshot:
            return snapshot.segment(source_id, segment_id)

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]:
        """Return those of the segments (source id, segment id) that are in their sources now."""
        with self._read() as snapshot:
            return snapshot.segments(places, altered=altered)

    def read(self, requests: Sequence[ObjectRequest]) -> Sequence[ObjectsFound]:
        """Read for several requests, all of one moment, with a bounded number of queries."""
        with self._read() as snapshot:
            return snapshot.read(requests)

    def select(self, selection: Selection, *, altered: Altered | None = None) -> Iterator[Object]:
        """Return the objects a read at the selection's scope sees, oldest first."""
        with self._read() as snapshot:
            found = snapshot.select(selection, altered)
        yield from found

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Give, by origin, the sources in this scope below a root origin."""
        with self._read() as snapshot:
            return snapshot.sources(scope, root)

    def sources_at(self, *, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Give, by origin, those of the sources that are in this scope."""
        with self._read() as snapshot:
            return snapshot.sources_at(scope, origins)

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes below one that objects lie in."""
        with self._read() as snapshot:
            return snapshot.scopes(below)

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge whose evidence or derivation names this id."""
        with self._read() as snapshot:
            return snapshot.dependents(identity)

    def referrers(self, identity: str) -> Sequence[str]:
        """Return ids of objects of which a revision names this id."""
        with self._read() as snapshot:
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
        with self._read() as snapshot:
            return snapshot.sequence(as_of)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Return audit events in order, in batches, so that a long log does not fill memory."""

        def batch(after: int, limit: int) -> Sequence[AuditEvent]:
            with self._read() as snapshot:
                return snapshot.log.events(after=after, limit=limit)

        return events_in_batches(batch, after=after, limit=limit)

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of objects that the `limit` events behind `after` tell of, in order."""
        with self._read() as snapshot:
            return snapshot.changes(after, limit)

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object or patch."""
        with self._read() as snapshot:
            return snapshot.log.events_of([identity])

    def records(self, *, only: Collection[str] = TABLES) -> Iterator[Record]:
        """Return everything the ledger holds, or the records of some tables, of one moment."""
        with rows_of("the ledger"), self._space.read() as transaction:
            yield from records_of(SpaceRows(transaction), only)

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Check the audit chain, every revision against it, and every segment against its hash."""
        kept = anchor or (self._anchor.read() if self._anchor else None)
        with rows_of("the ledger"), self._space.read() as transaction:
            rows = SpaceRows(transaction)
            head = verify_rows(rows, anchor=kept)
            rows.check_end()
            return head

    def compact(self) -> tuple[str, ...]:
        """Say what the server releases in its own time: the versions of rows that erasure left behind.

        Only the owner of the database may rewrite its tables (VACUUM FULL), and backups and the write-ahead log have
        their own lives.
        """
        return ()

    def close(self) -> None:
        """Give the connections back."""
        self._space.close()

    @contextmanager
    def _read(self) -> Iterator[Snapshot]:
        """Hold a snapshot, and the rows of the ledger to what they should be."""
        with rows_of("the ledger"), self._space.read() as transaction:
            yield Snapshot(transaction, self._checks, self._default_policy)

    @contextmanager
    def _writing(self) -> Iterator[PostgresSession]:
        """Hold the one write transaction; once it is durable, tell the anchor how far the log has come."""
        with self._space.write() as transaction:
            session = self._session(transaction)
            yield session
            session.finish()
        if self._anchor and transaction.reached:
            self._anchor.write(transaction.reached)

    @contextmanager
    def _planning(self) -> Iterator[PostgresSession]:
        with self._space.read() as transaction:
            yield self._session(transaction)

    def _session(self, transaction: Transaction) -> PostgresSession:
        return PostgresSession(
            transaction,
            self._checks,
            clock=self._clock,
            policy=self._default_policy,
            server_time=self._server_time,
            followers=self._followers,
        )

    def _is_prepared(self) -> bool:
        """Look before writing: a process that only wants to read waits for no writer, not even to open the space."""
        if not self._followers:
            return True
        with self._space.read() as transaction:
            return all(follower.is_prepared(transaction) for follower in self._followers)

    def _check_anchor(self) -> None:
        kept = self._anchor.read() if self._anchor else None
        if kept is None or kept.seq == 0:
            return
        with self._read() as snapshot:
            events = snapshot.log.events(after=kept.seq - 1, limit=1)
        if not events or (events[0].seq, events[0].hash) != (kept.seq, kept.hash):
            raise Corrupt(
                f"{self._space.place} does not hold the audit event {kept.seq} its anchor names.",
                hint="Its tail was cut or an older copy was put back: restore the newest copy, then lint audit.",
                details={"seq": kept.seq},
            )
