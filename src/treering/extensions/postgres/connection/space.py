"""The transactions of one space: one writer at a time, and readers that never wait for writers."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psycopg

from treering.core.audit import Anchor
from treering.core.errors import Unavailable
from treering.extensions.postgres.connection.failures import closed, locked, translated
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
_SAMPLE_SECONDS = 1.0  # wait for the primary if a replica may answer


class PostgresSpace:
    """The transactions of one space. Thread-safe; any number of processes may write.

    A writer locks the space's row and sees all earlier commits in each statement, so that no commit fails because of
    another one. A reader has a snapshot. Row-level security hides other spaces from both. `arriving` opens the space
    for a copy. `pool`: connections of the program.
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
        """The content of the space's row at the beginning of the latest transaction of this process."""

    @property
    def place(self) -> str:
        """The address of the space, without its password."""
        return self._primary.place

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a snapshot. All reads in it are consistent.

        If reads may be late (`ports.runtime`), a replica answers that is recent enough.
        """
        check_interrupt()
        with translated(self.place), self._transaction(READ, late=current_late_reads()) as transaction:
            yield transaction

    @contextmanager
    def ask(self) -> Iterator[Transaction]:
        """Open a snapshot for queries that are sent in one round trip. Later queries may see a later state.

        The transaction ends in the same round trip, because a separate rollback costs the server as much as a
        statement.
        """
        check_interrupt()
        with translated(self.place), self._transaction(READ, late=current_late_reads(), ends=True) as transaction:
            yield transaction

    @contextmanager
    def beside(self) -> Iterator[Transaction]:
        """Write rows outside the ledger (leases, claims of work), without waiting for other writers.

        Does not block them either. Each change must be a single statement.
        """
        with translated(self.place), self._transaction(BESIDE) as transaction:
            yield transaction
            transaction.commit()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open the write transaction of the space; commit durably at the end, or roll back on any error.

        Raises `Unavailable` if others hold it for longer than the timeout.
        """
        deadline = self._deadline()
        with translated(self.place), self._in_turn(deadline), self._transaction(WRITE, deadline) as transaction:
            yield transaction
            check_interrupt()
            try:
                with uninterrupted():
                    transaction.commit()
            except psycopg.Error as error:
                if not (transaction.committing and transaction.has_ended):
                    raise
                self._check_committed(transaction.reached, error)
            note_commit()
            if self._replica and transaction.reached:
                self._replica.note_written(transaction.reached.seq)

    def close(self) -> None:
        """Return the connections. Idempotent."""
        if not self._closed:
            self._closed = True
            self._primary.give_up()
            if self._replica:
                self._replica.close()

    def _deadline(self) -> float:
        if self._closed:
            raise closed(self.place)
        return time.monotonic() + self._wait_seconds

    @contextmanager
    def _in_turn(self, deadline: float) -> Iterator[None]:
        """Wait for the turn of this thread. Only one thread of a process competes with other processes."""
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
        """Yield a transaction that begins with its first statement, and roll it back on any error.

        With `ends`, it ends with its first statements, and begins again if there are more.
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
        """Begin to read at the replica; `None` if there is none or it is too late."""
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
        """Request the position of the primary, unless this was done recently."""
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
        """Begin a transaction. The right to write is added to `holding`. Raises `Unavailable`."""
        if kind is WRITE:
            holding.enter_context(self._primary.as_writer(deadline))
        begun = self._primary.begin(kind, statements, deadline)
        if begun.mark not in self._marks:
            begun.end()
            raise refusal(self.place, begun.mark or "")
        self.last_row = begun.row
        return begun

    def _check_committed(self, reached: Anchor | None, error: psycopg.Error) -> None:
        """Raise `Unavailable` if a commit whose connection was lost, at the server or behind it, did not succeed.

        With the lock of the space's row, the other transaction is known to have ended.
        """
        try:
            succeeded = self._is_kept(reached)
        except psycopg.Error as second:
            raise Unavailable(
                f"Lost the connection to the server of {self.place} during a commit; the outcome is unknown.",
                hint="Check the result, or repeat the call with the same idempotency key once the server is back.",
            ) from second
        if not succeeded:
            raise Unavailable(
                f"Lost the connection to the server of {self.place} during a commit; nothing was changed.",
                hint="Try again.",
            ) from error

    def _is_kept(self, reached: Anchor | None) -> bool:
        with self._transaction(LOOK) as transaction:
            details = {"seq": reached.seq, "hash": reached.hash} if reached else {"seq": 0, "hash": ""}
            return transaction.first(_KEPT, **details) is not None


def _replica_of(target: Target) -> Replica | None:
    if not target.replica:
        return None
    return Replica(replace(target, conninfo=target.replica), most_seconds=target.replica_seconds)
