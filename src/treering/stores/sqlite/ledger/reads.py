"""What one moment of a space says: the reads of the ledger on SQLite, held to what the audit log says."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import apsw

from treering.core.canonical import parse_time
from treering.core.objects import Object
from treering.core.patch import Link
from treering.core.policy import Policy
from treering.core.scope import ROOT, lineage
from treering.ports.ledger import Altered, AsOf, Head, Selection, SourceState, head_of, missing_object, noted, selects
from treering.stores.rows.ledger import Snapshot
from treering.stores.rows.packing import row_of
from treering.stores.rows.read_checks import ReadChecks
from treering.stores.rows.verification import checked_head, newest_states
from treering.stores.sqlite.filters import INDEXED_FIELDS, OBJECT_FIELDS, condition, equalities
from treering.stores.sqlite.ledger.log_tables import LogTables
from treering.stores.sqlite.ledger.object_tables import ObjectTables

_HEAD_COLUMNS = "id, type, kind, status, scope, revision, title, channel, updated_at, coalesce(origin, '')"
_BATCH = 500


_SourceRow = tuple[str, str, str, str, int]
"""Origin, id, fingerprint, status, revision."""


class SqliteSnapshot(Snapshot):
    """`rows.ledger.Snapshot` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection, checks: ReadChecks, policy: Policy) -> None:
        self._connection = connection
        self._tables = ObjectTables(connection, checks)
        self._log_tables = LogTables(connection, checks)
        self._default_policy = policy
        super().__init__(self._tables, self._log_tables)

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._log_tables.policy() or self._default_policy

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object as it stands, or as it stood."""
        item = self._get_at(as_of)(identity)
        if item is None:
            raise missing_object(identity)
        return item

    def heads(
        self, identities: Iterable[str], *, as_of: AsOf = None, altered: Altered | None = None
    ) -> Mapping[str, Head]:
        """Return the heads of those of the ids that exist."""
        wanted = list(dict.fromkeys(identities))
        if as_of is not None:
            return {item.id: head_of(item) for item in _each(wanted, self._get_at(as_of), altered)}
        heads: dict[str, Head] = {}
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            sql = f"SELECT {_HEAD_COLUMNS} FROM objects WHERE id IN ({_marks(batch)})"  # noqa: S608 - marks
            for row in list(self._connection.execute(sql, batch)):
                with noted(altered):
                    heads[row[0]] = _head(row)
        return heads

    def select(self, selection: Selection, altered: Altered | None) -> list[Object]:
        """Return the objects a read at the selection's scope sees, oldest first."""
        if selection.as_of is None:
            ids = _candidates(self._connection, selection)
        else:
            sql = "SELECT DISTINCT id FROM revisions WHERE seq <= ? ORDER BY id"
            rows = self._connection.execute(sql, (self.sequence(selection.as_of),))
            ids = [identity for (identity,) in rows]
        items = _each(ids, self._get_at(selection.as_of), altered)
        return [item for item in items if selects(selection, item)]

    def sources(self, scope: str, root: str) -> Mapping[str, SourceState]:
        """Give, by origin, the sources in this scope below a root origin."""
        # Ranges instead of prefixes, and three queries instead of OR: so that the index by origin finds them.
        columns = "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ?1 AND "
        sql = (
            f"{columns} origin = ?2 UNION ALL {columns} origin >= ?2 || '#' AND origin < ?2 || '$' "
            f"UNION ALL {columns} origin >= ?2 || '/' AND origin < ?2 || '0' ORDER BY id"
        )
        return _states(self._connection.execute(sql, (scope, root)))

    def sources_at(self, scope: str, origins: Sequence[str]) -> Mapping[str, SourceState]:
        """Give, by origin, those of the sources that are in this scope."""
        rows: list[_SourceRow] = []
        for start in range(0, len(origins), _BATCH):
            batch = origins[start : start + _BATCH]
            sql = (
                "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ? "  # noqa: S608 - marks
                f"AND origin IN ({_marks(batch)}) ORDER BY id"
            )
            rows += self._connection.execute(sql, (scope, *batch))
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
        return [scope for (scope,) in self._connection.execute(sql, (start, start[:-1] + "0"))]

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge whose evidence or derivation names this id."""
        return self._tables.dependents(identity)

    def referrers(self, identity: str) -> Sequence[str]:
        """Return ids of objects of which a revision names this id."""
        return self._tables.referrers(identity)

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        return self._tables.checked_links(identity, None if as_of is None else self.sequence(as_of))

    def _get_at(self, as_of: AsOf) -> Callable[[str], Object | None]:
        """Return what reads an object as it stands, or as it stood."""
        if as_of is None:
            return self._tables.get
        seq = self.sequence(as_of)
        return lambda identity: self._tables.get_as_of(identity, seq)


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
