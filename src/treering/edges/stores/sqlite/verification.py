"""Checking a ledger against its own audit log."""

from collections.abc import Iterator

import apsw

from treering.core.account import account
from treering.core.audit import Anchor, AuditEvent, verify_chain
from treering.core.errors import Corrupt
from treering.core.objects import Knowledge, Source
from treering.core.patch import PatchRecord
from treering.core.times import render_time
from treering.edges.stores.sqlite.object_tables import ObjectTables, current_row, targets_of
from treering.edges.stores.sqlite.packing import unpack, unpack_model
from treering.edges.stores.sqlite.referrers import lacks_reference


def verify_ledger(connection: apsw.Connection, *, anchor: Anchor | None) -> Anchor:
    """Check the chain, that the ledger holds exactly what the log tells of, and every segment's words.

    Raises `Corrupt` naming the first thing that does not verify.
    """
    _check_pages(connection)
    head = verify_chain(_events(connection), anchor=anchor)
    told, tables = account(_events(connection)), ObjectTables(connection)
    for seq, body in connection.execute("SELECT seq, body FROM revisions ORDER BY row"):
        told.check_revision(tables.load(unpack(body)), seq)
    told.check_complete((row[0], row[1]) for row in connection.execute("SELECT id, revision FROM revisions"))
    sql = "SELECT type, source, target FROM links WHERE removed IS NULL"
    told.check_links(tuple(row) for row in connection.execute(sql))
    for identity, status, body in connection.execute("SELECT id, status, body FROM patches"):
        record = unpack_model(PatchRecord, body)
        told.check_patch(record)
        if (record.id, record.status) != (identity, status):
            raise _wrong(f"the row of {identity} does not agree with its patch", identity)
    told.check_patches_complete(identity for (identity,) in connection.execute("SELECT id FROM patches"))
    for (identity,) in connection.execute("SELECT id FROM revisions UNION SELECT id FROM objects"):
        _check_current(connection, identity)
    return head


def _check_pages(connection: apsw.Connection) -> None:
    found = [problem for (problem,) in connection.execute("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise Corrupt(f"The database file is damaged: {found[0]}.", hint="Restore the space from a backup.")


def _events(connection: apsw.Connection) -> Iterator[AuditEvent]:
    for *columns, body in connection.execute("SELECT seq, target, timestamp, hash, body FROM audit ORDER BY seq"):
        event = unpack_model(AuditEvent, body)
        if columns != [event.seq, event.target, render_time(event.timestamp), event.hash]:
            raise _wrong(f"the row of audit event {columns[0]} does not agree with it", event.target)
        yield event


def _check_current(connection: apsw.Connection, identity: str) -> None:
    """Check the tables that are read instead of the newest revision."""
    tables = ObjectTables(connection)
    item = tables.get(identity)
    row = next(connection.execute("SELECT * FROM objects WHERE id = ?", (identity,)), None)
    if item is None or row != current_row(item):
        raise _wrong(f"the row of {identity} does not agree with its newest revision", identity)
    if isinstance(item, Knowledge):
        sql = "SELECT target FROM dependencies WHERE dependent = ? ORDER BY target"
        if [target for (target,) in connection.execute(sql, (identity,))] != targets_of(item):
            raise _wrong(f"what {identity} rests on does not agree with its newest revision", identity)
    if lacks_reference(connection, item):
        raise _wrong(f"what {identity} refers to does not agree with its newest revision", identity)
    if isinstance(item, Source):
        found = tables.segments([(identity, segment.segment_id) for segment in item.segments])
        stored = [found.get((identity, segment.segment_id)) for segment in item.segments]
        sql = "SELECT count(*) FROM segments WHERE source_id = ? AND vanished IS NULL"
        if stored != list(item.segments) or [(len(stored),)] != list(connection.execute(sql, (identity,))):
            raise _wrong(f"the segments of {identity} do not agree with its newest revision", identity)


def _wrong(what: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )
