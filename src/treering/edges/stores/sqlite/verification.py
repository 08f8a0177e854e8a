"""Checking a ledger against its own audit log."""

from collections.abc import Iterator

import apsw

from treering.core.account import account
from treering.core.audit import Anchor, AuditEvent, verify_chain
from treering.core.errors import Corrupt
from treering.core.patch import PatchRecord
from treering.edges.stores.sqlite.packing import unpack
from treering.edges.stores.sqlite.shelf import Shelf


def verify_ledger(connection: apsw.Connection, *, anchor: Anchor | None) -> Anchor:
    """Check the chain, that the ledger holds exactly what the log tells of, and every segment's words.

    Raises `Corrupt` naming the first thing that does not verify.
    """
    _check_pages(connection)
    head = verify_chain(_events(connection), anchor=anchor)
    told, shelf = account(_events(connection)), Shelf(connection)
    for seq, body in connection.execute("SELECT seq, body FROM revisions ORDER BY row"):
        told.check_revision(shelf.load(unpack(body)), seq)
    told.check_complete((row[0], row[1]) for row in connection.execute("SELECT id, revision FROM revisions"))
    sql = "SELECT type, source, target FROM links WHERE removed IS NULL"
    told.check_links(tuple(row) for row in connection.execute(sql))
    for (body,) in connection.execute("SELECT body FROM patches"):
        told.check_patch(PatchRecord.model_validate_json(unpack(body)))
    for identity, status, revision in connection.execute("SELECT id, status, revision FROM objects"):
        _check_current(connection, identity, status, revision)
    return head


def _check_pages(connection: apsw.Connection) -> None:
    found = [problem for (problem,) in connection.execute("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise Corrupt(f"The database file is damaged: {found[0]}.", hint="Restore the space from a backup.")


def _events(connection: apsw.Connection) -> Iterator[AuditEvent]:
    for seq, body in connection.execute("SELECT seq, body FROM audit ORDER BY seq"):
        event = AuditEvent.model_validate_json(unpack(body))
        if event.seq != seq:
            raise _wrong(f"audit event {seq} stands in the wrong place", event.target)
        yield event


def _check_current(connection: apsw.Connection, identity: str, status: str, revision: int) -> None:
    item = Shelf(connection).get(identity)
    if item is None or (item.revision, item.status) != (revision, status):
        raise _wrong(f"the row of {identity} does not agree with its newest revision", identity)


def _wrong(what: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )
