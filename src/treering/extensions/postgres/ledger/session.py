"""A ledger in a transaction of its space: all of its rows, and the session of a patch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Protocol

import psycopg

from treering.core.audit import Anchor
from treering.core.evidence import Segment
from treering.core.objects import Knowledge, Node, Object, Source, no_export
from treering.core.patch import Create, Patch, Remembered, Update
from treering.core.writing.account import LinkRow
from treering.core.writing.draft import Write
from treering.core.writing.journal import ERASED_KEY
from treering.extensions.postgres.connection.failures import body_of, from_column, text_of
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.ledger.log_tables import PostgresLedgerLog
from treering.extensions.postgres.ledger.object_reads import ObjectReads
from treering.extensions.postgres.ledger.object_writes import ObjectWrites
from treering.ports.ledger import Record
from treering.stores.rows.damage import row_of
from treering.stores.rows.packing import unpack_json
from treering.stores.rows.read_checks import Body, Stored
from treering.stores.rows.records import load_records
from treering.stores.rows.session import Follower, LedgerParts, LedgerSession
from treering.stores.rows.verification import (
    OBJECT_COLUMNS,
    EventRow,
    ObjectRow,
    ObjectRows,
    RevisionRow,
    by_object,
    verify_rows,
    wrong,
)

_BATCH = 200  # objects that are read at a time
_OBJECTS = ", ".join(OBJECT_COLUMNS)
_REVISIONS = "SELECT id, revision, seq, body FROM revisions WHERE space = %(space)s ORDER BY seq, id, revision"


class SpaceRows:
    """`LedgerRows` over a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._objects = ObjectReads(transaction)
        self._log = PostgresLedgerLog(transaction)

    def event_rows(self) -> Iterator[EventRow]:
        """Return the audit log, by sequence number."""
        sql = "SELECT seq, target, timestamp, hash, body FROM audit WHERE space = %(space)s ORDER BY seq"
        for seq, target, time, digest, body in self._transaction.stream("events", sql):
            yield seq, target, time, digest, body_of(body)

    def link_rows(self) -> Iterator[LinkRow]:
        """Return all links in the order in which they were added."""
        sql = (
            "SELECT type, source, target, patch_id, added, removed FROM links WHERE space = %(space)s "
            "ORDER BY added, type, source, target"
        )
        return self._transaction.stream("links", sql)

    def patch_rows(self) -> Iterator[tuple[str, str, Body]]:
        """Return all patches, by id."""
        sql = "SELECT id, status, body FROM patches WHERE space = %(space)s ORDER BY id"
        return ((row[0], row[1], body_of(row[2])) for row in self._transaction.stream("patches", sql))

    def keys(self, prefix: str) -> Iterable[tuple[str, Remembered]]:
        """Return the keys with a prefix, with their values."""
        return self._log.keys(prefix)

    def has_event(self, seq: int, digest: str) -> bool:
        """Return whether an event has this hash."""
        sql = "SELECT 1 FROM audit WHERE space = %(space)s AND seq = %(seq)s AND hash = %(digest)s"
        return self._transaction.first(sql, seq=seq, digest=digest) is not None

    def objects(self) -> Iterator[ObjectRows]:
        """Return all objects that have a revision or a row. Each revision is parsed once."""
        batch: dict[str, Sequence[RevisionRow]] = {}
        count = 0
        for revisions in by_object(self._revisions()):
            batch[revisions[0][0]] = revisions
            count += len(revisions)
            if count >= _BATCH:
                yield from self._with_rows(batch)
                batch, count = {}, 0
        bare = "SELECT 1 FROM revisions r WHERE r.space = %(space)s AND r.id = o.id"
        sql = f"SELECT id FROM objects o WHERE space = %(space)s AND NOT EXISTS ({bare}) ORDER BY id"  # noqa: S608 - ours
        batch |= dict.fromkeys(self._transaction.column(sql), ())
        yield from self._with_rows(batch)

    def dependencies(self) -> Iterator[tuple[str, str]]:
        """Return pairs of a target and the knowledge that depends on it."""
        sql = "SELECT target, dependent FROM dependencies WHERE space = %(space)s"
        return self._transaction.stream("dependencies", sql)

    def count_segments(self) -> int:
        """Return the number of stored segments."""
        return int(self._transaction.first("SELECT count(*) FROM segments WHERE space = %(space)s"))

    def stored_revisions(self) -> Iterator[Stored]:
        """Return the rows of all revisions, by sequence number."""
        for identity, number, seq, body in self._transaction.stream("revisions", _REVISIONS):
            yield Stored(identity, number, seq, body_of(body))

    def segment_rows(self) -> Iterator[tuple[str, str, Body]]:
        """Return source id, segment id and text of all segments, by both ids."""
        sql = (
            "SELECT s.source_id, s.segment_id, t.body FROM segments s "
            "JOIN texts t ON t.space = s.space AND t.hash = s.hash WHERE s.space = %(space)s "
            "ORDER BY s.source_id, s.segment_id"
        )
        return ((row[0], row[1], body_of(row[2])) for row in self._transaction.stream("segments", sql))

    def receipt_rows(self) -> Iterator[tuple[str, Body]]:
        """Return all idempotency keys, by key."""
        sql = "SELECT key, body FROM receipts WHERE space = %(space)s"
        # Sorted by the decoded key, because its column may have another form.
        return iter(sorted((from_column(key), body) for key, body in self._transaction.rows(sql)))

    def verify(self, *, anchor: Anchor | None) -> Anchor:
        """Check all rows against the audit log, and that the log contains the anchor; return its head."""
        head = verify_rows(self, anchor=anchor)
        self._check_end()
        return head

    def _check_end(self) -> None:
        """Check the end of the log and the last policy in the space's row. Raises `Corrupt`."""
        row, end = self._transaction.row, "SELECT seq, hash, timestamp FROM audit WHERE space = %(space)s "
        last = self._transaction.rows(f"{end} ORDER BY seq DESC LIMIT 1")
        policies = self._transaction.rows(
            "SELECT seq, body FROM audit WHERE space = %(space)s AND target = 'policy' ORDER BY seq DESC LIMIT 1"
        )
        log_end = (row.sequence, row.hash, row.last_time) if row.sequence else ()
        policy = () if row.policy_seq is None else (row.policy_seq, row.policy)
        if log_end != tuple(*last) or policy != tuple(*policies):
            raise wrong("the row of the space does not contain the end of its audit log", "the audit log")

    def _revisions(self) -> Iterator[RevisionRow]:
        """Return every revision, by id and number."""
        sql = "SELECT id, revision, seq, body FROM revisions WHERE space = %(space)s ORDER BY id, revision"
        rows = self._transaction.stream("objects", sql)
        while batch := [Stored(row[0], row[1], row[2], body_of(row[3])) for row in islice(rows, _BATCH)]:
            for one, item in zip(batch, self._objects.load(batch), strict=True):
                yield one.identity, one.number, one.seq, item

    def _with_rows(self, objects: Mapping[str, Sequence[RevisionRow]]) -> Iterator[ObjectRows]:
        wanted = list(objects)
        rows, names, segments = self._object_rows(wanted), self._names(wanted), self._segments(wanted)
        for identity, revisions in objects.items():
            references = frozenset(names.get(identity, ()))
            yield ObjectRows(identity, revisions, rows.get(identity), references, segments.get(identity, {}))

    def _object_rows(self, identities: Sequence[str]) -> dict[str, ObjectRow]:
        sql = f"SELECT {_OBJECTS} FROM objects WHERE space = %(space)s AND id = ANY(%(ids)s)"  # noqa: S608 - only our own names
        rows = self._transaction.rows(sql, ids=list(identities))
        return {row[0]: tuple(from_column(value) if isinstance(value, str) else value for value in row) for row in rows}

    def _names(self, identities: Sequence[str]) -> dict[str, set[str]]:
        sql = "SELECT referrer, target FROM referrers WHERE space = %(space)s AND referrer = ANY(%(ids)s)"
        names: dict[str, set[str]] = {}
        for referrer, target in self._transaction.rows(sql, ids=list(identities)):
            names.setdefault(referrer, set()).add(target)
        return names

    def _segments(self, identities: Sequence[str]) -> dict[str, dict[str, tuple[int | None, Segment]]]:
        sql = (
            "SELECT s.source_id, s.segment_id, s.vanished, s.place, t.body FROM segments s "
            "JOIN texts t ON t.space = s.space AND t.hash = s.hash "
            "WHERE s.space = %(space)s AND s.source_id = ANY(%(ids)s)"
        )
        segments: dict[str, dict[str, tuple[int | None, Segment]]] = {}
        for row in self._transaction.rows(sql, ids=list(identities)):
            segments.setdefault(row[0], {})[row[1]] = (row[2], _segment(row))
        return segments


def _segment(row: Row) -> Segment:
    source_id, _, _, place, body = row
    with row_of(source_id):
        return Segment.model_validate({**unpack_json(body_of(place)), "excerpt": text_of(body)})


class LedgerFollower(Follower[Transaction], Protocol):
    """An index in the ledger's own database."""

    def read_ahead(self, transaction: Transaction, /) -> None:
        """Read the data that any change needs. Called while queries are collected, and again with the results."""
        ...


class PostgresSession(LedgerSession[Transaction]):
    """`rows.session.LedgerSession` over a transaction. `server_time`: use the server's time."""

    def __init__(
        self,
        transaction: Transaction,
        parts: LedgerParts[Transaction],
        *,
        server_time: bool,
        readers: Sequence[LedgerFollower] = (),
    ) -> None:
        self._objects = ObjectReads(transaction, parts.checks)
        self._server_time = server_time
        self._readers = readers
        super().__init__(transaction, self._objects, PostgresLedgerLog(transaction, parts.checks), parts)

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Read the data for committing a patch in one round trip."""
        with self._reading_ahead():
            if idempotency_key:
                self._log.remembered(idempotency_key)
                self._log.keys(ERASED_KEY)
            self._log.record(patch.id)
            expect(self._objects, patch)

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Read the data for changing these objects in one round trip."""
        with self._reading_ahead():
            expect_change(self._objects, identities)

    def now(self) -> datetime:
        """Return the time in UTC."""
        return self._transaction.row.server_time if self._server_time else self._parts.clock.now()

    def fill(self, records: Iterable[Record]) -> None:
        """Write the records of an export. Raises `InvalidInput` if they are not an export."""
        objects = ObjectWrites(self._transaction)
        try:
            self._changes += load_records(objects, self._log, records)
            objects.finish()
            self._transaction.flush()
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise no_export(error) from error

    def verify(self) -> Anchor:
        """Verify all rows against the audit log; return its head."""
        return verify_rows(SpaceRows(self._transaction), anchor=None)

    def _store(self, writes: Sequence[tuple[Write, int, str]]) -> None:
        objects = ObjectWrites(self._transaction)
        for write, seq, stored in writes:
            objects.store(write, seq, stored)
        objects.finish()

    @contextmanager
    def _reading_ahead(self) -> Iterator[None]:
        with self._transaction.asking_ahead():
            yield
            self._let_followers_read()
        self._let_followers_read()

    def _let_followers_read(self) -> None:
        for follower in self._readers:
            follower.read_ahead(self._transaction)


def expect(reads: ObjectReads, patch: Patch) -> None:
    """Send the queries for the operations of a patch. Their results are cached."""
    named: set[str] = set()
    cited: set[tuple[str, str]] = set()
    for operation in patch.operations:
        if isinstance(operation, Create):
            _expect_new(reads, operation.object)
            if isinstance(item := operation.object, Knowledge):
                named.update(item.derived_from)
                cited.update((ref.source_id, ref.segment_id) for ref in item.evidence_refs)
        elif identity := getattr(operation, "id", ""):
            expect_change(reads, [identity])
            if isinstance(operation, Update) and "evidence_refs" in operation.changes:
                reads.links_of(identity)
    for identity in sorted(named):
        reads.expect(identity)
    for source_id, segment_id in sorted(cited):
        reads.cited(source_id, segment_id)
    for identity in sorted({*named, *(source_id for source_id, _ in cited)}):
        reads.scope_of(identity)


def expect_change(reads: ObjectReads, identities: Iterable[str]) -> None:
    """Send the queries for changing objects."""
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
