"""Tables of the audit log, of patches and of idempotency keys: their rows, over one connection."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.patch import PatchRecord, PatchStatus, Remembered
from treering.core.policy import Policy
from treering.core.policy_log import POLICY
from treering.core.times import parse_time, render_time
from treering.edges.ledger_rows.packing import model_of, pack_row, pack_sealed, unpack_model, unpack_sealed
from treering.edges.ledger_rows.read_checks import ReadChecks, missing_revision, policy_told
from treering.edges.ledger_rows.row_failures import row_of
from treering.edges.stores.sqlite.newest import SqliteEvents
from treering.ports.ledger import AsOf

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


class LogTables:
    """The audit log, patches and idempotency keys of one ledger, over a connection inside a transaction.

    With `checks` the record of a patch, and the events about one thing, are checked as they are read.
    """

    def __init__(self, connection: apsw.Connection, checks: ReadChecks | None = None) -> None:
        self._connection = connection
        self._checks = checks

    def end(self) -> "LogEnd":
        """Return what every writer asks of the log, in one query."""
        return LogEnd(*(self._row(_END, POLICY) or (None,) * 5))

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

    def events(self, *, after: int, limit: int) -> list[AuditEvent]:
        """Return so many of the events behind a sequence number, in order."""
        sql = "SELECT body FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
        return [unpack_model(AuditEvent, body) for (body,) in self._connection.execute(sql, (after, limit))]

    def is_bare(self) -> bool:
        """Tell whether the log tells of nothing but the policy."""
        return self._row("SELECT 1 FROM audit WHERE target <> ? LIMIT 1", POLICY) is None

    def policy(self) -> Policy | None:
        """Return the policy that the log tells of last, or `None`. Raises `Corrupt` where its event was changed."""
        row = self._row("SELECT seq, body FROM audit WHERE target = ? ORDER BY seq DESC LIMIT 1", POLICY)
        return policy_told(*row) if row else None

    def events_of(self, target: str) -> list[AuditEvent]:
        """Return the events about one thing, oldest first."""
        rows = self._connection.execute("SELECT body FROM audit WHERE target = ? ORDER BY seq", (target,))
        events = [unpack_model(AuditEvent, body) for (body,) in rows]
        if self._checks:
            for event in events:
                self._checks.check_event(event)
        return events

    def require_erased(self, identity: str, number: int) -> None:
        """Raise `Corrupt` where a revision that is not there belongs to an object that nobody erased."""
        if all(event.event_type != "erased" for event in self.events_of(identity)):
            raise missing_revision(identity, number)

    def keep_event(self, event: AuditEvent) -> None:
        """Keep a new event."""
        sql = "INSERT INTO audit(seq, target, timestamp, hash, body) VALUES(?, ?, ?, ?, ?)"
        body = pack_row(event.model_dump_json())
        self._connection.execute(sql, (event.seq, event.target, render_time(event.timestamp), event.hash, body))

    def clear(self) -> None:
        """Remove all events."""
        self._connection.execute("DELETE FROM audit")

    def record(self, patch_id: str) -> PatchRecord | None:
        """Return the record of a patch, or `None`."""
        row = self._row("SELECT body FROM patches WHERE id = ?", patch_id)
        if row is None:
            return None
        record = unpack_model(PatchRecord, row[0])
        if self._checks:
            self._checks.check_record(SqliteEvents(self._connection), record)
        return record

    def newest_records(self, status: PatchStatus | None, limit: int) -> list[PatchRecord]:
        """Return the newest patches, of one status or of all."""
        sql = "SELECT body FROM patches WHERE ?1 IS NULL OR status = ?1 ORDER BY id DESC LIMIT ?2"
        return [unpack_model(PatchRecord, body) for (body,) in self._connection.execute(sql, (status, limit))]

    def proposals(self) -> list[PatchRecord]:
        """Return the patches that wait for review, by id."""
        rows = self._connection.execute("SELECT body FROM patches WHERE status = 'proposed' ORDER BY id")
        return [unpack_model(PatchRecord, body) for (body,) in rows]

    def keep_record(self, record: PatchRecord) -> None:
        """Keep the record of a patch, in the place of an earlier one."""
        sql = "INSERT OR REPLACE INTO patches(id, status, body) VALUES(?, ?, ?)"
        self._connection.execute(sql, (record.id, record.status, pack_row(record.model_dump_json())))

    def keep_new_record(self, record: PatchRecord) -> None:
        """Keep the record of a patch that is not there."""
        sql = "INSERT INTO patches(id, status, body) VALUES(?, ?, ?)"
        self._connection.execute(sql, (record.id, record.status, pack_row(record.model_dump_json())))

    def patches_about(self, targets: Iterable[str]) -> set[str]:
        """Return the ids of the patches that events about these things name."""
        bare = LogTables(self._connection)
        return {event.patch_id for target in targets for event in bare.events_of(target)}

    def remembered(self, key: str) -> Remembered | None:
        """Return what is kept under exactly this key."""
        row = self._row("SELECT body FROM receipts WHERE key = ?", key)
        return _remembered(key, row[0]) if row else None

    def keys(self, prefix: str) -> Iterator[tuple[str, Remembered]]:
        """Return the keys that begin so, each with what it stands for."""
        where, bindings = ("WHERE key >= ? AND key < ?", (prefix, f"{prefix}\U0010ffff")) if prefix else ("", ())
        rows = self._connection.execute(f"SELECT key, body FROM receipts {where}", bindings)  # noqa: S608 - a literal
        return ((key, _remembered(key, body)) for key, body in rows)

    def remember(self, key: str, known: Remembered) -> None:
        """Keep what a new key stands for."""
        body = pack_sealed(known.model_dump_json(), name=key)
        self._connection.execute("INSERT INTO receipts(key, body) VALUES(?, ?)", (key, body))

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._connection.execute("DELETE FROM receipts WHERE key = ?", (key,))

    def _row(self, sql: str, *bindings: Any) -> Any:
        return next(self._connection.execute(sql, bindings), None)


def _remembered(key: str, body: str | bytes) -> Remembered:
    with row_of(f"the idempotency key {key!r}"):
        return model_of(Remembered, unpack_sealed(body, name=key))
