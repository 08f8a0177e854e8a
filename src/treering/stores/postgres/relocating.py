"""Moving a space to another server of a directory while it is read and written.

1. A copy is made of one moment of the space, compared record by record and verified; what is written meanwhile is
   copied behind it, round after round.
2. Writers are held up, by the lock of the space's row at the old server: the rest is copied and compared, and the row
   is marked as moved away. That commit is the switch. A process that ends before it has changed nothing, for its lock
   ends with its connection; after it, whoever comes next finishes (`Directory.finish`).
3. The new server serves the space, the directory is told, and the old copy is removed.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import psycopg

from treering.core.audit import Anchor
from treering.core.errors import Conflict, Corrupt, TreeringError
from treering.ports.copying import Told, append_rest, copy_ledger, copy_vectors, same_upto
from treering.ports.runtime import Clock
from treering.ports.stores import Relocation, ServerState, StayedThere, UnfinishedMove
from treering.stores.postgres import placing
from treering.stores.postgres.connection.directory import Directory
from treering.stores.postgres.connection.homes import Arriving, Mark, MovedAway, open_home, parse_mark
from treering.stores.postgres.connection.schema import TABLES
from treering.stores.postgres.connection.space import PostgresSpace
from treering.stores.postgres.connection.target import Target, database_of
from treering.stores.postgres.connection.transactions import SpaceRow, Transaction
from treering.stores.postgres.index.index import PostgresIndex
from treering.stores.postgres.index.index_state import MODELS, read_state, write_state
from treering.stores.postgres.index.vector_queue import fill_queue
from treering.stores.postgres.index.vectors import PostgresVectors
from treering.stores.postgres.ledger.ledger import HeldSpace, PostgresLedger
from treering.stores.rows.upkeep import EPOCH
from treering.system.address import Address

_FEW = 20  # events that may be copied while writers wait
_MANY = 2_000  # events that may not
_ROUNDS = 10
_SWITCHES = 5
_WAIT_SECONDS = 20.0


Model = tuple[str, int]
"""Name and dimension of what makes vectors."""


def relocate(
    directory: Directory, space: str, server: str, *, clock: Clock, model: Model, told: Told
) -> Relocation | StayedThere:
    """Move a space to a server, or go on with a move that was broken off. To the server it is on: give up a move.

    `model`: name and dimension of the one that embeds where the space has none. Raises `NotFound`, and `Conflict` where
    another process moves it, the server has a space of that name, or it is written faster than it can be copied.
    """
    directory.server(server)
    with placing.moving_alone(directory, space):
        moving = _Move(directory, space, clock, model, told)
        moving.settle()
        placement = placing.placed(directory, space)
        if placement.target not in (None, server):
            moving.give_up(placement.target)
        if placement.server == server:
            return StayedThere(space, server, placement.target)
        return moving.run(placement.server, server)


class _Move:
    """Steps of moving one space, by the process that alone may."""

    def __init__(self, directory: Directory, space: str, clock: Clock, model: Model, told: Told) -> None:
        self._directory = directory
        self._space = space
        self._clock = clock
        self._model = model
        self._told = told

    def settle(self) -> None:
        """Finish a move that was switched before its process ended: the new server serves, the old copy goes."""
        placement = placing.placed(self._directory, self._space)
        if placement.move:
            mark = self._mark_on(placement.server)
            if isinstance(mark, MovedAway) and mark.move == placement.move:
                self._directory.finish(self._space, mark)
                placement = placing.placed(self._directory, self._space)
        if placement.left_on:
            self._remove(placement.left_on)

    def give_up(self, target: str | None) -> None:
        """Remove the copy that a move has begun, and note that the space stays where it is."""
        if target:
            with self._directory.on_server(target, self._space) as (connection, number):
                if number is not None and isinstance(_mark_of(connection, number), Arriving):
                    empty_space(connection, number, Arriving(""))
        placing.give_up_move(self._directory, self._space)

    def run(self, old: str, new: str) -> Relocation:
        """Copy, switch, and clean up."""
        began = time.monotonic()
        mark = Arriving(placing.begin_move(self._directory, self._space, new))
        with ExitStack() as closing_all:
            self._arrive(new, mark)
            source = closing_all.enter_context(closing(PostgresSpace(self._target(old), create=False)))
            target = closing_all.enter_context(closing(PostgresSpace(self._target(new), create=False, mark=mark)))
            copy = _Copy(source, target, self._clock, self._model, self._told)
            vectors = copy.begin()
            away = MovedAway(mark.move, new)
            head, counts, paused_at = self._switched(copy, old, away)
            self._directory.finish(self._space, away)
            paused = time.monotonic() - paused_at
        self._remove(old)
        return Relocation(self._space, old, new, head, counts, vectors, paused, time.monotonic() - began)

    def _switched(self, copy: "_Copy", old: str, away: MovedAway) -> tuple[Anchor, dict[str, int], float]:
        for _ in range(_SWITCHES):
            copy.catch_up()
            try:
                if done := copy.switch(away):
                    return done
            except TreeringError:
                # The answer to the commit may have been lost, and not the commit.
                if copy.decided is None or self._mark_on(old) != away:
                    raise
                return copy.decided
        raise Conflict(
            f"The space {self._space!r} changes faster than it can be copied to {away.server!r}.",
            hint="Call again when there are fewer writes; the copied part is preserved. To cancel the move, "
            "name the server that has the space.",
        )

    def _arrive(self, server: str, mark: Arriving) -> None:
        """Have the new server keep a copy: the one of this move, or an empty one. Raises `Conflict`."""
        target = self._target(server)
        open_home(target, create=True, wait_seconds=_WAIT_SECONDS, server=server, mark=mark).give_up()
        with self._directory.on_server(server, self._space) as (connection, number):
            if number is None:
                raise Corrupt(
                    f"{target.shown} cannot be created.", hint="Check the row-level security policies of its tables."
                )
            found = _mark_of(connection, number)
            if found is None:
                raise Conflict(
                    f"The server {server!r} already has another space {self._space!r}.",
                    hint="Rename it there (treering move), or choose another server.",
                )
            if found != mark:
                empty_space(connection, number, mark)

    def _remove(self, server: str) -> None:
        """Remove the copy that a server keeps of a space that moved away, and note that."""
        with self._directory.on_server(server, self._space) as (connection, number):
            mark = None if number is None else _mark_of(connection, number)
            if number is not None and isinstance(mark, MovedAway):
                empty_space(connection, number, mark)
        placing.note_removed(self._directory, self._space)

    def _mark_on(self, server: str) -> Mark | None:
        with self._directory.on_server(server, self._space) as (connection, number):
            return None if number is None else _mark_of(connection, number)

    def _target(self, server: str) -> Target:
        return self._directory.target_of(self._directory.server(server), self._space)


class _Copy:
    """A copy of a space that is kept up with it, until it is switched to."""

    def __init__(self, source: PostgresSpace, target: PostgresSpace, clock: Clock, model: Model, told: Told) -> None:
        self.decided: tuple[Anchor, dict[str, int], float] | None = None
        """What the switch was about to return when its commit was sent."""
        self._source = source
        self._target = target
        self._told = told
        self._clock = clock
        with source.read() as ours, target.write() as theirs:
            carry_models(ours, theirs)
            models = [(name, dimension) for _, name, dimension in ours.rows(_MODELS)] or [model]
        self._models = models
        name, dimension = models[0]
        index = PostgresIndex(target, model_id=name, dimension=dimension)
        index.carry_from(PostgresIndex(source, model_id=name, dimension=dimension))
        self._index = index
        self._old = PostgresLedger(source, clock=clock)
        self._new = PostgresLedger(target, clock=clock, followers=[index])
        self._head = Anchor(seq=0, hash="")
        self._compared = self._head

    def begin(self) -> int:
        """Copy one moment of the space, compare and verify it; return the number of vectors that came along."""
        with self._source.read() as moment:
            frozen = PostgresLedger(HeldSpace(self._source.place, moment), clock=self._clock)
            self._head = self._compared = copy_ledger(frozen, self._new, told=self._told).head
        left = sum(self._copied_vectors(name, dimension) for name, dimension in self._models)
        return self._index.carried_vectors + left

    def catch_up(self) -> None:
        """Copy what was written since, until little is left or it does not get less."""
        before = None
        for _ in range(_ROUNDS):
            left = self._old.sequence() - self._head.seq
            if left <= _FEW or (before is not None and left >= before):
                break
            before = left
            self._head = append_rest(self._old, self._new, self._head, told=self._told)
        self._compared = same_upto(self._old, self._new, self._compared, end=self._head.seq)
        with self._source.read() as ours, self._target.write() as theirs:
            carry_rows(ours, theirs, (*OUTCOMES, *OPERATIONAL))

    def switch(self, away: MovedAway) -> tuple[Anchor, dict[str, int], float] | None:
        """Hold writers up, copy and compare the rest, and mark the space as moved away; `None` where that is too much.

        Return the head, the number of records per table, and since when writers were held up.
        """
        with self._source.write() as ours:
            behind = ours.row.sequence - self._head.seq  # writers wait from here on
            since = time.monotonic()
            ours.rows("SELECT 1 FROM spaces WHERE space = %(space)s FOR UPDATE")  # what is written beside, too
            if behind > _MANY:
                return None
            self._head = append_rest(self._old, self._new, self._head, told=self._told)
            self._compared = same_upto(self._old, self._new, self._compared, end=self._head.seq)
            with self._target.write() as theirs:
                carry_rows(ours, theirs, (*OUTCOMES, *OPERATIONAL))
                carry_beside(ours, theirs)
                carry_models(ours, theirs)
                begin_epoch(ours, theirs)
                counts = _same(ours, theirs, self._compared)
                head = theirs.row.head
            self.decided = (head, counts, since)
            ours.later("UPDATE spaces SET moving = %(mark)s WHERE space = %(space)s", mark=str(away))
        return self.decided

    def _copied_vectors(self, name: str, dimension: int) -> int:
        old, new = (PostgresVectors(space, name, dimension) for space in (self._source, self._target))
        for vectors, space in ((old, self._source), (new, self._target)):
            with space.read() as transaction:
                vectors.recognise(transaction)
        return copy_vectors(old, new, told=self._told)


_MODELS = "SELECT id, name, dimension FROM passage_models WHERE space = %(space)s ORDER BY id"


def _same(ours: Transaction, theirs: Transaction, compared: Anchor) -> dict[str, int]:
    """Return how many records both sides hold. Raises `Corrupt` where they differ in that, or in an event."""
    counts, copied = record_counts(ours), record_counts(theirs)
    if not ours.row.head == theirs.row.head == compared or counts != copied:
        raise Corrupt(
            f"The copy differs from the space: {copied} up to event {theirs.row.sequence}, "
            f"not {counts} up to event {ours.row.sequence}.",
            hint="Check the space with lint audit; to cancel the move, name the server that has the space, "
            "then start again.",
        )
    return counts


def _mark_of(connection: psycopg.Connection, number: int) -> Mark | None:
    row = connection.execute("SELECT moving FROM spaces WHERE space = %s FOR UPDATE", (number,)).fetchone()
    return parse_mark(row[0]) if row else None


# Rows that a move carries to another server as they are, and the removal of a copy.


COPIED = ("spaces", "objects", "revisions", "texts", "segments", "dependencies", "referrers", "links", "audit")
"""Tables that copying the ledger fills."""

_COUNTED = {
    "event": "audit",
    "revision": "revisions",
    "segment": "segments",
    "link": "links",
    "patch": "patches",
    "receipt": "receipts",
}
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CarriedTable:
    """A table whose rows are carried. `key` and `columns`: name and type of each, such as `id text`."""

    table: str
    key: str
    columns: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of all columns, that of the key first."""
        return [column.split()[0] for column in (self.key, *self.columns)]


OUTCOMES = (
    CarriedTable("patches", "id text", ("status text", "body bytea")),
    CarriedTable("receipts", "hash bytea", ("key text", "body bytea")),
)
"""What an older form may have left out is carried as it is: both sides are equal, byte for byte."""

OPERATIONAL = (CarriedTable("jobs", "id text", ("number bigint", "body bytea")),)


@dataclass(frozen=True, slots=True)
class TimedTable:
    """A small table that is carried as a whole. `times`: columns of the server's seconds, 0 for never."""

    table: str
    columns: tuple[str, ...]
    times: tuple[str, ...]


TIMED = (
    TimedTable(
        "leases",
        ("name text", "owner text", "process bigint", "renewed double precision", "seconds double precision"),
        ("renewed",),
    ),
    TimedTable(
        "promised_work",
        (
            "kind text",
            "key text",
            "promised double precision",
            "times bigint",
            "claimant text",
            "claimed_until double precision",
        ),
        ("promised", "claimed_until"),
    ),
)
CARRIED = tuple(one.table for one in (*OUTCOMES, *OPERATIONAL, *TIMED))
"""Tables that are carried here; those of the index and `COPIED` are all others."""


def carry_rows(source: Transaction, target: Transaction, tables: Sequence[CarriedTable]) -> None:
    """Have the target hold the rows that the source holds. Only what differs is read and written."""
    for one in tables:
        ours, theirs = (_digests(side, one) for side in (source, target))
        gone = list(theirs.keys() - ours.keys())
        key, kind = one.key.split()
        if gone:
            sql = f"DELETE FROM {one.table} WHERE space = %(space)s AND {key} = ANY(%(keys)s::{kind}[])"  # noqa: S608 - our tables
            target.later(sql, keys=gone)
        changed = [each for each, digest in ours.items() if theirs.get(each) != digest]
        for start in range(0, len(changed), _AT_ONCE):
            _carry(source, target, one, changed[start : start + _AT_ONCE])


def carry_beside(source: Transaction, target: Transaction) -> None:
    """Have the target hold the leases, the promised work and the engine of the source.

    Times are as long ago by the target's clock as they are by the source's.
    """
    later = target.row.server_seconds - source.row.server_seconds
    for one in TIMED:
        names = [column.split()[0] for column in one.columns]
        shifted = [f"CASE WHEN {name} = 0 THEN 0 ELSE {name} + %(later)s::float8 END" for name in names]
        chosen = ", ".join(shift if name in one.times else name for name, shift in zip(names, shifted, strict=True))
        rows = source.rows(f"SELECT {chosen} FROM {one.table} WHERE space = %(space)s", later=later)  # noqa: S608 - ours
        target.later(f"DELETE FROM {one.table} WHERE space = %(space)s")  # noqa: S608 - our tables
        target.insert(one.table, one.columns, rows)
    target.later("UPDATE spaces SET engine = %(engine)s WHERE space = %(space)s", engine=source.row.engine)


def carry_models(source: Transaction, target: Transaction) -> None:
    """Make the models of the source known to the target, under the same numbers: open spaces remember these."""
    sql = "SELECT id, name, dimension FROM passage_models WHERE space = %(space)s ORDER BY id"
    known = {row[0] for row in target.rows(sql)}
    for row in source.rows(sql):
        if row[0] not in known:
            target.insert("passage_models", ("id integer", "name text", "dimension integer"), [row])
            fill_queue(target, row[0])
    write_state(target, MODELS, max(read_state(source, MODELS), read_state(target, MODELS)))


def begin_epoch(source: Transaction, target: Transaction) -> None:
    """Have tables in memory that follow the source start over when they follow the target."""
    write_state(target, EPOCH, max(read_state(source, EPOCH), read_state(target, EPOCH)) + 1)


def record_counts(transaction: Transaction) -> dict[str, int]:
    """Count the records of a ledger, per table of an export."""
    counts = ", ".join(
        f"(SELECT count(*) FROM {table} WHERE space = %(space)s)"  # noqa: S608 - our tables
        for table in _COUNTED.values()
    )
    [row] = transaction.rows(f"SELECT {counts}")
    return dict(zip(_COUNTED, row, strict=True))


def empty_space(connection: psycopg.Connection, number: int, mark: Mark) -> None:
    """Remove all rows of a space but its own, which says `mark`, in an open transaction that sees the space."""
    for table in TABLES:
        if table != "spaces":
            connection.execute(f"DELETE FROM {table} WHERE space = %s", (number,))  # noqa: S608 - our tables
    sql = (
        "UPDATE spaces SET sequence = 0, hash = %s, last_time = NULL, policy_seq = NULL, policy = NULL, engine = NULL, "
        "moving = %s WHERE space = %s"
    )
    connection.execute(sql, (SpaceRow.EMPTY_HASH, str(mark), number))


def _digests(side: Transaction, one: CarriedTable) -> dict[object, str]:
    key, *others = one.names
    sql = f"SELECT {key}, md5(ROW({', '.join(others)})::text) FROM {one.table} WHERE space = %(space)s"  # noqa: S608 - our tables
    return dict(side.rows(sql))


def _carry(source: Transaction, target: Transaction, one: CarriedTable, keys: Sequence[object]) -> None:
    key, kind = one.key.split()
    names = one.names
    sql = (
        f"SELECT {', '.join(names)} FROM {one.table} WHERE space = %(space)s "  # noqa: S608 - our tables
        f"AND {key} = ANY(%(keys)s::{kind}[])"
    )
    rows = source.rows(sql, keys=list(keys))
    changed = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    conflict = f"ON CONFLICT (space, {key}) DO UPDATE SET {changed}"
    target.insert(one.table, (one.key, *one.columns), rows, conflict=conflict)
    target.flush()


# The servers of a directory on Postgres, for who administers them.


class PostgresServers:
    """`ports.stores.ServerDirectory` over a directory. `model`: of vectors, for spaces that have none."""

    def __init__(self, address: Address, *, clock: Clock, model: Model) -> None:
        self._directory = Directory(database_of(address))
        self._clock = clock
        self._model = model

    def add(self, name: str, address: str) -> int:
        """Add a server; return the number of spaces that it has already."""
        return placing.add_server(self._directory, name, address)

    def states(self) -> Sequence[ServerState]:
        """Return all servers, by name."""
        return [
            ServerState(one.name, one.address, one.spaces, one.draining, self._directory.answers(one))
            for one in self._directory.servers()
        ]

    def unfinished(self) -> Sequence[UnfinishedMove]:
        """Return the moves that are not done."""
        return placing.unfinished(self._directory)

    def move(self, space: str, server: str, told: Told) -> Relocation | StayedThere:
        """Move a space to a server while it is used, or go on with a move that was broken off."""
        return relocate(self._directory, space, server, clock=self._clock, model=self._model, told=told)

    def drain(self, server: str, told: Told) -> Iterator[Relocation | StayedThere]:
        """Have a server take no new spaces, and move those that it has to the others, one after the other."""
        while spaces := placing.drain_begun(self._directory, server):
            for space in spaces:
                yield self.move(space, self._where_to(space, server), told)

    def _where_to(self, space: str, draining: str) -> str:
        """Choose where a space goes: on with a move that was begun, else to the server with the fewest."""
        placement = placing.placed(self._directory, space)
        if placement.server != draining:
            return placement.server  # it has gone already: what is left of it goes now
        taking = {one.name for one in self._directory.servers() if not one.draining}
        return placement.target if placement.target in taking else placing.emptiest_but(self._directory, draining)
