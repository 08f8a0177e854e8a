"""A ledger's file in a transaction: all of its rows, the session of a patch, and overwriting after an erasure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import no_export
from treering.core.patch import Patch, Remembered
from treering.core.writing.account import LinkRow
from treering.core.writing.draft import Write
from treering.ports.ledger import Record
from treering.stores.rows.damage import REINDEX, RESTORE, row_of
from treering.stores.rows.packing import unpack, unpack_json, unpack_object
from treering.stores.rows.read_checks import Body, Stored
from treering.stores.rows.records import load_records
from treering.stores.rows.session import LedgerParts, LedgerSession
from treering.stores.rows.verification import EventRow, ObjectRow, ObjectRows, RevisionRow, Stood, verify_rows
from treering.stores.sqlite.free_space import clear_free_space, is_log_empty, is_worth_clearing
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.ledger.snapshot import LogTables


class SqliteRows:
    """`LedgerRows` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._objects = ObjectTables(connection)
        self._log = LogTables(connection)

    def event_rows(self) -> Iterator[EventRow]:
        """Return the audit log, by sequence number."""
        return self._connection.execute("SELECT seq, target, timestamp, hash, body FROM audit ORDER BY seq")

    def link_rows(self) -> Iterable[LinkRow]:
        """Return all links in the order in which they were added."""
        sql = "SELECT type, source, target, patch_id, added, removed FROM links ORDER BY added, type, source, target"
        return self._connection.execute(sql)

    def patch_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return all patches, by id."""
        return self._connection.execute("SELECT id, status, body FROM patches ORDER BY id")

    def keys(self, prefix: str) -> Iterable[tuple[str, Remembered]]:
        """Return the keys with a prefix, with their values."""
        return self._log.keys(prefix)

    def has_event(self, seq: int, digest: str) -> bool:
        """Return whether an event has this hash."""
        sql = "SELECT 1 FROM audit WHERE seq = ? AND hash = ?"
        return next(self._connection.execute(sql, (seq, digest)), None) is not None

    def objects(self) -> Iterator[ObjectRows]:
        """Return all objects that have a revision or a row. Each revision is parsed once."""
        sql = "SELECT id, revision, seq, body FROM revisions ORDER BY id, revision"
        for identity, rows in groupby(self._connection.execute(sql), key=itemgetter(0)):
            segments = self._segments(identity)
            yield self._with_rows(identity, _parsed(rows, segments), segments)
        for (identity,) in list(self._connection.execute("SELECT id FROM objects EXCEPT SELECT id FROM revisions")):
            yield self._with_rows(identity, (), self._segments(identity))

    def dependencies(self) -> Iterable[tuple[str, str]]:
        """Return pairs of a target and the knowledge that depends on it."""
        return self._connection.execute("SELECT target, dependent FROM dependencies")

    def count_segments(self) -> int:
        """Return the number of stored segments."""
        return int(next(self._connection.execute("SELECT count(*) FROM segments"))[0])

    def stored_revisions(self) -> Iterator[Stored]:
        """Return the rows of all revisions, by sequence number."""
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

    def verify(self, *, anchor: Anchor | None) -> Anchor:
        """Check the file, the chain, all records against it, and the text of every segment.

        Raises `Corrupt` for the first error.
        """
        _check_file(self._connection)
        return verify_rows(self, anchor=anchor)

    def _with_rows(self, identity: str, revisions: Sequence[RevisionRow], segments: Stood) -> ObjectRows:
        row: ObjectRow | None = next(self._connection.execute("SELECT * FROM objects WHERE id = ?", (identity,)), None)
        targets = self._connection.execute("SELECT target FROM referrers WHERE referrer = ?", (identity,))
        return ObjectRows(identity, revisions, row, frozenset(target for (target,) in targets), segments)

    def _segments(self, identity: str) -> dict[str, tuple[int | None, Segment]]:
        sql = (
            "SELECT segment_id, vanished, place, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
            "WHERE source_id = ?"
        )
        return {row[0]: (row[1], _segment(identity, *row[2:])) for row in self._connection.execute(sql, (identity,))}


def _parsed(rows: Iterable[tuple[Any, ...]], segments: Stood) -> list[RevisionRow]:
    """Parse the revisions of one object with the texts of its segments."""
    texts = {segment_id: segment.excerpt for segment_id, (_, segment) in segments.items()}
    return [(*row[:3], unpack_object(unpack(row[3]), lambda _: texts)) for row in rows]


def _segment(source_id: str, place: Body, body: Body) -> Segment:
    with row_of(source_id):
        return Segment.model_validate({**unpack_json(place), "excerpt": unpack(body)})


_TABLES = ("objects", "revisions", "texts", "segments", "dependencies", "links", "patches", "receipts", "audit")


def _check_file(connection: apsw.Connection) -> None:
    """Check every page and index of the file.

    If the tables of the ledger are intact, the others can be rebuilt from them.
    """
    problem = _damage(connection, "PRAGMA integrity_check(1)")
    if problem:
        damaged = any(_damage(connection, f"PRAGMA integrity_check({table})") for table in _TABLES)
        hint = "Restore the space from a backup." if damaged else f"{REINDEX} If that fails: {RESTORE}"
        raise Corrupt(f"The database file is damaged: {problem}.", hint=hint)


def _damage(connection: apsw.Connection, check: str) -> str:
    (result,) = next(connection.execute(check))
    return "" if result == "ok" else str(result)


class SqliteSession(LedgerSession[apsw.Connection]):
    """`rows.session.LedgerSession` over a connection."""

    def __init__(self, connection: apsw.Connection, parts: LedgerParts[apsw.Connection]) -> None:
        view, log = ObjectTables(connection, parts.checks), LogTables(connection, parts.checks)
        super().__init__(connection, view, log, parts)

    def read_ahead(self, patch: Patch, idempotency_key: str | None) -> None:
        """Do nothing. Each read is fast."""

    def read_ahead_of(self, identities: Sequence[str]) -> None:
        """Do nothing. Each read is fast."""

    def fill(self, records: Iterable[Record]) -> None:
        """Write the records of an export. Raises `InvalidInput` if they are not an export."""
        try:
            self._changes += load_records(ObjectTables(self._transaction), self._log, records)
        except apsw.ConstraintError as error:
            raise no_export(error) from error

    def verify(self) -> Anchor:
        """Verify all rows against the audit log; return its head."""
        return SqliteRows(self._transaction).verify(anchor=None)

    def _store(self, writes: Sequence[tuple[Write, int, str]]) -> None:
        tables = ObjectTables(self._transaction)
        for write, seq, stored in writes:
            tables.store(write, seq, stored)

    def _note_erased(self, sequence: int) -> None:
        note_erasure(self._transaction, sequence)


_ATTEMPTS = 5  # to begin while the log is empty


def note_erasure(connection: apsw.Connection, seq: int) -> None:
    """Store, in the transaction of an erasure, that the file and its log must be overwritten."""
    connection.execute("INSERT OR REPLACE INTO overwriting(seq, vacuumed) VALUES(?, 0)", (seq,))


def is_overwriting_due(connection: apsw.Connection) -> bool:
    """Return whether an erasure has not been overwritten yet."""
    return next(connection.execute("SELECT 1 FROM overwriting LIMIT 1"), None) is not None


def overwrite(connection: apsw.Connection) -> None:
    """Overwrite erased data in the file, and truncate its log. Outside of a transaction.

    Only the free space is overwritten. The file is rewritten if that is not possible, or if much of it is free. Raises
    `apsw.BusyError` if another process reads or writes. The note is retained then. Later erasures have their own notes.
    """
    if not is_overwriting_due(connection):
        return
    newest, vacuumed = next(connection.execute("SELECT max(seq), min(vacuumed) FROM overwriting"))
    if not vacuumed and is_worth_clearing(connection) and _clear(connection, newest):
        return
    if not vacuumed:
        # In memory, the copy that VACUUM makes would take as much as the file.
        connection.execute("PRAGMA temp_store=FILE; VACUUM; PRAGMA temp_store=MEMORY")
        connection.execute("UPDATE overwriting SET vacuumed = 1 WHERE seq <= ?", (newest,))
    if connection.filename:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.execute("DELETE FROM overwriting WHERE seq <= ?", (newest,))


def _clear(connection: apsw.Connection, newest: int) -> bool:
    """Clear the free space of the file, and delete the notes of erasures; return whether that was possible."""
    _begin_with_empty_log(connection)
    try:
        is_clear = clear_free_space(connection)
        if is_clear:
            connection.execute("DELETE FROM overwriting WHERE seq <= ?", (newest,))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return is_clear


def _begin_with_empty_log(connection: apsw.Connection) -> None:
    """Move the log into the file and begin a write transaction; again if another process wrote in between."""
    for _ in range(_ATTEMPTS):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.execute("BEGIN IMMEDIATE")
        if is_log_empty(connection):
            return
        connection.execute("ROLLBACK")
    raise apsw.BusyError("other processes write all the time")
