"""Reads from one snapshot of a space: its audit log, patches, idempotency keys and objects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import apsw

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import parse_time, render_time
from treering.core.patch import Link, PatchRecord, PatchStatus
from treering.core.scope import ROOT, lineage
from treering.core.writing.journal import POLICY
from treering.ports.ledger import (
    Altered,
    AsOf,
    Head,
    Selection,
    SourceState,
    noted,
)
from treering.stores.rows.damage import row_of
from treering.stores.rows.ledger import Snapshot, checked_head, newest_states
from treering.stores.rows.ledger_log import LedgerLog, StoredLogEnd
from treering.stores.rows.packing import pack_row, pack_sealed
from treering.stores.rows.read_checks import Body, ReadChecks
from treering.stores.rows.session import LedgerParts
from treering.stores.sqlite.filters import (
    ALWAYS,
    INDEXED_FIELDS,
    OBJECT_FIELDS,
    Condition,
    condition,
    equalities,
    joined,
    of_types,
)
from treering.stores.sqlite.ledger.object_tables import ObjectTables, SqliteEvents
from treering.stores.sqlite.readers import remembered
from treering.stores.sqlite.reading import in_batches

_END = """
SELECT last.seq, last.hash, last.timestamp, told.seq, told.body
FROM (SELECT seq, hash, timestamp FROM audit ORDER BY seq DESC LIMIT 1) AS last
LEFT JOIN (SELECT seq, body FROM audit WHERE target = ? ORDER BY seq DESC LIMIT 1) AS told
"""


class LogTables(LedgerLog):
    """The audit log, patches and idempotency keys of one ledger, over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection, checks: ReadChecks | None = None) -> None:
        super().__init__(SqliteEvents(connection), checks)
        self._connection = connection
        self._reached: Anchor | None = None
        self._end: StoredLogEnd | None = None

    @property
    def end(self) -> StoredLogEnd:
        """The end of the log, read once. There is no other writer, and `keep_events` resets it."""
        if self._end is None:
            self._end = remembered(self._connection, "end", self._read_end)
        return self._end

    @property
    def reached(self) -> Anchor | None:
        """The head of the log after this transaction, or `None` if it wrote no event."""
        return self._reached

    def is_bare(self) -> bool:
        """Return whether the log contains only events about the policy."""
        return self._row("SELECT 1 FROM audit WHERE target <> ? LIMIT 1", POLICY) is None

    def keep_events(self, events: Sequence[AuditEvent]) -> None:
        """Store events."""
        sql = "INSERT INTO audit(seq, target, timestamp, hash, body) VALUES(?, ?, ?, ?, ?)"
        self._end = None
        for event in events:
            body = pack_row(event.model_dump_json())
            self._connection.execute(sql, (event.seq, event.target, render_time(event.timestamp), event.hash, body))
            self._reached = Anchor(seq=event.seq, hash=event.hash)

    def clear(self) -> None:
        """Remove all events."""
        self._end = None
        self._connection.execute("DELETE FROM audit")

    def keep_records(self, records: Sequence[PatchRecord]) -> None:
        """Store the records of patches, replacing earlier ones."""
        sql = "INSERT OR REPLACE INTO patches(id, status, body) VALUES(?, ?, ?)"
        for record in records:
            self._connection.execute(sql, (record.id, record.status, pack_row(record.model_dump_json())))

    def keep_key(self, key: str, outcome: str) -> None:
        """Store the value of a new key, as JSON."""
        sql = "INSERT INTO receipts(key, body) VALUES(?, ?)"
        self._connection.execute(sql, (key, pack_sealed(outcome, name=key)))

    def forget(self, key: str) -> None:
        """Remove a key."""
        self._connection.execute("DELETE FROM receipts WHERE key = ?", (key,))

    def _sequence_at(self, time: str) -> int:
        row = self._row("SELECT max(seq) FROM audit WHERE timestamp <= ?", time)
        return int(row[0] or 0)

    def _read_end(self) -> StoredLogEnd:
        return StoredLogEnd(*(self._row(_END, POLICY) or ()))

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


_HEAD_COLUMNS = (
    "id, type, kind, status, scope, revision, title, channel, updated_at, coalesce(origin, ''), "
    "coalesce(fingerprint, '')"
)
_SourceRow = tuple[str, str, str, str, int]
"""Origin, id, fingerprint, status, revision."""


class SqliteSnapshot(Snapshot):
    """`rows.ledger.Snapshot` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection, parts: LedgerParts[apsw.Connection]) -> None:
        self._connection = connection
        self._tables = ObjectTables(connection, parts.checks)
        super().__init__(self._tables, LogTables(connection, parts.checks), parts.policy)

    def _heads(self, identities: Sequence[str], altered: Altered | None) -> Mapping[str, Head]:
        sql = f"SELECT {_HEAD_COLUMNS} FROM objects WHERE id IN (?*)"  # noqa: S608 - our columns
        rows = list(in_batches(self._connection, sql, identities))
        try:
            return {row[0]: checked_head(_head(row)) for row in rows}
        except Exception:  # noqa: BLE001 - one row is damaged: read them one by one to find out which
            heads: dict[str, Head] = {}
            for row in rows:
                with noted(altered), row_of(str(row[0])):
                    heads[row[0]] = checked_head(_head(row))
            return heads

    def candidates(self, selection: Selection, behind: str, limit: int) -> list[str]:
        """Return the ids of objects that may be selected, in order."""
        if selection.as_of is None:
            chosen, column = _condition(selection)
            begin = f"SELECT id FROM objects WHERE {chosen.sql}"  # noqa: S608 - marks, and what `condition` wrote
        else:
            chosen, column = _begun_by(selection, self.sequence(selection.as_of)), "id"
            begin = f"SELECT DISTINCT id FROM revisions WHERE {chosen.sql}"  # noqa: S608 - marks
        order = f"< ? ORDER BY {column} DESC" if selection.newest else f"> ? ORDER BY {column}"
        start = behind or (_AFTER_ALL if selection.newest else "")
        rows = self._connection.execute(f"{begin} AND {column} {order} LIMIT ?", (*chosen.bindings, start, limit))
        return [identity for (identity,) in rows]

    def sources(self, scope: str, root: str) -> Mapping[str, SourceState]:
        """Return the sources of this scope below a root origin, by origin."""
        # Ranges instead of prefixes, and three queries instead of OR, so that the index by origin is used.
        columns = "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ?1 AND "
        sql = (
            f"{columns} origin = ?2 UNION ALL {columns} origin >= ?2 || '#' AND origin < ?2 || '$' "
            f"UNION ALL {columns} origin >= ?2 || '/' AND origin < ?2 || '0' ORDER BY id"
        )
        return _states(self._connection.execute(sql, (scope, root)))

    def sources_at(self, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Return the sources of this scope with these origins, by origin."""
        sql = (
            "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ? AND origin IN (?*) "
            "ORDER BY id"
        )
        return _states(in_batches(self._connection, sql, origins, before=(scope,)))

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes of objects at or below a scope."""
        start = "/" if below == ROOT else f"{below}/"
        # '0' is the character after '/'. Each step jumps to the next scope, regardless of the number of objects in one.
        sql = (
            "WITH RECURSIVE found(scope) AS (SELECT min(scope) FROM objects WHERE scope > ?1 AND scope < ?2 UNION ALL "
            "SELECT (SELECT min(scope) FROM objects o WHERE o.scope > found.scope AND o.scope < ?2) FROM found "
            "WHERE found.scope IS NOT NULL) SELECT scope FROM found WHERE scope IS NOT NULL"
        )
        bounds = start, start[:-1] + "0"
        return remembered(
            self._connection, bounds, lambda: [scope for (scope,) in self._connection.execute(sql, bounds)]
        )

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """Return the number of current objects by scope, type and status. It reads one covering index."""
        sql = "SELECT scope, type, status, count(*) FROM objects GROUP BY scope, type, status"
        return {(scope, kind, status): number for scope, kind, status, number in self._connection.execute(sql)}

    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects with a revision that refers to an id."""
        return self._tables.referrers(identity)

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        return self._tables.checked_links(identity, None if as_of is None else self.sequence(as_of))


def _states(rows: Iterable[_SourceRow]) -> dict[str, SourceState]:
    return newest_states((row[0], SourceState(*row[1:])) for row in rows)


_AFTER_ALL = "\U0010ffff"
_NAMING = {"origin": "origin", "title": "title"}


def _condition(selection: Selection) -> tuple[Condition, str]:
    """Return the condition of candidates by scope, type and filter, and their id, as the best index needs it.

    Candidates are checked again on the objects themselves.
    """
    named, filtered = equalities(selection.where, INDEXED_FIELDS), condition(selection.where, OBJECT_FIELDS)
    # A name is rarer than a type or a kind. The plus sign prevents SQLite from using the index by type.
    is_named = bool(equalities(selection.where, _NAMING).bindings)
    column = "+id" if is_named else "id"
    if not is_named:
        named = joined([named, equalities(selection.where, {"kind": "kind"})], "AND")
    kind = "+type" if equalities(selection.where, {"origin": "origin"}).bindings else "type"
    types = Condition(f"{kind} IN ({_marks(selection.types)})", selection.types) if selection.types else ALWAYS
    return joined([_seen(selection), types, of_types(selection.types, column), named, filtered], "AND"), column


def _seen(selection: Selection) -> Condition:
    """Return the condition that the scope of an object is visible at the selection's scope."""
    if selection.descend and selection.scope == ROOT:
        return ALWAYS
    scopes = tuple(lineage(selection.scope))
    prefix = f"{selection.scope}/"
    below = Condition("OR substr(scope, 1, ?) = ?", (len(prefix), prefix)) if selection.descend else Condition("")
    return Condition(f"(scope IN ({_marks(scopes)}) {below.sql})", (*scopes, *below.bindings))


def _begun_by(selection: Selection, seq: int) -> Condition:
    """Return the condition that an object of some types existed at an event."""
    types = of_types(selection.types, "id")
    return Condition(f"seq <= ? AND {types.sql}", (seq, *types.bindings))


def _marks(values: Sequence[str]) -> str:
    return ",".join("?" * len(values))


def _head(row: tuple[str, str, str, str, str, int, str, str, str, str, str]) -> Head:
    return Head(*row[:8], updated_at=_time(row[8]), origin=row[9], fingerprint=row[10])


_time = lru_cache(maxsize=1 << 10)(parse_time)
"""Objects of one commit have one time."""
