"""Reads of the ledger on SQLite: each a snapshot, and held to what the audit log says."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw

from treering.core.audit import AuditEvent
from treering.core.evidence import Segment
from treering.core.ids import parse_time
from treering.core.objects import Object
from treering.core.patch import Link, PatchRecord, PatchStatus
from treering.core.policy import Policy
from treering.core.scope import ROOT, lineage
from treering.core.writing.transaction import missing_patch
from treering.ports.copying import changes_told
from treering.ports.index import Change
from treering.ports.ledger import (
    TABLES,
    Altered,
    AsOf,
    Head,
    ObjectRequest,
    ObjectsFound,
    Record,
    Selection,
    SourceState,
    head_of,
    missing_object,
    missing_segment,
    noted,
    read_one_by_one,
    selects,
)
from treering.stores.rows.packing import row_of, rows_of
from treering.stores.rows.read_checks import ReadChecks
from treering.stores.rows.records import events_in_batches, records_of
from treering.stores.rows.verification import checked_head, newest_states
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.filters import INDEXED_FIELDS, OBJECT_FIELDS, condition, equalities
from treering.stores.sqlite.ledger.log_tables import LogTables
from treering.stores.sqlite.ledger.object_tables import ObjectTables
from treering.stores.sqlite.ledger.session import SqliteRows

_HEAD_COLUMNS = "id, type, kind, status, scope, revision, title, channel, updated_at, coalesce(origin, '')"
_BATCH = 500


_SourceRow = tuple[str, str, str, str, int]
"""Origin, id, fingerprint, status, revision."""


class SqliteReads:
    """The reads of `ports.ledger.Ledger` over a `Database`."""

    def __init__(self, database: Database, *, policy: Policy | None) -> None:
        self._database = database
        self._checks = ReadChecks()
        self._default_policy = policy or Policy()

    @property
    def policy(self) -> Policy:
        """The policy in force, as the space holds it now."""
        with self._read() as connection:
            return LogTables(connection).policy() or self._default_policy

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object as it stands, or as it stood."""
        with self._read() as connection:
            tables = self._tables(connection)
            item = (
                tables.get(identity)
                if as_of is None
                else tables.get_as_of(identity, LogTables(connection).sequence(as_of))
            )
        if item is None:
            raise missing_object(identity)
        return item

    def history(self, identity: str) -> Sequence[Object]:
        """Return every revision, oldest first."""
        with self._read() as connection:
            revisions = self._tables(connection).revisions(identity)
        if not revisions:
            raise missing_object(identity)
        return revisions

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return the heads of those of the ids that exist."""
        wanted = list(dict.fromkeys(identities))
        with self._read() as connection:
            if as_of is not None:
                seq, tables = LogTables(connection).sequence(as_of), self._tables(connection)
                found = _each(wanted, lambda identity: tables.get_as_of(identity, seq), altered)
                return {item.id: head_of(item) for item in found}
            heads: dict[str, Head] = {}
            for start in range(0, len(wanted), _BATCH):
                batch = wanted[start : start + _BATCH]
                sql = f"SELECT {_HEAD_COLUMNS} FROM objects WHERE id IN ({_marks(batch)})"  # noqa: S608 - marks
                for row in list(connection.execute(sql, batch)):
                    with noted(altered):
                        heads[row[0]] = _head(row)
            return heads

    def segment(self, source_id: str, segment_id: str) -> Segment:
        """Return a segment, also one that has vanished from its source since."""
        with self._read() as connection:
            found = self._tables(connection).segment(source_id, segment_id)
        if found is None:
            raise missing_segment(source_id, segment_id)
        return found

    def segments(
        self, places: Sequence[tuple[str, str]], *, altered: Altered | None = None
    ) -> Mapping[tuple[str, str], Segment]:
        """Return those of the segments (source id, segment id) that are in their sources now."""
        with self._read() as connection:
            return self._tables(connection).segments(places, altered)

    def read(self, requests: Sequence[ObjectRequest]) -> Sequence[ObjectsFound]:
        """Read for several requests, all of one moment."""
        with self._read():
            return [read_one_by_one(self, request) for request in requests]

    def select(self, selection: Selection, *, altered: Altered | None = None) -> Iterator[Object]:
        """Return the objects a read at the selection's scope sees, oldest first."""
        with self._read() as connection:
            tables = self._tables(connection)
            if selection.as_of is None:
                items = _each(_candidates(connection, selection), tables.get, altered)
            else:
                seq = LogTables(connection).sequence(selection.as_of)
                sql = "SELECT DISTINCT id FROM revisions WHERE seq <= ? ORDER BY id"
                ids = [identity for (identity,) in connection.execute(sql, (seq,))]
                items = _each(ids, lambda identity: tables.get_as_of(identity, seq), altered)
        yield from (item for item in items if selects(selection, item))

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Give, by origin, the sources in this scope below a root origin."""
        # Ranges instead of prefixes, and three queries instead of OR: so that the index by origin finds them.
        columns = "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ?1 AND "
        sql = (
            f"{columns} origin = ?2 UNION ALL {columns} origin >= ?2 || '#' AND origin < ?2 || '$' "
            f"UNION ALL {columns} origin >= ?2 || '/' AND origin < ?2 || '0' ORDER BY id"
        )
        return _states(self._database.rows(sql, (scope, root)))

    def sources_at(self, *, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Give, by origin, those of the sources that are in this scope."""
        rows: list[_SourceRow] = []
        with self._database.read() as connection:
            for start in range(0, len(origins), _BATCH):
                batch = origins[start : start + _BATCH]
                sql = (
                    "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ? "  # noqa: S608 - marks
                    f"AND origin IN ({','.join('?' * len(batch))}) ORDER BY id"
                )
                rows += connection.execute(sql, (scope, *batch))
        return _states(rows)

    def scopes(self, below: str) -> Sequence[str]:
        """Return the scopes below one that objects lie in."""
        start = "/" if below == ROOT else f"{below}/"
        # '0' is the character after '/'. Each step jumps to the next scope, however many objects lie in one.
        sql = (
            "WITH RECURSIVE found(scope) AS (SELECT min(scope) FROM objects WHERE scope > ?1 AND scope < ?2 UNION ALL "
            "SELECT (SELECT min(scope) FROM objects o WHERE o.scope > found.scope AND o.scope < ?2) FROM found "
            "WHERE found.scope IS NOT NULL) SELECT scope FROM found WHERE scope IS NOT NULL"
        )
        return [scope for (scope,) in self._database.rows(sql, (start, start[:-1] + "0"))]

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge whose evidence or derivation names this id."""
        with self._read() as connection:
            return self._tables(connection).dependents(identity)

    def referrers(self, identity: str) -> Sequence[str]:
        """Return ids of objects of which a revision names this id."""
        with self._read() as connection:
            return self._tables(connection).referrers(identity)

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        with self._read() as connection:
            seq = None if as_of is None else LogTables(connection).sequence(as_of)
            return self._tables(connection).checked_links(identity, seq)

    def patch(self, patch_id: str) -> PatchRecord:
        """Return the record of a patch."""
        with self._read() as connection:
            record = LogTables(connection, self._checks).record(patch_id)
        if record is None:
            raise missing_patch(patch_id)
        return record

    def patches(self, *, status: PatchStatus | None = None, limit: int = 100) -> Sequence[PatchRecord]:
        """Return the newest patches."""
        with self._database.read() as connection:
            return LogTables(connection).newest_records(status, limit)

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history."""
        with self._read() as connection:
            return LogTables(connection).sequence(as_of)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Return audit events in order, in batches, so that a long log does not fill memory."""

        def batch(after: int, limit: int) -> Sequence[AuditEvent]:
            with self._database.read() as connection:
                return LogTables(connection).events(after=after, limit=limit)

        return events_in_batches(batch, after=after, limit=limit)

    def changes(self, after: int, limit: int) -> Sequence[Change]:
        """Return the changes of objects that the `limit` events behind `after` tell of, in order."""
        with self._read() as connection:
            tables, log = self._tables(connection), LogTables(connection, self._checks)

            def revision(identity: str, number: int) -> Object | None:
                found = tables.revision(identity, number)
                if found is None:
                    log.require_erased(identity, number)
                return found

            return changes_told(log.events(after=max(after, 0), limit=max(limit, 0)), revision)

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object or patch."""
        with self._database.read() as connection:
            return LogTables(connection, self._checks).events_of(identity)

    def records(self, *, only: Collection[str] = TABLES) -> Iterator[Record]:
        """Return everything the ledger holds, or the records of some tables, of one moment."""
        with self._read(fresh=True) as connection:
            yield from records_of(SqliteRows(connection), only)

    @contextmanager
    def _read(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        """Hold a snapshot, and the rows of the ledger to what they should be."""
        with rows_of("the ledger"), (self._database.read_fresh if fresh else self._database.read)() as connection:
            yield connection

    def _tables(self, connection: apsw.Connection) -> ObjectTables:
        return ObjectTables(connection, self._checks)


def _states(rows: Iterable[_SourceRow]) -> dict[str, SourceState]:
    return newest_states((row[0], SourceState(*row[1:])) for row in rows)


def _candidates(connection: apsw.Connection, selection: Selection) -> list[str]:
    """Narrow by scope, type and filter in SQL; what passes is checked again on the object itself."""
    scopes = lineage(selection.scope)
    prefix = selection.scope.removesuffix("/") + "/"
    below = "OR substr(scope, 1, ?) = ?" if selection.descend else ""
    named, asked = equalities(selection.where, INDEXED_FIELDS), condition(selection.where, OBJECT_FIELDS)
    # An origin is rarer than a type: the plus sign keeps SQLite from looking up the type.
    kind = "+type" if equalities(selection.where, {"origin": "origin"}).bindings else "type"
    types = f"AND {kind} IN ({_marks(selection.types)})" if selection.types else ""
    where = f"(scope IN ({_marks(scopes)}) {below}) {types} AND {named.sql} AND {asked.sql}"
    sql = f"SELECT id FROM objects WHERE {where} ORDER BY id"  # noqa: S608 - marks, and what `condition` wrote
    within = (len(prefix), prefix) if selection.descend else ()
    bindings = [*scopes, *within, *selection.types, *named.bindings, *asked.bindings]
    return [identity for (identity,) in connection.execute(sql, bindings)]


def _marks(values: Sequence[str]) -> str:
    return ",".join("?" * len(values))


def _head(row: tuple[str, str, str, str, str, int, str, str, str, str]) -> Head:
    with row_of(str(row[0])):
        head = Head(*row[:8], updated_at=parse_time(row[8]), origin=row[9])
    return checked_head(head)


def _each(identities: Iterable[str], read: Callable[[str], Object | None], altered: Altered | None) -> list[Object]:
    """Read objects one by one; what does not verify is left out where `altered` takes it."""
    found = []
    for identity in identities:
        with noted(altered):
            if item := read(identity):
                found.append(item)
    return found
