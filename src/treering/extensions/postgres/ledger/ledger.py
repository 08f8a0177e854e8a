"""The ledger on Postgres: many spaces in one database, any number of processes on any number of machines."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from treering.core.audit import AuditEvent
from treering.core.canonical import parse_time
from treering.core.errors import Corrupt
from treering.core.filters import asked_texts
from treering.core.objects import Object
from treering.core.patch import Link
from treering.core.policy import Policy
from treering.core.scope import ROOT, lineage
from treering.extensions.postgres.connection.failures import AFTER_ALL, from_column, to_column
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.extensions.postgres.ledger.log_tables import PostgresLedgerLog
from treering.extensions.postgres.ledger.object_reads import ObjectReads, select_named
from treering.extensions.postgres.ledger.session import LedgerFollower, PostgresSession, SpaceRows
from treering.ports.ledger import (
    Altered,
    AnchorStore,
    AsOf,
    Head,
    ObjectRequest,
    ObjectsFound,
    Selection,
    SourceState,
    noted,
    read_one_by_one,
)
from treering.ports.ledger_writes import ReadRevision, revisions_in
from treering.ports.runtime import Clock
from treering.stores.rows.damage import row_of
from treering.stores.rows.ledger import DatabaseLedger, Snapshot, checked_head, newest_states
from treering.stores.rows.session import LedgerParts

_HEAD = (
    "SELECT id, type, kind, status, scope, revision, title, channel, updated_at, coalesce(origin, ''), "
    "coalesce(fingerprint, '') FROM objects"
)
_STATE = "origin, id, fingerprint, status, revision"
_SOURCES_BELOW = select_named(
    _STATE,
    "scope = %(scope)s AND origin >= %(root)s AND origin < %(end)s "
    "AND (origin = %(root)s OR starts_with(origin, %(root)s || '#') OR starts_with(origin, %(root)s || '/'))",
)
_SOURCES_AT = select_named(_STATE, "scope = %(scope)s AND origin = ANY(%(origins)s)")
_SCOPES_BELOW = select_named(
    "scope", "scope >= %(start)s AND scope < %(end)s AND starts_with(scope, %(start)s) AND scope <> %(below)s"
)
_OUT_OF_REACH = (
    "old rows in the files of the database, until its owner runs VACUUM FULL (VACUUM alone leaves their bytes)",
    "the write-ahead log of the database server, its archive and its replicas",
)
_ASKED = ("status", "scope", "origin", "title", "kind")


class PostgresSnapshot(Snapshot):
    """Reads from one snapshot. The data for several requests is read together."""

    def __init__(self, transaction: Transaction, parts: LedgerParts[Transaction]) -> None:
        self.objects: ObjectReads = ObjectReads(transaction, parts.checks)
        super().__init__(self.objects, PostgresLedgerLog(transaction, parts.checks), parts.policy)
        self._transaction = transaction
        self._ahead: dict[str, Object] = {}
        self._referrers: dict[str, list[str]] = {}
        self._links: dict[str, list[Link]] = {}

    def read(self, requests: Sequence[ObjectRequest]) -> list[ObjectsFound]:
        """Answer several requests."""
        dependents = list(chain.from_iterable(request.dependents for request in requests))
        referrers = list(chain.from_iterable(request.referrers for request in requests))
        resting = chain.from_iterable(request.resting for request in requests)
        identities = list(dict.fromkeys((*dependents, *resting)))
        dependents_of = self.objects.dependents_of(identities) if identities else {}
        self._referrers = self.objects.referrers_of(referrers) if referrers else {}
        now = chain.from_iterable(request.objects for request in requests if request.as_of is None)
        named = (dependents_of[identity] for identity in dependents)
        naming = chain(chain.from_iterable(named), chain.from_iterable(self._referrers.values()))
        if wanted := list(dict.fromkeys((*now, *naming))):
            self._ahead = self.objects.current(wanted, altered={})
        linked = chain.from_iterable(request.links for request in requests if request.as_of is None)
        if ends := list(dict.fromkeys(linked)):
            with suppress(Corrupt):  # then each is read separately, which raises the error of the damaged one
                self._links = self.objects.links_of_all(ends, None)
        return [read_one_by_one(self, request, dependents_of) for request in requests]

    def objects_at(
        self, identities: Sequence[str], as_of: AsOf, altered: Altered | None = None
    ) -> Mapping[str, Object]:
        """Return objects by id, as of now or a point in history. Unknown ids are left out."""
        if as_of is not None:
            return super().objects_at(identities, as_of, altered)
        # Damaged objects are read again, which raises or notes the error.
        others = [identity for identity in identities if identity not in self._ahead]
        return {**self._ahead, **super().objects_at(others, None, altered)} if others else self._ahead

    def _heads(self, identities: Sequence[str], altered: Altered | None) -> Mapping[str, Head]:
        heads: dict[str, Head] = {}
        sql = f"{_HEAD} WHERE space = %(space)s AND id = ANY(%(ids)s)"
        for row in self._transaction.rows(sql, ids=list(identities)) if identities else ():
            with noted(altered):
                heads[row[0]] = _head(row)
        return heads

    def referrers(self, identity: str) -> Sequence[str]:
        """Return the ids of objects with a revision that refers to an id."""
        known = self._referrers if identity in self._referrers else self.objects.referrers_of([identity])
        return known[identity]

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        if as_of is None and identity in self._links:
            return self._links[identity]
        return self.objects.links_as_of(identity, None if as_of is None else self.sequence(as_of))

    def candidates(self, selection: Selection, behind: str, limit: int) -> list[str]:
        """Return the ids of objects that may be selected, in order."""
        if selection.as_of is None:
            begin, bindings = _candidates(selection)
        else:
            begin = "SELECT DISTINCT id FROM revisions WHERE space = %(space)s AND seq <= %(seq)s"
            bindings = {"seq": self.sequence(selection.as_of)}
        order = "WHERE id < %(behind)s ORDER BY id DESC" if selection.newest else "WHERE id > %(behind)s ORDER BY id"
        start = behind or (AFTER_ALL if selection.newest else "")
        sql = f"SELECT id FROM ({begin}) AS candidates {order} LIMIT %(limit)s"  # noqa: S608 - only our own SQL
        return self._transaction.column(sql, **bindings, behind=start, limit=limit)

    def sources(self, scope: str, root: str) -> dict[str, SourceState]:
        """Return the sources of this scope below a root origin, by origin."""
        stored_root = to_column(root)
        sql = f"{_SOURCES_BELOW} ORDER BY id"
        return _states(self._transaction.rows(sql, scope=scope, root=stored_root, end=stored_root + AFTER_ALL))

    def sources_at(self, scope: str, origins: Sequence[str]) -> dict[str, SourceState]:
        """Return the sources of this scope with these origins, by origin."""
        named = list(map(to_column, origins))
        sql = f"{_SOURCES_AT} ORDER BY id"
        return _states(self._transaction.rows(sql, scope=scope, origins=named)) if named else {}

    def scopes(self, below: str) -> list[str]:
        """Return the scopes of objects at or below a scope."""
        start = "/" if below == ROOT else f"{below}/"
        sql = f"SELECT DISTINCT scope FROM ({_SCOPES_BELOW}) AS found ORDER BY scope"  # noqa: S608 - only our own SQL
        return self._transaction.column(sql, start=start, end=start + AFTER_ALL, below=below)

    def counts(self) -> dict[tuple[str, str, str], int]:
        """Return the number of current objects by scope, type and status."""
        sql = "SELECT scope, type, status, count(*) FROM objects WHERE space = %(space)s GROUP BY scope, type, status"
        return {(scope, kind, status): number for scope, kind, status, number in self._transaction.rows(sql)}

    def _revisions_told(self, events: Sequence[AuditEvent]) -> ReadRevision:
        """Read the revisions in events together."""
        revisions = self.objects.some_revisions(revisions_in(events))
        return lambda identity, number: revisions.get((identity, number))


def _candidates(selection: Selection) -> tuple[str, dict[str, object]]:
    """Return a query of candidates by scope, type and names in the filter. Their objects are checked again."""
    conditions, bindings = _scope_seen(selection)
    if selection.types:
        conditions.append("type = ANY(%(types)s)")
        bindings["types"] = list(selection.types)
    for number, (field, texts) in enumerate(asked_texts(selection.where)):
        if field in _ASKED:
            conditions.append(_one_of(field, list(map(to_column, texts)), f"asked{number}", bindings))
    return select_named("id", " AND ".join(conditions)), bindings


def _states(rows: Iterable[Row]) -> dict[str, SourceState]:
    return newest_states(
        (from_column(origin), SourceState(identity, from_column(fingerprint), status, revision))
        for origin, identity, fingerprint, status, revision in rows
    )


def _scope_seen(selection: Selection) -> tuple[list[str], dict[str, object]]:
    if selection.descend and selection.scope == ROOT:
        return ["true"], {}
    bindings: dict[str, object] = {}
    within = _one_of("scope", list(lineage(selection.scope)), "scopes", bindings)
    if not selection.descend:
        return [within], bindings
    prefix = selection.scope + "/"
    below = "(scope >= %(prefix)s AND scope < %(end)s AND starts_with(scope, %(prefix)s))"
    return [f"({within} OR {below})"], {**bindings, "end": prefix + AFTER_ALL, "prefix": prefix}


def _one_of(column: str, texts: Sequence[str], name: str, bindings: dict[str, object]) -> str:
    """Return the condition that a column is one of some texts, and bind them."""
    bindings[name] = list(texts)
    return f"{column} = ANY(%({name})s)"


def _head(row: tuple[str, str, str, str, str, int, str, str, str, str, str]) -> Head:
    with row_of(row[0]):
        title, origin, contents = map(from_column, (row[6], row[9], row[10]))
        updated_at = parse_time(row[8])
        head = Head(*row[:6], title, row[7], updated_at=updated_at, origin=origin, fingerprint=contents)
    return checked_head(head)


class PostgresLedger(DatabaseLedger[Transaction]):
    """`ports.ledger.Ledger` over a `PostgresSpace`. Followers are updated in the same transactions.

    `policy` is the default of a space without a policy. Events have the server's time, which is shared by all writers;
    with `server_time=False`, the time of `clock`, for tests.
    """

    def __init__(
        self,
        space: PostgresSpace,
        *,
        clock: Clock,
        policy: Policy | None = None,
        followers: Sequence[LedgerFollower] = (),
        anchor: AnchorStore | None = None,
        server_time: bool = True,
    ) -> None:
        self._followers = tuple(followers)
        super().__init__(
            space.place,
            LedgerParts(clock, policy or Policy(), self._followers),
            read=space.read,
            ask=space.ask,
            write=space.write,
            read_whole=space.read,
            snapshot=PostgresSnapshot,
            rows=SpaceRows,
            anchor=anchor,
        )
        self._space = space
        self._server_time = server_time
        if not self._is_prepared():
            with space.write() as transaction:
                for follower in self._followers:
                    follower.prepare(transaction)
        self._check_anchor()

    def compact(self) -> tuple[str, ...]:
        """Do nothing: only the owner of the database can rewrite its files (`out_of_reach`)."""
        return ()

    def out_of_reach(self) -> tuple[str, ...]:
        """Describe the bytes that Postgres leaves on its disks."""
        return _OUT_OF_REACH

    def close(self) -> None:
        """Return the connections to their pool."""
        self._space.close()

    def _session(self, transaction: Transaction) -> PostgresSession:
        return PostgresSession(transaction, self._parts, server_time=self._server_time, readers=self._followers)

    def _is_prepared(self) -> bool:
        """Check with a read, so that opening a space for reading does not wait for writers."""
        if not self._followers:
            return True
        with self._space.read() as transaction:
            return all(follower.is_prepared(transaction) for follower in self._followers)
