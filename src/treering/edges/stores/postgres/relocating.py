"""Moving a space to another server of a directory while it is read and written.

1. A copy is made of one moment of the space, compared record by record and verified; what is written meanwhile is
   copied behind it, round after round.
2. Writers are held up, by the lock of the space's row at the old server: the rest is copied and compared, and the row
   is marked as moved away. That commit is the switch. A process that ends before it has changed nothing, for its lock
   ends with its connection; after it, whoever comes next finishes (`Directory.finish`).
3. The new server serves the space, the directory is told, and the old copy is removed.
"""

import time
from contextlib import ExitStack, closing

import psycopg

from treering.core.audit import Anchor
from treering.core.errors import Conflict, Corrupt, TreeringError
from treering.edges.stores.postgres import placing
from treering.edges.stores.postgres.carrying import (
    OPERATIONAL,
    OUTCOMES,
    begin_epoch,
    carry_beside,
    carry_models,
    carry_rows,
    empty_space,
    record_counts,
)
from treering.edges.stores.postgres.directory import Directory
from treering.edges.stores.postgres.homes import open_home
from treering.edges.stores.postgres.index import PostgresIndex
from treering.edges.stores.postgres.ledger import PostgresLedger
from treering.edges.stores.postgres.marks import Arriving, Mark, MovedAway, parse_mark
from treering.edges.stores.postgres.snapshots import HeldSpace
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.target import Target
from treering.edges.stores.postgres.transactions import Transaction
from treering.edges.stores.postgres.vectors import PostgresVectors
from treering.ports.clock import Clock
from treering.ports.copying import Told, append_rest, copy_ledger, copy_vectors, same_upto
from treering.ports.servers import Relocation, StayedThere

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
            f"The space {self._space!r} is written faster than it can be copied to {away.server!r}.",
            hint="Call again when less is written: what is copied stays copied. Or give it up by naming the server "
            "that has it.",
        )

    def _arrive(self, server: str, mark: Arriving) -> None:
        """Have the new server keep a copy: the one of this move, or an empty one. Raises `Conflict`."""
        target = self._target(server)
        open_home(target, create=True, wait_seconds=_WAIT_SECONDS, server=server, mark=mark).give_up()
        with self._directory.on_server(server, self._space) as (connection, number):
            if number is None:
                raise Corrupt(f"{target.shown} cannot be made.", hint="Look at the policies of its tables.")
            found = _mark_of(connection, number)
            if found is None:
                raise Conflict(
                    f"The server {server!r} serves a space {self._space!r} of its own.",
                    hint="Move it to another name there (treering move), or choose another server.",
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
        self._old = PostgresLedger(source, clock=clock)
        self._new = PostgresLedger(target, clock=clock, followers=[index])
        self._head = Anchor(seq=0, hash="")
        self._compared = self._head

    def begin(self) -> int:
        """Copy one moment of the space, compare and verify it; return the number of vectors that came along."""
        with self._source.read() as moment:
            frozen = PostgresLedger(HeldSpace(self._source.place, moment), clock=self._clock)
            self._head = self._compared = copy_ledger(frozen, self._new, told=self._told).head
        return sum(self._copied_vectors(name, dimension) for name, dimension in self._models)

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
            hint="Check the space with lint audit; give the move up by naming the server that has it, and begin anew.",
        )
    return counts


def _mark_of(connection: psycopg.Connection, number: int) -> Mark | None:
    row = connection.execute("SELECT moving FROM spaces WHERE space = %s FOR UPDATE", (number,)).fetchone()
    return parse_mark(row[0]) if row else None
