"""Reading what checks ask for: the newest revision with what has to agree with it, and events."""

from collections.abc import Sequence

import apsw

from treering.edges.ledger_rows.read_checks import Body, Newest, Stored

# Three small statements: joined into one they take twice as long.
_NEWEST = "SELECT id, revision, seq, body FROM revisions WHERE id = ? ORDER BY revision DESC LIMIT 1"
_EVENT = "SELECT body, (SELECT max(seq) FROM audit WHERE target = ?2) FROM audit WHERE seq = ?1"
_ROW = (
    "SELECT type, kind, status, scope, revision, title, channel, created_at, updated_at, coalesce(origin, '') "
    "FROM objects WHERE id = ?"
)


def read_newest(connection: apsw.Connection, identity: str) -> Newest | None:
    """Read the newest revision of an object."""
    found = next(connection.execute(_NEWEST, (identity,)), None)
    if found is None:
        return None
    event, last = next(connection.execute(_EVENT, (found[2], identity)), (None, 0))
    return Newest(Stored(*found), event, last or 0, next(connection.execute(_ROW, (identity,)), ()))


class SqliteEvents:
    """`ledger_rows.read_checks.EventRows` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def body_at(self, seq: int) -> Body | None:
        """Return the stored event of a sequence number, or `None`."""
        row = next(self._connection.execute("SELECT body FROM audit WHERE seq = ?", (seq,)), None)
        return row[0] if row else None

    def numbers_of(self, target: str, *, after: int) -> Sequence[int]:
        """Return the sequence numbers behind `after` of the events about something, newest first."""
        sql = "SELECT seq FROM audit WHERE target = ? AND seq > ? ORDER BY seq DESC"
        return [seq for (seq,) in self._connection.execute(sql, (target, after))]
