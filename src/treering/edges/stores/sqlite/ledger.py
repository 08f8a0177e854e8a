"""The ledger on SQLite: one file per space, any number of processes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import apsw

from treering.core.audit import GENESIS, Anchor, AuditEvent
from treering.core.draft import Erased, Put
from treering.core.errors import Conflict, Corrupt, NotFound, TreeringError, Unavailable
from treering.core.evidence import Segment
from treering.core.journal import (
    ERASED_KEY,
    Journal,
    Notice,
    approval,
    erased_by,
    erased_key,
    first_receipt,
    journal,
    patch_of,
    proposal,
    rejection,
    require_new,
    require_same_request,
    reversal,
    without_request,
)
from treering.core.objects import Object
from treering.core.patch import (
    Author,
    Link,
    Patch,
    PatchRecord,
    PatchStatus,
    Receipt,
    Remembered,
    Waiting,
)
from treering.core.plan import Plan, plan, plan_revert
from treering.core.policy import Policy, check_approval, check_gate, check_reverter
from treering.core.scope import ROOT, lineage
from treering.core.times import parse_time, render_time
from treering.edges.stores.sqlite.backup import Copied, back_up
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.failures import row_of, rows_of
from treering.edges.stores.sqlite.filters import INDEXED_FIELDS, OBJECT_FIELDS, condition, equalities
from treering.edges.stores.sqlite.follower import Follower
from treering.edges.stores.sqlite.object_tables import ObjectTables
from treering.edges.stores.sqlite.overwriting import is_overwriting_due, note_erasure, overwrite
from treering.edges.stores.sqlite.packing import pack, unpack_model
from treering.edges.stores.sqlite.read_checks import ReadChecks
from treering.edges.stores.sqlite.schema import is_current, is_quick, migrate
from treering.edges.stores.sqlite.transfer import load_records, read_records
from treering.edges.stores.sqlite.verification import verify_ledger
from treering.ports.clock import Clock, fresh_id, fresh_salt
from treering.ports.ledger import (
    Altered,
    AnchorStore,
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
from treering.ports.projection import Change

_HEAD_COLUMNS = "id, type, kind, status, scope, revision, title, channel, updated_at, coalesce(origin, '')"
_BATCH = 500
_OVERWRITING_SECONDS = 2.0  # for each step, while readers and writers of other processes are in the way


class SqliteLedger:
    """`ports.ledger.Ledger` over a `Database`. Followers move in the same transactions."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        policy: Policy | None = None,
        followers: Sequence[Follower] = (),
        anchor: AnchorStore | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self._database = database
        self._clock = clock
        self._followers = tuple(followers)
        self._anchor = anchor
        self._checks = ReadChecks()
        if not self._is_prepared():
            if database.read_only:
                raise _outdated(database.path)
            with database.write() as connection:
                migrate(connection, database.path)
                for follower in self._followers:
                    follower.prepare(connection)
        self._check_anchor()
        if not database.read_only:
            # What a process that was killed, or found others in its way, has left to do. Nobody is waited for.
            self._overwrite(wait_seconds=0)

    def commit(self, patch: Patch, *, idempotency_key: str | None = None) -> Receipt:
        """Apply a patch in one transaction, durable before this returns."""
        with self._database.write() as connection:
            if idempotency_key:
                first = first_receipt(_remembered(connection, idempotency_key), idempotency_key, patch.request)
                if first:
                    return first
            check_gate(patch, self.policy)
            require_new(patch, self._known_record(connection, patch.id))
            tables, now, head = self._tables(connection), self._now(connection), self._head(connection)
            planned = plan(patch, tables, policy=self.policy, now=now)
            proposals = self._proposals(connection) if _erases(planned) else ()
            result = journal(planned, patch=patch, head=head, now=now, new_id=self._new_event_id, proposals=proposals)
            self._keep(connection, planned, result)
            if idempotency_key:
                _remember(connection, idempotency_key, Remembered(outcome=result.receipt, request=patch.request))
        self._advance_anchor(result.receipt.sequence, result.receipt.head)
        return result.receipt

    def preview(self, patch: Patch) -> Plan:
        """Plan a patch against the current state without changing anything."""
        with self._database.read() as connection:
            return plan(patch, self._tables(connection), policy=self.policy, now=self._now(connection))

    def propose(self, patch: Patch, *, idempotency_key: str | None = None) -> PatchRecord:
        """Keep a patch for review, checked against the current state."""
        with self._database.write() as connection:
            if idempotency_key and (known := _remembered(connection, idempotency_key)):
                require_same_request(known, idempotency_key, patch.request)
                return self._record(connection, known.patch_id)
            require_new(patch, self._known_record(connection, patch.id))
            now = self._now(connection)
            plan(patch, self._tables(connection), policy=self.policy, now=now)
            head, salt = self._head(connection), fresh_salt(self._clock)
            notice = proposal(patch, salt=salt, head=head, now=now, new_id=self._new_event_id)
            self._keep_notice(connection, notice)
            if idempotency_key:
                waiting = Remembered(outcome=Waiting(patch_id=patch.id), request=patch.request)
                _remember(connection, idempotency_key, waiting)
        self._advance_anchor(notice.event.seq, notice.event.hash)
        return notice.record

    def approve(self, patch_id: str, *, by: Author) -> Receipt:
        """Apply a proposed patch."""
        with self._database.write() as connection:
            record = self._record(connection, patch_id)
            patch = patch_of(record)
            check_approval(record.source, by, self.policy)
            now, head = self._now(connection), self._head(connection)
            planned = plan(patch, self._tables(connection), policy=self.policy, now=now)
            result = approval(
                planned,
                record=record,
                by=by,
                head=head,
                now=now,
                new_id=self._new_event_id,
                proposals=self._proposals(connection) if _erases(planned) else (),
            )
            self._keep(connection, planned, result)
        self._advance_anchor(result.receipt.sequence, result.receipt.head)
        return result.receipt

    def reject(self, patch_id: str, *, by: Author, reason: str) -> PatchRecord:
        """Turn a proposed patch down."""
        with self._database.write() as connection:
            notice = rejection(
                self._record(connection, patch_id),
                by=by,
                reason=reason,
                head=self._head(connection),
                now=self._now(connection),
                new_id=self._new_event_id,
            )
            self._keep_notice(connection, notice)
        self._advance_anchor(notice.event.seq, notice.event.hash)
        return notice.record

    def revert(self, patch_id: str, *, by: Author, reason: str) -> Receipt:
        """Take back an applied patch, or raise `Conflict` saying what has changed since."""
        with self._database.write() as connection:
            check_reverter(by, self.policy)
            record = self._record(connection, patch_id)
            now, head = self._now(connection), self._head(connection)
            undoing = fresh_id("patch", self._clock)
            planned = plan_revert(record, self._tables(connection), patch_id=undoing, policy=self.policy, now=now)
            result = reversal(
                planned,
                record=record,
                patch_id=undoing,
                by=by,
                reason=reason,
                head=head,
                now=now,
                new_id=self._new_event_id,
            )
            self._keep(connection, planned, result)
        self._advance_anchor(result.receipt.sequence, result.receipt.head)
        return result.receipt

    def get(self, identity: str, *, as_of: AsOf = None) -> Object:
        """Return an object as it stands, or as it stood."""
        with self._read() as connection:
            tables = self._tables(connection)
            item = tables.get(identity) if as_of is None else tables.get_as_of(identity, _sequence(connection, as_of))
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
                seq, tables = _sequence(connection, as_of), self._tables(connection)
                found = _each(wanted, lambda identity: tables.get_as_of(identity, seq), altered)
                return {item.id: head_of(item) for item in found}
            heads: dict[str, Head] = {}
            for start in range(0, len(wanted), _BATCH):
                batch = wanted[start : start + _BATCH]
                sql = f"SELECT {_HEAD_COLUMNS} FROM objects WHERE id IN ({_marks(batch)})"  # noqa: S608 - marks
                heads |= {row[0]: _head(row) for row in connection.execute(sql, batch)}
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
                seq = _sequence(connection, selection.as_of)
                sql = "SELECT DISTINCT id FROM revisions WHERE seq <= ? ORDER BY id"
                ids = [identity for (identity,) in connection.execute(sql, (seq,))]
                items = _each(ids, lambda identity: tables.get_as_of(identity, seq), altered)
        yield from (item for item in items if selects(selection, item))

    def sources(self, *, scope: str, root: str) -> Mapping[str, SourceState]:
        """Give, by origin, the sources in this scope below a root origin."""
        # A range instead of a prefix, and two queries instead of OR: so that the index by origin finds them.
        columns = "SELECT origin, id, fingerprint, status, revision FROM objects WHERE scope = ?1 AND "
        sql = f"{columns} origin = ?2 UNION ALL {columns} origin >= ?2 || '#' AND origin < ?2 || '$' ORDER BY id"
        rows = self._database.rows(sql, (scope, root))
        states: dict[str, SourceState] = {}
        for origin, identity, fingerprint, status, revision in rows:
            # An archived source gives way to a later one with the same origin.
            if origin not in states or states[origin].status == "archived":
                states[origin] = SourceState(identity, fingerprint, status, revision)
        return states

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

    def links(self, identity: str, *, as_of: AsOf = None) -> Sequence[Link]:
        """Return the links that start or end at an object."""
        with self._read() as connection:
            seq = None if as_of is None else _sequence(connection, as_of)
            return self._tables(connection).checked_links(identity, seq)

    def patch(self, patch_id: str) -> PatchRecord:
        """Return the record of a patch."""
        with self._read() as connection:
            return self._record(connection, patch_id)

    def patches(self, *, status: PatchStatus | None = None, limit: int = 100) -> Sequence[PatchRecord]:
        """Return the newest patches."""
        sql = "SELECT body FROM patches WHERE ? IS NULL OR status = ? ORDER BY id DESC LIMIT ?"
        return [_parse_record(body) for (body,) in self._database.rows(sql, (status, status, limit))]

    def sequence(self, as_of: AsOf = None) -> int:
        """Return the audit sequence number at a point in history."""
        with self._read() as connection:
            return _sequence(connection, as_of)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        """Return audit events in order, in batches, so that a long log does not fill memory."""
        left = limit
        while left is None or left > 0:
            size = _BATCH if left is None else min(left, _BATCH)
            sql = "SELECT body FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
            batch = [_parse_event(body) for (body,) in self._database.rows(sql, (after, size))]
            yield from batch
            if len(batch) < size:
                return
            after = batch[-1].seq
            left = None if left is None else left - len(batch)

    def events_of(self, identity: str) -> Sequence[AuditEvent]:
        """Return the audit events about one object or patch."""
        sql = "SELECT body FROM audit WHERE target = ? ORDER BY seq"
        events = [_parse_event(body) for (body,) in self._database.rows(sql, (identity,))]
        for event in events:
            self._checks.check_event(event)
        return events

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        """Check the audit chain, every revision against it, and every segment against its hash."""
        kept = anchor or (self._anchor.read() if self._anchor else None)
        with self._read(fresh=True) as connection:
            return verify_ledger(connection, anchor=kept)

    def records(self) -> Iterator[Record]:
        """Return everything the ledger holds, of one moment."""
        with self._read(fresh=True) as connection:
            yield from read_records(connection)

    def load(self, records: Iterable[Record]) -> None:
        """Fill an empty ledger from an export, in one transaction."""
        with self._database.write() as connection:
            if self._head(connection).seq:
                raise Conflict("This space is not empty.", hint="Import into a new space.")
            changes = load_records(connection, records)
            verify_ledger(connection, anchor=None)
            for follower in self._followers:
                follower.follow(connection, changes)

    def compact(self) -> tuple[str, ...]:
        """Overwrite and release what erasure left behind in the file and its log; say what could not be yet."""
        return self._overwrite(wait_seconds=_OVERWRITING_SECONDS)

    def back_up(self, target: Path, *, replace: bool, copied: Copied) -> Anchor:
        """Copy the space into a new file while others use it; see `backup.back_up`."""
        # Read before copying: the head it names is in the copy, whatever is written meanwhile.
        kept = self._anchor.read() if self._anchor else None
        return back_up(self._database, target, anchor=kept, replace=replace, copied=copied)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    @contextmanager
    def _read(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        """Hold a snapshot, and the rows of the ledger to what they should be."""
        with rows_of("the ledger"), (self._database.read_fresh if fresh else self._database.read)() as connection:
            yield connection

    def _is_prepared(self) -> bool:
        """Look before writing: a process that only wants to read waits for no writer, not even to open the space."""
        with self._read() as connection:
            current = is_current(connection) and all(each.is_prepared(connection) for each in self._followers)
            return current and (self._database.read_only or is_quick(connection))

    def _overwrite(self, *, wait_seconds: float) -> tuple[str, ...]:
        try:
            with self._read() as connection:
                due = is_overwriting_due(connection)
            if due:
                self._database.outside_transaction(overwrite, wait_seconds=wait_seconds)
        except TreeringError as error:
            # The erasure is committed and noted: what is left is said, and raises nothing.
            return (f"freed pages of the space's file, and its log ({error.message})",)
        return ()

    def _check_anchor(self) -> None:
        kept = self._anchor.read() if self._anchor else None
        if kept is None or kept.seq == 0:
            return
        row = self._database.row("SELECT hash FROM audit WHERE seq = ?", (kept.seq,))
        if row is None or row[0] != kept.hash:
            raise Corrupt(
                f"{self._database.path} does not hold the audit event {kept.seq} its anchor names.",
                hint="Its tail was cut or an older copy was put back: restore the newest copy, then lint audit.",
                details={"seq": kept.seq},
            )

    def _advance_anchor(self, seq: int, digest: str) -> None:
        if self._anchor:
            self._anchor.write(Anchor(seq=seq, hash=digest))

    def _keep(self, connection: apsw.Connection, planned: Plan, result: Journal) -> None:
        tables = ObjectTables(connection)
        changes = []
        for write, event in zip(planned.writes, result.events, strict=False):
            tables.store(write, event.seq)
            match write:
                case Put(before=before, after=after):
                    changes.append(Change(event.seq, after.id, before, after))
                case Erased(before=before):
                    changes.append(Change(event.seq, before.id, before, None))
                case _:
                    pass
        for event in result.events:
            _keep_event(connection, event)
        for record in result.records:
            _keep_record(connection, record)
        if erased := erased_by(planned):
            _erase_keys(connection, erased, result)
            note_erasure(connection, result.receipt.sequence)
        for follower in self._followers:
            follower.follow(connection, changes)

    def _keep_notice(self, connection: apsw.Connection, notice: Notice) -> None:
        _keep_event(connection, notice.event)
        _keep_record(connection, notice.record)

    def _tables(self, connection: apsw.Connection) -> ObjectTables:
        return ObjectTables(connection, self._checks)

    def _record(self, connection: apsw.Connection, patch_id: str) -> PatchRecord:
        record = self._known_record(connection, patch_id)
        if record is None:
            raise NotFound(f"There is no patch {patch_id}.", hint="Patch ids come from receipts and review lists.")
        self._checks.check_record(connection, record)
        return record

    def _known_record(self, connection: apsw.Connection, patch_id: str) -> PatchRecord | None:
        row = next(connection.execute("SELECT body FROM patches WHERE id = ?", (patch_id,)), None)
        return _parse_record(row[0]) if row else None

    def _proposals(self, connection: apsw.Connection) -> list[PatchRecord]:
        rows = connection.execute("SELECT body FROM patches WHERE status = 'proposed' ORDER BY id")
        return [_parse_record(body) for (body,) in rows]

    def _head(self, connection: apsw.Connection) -> Anchor:
        row = next(connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"), None)
        with row_of("the audit log"):
            return Anchor(seq=row[0], hash=row[1]) if row else Anchor(seq=0, hash=GENESIS)

    def _now(self, connection: apsw.Connection) -> datetime:
        # Clocks of several processes differ; history runs forward all the same.
        row = next(connection.execute("SELECT timestamp FROM audit ORDER BY seq DESC LIMIT 1"), None)
        now = self._clock.now()
        with row_of("the audit log"):
            return max(now, parse_time(row[0])) if row else now

    def _new_event_id(self) -> str:
        return fresh_id("audit_event", self._clock)


def _remembered(connection: apsw.Connection, key: str) -> Remembered | None:
    row = next(connection.execute("SELECT body FROM receipts WHERE key = ?", (key,)), None)
    if row:
        return unpack_model(Remembered, row[0])
    sql = "SELECT key, body FROM receipts WHERE key >= ? AND key < ?"
    erased = connection.execute(sql, (ERASED_KEY, f"{ERASED_KEY}\U0010ffff"))
    rows = ((kept, unpack_model(Remembered, body)) for kept, body in erased)
    return next((known for kept, known in rows if kept == erased_key(key, known)), None)


def _erase_keys(connection: apsw.Connection, erased: Sequence[str], result: Journal) -> None:
    """Replace the idempotency keys, which may hold anything, of all patches that touched what is erased."""
    patches = {record.id for record in result.records}
    for identity in erased:
        rows = connection.execute("SELECT body FROM audit WHERE target = ?", (identity,))
        patches |= {_parse_event(body).patch_id for (body,) in rows}
    for key, body in list(connection.execute("SELECT key, body FROM receipts")):
        known = unpack_model(Remembered, body)
        if known.patch_id in patches and not key.startswith(ERASED_KEY):
            kept = pack(without_request(known).model_dump_json())
            sql = "UPDATE receipts SET key = ?, body = ? WHERE key = ?"
            connection.execute(sql, (erased_key(key, known), kept, key))


def _remember(connection: apsw.Connection, key: str, known: Remembered) -> None:
    connection.execute("INSERT INTO receipts(key, body) VALUES(?, ?)", (key, pack(known.model_dump_json())))


def _erases(planned: Plan) -> bool:
    return any(isinstance(write, Erased) for write in planned.writes)


def _keep_event(connection: apsw.Connection, event: AuditEvent) -> None:
    sql = "INSERT INTO audit(seq, target, timestamp, hash, body) VALUES(?, ?, ?, ?, ?)"
    time = render_time(event.timestamp)
    connection.execute(sql, (event.seq, event.target, time, event.hash, pack(event.model_dump_json())))


def _keep_record(connection: apsw.Connection, record: PatchRecord) -> None:
    sql = "INSERT OR REPLACE INTO patches(id, status, body) VALUES(?, ?, ?)"
    connection.execute(sql, (record.id, record.status, pack(record.model_dump_json())))


def _parse_event(body: str | bytes) -> AuditEvent:
    return unpack_model(AuditEvent, body)


def _parse_record(body: str | bytes) -> PatchRecord:
    return unpack_model(PatchRecord, body)


def _sequence(connection: apsw.Connection, as_of: AsOf) -> int:
    match as_of:
        case None:
            rows = connection.execute("SELECT max(seq) FROM audit")
        case int():
            rows = connection.execute("SELECT max(seq) FROM audit WHERE seq <= ?", (as_of,))
        case datetime():
            rows = connection.execute("SELECT max(seq) FROM audit WHERE timestamp <= ?", (render_time(as_of),))
    row = next(rows, None)
    return int(row[0] or 0) if row else 0


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
        return Head(*row[:8], updated_at=parse_time(row[8]), origin=row[9])


def _outdated(path: str) -> Unavailable:
    return Unavailable(
        f"{path} was written by another version of Treering or for another model: its index has to be made anew, "
        "and it can only be read.",
        hint="Copy the space to a folder you can write in, and open the copy.",
    )


def _each(identities: Iterable[str], read: Callable[[str], Object | None], altered: Altered | None) -> list[Object]:
    """Read objects one by one; what does not verify is left out where `altered` takes it."""
    found = []
    for identity in identities:
        with noted(altered):
            if item := read(identity):
                found.append(item)
    return found
