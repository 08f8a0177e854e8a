"""All rows of a space, one kind after the other: for checks of the whole, exports and imports."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from treering.core.audit import AuditEvent
from treering.core.evidence import Segment
from treering.core.objects import Object
from treering.core.patch import PatchRecord, Remembered
from treering.core.writing.copying import LinkRow
from treering.stores.postgres.connection.exchange import Row
from treering.stores.postgres.connection.failures import body_of, from_column
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.ledger.log_tables import LogReads, LogWrites
from treering.stores.postgres.ledger.object_reads import ObjectReads
from treering.stores.postgres.ledger.object_writes import ObjectWrites
from treering.stores.rows.packing import unpack, unpack_json
from treering.stores.rows.read_checks import Body, Stored
from treering.stores.rows.row_failures import row_of
from treering.stores.rows.verification import OBJECT_COLUMNS, CurrentRows, EventRow, ObjectRow, wrong

_BATCH = 200  # objects that are read at a time
_OBJECTS = ", ".join(OBJECT_COLUMNS)
_REVISIONS = "SELECT id, revision, seq, body FROM revisions WHERE space = %(space)s ORDER BY seq, id, revision"


class SpaceRows:
    """`VerifiedRows` and `ExportedRows` of `ledger_rows`, over a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._objects = ObjectReads(transaction)
        self._log = LogReads(transaction)

    def event_rows(self) -> Iterator[EventRow]:
        """Return the audit log, by sequence number."""
        sql = "SELECT seq, target, timestamp, hash, body FROM audit WHERE space = %(space)s ORDER BY seq"
        for seq, target, time, digest, body in self._transaction.stream("events", sql):
            yield seq, target, time, digest, body_of(body)

    def revision_items(self) -> Iterator[tuple[str, int, int, Object]]:
        """Return every revision, with its columns."""
        stored = self.stored_revisions()
        while batch := list(islice(stored, _BATCH)):
            for one, item in zip(batch, self._objects.load(batch), strict=True):
                yield one.identity, one.number, one.seq, item

    def link_rows(self) -> Iterator[LinkRow]:
        """Return all links, those that were added first at first."""
        sql = (
            "SELECT type, source, target, patch_id, added, removed FROM links WHERE space = %(space)s "
            "ORDER BY added, type, source, target"
        )
        return ((row[0], row[1], row[2], row[3], row[4], row[5]) for row in self._transaction.stream("links", sql))

    def patch_rows(self) -> Iterator[tuple[str, str, Body]]:
        """Return all patches, by id."""
        sql = "SELECT id, status, body FROM patches WHERE space = %(space)s ORDER BY id"
        return ((row[0], row[1], body_of(row[2])) for row in self._transaction.stream("patches", sql))

    def keys(self, prefix: str) -> Iterable[tuple[str, Remembered]]:
        """Return the keys that begin so, each with what it stands for."""
        return self._log.keys(prefix)

    def has_event(self, seq: int, digest: str) -> bool:
        """Tell whether the row of an event has this hash."""
        sql = "SELECT 1 FROM audit WHERE space = %(space)s AND seq = %(seq)s AND hash = %(digest)s"
        return self._transaction.first(sql, seq=seq, digest=digest) is not None

    def current(self) -> Iterator[CurrentRows]:
        """Return all objects that have a revision or a row."""
        sql = (
            "SELECT id FROM revisions WHERE space = %(space)s UNION SELECT id FROM objects WHERE space = %(space)s "
            "ORDER BY id"
        )
        identities = self._transaction.stream("objects", sql)
        while batch := [identity for (identity,) in islice(identities, _BATCH)]:
            yield from self._current(batch)

    def revisions(self, identity: str) -> Sequence[Object]:
        """Return every revision of an object, oldest first."""
        return self._objects.revisions(identity)

    def dependencies(self) -> Iterator[tuple[str, str]]:
        """Return what rests on what."""
        sql = "SELECT target, dependent FROM dependencies WHERE space = %(space)s"
        return ((target, dependent) for target, dependent in self._transaction.stream("dependencies", sql))

    def count_segments(self) -> int:
        """Return how many segments are kept."""
        return int(self._transaction.first("SELECT count(*) FROM segments WHERE space = %(space)s"))

    def stored_revisions(self) -> Iterator[Stored]:
        """Return the rows of all revisions, by the number of their event."""
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
        # By the key itself, which its column may hold in another form.
        return iter(sorted((from_column(key), body) for key, body in self._transaction.rows(sql)))

    def check_end(self) -> None:
        """Check that the space's row says where the log ends, and which policy it tells of last. Raises `Corrupt`."""
        row, end = self._transaction.row, "SELECT seq, hash, timestamp FROM audit WHERE space = %(space)s "
        last = self._transaction.rows(f"{end} ORDER BY seq DESC LIMIT 1")
        told = self._transaction.rows(
            "SELECT seq, body FROM audit WHERE space = %(space)s AND target = 'policy' ORDER BY seq DESC LIMIT 1"
        )
        kept = (row.sequence, row.hash, row.last_time) if row.sequence else ()
        policy = () if row.policy_seq is None else (row.policy_seq, row.policy)
        if kept != tuple(*last) or policy != tuple(*told):
            raise wrong("the row of the space does not say where its audit log ends", "the audit log")

    def _current(self, identities: Sequence[str]) -> Iterator[CurrentRows]:
        items, rows = self._objects.current(identities), self._object_rows(identities)
        names, segments = self._names(identities), self._segments(identities)
        for identity in identities:
            found = frozenset(names.get(identity, ()))
            yield CurrentRows(identity, items.get(identity), rows.get(identity), found, segments.get(identity, {}))

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
        found: dict[str, dict[str, tuple[int | None, Segment]]] = {}
        for row in self._transaction.rows(sql, ids=list(identities)):
            found.setdefault(row[0], {})[row[1]] = (row[2], _segment(row))
        return found


class LoadedSpace:
    """`ledger_rows.records.LoadedRows` over the write transaction of an empty space."""

    def __init__(self, transaction: Transaction, log: LogWrites) -> None:
        self._objects = ObjectWrites(transaction)
        self._reads = ObjectReads(transaction)
        self._log = log
        self._events: list[AuditEvent] = []
        self._records: list[PatchRecord] = []

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event."""
        self._events.append(event)

    def keep_revision(self, identity: str, revision: int, seq: int, stored: str) -> None:
        """Keep a revision's stored form."""
        self._objects.keep_revision(identity, revision, seq, stored)

    def keep_words(self, source_id: str, segment_id: str, text: str) -> None:
        """Keep the words of a segment, whose place is settled later."""
        self._objects.keep_words(source_id, segment_id, text)

    def keep_link(self, row: LinkRow) -> None:
        """Keep a link."""
        self._objects.keep_link(row)

    def keep_new_record(self, record: PatchRecord) -> None:
        """Keep the record of a patch that is not there."""
        self._records.append(record)

    def keep_key(self, key: str, outcome: str) -> None:
        """Keep what an idempotency key stands for, as JSON."""
        self._log.keep_key(key, outcome)

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision of those that were kept."""
        self._objects.finish()
        return self._reads.revision(identity, number) if number else None

    def settle(self, item: Object) -> None:
        """Have the tables that are read instead of the revisions say what a revision says."""
        self._objects.settle_loaded(item)

    def finish(self) -> None:
        """Send what was collected."""
        self._objects.finish()
        self._log.keep_events(sorted(self._events, key=lambda event: event.seq))
        self._log.keep_new_records(self._records)


def _segment(row: Row) -> Segment:
    source_id, _, _, place, body = row
    with row_of(source_id):
        return Segment.model_validate({**unpack_json(body_of(place)), "excerpt": unpack(body_of(body))})
