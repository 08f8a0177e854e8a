"""Where a space is served: a database, the number that the space has there, and how its transactions begin."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg import errors

from treering.core.errors import Corrupt, InvalidInput, NotFound
from treering.edges.stores.postgres.exchange import PreparingConnection, Row, Statement, exchange
from treering.edges.stores.postgres.failures import locked, translated
from treering.edges.stores.postgres.marks import Mark, parse_mark
from treering.edges.stores.postgres.pools import Pool, shared_pool
from treering.edges.stores.postgres.schema import SCHEMA, is_current, migrate
from treering.edges.stores.postgres.seeing import number_of, see_name, see_number
from treering.edges.stores.postgres.target import Target
from treering.edges.stores.postgres.transactions import FirstAnswers, SpaceRow, in_space
from treering.ports.interrupt import check_interrupt, uninterrupted

LOOKING_SECONDS = 0.5
"""A writer that waits for its turn looks so often whether its call has to end."""

_IDLE_SECONDS = 60  # a writer that was stopped in the middle holds others up for so long
_SPACE_ROW = (
    "SELECT sequence, hash, last_time, policy_seq, policy, "
    "extract(epoch FROM clock_timestamp())::double precision, engine, moving FROM spaces WHERE space = %(space)s"
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a transaction begins. `lock`: what is added to the query for the space's row."""

    begin: str
    settings: Mapping[str, str]
    lock: str = ""


READING = Beginning("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", {"search_path": SCHEMA})
WRITING = Beginning(
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    {
        "search_path": SCHEMA,
        "synchronous_commit": "on",
        # The statements of a commit are few and simple: planning each anew would take longer than running it.
        "plan_cache_mode": "force_generic_plan",
        "lock_timeout": f"{int(LOOKING_SECONDS * 1000)}ms",
        "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    },
    " FOR UPDATE",
)
WRITING_BESIDE = Beginning("BEGIN ISOLATION LEVEL READ COMMITTED", {"search_path": SCHEMA})


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction that was begun, and what the space's row said then."""

    home: "Home"
    first: FirstAnswers
    mark: Mark | None

    def end(self) -> None:
        """Roll back what is open, and give the connection back."""
        self.home.end(self.first.connection)


class Home:
    """A space in one database. `server`: its name in a directory; empty where there is none."""

    def __init__(self, pool: Pool, number: int, place: str, server: str = "") -> None:
        self.place = place
        self.server = server
        self.number = number
        self._pool = pool
        # By a statement of its own: a distributed Postgres hands on no other to its workers.
        self._seen: Statement = (f"SET LOCAL treering.space = '{number:d}'", {})
        self._own = {"space": number}

    @contextmanager
    def as_writer(self, deadline: float) -> Iterator[None]:
        """Hold the right to take a connection for writing. Raises `Unavailable` where it is not to be had in time."""
        with self._pool.as_writer(timeout=max(0.0, deadline - time.monotonic())) as may:
            if not may:
                raise locked(self.place)
            yield

    def begin(self, beginning: Beginning, statements: Sequence[Statement], deadline: float) -> Begun:
        """Begin a transaction, and run first statements in the same round trip.

        A connection whose server has gone is dropped, and another one tried: nothing was done. Raises what the driver
        raises once the time is over.
        """
        sent = [*self._beginning(beginning), *in_space(statements, self.number)]
        while True:
            check_interrupt()
            connection = self._pool.take(timeout=max(0.01, deadline - time.monotonic()))
            try:
                answers = exchange(connection, sent)
                return self._begun(connection, answers[len(sent) - len(statements) - 1 :])
            except psycopg.OperationalError as error:
                self.end(connection)
                waited = isinstance(error, errors.LockNotAvailable)
                if not (waited or connection.closed) or time.monotonic() > deadline:
                    raise
            except BaseException:  # Ctrl-C too: a connection that is not handed on goes back
                self.end(connection)
                raise

    def end(self, connection: PreparingConnection) -> None:
        """Roll back what is open, and give the connection back."""
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error), uninterrupted():
                connection.execute("ROLLBACK")
        self._pool.put_back(connection)

    def give_up(self) -> None:
        """Give the share of the connections back."""
        self._pool.give_up()

    def _beginning(self, beginning: Beginning) -> Sequence[Statement]:
        """Return the statements that begin a transaction; the last gives the space's row."""
        chosen = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in beginning.settings.items())
        row = (f"{_SPACE_ROW}{beginning.lock}", self._own)
        return (beginning.begin, {}), (f"SELECT {chosen}", {}), self._seen, row

    def _begun(self, connection: PreparingConnection, answers: list[list[Row]]) -> Begun:
        if not answers[0]:
            raise Corrupt(
                f"The row of the space {self.place} is missing.",
                hint="Restore the database from a backup, or import an export into a new space.",
            )
        *row, mark = answers[0][0]
        return Begun(self, FirstAnswers(connection, self.number, SpaceRow(*row), answers[1:]), parse_mark(mark))


def open_home(target: Target, *, create: bool, wait_seconds: float, server: str = "", mark: Mark | None = None) -> Home:
    """Connect to the database of a space; make tables and space where they are missing. Raises `NotFound`.

    `server`: the name by which a directory placed the space there. `mark`: what the row of a new space says.
    """
    with translated(target.shown):
        pool = shared_pool(target)
        try:
            connection = pool.take(timeout=wait_seconds)
            try:
                number = _found(connection, target, create=create, server=server, mark=mark)
            finally:
                pool.put_back(connection)
        except BaseException:  # Ctrl-C too: a space that is not opened holds no share of the pool
            pool.give_up()
            raise
    return Home(pool, number, target.shown, server)


def _found(connection: psycopg.Connection, target: Target, *, create: bool, server: str, mark: Mark | None) -> int:
    if not is_current(connection):
        if not create and not _has_schema(connection):
            raise _no_space(target)
        migrate(connection)
    with connection.transaction():
        see_name(connection, target.space)
        space = number_of(connection, target.space)
        if space is None and not create:
            raise _no_space(target)
        return space or _made(connection, target, server, mark)


def _no_space(target: Target) -> NotFound:
    return NotFound(
        f"There is no space {target.space!r} at {target.shown}.",
        hint="Create it with `treering init` or the first `treering ingest`; or name another with ?space=NAME.",
    )


def _has_schema(connection: psycopg.Connection) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.space_names",)).fetchone()
    return bool(row and row[0])


def _made(connection: psycopg.Connection, target: Target, server: str, mark: Mark | None) -> int:
    _check_member(connection, target, server)
    connection.execute("INSERT INTO space_names(name) VALUES(%s) ON CONFLICT DO NOTHING", (target.space,))
    space = number_of(connection, target.space)
    if space is None:
        raise Corrupt(f"The space {target.space!r} cannot be made.", hint="Look at the policies of the tables.")
    see_number(connection, space)
    sql = "INSERT INTO spaces(space, sequence, hash, moving) VALUES(%s, 0, %s, %s) ON CONFLICT DO NOTHING"
    connection.execute(sql, (space, SpaceRow.EMPTY_HASH, str(mark) if mark else None))
    return space


def _check_member(connection: psycopg.Connection, target: Target, server: str) -> None:
    """Raise `InvalidInput` where a space would be made behind the back of a directory."""
    member = connection.execute("SELECT server, directory FROM membership").fetchone()
    if member and member[0] != server:
        raise InvalidInput(
            f"{target.shown} would be a new space that {member[1]} does not know: this is its server {member[0]!r}.",
            hint="Make it by the address of the directory, with directory=on: it says which server takes it.",
        )
