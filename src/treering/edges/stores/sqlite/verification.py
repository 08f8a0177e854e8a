"""Checking a ledger's file, and its rows against its own audit log."""

import apsw

from treering.core.audit import Anchor
from treering.core.errors import Corrupt
from treering.edges.ledger_rows.row_failures import REINDEX, RESTORE
from treering.edges.ledger_rows.verification import verify_rows
from treering.edges.stores.sqlite.rows import SqliteRows

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
