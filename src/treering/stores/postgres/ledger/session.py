"""What a transaction asks of a ledger on Postgres, inside a transaction of its space."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

import psycopg

from treering.core.audit import Anchor, AuditEvent
from treering.core.objects import Knowledge, Node, Object, Source, no_export
from treering.core.patch import Create, Patch, PatchRecord, Remembered
from treering.core.policy import Policy
from treering.core.writing.draft import Erased, View
from treering.core.writing.journal import ERASED_KEY, Journal, Notice
from treering.core.writing.plan import Plan
from treering.ports.index import Change
from treering.ports.ledger import Record
from treering.ports.runtime import Clock, fresh_id, fresh_salt
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.ledger.jobs import forget_in_jobs
from treering.stores.postgres.ledger.log_tables import LogReads, LogWrites
from treering.stores.postgres.ledger.object_reads import ObjectReads
from treering.stores.postgres.ledger.object_writes import ObjectWrites
from treering.stores.postgres.ledger.rows import LoadedSpace, SpaceRows
from treering.stores.rows.read_checks import ReadChecks
from treering.stores.rows.records import changes_of, load_records
from treering.stores.rows.verification import verify_rows

# What lives beside the ledger in its database and moves with it, in the same transaction.


class LedgerFollower(Protocol):
    """A projection in the ledger's own database."""

    def is_prepared(self, transaction: Transaction) -> bool:
        """Tell whether everything is there as `prepare` would leave it, so that opening need not wait for a writer."""
        ...

    def prepare(self, transaction: Transaction) -> None:
        """Make what is missing. In a write transaction, when a space is opened that is not prepared."""
        ...

    def read_ahead(self, transaction: Transaction) -> None:
        """Read what following any change needs: called while the transaction asks ahead, and with the answers."""
        ...

    def follow(self, transaction: Transaction, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        ...


class PostgresSession:
    """`core.writing.transaction.Session` over a transaction. Followers see its changes when it finishes.

    With `server_time` the time is the server's, which writers share.
    """

    def __init__(
        self,
        transaction: Transaction,
        checks: ReadChecks,
        *,
        clock: Clock,
        policy: Policy,
        server_time: bool,
        followers: Sequence[LedgerFollower] = (),
    ) -> None:
        self._objects = ObjectReads(transaction, checks)
        self.view: View = self._objects
        self.default_policy = policy
        self._transaction = transaction
        self._log = LogReads(transaction, checks)
        self._kept = LogWrites(transaction)
        self._clock = clock
        self._server_time = server_time
        self._followers = followers
        self._changes: list[Change] = []

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Ask in one round trip what committing a patch will ask one by one."""
        with self._reading_ahead():
            if idempotency_key:
                self._log.remembered(idempotency_key)
                self._log.keys(ERASED_KEY)
            self._log.record(patch.id)
            expect(self._objects, patch)

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Ask in one round trip what changing these objects will ask one by one."""
        with self._reading_ahead():
            expect_change(self._objects, identities)

    def recorded_policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`."""
        return self._transaction.row.recorded_policy

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self._transaction.row.server_time if self._server_time else self._clock.now()

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing."""
        return fresh_id(kind, self._clock)

    def fresh_salt(self) -> str:
        """Make a salt."""
        return fresh_salt(self._clock)

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        return self._transaction.row.head

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        return self._transaction.row.time_of_last

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        return self._log.record(patch_id)

    def proposals(self) -> Sequence[PatchRecord]:
        """Return the patches that wait for review, by id."""
        return self._log.proposals()

    def patches_about(self, identities: Iterable[str]) -> set[str]:
        """Return the ids of the patches that events about these objects name."""
        return self._log.patches_about(identities)

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
        """Keep writes, events and records; take out of the jobs what they tell of erased objects."""
        objects = ObjectWrites(self._transaction)
        for write, event, stored in zip(planned.writes, result.events, result.stored, strict=False):
            objects.store(write, event.seq, stored)
            self._changes += changes_of(write, event.seq)
        objects.finish()
        self._kept.keep_events(result.events)
        self._kept.keep_records(result.records)
        erased = [write.before for write in planned.writes if isinstance(write, Erased)]
        if erased:
            origins = {item.origin for item in erased if isinstance(item, Source)}
            forget_in_jobs(self._transaction, frozenset(item.id for item in erased), origins)

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

    def fill(self, records: Iterable[Record]) -> None:
        """Keep the records of an export. Raises `InvalidInput` for what is not a record."""
        loaded = LoadedSpace(self._transaction, self._kept)
        try:
            self._changes += load_records(loaded, records)
            loaded.finish()
            self._transaction.flush()
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise no_export(error) from error

    def finish(self) -> None:
        """Let followers apply the changes, as the last thing in the transaction."""
        for follower in self._followers if self._changes else ():
            follower.follow(self._transaction, self._changes)

    def verify(self) -> Anchor:
        """Check everything that is kept against the audit log; return its head."""
        return verify_rows(SpaceRows(self._transaction), anchor=None)

    @contextmanager
    def _reading_ahead(self) -> Iterator[None]:
        with self._transaction.asking_ahead():
            yield
            self._let_followers_read()
        self._let_followers_read()

    def _let_followers_read(self) -> None:
        for follower in self._followers:
            follower.read_ahead(self._transaction)


# What planning a patch asks of a space, foreseen: asked together, it is one round trip and not many.


def expect(reads: ObjectReads, patch: Patch) -> None:
    """Ask what the operations of a patch are about. The answers are not looked at."""
    named: set[str] = set()
    for operation in patch.operations:
        if isinstance(operation, Create):
            _expect_new(reads, operation.object)
            named |= _grounds(operation.object)
        elif identity := getattr(operation, "id", ""):
            expect_change(reads, [identity])
    for identity in sorted(named):
        reads.expect(identity)
        reads.scope_of(identity)


def expect_change(reads: ObjectReads, identities: Iterable[str]) -> None:
    """Ask what changing objects asks."""
    for identity in identities:
        reads.expect(identity)
        reads.scope_of(identity)
        reads.dependents(identity)


def _expect_new(reads: ObjectReads, item: Object) -> None:
    reads.ever_existed(item.id)
    match item:
        case Source():
            reads.source_by_origin(item.scope, item.origin)
        case Node():
            reads.node_by_slug(item.scope, item.kind, item.slug)
        case Knowledge():
            reads.knowledge_by_duplicate_key(item.duplicate_key())
            if key := item.claim_key():
                reads.knowledge_by_claim_key(key)


def _grounds(item: Object) -> set[str]:
    """Return the ids of what a new piece of knowledge rests on."""
    if not isinstance(item, Knowledge):
        return set()
    return {*item.derived_from, *(ref.source_id for ref in item.evidence_refs)}
