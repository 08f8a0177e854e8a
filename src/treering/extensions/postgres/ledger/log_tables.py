"""The tables of the audit log, patches and idempotency keys, in one transaction."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import render_time
from treering.core.patch import PatchRecord, PatchStatus
from treering.core.writing.journal import POLICY
from treering.extensions.postgres.connection.failures import AFTER_ALL, body_of, from_column, packed, to_column
from treering.extensions.postgres.connection.schema import BRIEF_KEY, LONG_KEY
from treering.extensions.postgres.connection.transactions import Transaction
from treering.stores.rows.ledger_log import LedgerLog, StoredLogEnd
from treering.stores.rows.packing import pack_sealed, text_hash
from treering.stores.rows.read_checks import Body, ReadChecks

_EVENT = ("seq bigint", "target text", "timestamp text", "hash text", "body bytea")
_PATCH = ("id text", "status text", "body bytea")
_REPLACE = "ON CONFLICT (space, id) DO UPDATE SET status = excluded.status, body = excluded.body"


class EventTable:
    """`rows.read_checks.EventRows` over a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._read: dict[int, bytes | None] = {}
        """Events that were read with other rows, by sequence number."""
        self._later: dict[tuple[str, int], list[int]] = {}

    def note(self, seq: int, stored: bytes | None) -> None:
        """Cache an event that another query returned."""
        self._read[seq] = stored

    def body_at(self, seq: int) -> Body | None:
        """Return the stored event of a sequence number, or `None`."""
        if seq in self._read:
            stored = self._read[seq]
            return None if stored is None else body_of(stored)
        body = self._transaction.first("SELECT body FROM audit WHERE space = %(space)s AND seq = %(seq)s", seq=seq)
        return None if body is None else body_of(body)

    def read_later(self, places: Sequence[tuple[str, int]]) -> None:
        """Read the events after a sequence number for each of some ids together."""
        if not places:
            return
        sql = (
            "SELECT w.target, w.after, a.seq, a.body FROM unnest(%(targets)s::text[], %(afters)s::bigint[]) "
            "AS w(target, after) JOIN audit a ON a.space = %(space)s AND a.target = w.target AND a.seq > w.after "
            "ORDER BY a.seq DESC"
        )
        self._later |= {place: [] for place in places}
        targets, afters = [target for target, _ in places], [after for _, after in places]
        for target, after, seq, body in self._transaction.rows(sql, targets=targets, afters=afters):
            self._later[target, after].append(seq)
            self.note(seq, body)

    def numbers_of(self, target: str, *, after: int) -> Sequence[int]:
        """Return the sequence numbers after `after` of the events about an id, newest first."""
        if (target, after) in self._later:
            return self._later[target, after]
        sql = (
            "SELECT seq FROM audit WHERE space = %(space)s AND target = %(target)s AND seq > %(after)s "
            "ORDER BY seq DESC"
        )
        return self._transaction.column(sql, target=target, after=after)


class PostgresLedgerLog(LedgerLog):
    """The audit log, patches and idempotency keys of one space, in a transaction."""

    def __init__(self, transaction: Transaction, checks: ReadChecks | None = None) -> None:
        super().__init__(EventTable(transaction), checks)
        self._transaction = transaction

    @property
    def end(self) -> StoredLogEnd:
        """The end of the log."""
        return self._transaction.row

    @property
    def reached(self) -> Anchor | None:
        """The head of the log after this transaction, or `None` if it wrote no event."""
        return self._transaction.reached

    def is_bare(self) -> bool:
        """Return whether the log contains only events about the policy."""
        sql = "SELECT 1 FROM audit WHERE space = %(space)s AND target <> %(policy)s LIMIT 1"
        return self._transaction.first(sql, policy=POLICY) is None

    def keep_events(self, events: Sequence[AuditEvent]) -> None:
        """Store events, and the end of the log in the space's row."""
        rows = [
            (event.seq, event.target, render_time(event.timestamp), event.hash, packed(event.model_dump_json()))
            for event in events
        ]
        self._transaction.insert("audit", _EVENT, rows)
        for event, row in zip(events, rows, strict=True):
            self._transaction.row = self._transaction.row.with_event(event, row[-1])

    def clear(self) -> None:
        """Remove all events."""
        self._transaction.later("DELETE FROM audit WHERE space = %(space)s")
        self._transaction.row = self._transaction.row.without_events()

    def keep_records(self, records: Sequence[PatchRecord]) -> None:
        """Store the records of patches, replacing earlier ones."""
        rows = {record.id: (record.id, record.status, packed(record.model_dump_json())) for record in records}
        self._transaction.insert("patches", _PATCH, list(rows.values()), conflict=_REPLACE)

    def keep_key(self, key: str, outcome: str) -> None:
        """Store the value of a new key, as JSON."""
        sql = "INSERT INTO receipts(space, hash, key, body) VALUES(%(space)s, %(hash)s, %(key)s, %(body)s)"
        body = pack_sealed(outcome, name=key)
        self._transaction.later(sql, hash=text_hash(key), key=to_column(key), body=body)

    def forget(self, key: str) -> None:
        """Remove a key."""
        sql = "DELETE FROM receipts WHERE space = %(space)s AND hash = %(hash)s"
        self._transaction.later(sql, hash=text_hash(key))

    def _sequence_at(self, time: str) -> int:
        sql = "SELECT max(seq) FROM audit WHERE space = %(space)s AND timestamp <= %(time)s"
        return int(self._transaction.first(sql, time=time) or 0)

    def _events_behind(self, after: int, limit: int) -> Iterable[Body]:
        sql = "SELECT body FROM audit WHERE space = %(space)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s"
        return self._bodies(sql, after=after, limit=limit)

    def _events_about(self, targets: Sequence[str]) -> Iterable[Body]:
        sql = "SELECT body FROM audit WHERE space = %(space)s AND target = ANY(%(targets)s) ORDER BY seq"
        return self._bodies(sql, targets=list(targets))

    def _patch(self, patch_id: str) -> Body | None:
        return next(self._bodies("SELECT body FROM patches WHERE space = %(space)s AND id = %(id)s", id=patch_id), None)

    def _newest_patches(self, status: PatchStatus | None, limit: int) -> Iterable[Body]:
        which = "" if status is None else "AND status = %(status)s"
        sql = f"SELECT body FROM patches WHERE space = %(space)s {which} ORDER BY id DESC LIMIT %(limit)s"  # noqa: S608 - a literal
        return self._bodies(sql, status=status, limit=limit)

    def _proposed(self) -> Iterable[Body]:
        return self._bodies("SELECT body FROM patches WHERE space = %(space)s AND status = 'proposed' ORDER BY id")

    def _key(self, key: str) -> Body | None:
        sql = "SELECT body FROM receipts WHERE space = %(space)s AND hash = %(hash)s"
        body: bytes | None = self._transaction.first(sql, hash=text_hash(key))
        return body

    def _keys(self, prefix: str) -> Iterable[tuple[str, Body]]:
        begin = to_column(prefix)
        sql = " UNION ALL ".join(
            f"SELECT key, body FROM receipts WHERE space = %(space)s AND {length} "  # noqa: S608 - numbers
            "AND key >= %(begin)s AND key < %(end)s AND starts_with(key, %(begin)s)"
            for length in (BRIEF_KEY, LONG_KEY)
        )
        rows = self._transaction.rows(sql, begin=begin, end=begin + AFTER_ALL)
        return ((from_column(key), body) for key, body in rows)

    def _bodies(self, sql: str, **bindings: Any) -> Iterator[Body]:
        return map(body_of, self._transaction.column(sql, **bindings))
