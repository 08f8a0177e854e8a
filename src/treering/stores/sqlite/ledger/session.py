"""All rows of a ledger, one kind after the other: for checks of the whole, exports and imports."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

import apsw

from treering.core.audit import Anchor, AuditEvent
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Knowledge, Object, Source, no_export
from treering.core.patch import Patch, PatchRecord, Remembered
from treering.core.policy import Policy
from treering.core.writing.copying import LinkRow
from treering.core.writing.draft import View
from treering.core.writing.journal import Journal, Notice, erased_by
from treering.core.writing.plan import Plan
from treering.ports.index import Change
from treering.ports.ledger import Record
from treering.ports.runtime import Clock, fresh_id, fresh_salt
from treering.stores.rows.packing import REINDEX, RESTORE, pack_sealed, row_of, unpack, unpack_json
from treering.stores.rows.read_checks import Body, ReadChecks, Stored
from treering.stores.rows.records import changes_of, load_records
from treering.stores.rows.verification import CurrentRows, EventRow, ObjectRow, verify_rows
from treering.stores.sqlite.ledger.log_tables import LogEnd, LogTables
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.ledger.schema import CLAIMING_DECISIONS, references_noted


class SqliteRows:
    """`VerifiedRows` and `ExportedRows` of `rows`, over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._objects = ObjectTables(connection)
        self._log = LogTables(connection)

    def event_rows(self) -> Iterator[EventRow]:
        """Return the audit log, by sequence number."""
        return self._connection.execute("SELECT seq, target, timestamp, hash, body FROM audit ORDER BY seq")

    def revision_items(self) -> Iterator[tuple[str, int, int, Object]]:
        """Return every revision, with its columns."""
        sql = "SELECT id, revision, seq, body FROM revisions ORDER BY row"
        for identity, number, seq, body in self._connection.execute(sql):
            yield identity, number, seq, self._objects.load(unpack(body))

    def link_rows(self) -> Iterable[LinkRow]:
        """Return all links, those that were added first at first."""
        sql = "SELECT type, source, target, patch_id, added, removed FROM links ORDER BY added, type, source, target"
        return ((row[0], row[1], row[2], row[3], row[4], row[5]) for row in self._connection.execute(sql))

    def patch_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return all patches, by id."""
        return self._connection.execute("SELECT id, status, body FROM patches ORDER BY id")

    def keys(self, prefix: str) -> Iterable[tuple[str, Remembered]]:
        """Return the keys that begin so, each with what it stands for."""
        return self._log.keys(prefix)

    def has_event(self, seq: int, digest: str) -> bool:
        """Tell whether the row of an event has this hash."""
        sql = "SELECT 1 FROM audit WHERE seq = ? AND hash = ?"
        return next(self._connection.execute(sql, (seq, digest)), None) is not None

    def current(self) -> Iterator[CurrentRows]:
        """Return all objects that have a revision or a row."""
        for (identity,) in list(self._connection.execute("SELECT id FROM revisions UNION SELECT id FROM objects")):
            item = self._objects.get(identity)
            noted = references_noted(self._connection, identity)
            yield CurrentRows(identity, item, self._row(identity, item), noted, self._segments(identity))

    def revisions(self, identity: str) -> Sequence[Object]:
        """Return every revision of an object, oldest first."""
        return self._objects.revisions(identity)

    def dependencies(self) -> Iterable[tuple[str, str]]:
        """Return what rests on what."""
        return self._connection.execute("SELECT target, dependent FROM dependencies")

    def count_segments(self) -> int:
        """Return how many segments are kept."""
        return int(next(self._connection.execute("SELECT count(*) FROM segments"))[0])

    def stored_revisions(self) -> Iterator[Stored]:
        """Return the rows of all revisions, by the number of their event."""
        sql = "SELECT id, revision, seq, body FROM revisions ORDER BY seq, id, revision"
        return (Stored(*row) for row in self._connection.execute(sql))

    def segment_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return source id, segment id and text of all segments, by both ids."""
        return self._connection.execute(
            "SELECT source_id, segment_id, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
            "ORDER BY source_id, segment_id"
        )

    def receipt_rows(self) -> Iterable[tuple[str, Body]]:
        """Return all idempotency keys, by key."""
        return self._connection.execute("SELECT key, body FROM receipts ORDER BY key")

    def _row(self, identity: str, item: Object | None) -> ObjectRow | None:
        row: ObjectRow | None = next(self._connection.execute("SELECT * FROM objects WHERE id = ?", (identity,)), None)
        # In a space of an older version that can only be read, the rows of decisions have no claim key.
        keyless = item and item.kind == "decision" and self._connection.pragma("user_version") < CLAIMING_DECISIONS
        if row and keyless and isinstance(item, Knowledge) and row[-1] is None:
            return (*row[:-1], item.claim_key())
        return row

    def _segments(self, identity: str) -> dict[str, tuple[int | None, Segment]]:
        sql = (
            "SELECT segment_id, vanished, place, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
            "WHERE source_id = ?"
        )
        return {row[0]: (row[1], _segment(identity, *row[2:])) for row in self._connection.execute(sql, (identity,))}


def load_rows(connection: apsw.Connection, records: Iterable[Record]) -> list[Change]:
    """Write records into an empty ledger; return the changes its followers have to see, in order.

    Raises `InvalidInput` for what is not an export.
    """
    try:
        return load_records(_LoadedRows(connection), records)
    except apsw.ConstraintError as error:
        raise no_export(error) from error


class _LoadedRows:
    """`rows.records.LoadedRows` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._objects = ObjectTables(connection)
        self._log = LogTables(connection)

    def keep_event(self, event: AuditEvent) -> None:
        self._log.keep_event(event)

    def keep_revision(self, identity: str, revision: int, seq: int, stored: str) -> None:
        self._objects.keep_revision(identity, revision, seq, stored)

    def keep_words(self, source_id: str, segment_id: str, text: str) -> None:
        self._objects.keep_words(source_id, segment_id, text)

    def keep_link(self, row: LinkRow) -> None:
        sql = "INSERT INTO links(type, source, target, patch_id, added, removed) VALUES(?, ?, ?, ?, ?, ?)"
        self._connection.execute(sql, row)

    def keep_new_record(self, record: PatchRecord) -> None:
        self._log.keep_new_record(record)

    def keep_key(self, key: str, outcome: str) -> None:
        sql = "INSERT INTO receipts(key, body) VALUES(?, ?)"
        self._connection.execute(sql, (key, pack_sealed(outcome, name=key)))

    def revision(self, identity: str, number: int) -> Object | None:
        return self._objects.revision(identity, number)

    def settle(self, item: Object) -> None:
        self._objects.set_current(item)
        if isinstance(item, Source):
            self._objects.keep_places(item)


def _segment(source_id: str, place: Body, body: Body) -> Segment:
    with row_of(source_id):
        return Segment.model_validate({**unpack_json(place), "excerpt": unpack(body)})


# Checking a ledger's file, and its rows against its own audit log.


_TABLES = ("objects", "revisions", "texts", "segments", "dependencies", "links", "patches", "receipts", "audit")


def verify_ledger(connection: apsw.Connection, *, anchor: Anchor | None) -> Anchor:
    """Check the file, the chain, that the ledger holds exactly what the log tells of, and every segment's words.

    Raises `Corrupt` naming the first thing that does not verify.
    """
    _check_file(connection)
    return verify_rows(SqliteRows(connection), anchor=anchor)


def _check_file(connection: apsw.Connection) -> None:
    """Check every page, and every index of a table against the table.

    Where all tables of the ledger are whole, what is damaged is made anew from them.
    """
    problem = _damage(connection, "PRAGMA integrity_check(1)")
    if problem:
        damaged = any(_damage(connection, f"PRAGMA integrity_check({table})") for table in _TABLES)
        hint = "Restore the space from a backup." if damaged else f"{REINDEX} Where that fails: {RESTORE}"
        raise Corrupt(f"The database file is damaged: {problem}.", hint=hint)


def _damage(connection: apsw.Connection, check: str) -> str:
    (found,) = next(connection.execute(check))
    return "" if found == "ok" else str(found)


# What a transaction asks of a ledger on SQLite, over the connection that holds the write transaction.


# What lives beside the ledger in its database and moves with it, in the same transaction.


class Follower(Protocol):
    """A projection in the ledger's own database."""

    def is_prepared(self, connection: apsw.Connection) -> bool:
        """Tell whether everything is there as `prepare` would leave it, so that opening need not wait for a writer."""
        ...

    def prepare(self, connection: apsw.Connection) -> None:
        """Make what is missing. In a write transaction, when a space is opened that is not prepared."""
        ...

    def follow(self, connection: apsw.Connection, changes: Sequence[Change]) -> None:
        """Apply changes inside the ledger's write transaction."""
        ...


class SqliteSession:
    """`core.writing.transaction.Session` over a connection, for one transaction.

    Followers see its changes when it finishes.
    """

    def __init__(self, connection: apsw.Connection, checks: ReadChecks, *, clock: Clock, policy: Policy) -> None:
        self.view: View = ObjectTables(connection, checks)
        self.default_policy = policy
        self.reached: Anchor | None = None
        """The head that was kept, where something was."""
        self._connection = connection
        self._log = LogTables(connection, checks)
        self._clock = clock
        self._changes: list[Change] = []
        self._end: LogEnd | None = None

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Do nothing: each answer is at hand."""

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Do nothing: each answer is at hand."""

    def recorded_policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`."""
        return self._log_end.policy

    def now(self) -> datetime:
        """Return the machine's time: processes that share a file share a machine."""
        return self._clock.now()

    def fresh_id(self, kind: str) -> str:
        """Make the id of a new thing."""
        return fresh_id(kind, self._clock)

    def fresh_salt(self) -> str:
        """Make a salt."""
        return fresh_salt(self._clock)

    def head(self) -> Anchor:
        """Return the head of the audit log."""
        return self._log_end.head

    def last_time(self) -> datetime | None:
        """Return the time of the last audit event, or `None` before the first."""
        return self._log_end.last_time

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
        self._log.remember(key, known)

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._log.forget(key)

    def keep(self, planned: Plan, result: Journal) -> None:
        """Keep writes, events and records; note what an erasure leaves to be overwritten in the file."""
        self._end = None
        tables = ObjectTables(self._connection)
        for write, event, stored in zip(planned.writes, result.events, result.stored, strict=False):
            tables.store(write, event.seq, stored)
            self._changes += changes_of(write, event.seq)
        for event in result.events:
            self._log.keep_event(event)
        for record in result.records:
            self._log.keep_record(record)
        if erased_by(planned):
            note_erasure(self._connection, result.receipt.sequence)
        self.reached = Anchor(seq=result.receipt.sequence, hash=result.receipt.head)

    def keep_notice(self, notice: Notice) -> None:
        """Keep an event about a patch, and the patch's record."""
        self._end = None
        self._log.keep_event(notice.event)
        self._log.keep_record(notice.record)
        self.reached = Anchor(seq=notice.event.seq, hash=notice.event.hash)

    def keep_event(self, event: AuditEvent) -> None:
        """Keep an event that is about neither an object nor a patch."""
        self._end = None
        self._log.keep_event(event)
        self.reached = Anchor(seq=event.seq, hash=event.hash)

    def is_bare(self) -> bool:
        """Tell whether the log tells of nothing but the policy."""
        return self._log.is_bare()

    def clear(self) -> None:
        """Remove the events of a log that is bare."""
        self._end = None
        self._log.clear()

    def fill(self, records: Iterable[Record]) -> None:
        """Keep the records of an export."""
        self._end = None
        self._changes += load_rows(self._connection, records)

    def verify(self) -> Anchor:
        """Check everything that is kept against the audit log; return its head."""
        self.reached = verify_ledger(self._connection, anchor=None)
        return self.reached

    def finish(self, followers: Iterable[Follower]) -> None:
        """Let followers apply the changes, as the last thing in the transaction."""
        for follower in followers if self._changes else ():
            follower.follow(self._connection, self._changes)

    @property
    def _log_end(self) -> LogEnd:
        """Read the end of the log once: no other writer comes between, and what this one keeps makes it forget it."""
        self._end = self._end or self._log.end()
        return self._end


# Overwriting what erasure leaves in the file and its log: noted with the erasure, done when nobody is in the way.


def note_erasure(connection: apsw.Connection, seq: int) -> None:
    """Note, in the transaction of an erasure, that the file and its log have to be overwritten."""
    connection.execute("INSERT OR REPLACE INTO overwriting(seq, vacuumed) VALUES(?, 0)", (seq,))


def is_overwriting_due(connection: apsw.Connection) -> bool:
    """Tell whether an erasure still waits for its overwriting."""
    return next(connection.execute("SELECT 1 FROM overwriting LIMIT 1"), None) is not None


def overwrite(connection: apsw.Connection) -> None:
    """Write the file anew without what was erased, and empty its log. Outside of a transaction.

    Raises `apsw.BusyError` where another process reads or writes: the note stays, and with it what is left to do. What
    is erased meanwhile has a note of its own.
    """
    if not is_overwriting_due(connection):
        return
    newest, vacuumed = next(connection.execute("SELECT max(seq), min(vacuumed) FROM overwriting"))
    if not vacuumed:
        connection.execute("VACUUM")
        connection.execute("UPDATE overwriting SET vacuumed = 1 WHERE seq <= ?", (newest,))
    if connection.filename:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("DELETE FROM overwriting WHERE seq <= ?", (newest,))
