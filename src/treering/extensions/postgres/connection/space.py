"""One space of a database: transactions that see it alone, writers in turn, readers that never wait for them."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psycopg

from treering.core.audit import Anchor
from treering.core.errors import TreeringError, Unavailable
from treering.extensions.postgres.connection.failures import closed, locked, translation
from treering.extensions.postgres.connection.pools import Connections
from treering.extensions.postgres.connection.primary import (
    BESIDE,
    COPYING,
    LOOK,
    LOOKING_SECONDS,
    READ,
    WRITE,
    Begun,
    Kind,
    open_primary,
    refusal,
)
from treering.extensions.postgres.connection.replica import Replica
from treering.extensions.postgres.connection.target import Target
from treering.extensions.postgres.connection.transactions import Beginning, SpaceRow, Statement, Transaction
from treering.ports.runtime import NEVER, LateReads, check_interrupt, current_late_reads, note_commit, uninterrupted

_WAIT_SECONDS = 20.0
_KEPT = "SELECT 1 FROM audit WHERE space = %(space)s AND seq = %(seq)s AND hash = %(hash)s"
_END: Statement = ("COMMIT", {})
_SAMPLE_SECONDS = 1.0  # so long the primary is waited for where a replica may answer


class PostgresSpace:
    """Transactions of one space. Safe to use from many threads; any number of processes may write.

    A writer locks the space's row; what others committed before is then seen by each of its statements, so no commit
    fails because of another one. A reader has a snapshot. With row-level security neither sees another space.

    With `arriving` the space is opened for a copy, which has begun or not. `pool`: connections that the program lends.
    """

    def __init__(
        self,
        target: Target,
        *,
        create: bool = True,
        wait_seconds: float = _WAIT_SECONDS,
        arriving: bool = False,
        pool: Connections | None = None,
    ) -> None:
        mark = COPYING if arriving else None
        self._primary = open_primary(target, create=create, wait_seconds=wait_seconds, mark=mark, pool=pool)
        self._wait_seconds = wait_seconds
        self._marks = {None, mark}
        self._turn = threading.Lock()
        self._closed = False
        self._replica = _replica_of(target)
        self.last_row: SpaceRow | None = None
        """What the space's row said when the newest transaction of this process began."""

    @property
    def place(self) -> str:
        """The address of the space, without its password."""
        return self._primary.place

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
            self._primary.give_up()
            if self._replica:
                self._replica.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn every error of the driver into ours, naming the place of the space."""
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
                    return Beginning(None, begun.row, begun.answers[: len(statements)])
                holding.callback(begun.end)
                return Beginning(begun.connection, begun.row, begun.answers)

            yield Transaction(begin, self._primary.rows_at)

    def _begun_late(self, statements: Sequence[Statement], late: LateReads, deadline: float) -> Begun | None:
        """Begin to read at the replica; `None` where there is none, or its answer would be too late."""
        if self._replica is None or late.at_least == NEVER:
            return None
        self._sample(self._replica, deadline)
        check_interrupt()
        begun = self._replica.begun(self._primary, statements, late)
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
        """Begin a transaction. `holding` is given the right to write, until it is closed. Raises `Unavailable`."""
        if kind is WRITE:
            holding.enter_context(self._primary.as_writer(deadline))
        begun = self._primary.begin(kind, statements, deadline)
        if begun.mark not in self._marks:
            begun.end()
            raise refusal(self.place, begun.mark or "")
        self.last_row = begun.row
        return begun

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
