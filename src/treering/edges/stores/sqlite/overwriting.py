"""Overwriting what erasure leaves in the file and its log: noted with the erasure, done when nobody is in the way.

The note is a row of the table `overwriting`, which is neither audited nor exported. It is written in the transaction
of the erasure, and goes when the work is done: by the process that erased, or by whoever comes after it.
"""

import apsw


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
