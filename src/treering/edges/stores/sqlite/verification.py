"""Checking a ledger against its own audit log."""

from collections.abc import Iterator, Sequence

import apsw

from treering.core.account import Account, account
from treering.core.audit import Anchor, AuditEvent, verify_chain
from treering.core.errors import Corrupt
from treering.core.evidence import Segment
from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import PatchRecord, Receipt
from treering.core.times import render_time
from treering.edges.stores.sqlite.failures import REINDEX, RESTORE, row_of
from treering.edges.stores.sqlite.log_tables import LogTables
from treering.edges.stores.sqlite.object_tables import ObjectTables, current_row, targets_of
from treering.edges.stores.sqlite.packing import unpack, unpack_json, unpack_model

_TABLES = ("objects", "revisions", "texts", "segments", "dependencies", "links", "patches", "receipts", "audit")


def verify_ledger(connection: apsw.Connection, *, anchor: Anchor | None) -> Anchor:
    """Check the file, the chain, that the ledger holds exactly what the log tells of, and every segment's words.

    Raises `Corrupt` naming the first thing that does not verify.
    """
    _check_file(connection)
    head = verify_chain(_events(connection), anchor=anchor)
    told, tables = account(_events(connection)), ObjectTables(connection)
    for seq, body in connection.execute("SELECT seq, body FROM revisions ORDER BY row"):
        told.check_revision(tables.load(unpack(body)), seq)
    told.check_complete((row[0], row[1]) for row in connection.execute("SELECT id, revision FROM revisions"))
    sql = "SELECT type, source, target, patch_id, added, removed FROM links"
    told.check_links((row[0], row[1], row[2], row[3], row[4], row[5]) for row in connection.execute(sql))
    _check_patches(connection, told)
    _check_keys(connection)
    _check_current(connection)
    return head


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


def _check_patches(connection: apsw.Connection, told: Account) -> None:
    for identity, status, body in connection.execute("SELECT id, status, body FROM patches"):
        record = unpack_model(PatchRecord, body)
        told.check_patch(record)
        if (record.id, record.status) != (identity, status):
            raise _wrong(f"the row of {identity} does not agree with its patch", identity)
    told.check_patches_complete(identity for (identity,) in connection.execute("SELECT id FROM patches"))


def _check_keys(connection: apsw.Connection) -> None:
    """Check what idempotency keys stand for: each row in itself, and what it says of the log."""
    for key, known in LogTables(connection).keys(""):
        if isinstance(known.outcome, Receipt):
            first = known.outcome
            sql = "SELECT 1 FROM audit WHERE seq = ? AND hash = ?"
            told = next(connection.execute(sql, (first.sequence, first.head)), None)
        else:
            told = next(connection.execute("SELECT 1 FROM patches WHERE id = ?", (known.patch_id,)), None)
        if told is None:
            raise _wrong(f"what the idempotency key {key!r} stands for is not what the audit log says", key)


def _events(connection: apsw.Connection) -> Iterator[AuditEvent]:
    for *columns, body in connection.execute("SELECT seq, target, timestamp, hash, body FROM audit ORDER BY seq"):
        event = unpack_model(AuditEvent, body)
        if columns != [event.seq, event.target, render_time(event.timestamp), event.hash]:
            raise _wrong(f"the row of audit event {columns[0]} does not agree with it", event.target)
        yield event


def _check_current(connection: apsw.Connection) -> None:
    """Check the tables that are read instead of the revisions."""
    known: set[tuple[str, str]] = set()
    segments = 0
    for (identity,) in list(connection.execute("SELECT id FROM revisions UNION SELECT id FROM objects")):
        item = _check_row(connection, identity)
        if isinstance(item, Knowledge):
            known |= {(target, identity) for target in targets_of(item)}
        if isinstance(item, Source):
            segments += _check_segments(connection, item)
    sql = "SELECT target, dependent FROM dependencies"
    stored = {(target, dependent) for target, dependent in connection.execute(sql)}
    for target, dependent in sorted(known ^ stored):
        raise _wrong(f"that {dependent} rests on {target} does not agree with its newest revision", dependent)
    if [(segments,)] != list(connection.execute("SELECT count(*) FROM segments")):
        raise _wrong("a segment is of a source that there is not", "segments")


def _check_row(connection: apsw.Connection, identity: str) -> Object:
    item = ObjectTables(connection).get(identity)
    row = next(connection.execute("SELECT * FROM objects WHERE id = ?", (identity,)), None)
    if item is None or row != current_row(item):
        raise _wrong(f"the row of {identity} does not agree with its newest revision", identity)
    return item


def _check_segments(connection: apsw.Connection, item: Source) -> int:
    """Check where segments stand now, or stood last; return how many there are."""
    sql = (
        "SELECT segment_id, vanished, place, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
        "WHERE source_id = ?"
    )
    found = {row[0]: (row[1], _segment(item.id, *row[2:])) for row in connection.execute(sql, (item.id,))}
    revisions = ObjectTables(connection).revisions(item.id) if item.revision > 1 else [item]
    if found != _stood(revisions):
        raise _wrong(f"the segments of {item.id} do not agree with its revisions", item.id)
    return len(found)


def _stood(revisions: Sequence[Object]) -> dict[str, tuple[int | None, Segment]]:
    """Return all segments that the revisions of a source have or had, and the revision each vanished with."""
    stood: dict[str, tuple[int | None, Segment]] = {}
    for item in revisions:
        here = {segment.segment_id: segment for segment in item.segments} if isinstance(item, Source) else {}
        for name, (vanished, segment) in stood.items():
            if vanished is None and name not in here:
                stood[name] = item.revision, segment
        stood |= {name: (None, segment) for name, segment in here.items()}
    return stood


def _segment(source_id: str, place: str | bytes, body: str | bytes) -> Segment:
    with row_of(source_id):
        return Segment.model_validate({**unpack_json(place), "excerpt": unpack(body)})


def _wrong(what: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )
