"""One space of a database: transactions that see it alone, writers in turn, readers that never wait for them."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Protocol

import psycopg
from psycopg import errors

from treering.core.audit import Anchor
from treering.core.errors import TreeringError, Unavailable
from treering.ports.runtime import NEVER, LateReads, check_interrupt, current_late_reads, note_commit, uninterrupted
from treering.stores.postgres.connection.failures import closed, locked, translation
from treering.stores.postgres.connection.homes import (
    BESIDE,
    COPYING,
    LOOK,
    LOOKING_SECONDS,
    READ,
    WRITE,
    Begun,
    Home,
    Kind,
    Mark,
)
from treering.stores.postgres.connection.pools import Connections
from treering.stores.postgres.connection.routes import Replica, route_to
from treering.stores.postgres.connection.target import Target
from treering.stores.postgres.connection.transactions import Beginning, SpaceRow, Statement, Transaction

_WAIT_SECONDS = 20.0
_KEPT = "SELECT 1 FROM audit WHERE space = %(space)s AND seq = %(seq)s AND hash = %(hash)s"
_END: Statement = ("COMMIT", {})
_SAMPLE_SECONDS = 1.0  # so long the primary is waited for where a replica may answer
_MOVE_SECONDS = 0.02  # between two looks at a space that is about to be somewhere else


class Transactions(Protocol):
    """What a ledger asks of an open space."""

    @property
    def place(self) -> str:
        """The address of the space, without its password, for errors."""
        ...

    def read(self) -> AbstractContextManager[Transaction]:
        """Hold a snapshot: everything read inside is of one moment."""
        ...

    def ask(self) -> AbstractContextManager[Transaction]:
        """Hold a snapshot for what is asked in one round trip; what is asked after it is of a later moment."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """Hold the one write transaction of the space."""
        ...

    def close(self) -> None:
        """Give the connections back."""
        ...


class PostgresSpace:
    """Transactions of one space. Safe to use from many threads; any number of processes may write.

    A writer locks the space's row; what others committed before is then seen by each of its statements, so no commit
    fails because of another one. A reader has a snapshot. With row-level security neither sees another space.

    Where the row says that the space is on another server, a transaction begins there instead: nothing was done yet.
    With `mark` the space is opened for a move, where its row says exactly that; with `arriving` for a copy, which has
    begun or not. `pool`: connections that the program lends.
    """

    def __init__(
        self,
        target: Target,
        *,
        create: bool = True,
        wait_seconds: float = _WAIT_SECONDS,
        mark: Mark | None = None,
        arriving: bool = False,
        pool: Connections | None = None,
    ) -> None:
        self._route = route_to(target, wait_seconds=wait_seconds, pool=pool)
        self._wait_seconds = wait_seconds
        self._marks: tuple[Mark | None, ...] = (None, COPYING) if arriving else (mark,)
        self._turn = threading.Lock()
        self._following = threading.Lock()
        self._closed = False
        self._home = self._route.home(create=create, mark=COPYING if arriving else None)
        self._homes = [self._home]
        self._replica = _replica_of(target)
        self.last_row: SpaceRow | None = None
        """What the space's row said when the newest transaction of this process began."""

    @property
    def place(self) -> str:
        """The address of the space where it is now, without its password."""
        return self._home.place

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Hold a snapshot: everything read inside is of one moment.

        Where reads may be late (`ports.runtime`) and there is a replica that is not too far behind, it answers.
        """
        check_interrupt()
        with self._translated(), self._transaction(READ, late=current_late_reads()) as transaction:
            yield transaction

    @contextmanager
    def ask(self) -> Iterator[Transaction]:
        """Hold a snapshot for what is asked in one round trip; what is asked after it is of a later moment.

        The transaction ends in the same round trip: to roll it back in another costs the server as much as a statement.
        """
        check_interrupt()
        with self._translated(), self._transaction(READ, late=current_late_reads(), ends=True) as transaction:
            yield transaction

    @contextmanager
    def beside(self) -> Iterator[Transaction]:
        """Write rows that are no part of the ledger (leases, claims of work), without the turn of a writer.

        Other writers are neither waited for nor held up. Who uses it makes each change in one statement.
        """
        with self._translated(), self._transaction(BESIDE) as transaction:
            yield transaction
            transaction.commit()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Hold the one write transaction of the space; commit durably at the end, roll back on any error.

        Raises `Unavailable` where others hold it longer than the bounded wait.
        """
        deadline = self._deadline()
        with self._translated(), self._in_turn(deadline), self._transaction(WRITE, deadline) as transaction:
            yield transaction
            check_interrupt()
            try:
                with uninterrupted():
                    transaction.commit()
            except psycopg.OperationalError as error:
                if not (transaction.committing and transaction.is_lost):
                    raise
                self._check_committed(transaction.reached, error)
            note_commit()
            if self._replica and transaction.reached:
                self._replica.note_written(transaction.reached.seq)

    def close(self) -> None:
        """Give the connections back. Doing it twice is harmless."""
        if not self._closed:
            self._closed = True
            for home in self._homes:
                home.give_up()
            if self._replica:
                self._replica.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn every error of the driver into ours, naming the place where the space is by then."""
        try:
            yield
        except TreeringError:
            raise
        except psycopg.Error as error:
            raise translation(self.place, error) from error

    def _deadline(self) -> float:
        if self._closed:
            raise closed(self.place)
        return time.monotonic() + self._wait_seconds

    @contextmanager
    def _in_turn(self, deadline: float) -> Iterator[None]:
        """Wait for this process's turn: of its threads one at a time competes with other processes."""
        while not self._turn.acquire(timeout=LOOKING_SECONDS):
            check_interrupt()
            if time.monotonic() > deadline:
                raise locked(self.place)
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _transaction(
        self, kind: Kind, deadline: float | None = None, *, late: LateReads | None = None, ends: bool = False
    ) -> Iterator[Transaction]:
        """Give a transaction that begins with its first statement; whatever comes, nothing half-written stays.

        With `ends` it ends with its first statements, and begins anew where there are more.
        """
        until = self._deadline() if deadline is None else deadline
        with ExitStack() as holding:

            def begin(statements: Sequence[Statement]) -> Beginning:
                sent = [*statements, _END] if ends else statements
                begun = self._begun_late(sent, late, until) if late else None
                if begun is None:
                    begun = self._begun(kind, sent, until, holding)
                    if late:
                        late.saw(begun.row.sequence)
                if ends:
                    begun.end()
                    return Beginning(None, begun.home.rows_at, begun.row, begun.answers[: len(statements)])
                holding.callback(begun.end)
                return Beginning(begun.connection, begun.home.rows_at, begun.row, begun.answers)

            yield Transaction(begin)

    def _begun_late(self, statements: Sequence[Statement], late: LateReads, deadline: float) -> Begun | None:
        """Begin to read at the replica; `None` where there is none, or its answer would be too late."""
        if self._replica is None or late.at_least == NEVER:
            return None
        self._sample(self._replica, deadline)
        check_interrupt()
        begun = self._replica.begun(self._home, statements, late)
        if begun and begun.mark not in self._marks:
            begun.end()
            return None
        return begun

    def _sample(self, replica: Replica, deadline: float) -> None:
        """Ask the primary how far it is, if that was not asked a moment ago."""
        if (at := replica.begin_sample()) is None:
            return
        try:
            with ExitStack() as holding:
                begun = self._begun(READ, (), min(deadline, time.monotonic() + _SAMPLE_SECONDS), holding)
        except psycopg.OperationalError:
            replica.note_no_primary()
            return
        begun.end()
        replica.note_primary(at, begun.row.sequence)

    def _begun(self, kind: Kind, statements: Sequence[Statement], deadline: float, holding: ExitStack) -> Begun:
        """Begin a transaction where the space is. `holding` is given the right to write there, until it is closed.

        Where the space is on another server, what was begun is rolled back, and done again there.
        """
        while True:
            home = self._home
            try:
                if kind is WRITE:
                    holding.enter_context(home.as_writer(deadline))
                begun = home.begin(kind, statements, deadline)
                if begun.mark in self._marks:
                    self.last_row = begun.row
                    return begun
                begun.end()
                mark = begun.mark
            except errors.LockNotAvailable:
                raise
            except psycopg.OperationalError:
                # A server that does not answer cannot say that the space is on another one.
                if not self._follow(home, None):
                    raise
                mark = None
            holding.close()
            self._go_on(home, mark, deadline)

    def _go_on(self, home: Home, mark: Mark | None, deadline: float) -> None:
        """Go where a mark says, or wait a moment where the move is not that far yet. Raises `Unavailable`."""
        if self._home is not home or self._follow(home, mark):
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"{self.place} is being moved to another server.", hint="Try again.")
        time.sleep(_MOVE_SECONDS)

    def _follow(self, home: Home, mark: Mark | None) -> bool:
        """Go where the space is now, if that is another server than this one; tell whether it is."""
        with self._following:
            if self._home is home:
                other = self._route.elsewhere(home, mark)
                if other is None:
                    return False
                self._homes.append(other)
                self._home = other
            return True

    def _check_committed(self, reached: Anchor | None, error: psycopg.Error) -> None:
        """Find out what became of a commit whose server went away: raise `Unavailable` where it is not there.

        Whoever holds the lock of the space's row knows that the other transaction has ended, one way or the other.
        """
        try:
            kept = self._is_kept(reached)
        except psycopg.Error as second:
            raise Unavailable(
                f"Lost the connection to the server of {self.place} during a commit; the outcome is unknown.",
                hint="Check the result, or repeat the call with the same idempotency key once the server is back.",
            ) from second
        if not kept:
            raise Unavailable(
                f"Lost the connection to the server of {self.place} during a commit; nothing was changed.",
                hint="Try again.",
            ) from error

    def _is_kept(self, reached: Anchor | None) -> bool:
        with self._transaction(LOOK) as transaction:
            found = {"seq": reached.seq, "hash": reached.hash} if reached else {"seq": 0, "hash": ""}
            return transaction.first(_KEPT, **found) is not None


def _replica_of(target: Target) -> Replica | None:
    if not target.replica:
        return None
    return Replica(replace(target, conninfo=target.replica), most_seconds=target.replica_seconds)
