"""One space of a database: transactions that see it alone, writers in turn, readers that never wait for them."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from treering.core.audit import Anchor
from treering.core.errors import Corrupt, NotFound, Unavailable
from treering.edges.stores.postgres.exchange import PreparingConnection, Row, Statement, exchange
from treering.edges.stores.postgres.failures import closed, locked, translated
from treering.edges.stores.postgres.pools import Connections, shared_pool
from treering.edges.stores.postgres.schema import SCHEMA, is_current, migrate
from treering.edges.stores.postgres.target import Target
from treering.edges.stores.postgres.transactions import SpaceRow, Transaction
from treering.ports.interrupt import check_interrupt, note_commit, uninterrupted

_WAIT_SECONDS = 20.0
_LOOKING_SECONDS = 0.5  # a writer that waits for its turn looks so often whether its call has to end
_IDLE_SECONDS = 60  # a writer that was stopped in the middle holds others up for so long
_READ = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", {"search_path": SCHEMA})
_WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    {
        "search_path": SCHEMA,
        "synchronous_commit": "on",
        # The statements of a commit are few and simple: planning each anew would take longer than running it.
        "plan_cache_mode": "force_generic_plan",
        "lock_timeout": f"{int(_LOOKING_SECONDS * 1000)}ms",
        "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    },
)
_BESIDE = ("BEGIN ISOLATION LEVEL READ COMMITTED", {"search_path": SCHEMA})
_SPACE_ROW = (
    "SELECT sequence, hash, last_time, policy_seq, policy, "
    "extract(epoch FROM clock_timestamp())::double precision, engine FROM spaces WHERE space = %(space)s"
)


class PostgresSpace:
    """Transactions of one space. Safe to use from many threads; any number of processes may write.

    A writer locks the space's row; what others committed before is then seen by each of its statements, so no commit
    fails because of another one. A reader has a snapshot. With row-level security neither sees another space.
    """

    def __init__(
        self,
        target: Target,
        *,
        create: bool = True,
        wait_seconds: float = _WAIT_SECONDS,
        pool: Connections | None = None,
    ) -> None:
        self.place = target.shown
        self._wait_seconds = wait_seconds
        self._turn = threading.Lock()
        self._closed = False
        self.last_row: SpaceRow | None = None
        """What the space's row said when the newest transaction of this process began."""
        with translated(self.place):
            self._pool = pool or shared_pool(target)
            try:
                self._number = self._found(target.space, create=create)
            except BaseException:  # Ctrl-C too: a space that is not opened holds no share of the pool
                self._pool.give_up()
                raise
        self._to_read = _beginning(*_READ, self._number, _SPACE_ROW)
        self._to_write = _beginning(*_WRITE, self._number, f"{_SPACE_ROW} FOR UPDATE")
        self._to_write_beside = _beginning(*_BESIDE, self._number, _SPACE_ROW)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Hold a snapshot: everything read inside is of one moment."""
        check_interrupt()
        with translated(self.place), self._transaction(self._to_read, self._deadline()) as transaction:
            yield transaction

    @contextmanager
    def beside(self) -> Iterator[Transaction]:
        """Write rows that are no part of the ledger (leases, claims of work), without the turn of a writer.

        Other writers are neither waited for nor held up. Who uses it makes each change in one statement.
        """
        with translated(self.place), self._transaction(self._to_write_beside, self._deadline()) as transaction:
            yield transaction
            transaction.commit()

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Hold the one write transaction of the space; commit durably at the end, roll back on any error.

        Raises `Unavailable` where others hold it longer than the bounded wait.
        """
        deadline = self._deadline()
        with (
            translated(self.place),
            self._as_writer(deadline),
            self._transaction(self._to_write, deadline) as transaction,
        ):
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

    def close(self) -> None:
        """Give the connections back. Doing it twice is harmless."""
        if not self._closed:
            self._closed = True
            self._pool.give_up()

    def _found(self, name: str, *, create: bool) -> int:
        """Return the number of the space; make tables and space where they are missing. Raises `NotFound`."""
        connection = self._pool.take(timeout=self._wait_seconds)
        try:
            if not is_current(connection):
                if not create and not _has_schema(connection):
                    raise self._no_space(name)
                migrate(connection)
            with connection.transaction():
                connection.execute("SELECT set_config('treering.space_name', %s, true)", (name,))
                connection.execute(f"SET LOCAL search_path = {SCHEMA}")
                space = _number_of(connection, name)
                if space is None and not create:
                    raise self._no_space(name)
                return space or _made(connection, name)
        finally:
            self._pool.put_back(connection)

    def _no_space(self, name: str) -> NotFound:
        return NotFound(
            f"There is no space {name!r} at {self.place}.",
            hint="Create it with `treering init` or the first `treering ingest`; or name another with ?space=NAME.",
        )

    def _deadline(self) -> float:
        if self._closed:
            raise closed(self.place)
        return time.monotonic() + self._wait_seconds

    @contextmanager
    def _as_writer(self, deadline: float) -> Iterator[None]:
        """Wait for this process's turn: of its threads one at a time competes with other processes."""
        while not self._turn.acquire(timeout=_LOOKING_SECONDS):
            check_interrupt()
            if time.monotonic() > deadline:
                raise locked(self.place)
        try:
            with self._pool.as_writer(timeout=max(0.0, deadline - time.monotonic())) as may:
                if not may:
                    raise locked(self.place)
                yield
        finally:
            self._turn.release()

    @contextmanager
    def _transaction(self, beginning: Sequence[Statement], deadline: float) -> Iterator[Transaction]:
        """Give a transaction that begins with its first statement; whatever comes, nothing half-written stays."""
        held: list[PreparingConnection] = []

        def begin(statements: Sequence[Statement]) -> tuple[PreparingConnection, SpaceRow, list[list[Row]]]:
            connection, answers = self._begun([*beginning, *statements], deadline)
            held.append(connection)
            return connection, self._space_row(answers[len(beginning) - 1]), answers[len(beginning) :]

        try:
            yield Transaction(begin, self._number)
        finally:
            for connection in held:
                self._ended(connection)

    def _begun(self, statements: Sequence[Statement], deadline: float) -> tuple[PreparingConnection, list[list[Row]]]:
        """Begin a transaction. A connection whose server has gone is dropped, and another one tried: nothing was done.

        Raises what the driver raises once the time is over.
        """
        while True:
            check_interrupt()
            connection = self._pool.take(timeout=max(0.01, deadline - time.monotonic()))
            try:
                return connection, exchange(connection, statements)
            except psycopg.OperationalError as error:
                self._ended(connection)
                waited = isinstance(error, errors.LockNotAvailable)
                if not (waited or connection.closed) or time.monotonic() > deadline:
                    raise
            except BaseException:  # Ctrl-C too: a connection that is not handed on goes back
                self._ended(connection)
                raise

    def _space_row(self, rows: Sequence[Row]) -> SpaceRow:
        if not rows:
            raise Corrupt(
                f"The row of the space {self.place} is missing.",
                hint="Restore the database from a backup, or import an export into a new space.",
            )
        self.last_row = SpaceRow(*rows[0])
        return self.last_row

    def _ended(self, connection: PreparingConnection) -> None:
        """Roll back what is open, and give the connection back."""
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error), uninterrupted():
                connection.execute("ROLLBACK")
        self._pool.put_back(connection)

    def _check_committed(self, reached: Anchor | None, error: psycopg.Error) -> None:
        """Find out what became of a commit whose server went away: raise `Unavailable` where it is not there.

        Whoever holds the lock of the space's row knows that the other transaction has ended, one way or the other.
        """
        try:
            connection, _ = self._begun(self._to_write, self._deadline())
        except psycopg.Error as second:
            raise Unavailable(
                f"The server of {self.place} went away during a commit: whether it was done is not known.",
                hint="Look, or repeat the call with the same idempotency key once the server is back.",
            ) from second
        try:
            sql = "SELECT 1 FROM audit WHERE space = %s AND seq = %s AND hash = %s"
            kept = reached and connection.execute(sql, (self._number, reached.seq, reached.hash)).fetchone()
        finally:
            self._ended(connection)
        if not kept:
            raise Unavailable(
                f"The server of {self.place} went away during a commit; nothing was changed.", hint="Try again."
            ) from error


def _beginning(begin: str, settings: Mapping[str, str], space: int, row: str) -> Sequence[Statement]:
    """Return the statements that begin a transaction; the last gives the space's row."""
    own = {**settings, "treering.space": str(space)}
    chosen = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in own.items())
    return (begin, {}), (f"SELECT {chosen}", {}), (row, {"space": space})


def _has_schema(connection: psycopg.Connection) -> bool:
    sql = "SELECT to_regclass(%s) IS NOT NULL"
    return bool(_first(connection, sql, (f"{SCHEMA}.space_names",)))


def _number_of(connection: psycopg.Connection, name: str) -> int | None:
    found: int | None = _first(connection, "SELECT space FROM space_names WHERE name = %s", (name,))
    return found


def _made(connection: psycopg.Connection, name: str) -> int:
    connection.execute("INSERT INTO space_names(name) VALUES(%s) ON CONFLICT DO NOTHING", (name,))
    space = _number_of(connection, name)
    if space is None:
        raise Corrupt(f"The space {name!r} cannot be made.", hint="Look at the policies of the tables.")
    connection.execute("SELECT set_config('treering.space', %s, true)", (str(space),))
    sql = "INSERT INTO spaces(space, sequence, hash) VALUES(%s, 0, %s) ON CONFLICT DO NOTHING"
    connection.execute(sql, (space, SpaceRow.EMPTY_HASH))
    return space


def _first(connection: psycopg.Connection, sql: str, bindings: Sequence[Any] | Mapping[str, Any]) -> Any:
    row = connection.execute(sql, bindings).fetchone()
    return None if row is None else row[0]
