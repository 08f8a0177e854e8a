"""Tables of the audit log, of patches and of idempotency keys: their rows, over one connection."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import apsw

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.canonical import parse_time, render_time
from treering.core.patch import PatchRecord, PatchStatus
from treering.core.policy import Policy
from treering.core.writing.journal import POLICY
from treering.ports.ledger import AsOf
from treering.stores.rows.packing import pack_row, pack_sealed, row_of
from treering.stores.rows.read_checks import Body, Newest, ReadChecks, Stored, policy_told
from treering.stores.rows.session import LogReads

_END = """
SELECT last.seq, last.hash, last.timestamp, told.seq, told.body
FROM (SELECT seq, hash, timestamp FROM audit ORDER BY seq DESC LIMIT 1) AS last
LEFT JOIN (SELECT seq, body FROM audit WHERE target = ? ORDER BY seq DESC LIMIT 1) AS told
"""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far the audit log has come, as its rows say: the last event, and the last one about the policy."""

    seq: int | None
    hash: str | None
    timestamp: str | None
    policy_seq: int | None
    policy_body: bytes | str | None

    @property
    def head(self) -> Anchor:
        """Return the head of the audit log."""
        with row_of("the audit log"):
            return Anchor.model_validate({"seq": self.seq or 0, "hash": self.hash or GENESIS})

    @property
    def last_time(self) -> datetime | None:
        """Return the time of the last event, or `None` before the first."""
        with row_of("the audit log"):
            return parse_time(self.timestamp) if self.timestamp is not None else None

    @property
    def policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`. Raises `Corrupt` where its event was changed."""
        if self.policy_seq is None or self.policy_body is None:
            return None
        return policy_told(self.policy_seq, self.policy_body)


class LogTables(LogReads):
    """The audit log, patches and idempotency keys of one ledger, over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection, checks: ReadChecks | None = None) -> None:
        super().__init__(SqliteEvents(connection), checks)
        self.reached: Anchor | None = None
        """The head that was kept, where something was."""
        self._connection = connection
        self._end: LogEnd | None = None

    @property
    def end(self) -> LogEnd:
        """What every writer asks of the log, read once: no other writer comes between, and what is kept forgets it."""
        if self._end is None:
            self._end = LogEnd(*(self._row(_END, POLICY) or (None,) * 5))
        return self._end

    def sequence(self, as_of: AsOf) -> int:
        """Return the sequence number at a point in history; 0 before the first event."""
        match as_of:
            case None:
                row = self._row("SELECT max(seq) FROM audit")
            case int():
                row = self._row("SELECT max(seq) FROM audit WHERE seq <= ?", as_of)
            case datetime():
                row = self._row("SELECT max(seq) FROM audit WHERE timestamp <= ?", render_time(as_of))
        return int(row[0] or 0) if row else 0

    def is_bare(self) -> bool:
        """Tell whether the log tells of nothing but the policy."""
        return self._row("SELECT 1 FROM audit WHERE target <> ? LIMIT 1", POLICY) is None

    def policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`. Raises `Corrupt` where its event was changed."""
        row = self._row("SELECT seq, body FROM audit WHERE target = ? ORDER BY seq DESC LIMIT 1", POLICY)
        return policy_told(*row) if row else None

    def keep_events(self, events: Sequence[AuditEvent]) -> None:
        """Keep new events."""
        sql = "INSERT INTO audit(seq, target, timestamp, hash, body) VALUES(?, ?, ?, ?, ?)"
        self._end = None
        for event in events:
            body = pack_row(event.model_dump_json())
            self._connection.execute(sql, (event.seq, event.target, render_time(event.timestamp), event.hash, body))
            self.reached = Anchor(seq=event.seq, hash=event.hash)

    def clear(self) -> None:
        """Remove all events."""
        self._end = None
        self._connection.execute("DELETE FROM audit")

    def keep_records(self, records: Sequence[PatchRecord]) -> None:
        """Keep the records of patches, in the place of earlier ones."""
        self._keep_records("INSERT OR REPLACE", records)

    def keep_new_records(self, records: Sequence[PatchRecord]) -> None:
        """Keep the records of patches that are not there."""
        self._keep_records("INSERT", records)

    def keep_key(self, key: str, outcome: str) -> None:
        """Keep what a new key stands for, as JSON."""
        sql = "INSERT INTO receipts(key, body) VALUES(?, ?)"
        self._connection.execute(sql, (key, pack_sealed(outcome, name=key)))

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._connection.execute("DELETE FROM receipts WHERE key = ?", (key,))

    def _keep_records(self, insert: str, records: Sequence[PatchRecord]) -> None:
        for record in records:
            row = (record.id, record.status, pack_row(record.model_dump_json()))
            self._connection.execute(f"{insert} INTO patches(id, status, body) VALUES(?, ?, ?)", row)

    def _events_behind(self, after: int, limit: int) -> Iterable[Body]:
        return self._bodies("SELECT body FROM audit WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)

    def _events_about(self, targets: Sequence[str]) -> Iterable[Body]:
        sql = "SELECT body FROM audit WHERE target = ? ORDER BY seq"
        return chain.from_iterable(self._bodies(sql, target) for target in targets)

    def _patch(self, patch_id: str) -> Body | None:
        return next(self._bodies("SELECT body FROM patches WHERE id = ?", patch_id), None)

    def _newest_patches(self, status: PatchStatus | None, limit: int) -> Iterable[Body]:
        sql = "SELECT body FROM patches WHERE ?1 IS NULL OR status = ?1 ORDER BY id DESC LIMIT ?2"
        return self._bodies(sql, status, limit)

    def _proposed(self) -> Iterable[Body]:
        return self._bodies("SELECT body FROM patches WHERE status = 'proposed' ORDER BY id")

    def _key(self, key: str) -> Body | None:
        return next(self._bodies("SELECT body FROM receipts WHERE key = ?", key), None)

    def _keys(self, prefix: str) -> Iterable[tuple[str, Body]]:
        where, bindings = ("WHERE key >= ? AND key < ?", (prefix, f"{prefix}\U0010ffff")) if prefix else ("", ())
        return self._connection.execute(f"SELECT key, body FROM receipts {where}", bindings)  # noqa: S608 - a literal

    def _bodies(self, sql: str, *bindings: str | int | None) -> Iterator[Body]:
        return (body for (body,) in self._connection.execute(sql, bindings))

    def _row(self, sql: str, *bindings: Any) -> Any:
        return next(self._connection.execute(sql, bindings), None)


# Reading what checks ask for: the newest revision with what has to agree with it, and events.


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
    """`rows.read_checks.EventRows` over a connection inside a transaction."""

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
