"""Reading what checks ask for: the newest revision with what has to agree with it, and events."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from treering.edges.ledger_rows.read_checks import Body, Newest, Stored

# Three small statements: joined into one they take twice as long.
_NEWEST = "SELECT id, revision, seq, body FROM revisions WHERE id = ? ORDER BY revision DESC LIMIT 1"
_EVENT = "SELECT body, (SELECT max(seq) FROM audit WHERE target = ?2) FROM audit WHERE seq = ?1"
_ROW = (
    "SELECT type, kind, status, scope, revision, title, channel, created_at, updated_at, coalesce(origin, '') "
    "FROM objects WHERE id = ?"
)

# The same for several objects. Each newest revision is looked up: of the others nothing is read.
_EACH_NEWEST = (
    "WITH wanted(id) AS (VALUES ?*) SELECT r.id, r.revision, r.seq, r.body FROM wanted w CROSS JOIN revisions r "
    "ON r.id = w.id AND r.revision = (SELECT max(revision) FROM revisions WHERE id = w.id)"
)
_EACH_LAST = "WITH wanted(id) AS (VALUES ?*) SELECT id, (SELECT max(seq) FROM audit WHERE target = id) FROM wanted"
_EVENTS = "SELECT seq, body FROM audit WHERE seq IN (VALUES ?*)"
_ROWS = _ROW.replace("SELECT ", "SELECT id, ").replace("id = ?", "id IN (VALUES ?*)")
_FEW = 200  # objects in one statement


def read_each_newest(connection: apsw.Connection, identities: Iterable[str]) -> dict[str, Newest]:
    """Read the newest revisions of those of the objects that exist, in four statements for a few hundred."""
    wanted, found = list(dict.fromkeys(identities)), dict[str, Newest]()
    for start in range(0, len(wanted), _FEW):
        few = wanted[start : start + _FEW]
        stored = [Stored(*row) for row in _asked(connection, _EACH_NEWEST, few)]
        events = dict(_asked(connection, _EVENTS, [one.seq for one in stored]))
        last = dict(_asked(connection, _EACH_LAST, few))
        rows = {row[0]: tuple(row[1:]) for row in _asked(connection, _ROWS, few)}
        for one in stored:
            newest = Newest(one, events.get(one.seq), last.get(one.identity) or 0, rows.get(one.identity, ()))
            found[one.identity] = newest
    return found


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


def _asked(connection: apsw.Connection, sql: str, values: Sequence[str] | Sequence[int]) -> Iterable[tuple[Any, ...]]:
    """Run a statement whose `?*` stands for a list of values."""
    return connection.execute(sql.replace("?*", ",".join(["(?)"] * len(values))), values) if values else ()
