"""The database of a space: the number of the space in it, and the beginning of transactions."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier, Literal

from treering.core.audit import GENESIS
from treering.core.errors import Corrupt, InvalidInput, NotFound, Unavailable
from treering.extensions.postgres.connection.failures import locked, translated
from treering.extensions.postgres.connection.pools import Connections, give_back, shared_pool
from treering.extensions.postgres.connection.schema import (
    IS_DISTRIBUTED,
    PARTITIONS,
    POLICIES,
    SCHEMA,
    TABLES,
    is_current,
    migrate,
)
from treering.extensions.postgres.connection.target import Target
from treering.extensions.postgres.connection.transactions import (
    PreparingConnection,
    Row,
    SpacePlace,
    SpaceRow,
    Statement,
    bound,
    exchange,
)
from treering.ports.runtime import check_interrupt

COPYING = "from:copy"
"""The mark in the row of a space while `treering move` fills it."""


def refusal(place: str, mark: str) -> Unavailable | Corrupt:
    """Return the error for a space whose row has a mark, so that the database does not serve it."""
    match mark.split(":", 2):
        case [_, _] if mark == COPYING:
            return Unavailable(
                f"{place} is an unfinished copy of a move.",
                hint="Call `treering move` again with the same places to continue it.",
            )
        case ["to", _, server]:
            return Unavailable(
                f"{place} was moved to the server {server!r} of a directory.",
                hint="Open the space at the address of that server: `SELECT address FROM treering.servers` lists them "
                "in the database of the directory.",
            )
        case ["from", _]:
            return Unavailable(
                f"{place} is an unfinished copy of a move between the servers of a directory.",
                hint="Open the space at the server it was on, or finish the move with `postgres move SPACE SERVER` of "
                "Treering 0.2.",
            )
    return Corrupt(
        f"The row of a space has the move state {mark!r}, which Treering never writes.",
        hint="Restore the database from a backup; another program wrote to it.",
    )


LOOKING_SECONDS = 0.5
"""How often a waiting writer checks whether its call was interrupted."""

_IDLE_SECONDS = 60  # how long a writer that was stopped may block others
_SPACE_ROW = (
    "SELECT sequence, hash, last_time, policy_seq, policy, "
    "extract(epoch FROM clock_timestamp())::double precision, engine, moving FROM spaces WHERE space = %(space)s"
)

# Every statement uses an index that begins with the space, whatever the space. Generic plans are therefore used for
# prepared statements: planning takes longer than running them. With the number of a space that is newer than its
# statistics, the planner expects no rows and considers any index equally good. A planner that adds up all partitions
# scans whole ones, uses parallel workers, or compiles the statement. Each of these takes a hundred times as long. Plans
# are renewed when a space has grown. Only Citus needs the values, to choose the server.
_GENERIC_PLANS = (
    f"set_config('plan_cache_mode', CASE WHEN {IS_DISTRIBUTED} THEN 'auto' ELSE 'force_generic_plan' END, true)"
)
_PLANS = {"enable_seqscan": "off", "max_parallel_workers_per_gather": "0", "jit": "off"}


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of transaction: how it begins, and how it reads the space's row."""

    begin: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the transaction."""
    row: str = _SPACE_ROW

    def beginning(self, place: SpacePlace) -> list[Statement]:
        """Return the first statements of the transaction. The last one returns the space's row."""
        settings = {"search_path": SCHEMA, **_PLANS, **self.settings}
        if place.partition is None:
            # Citus passes only statements on to its workers, which lock rows and apply row-level security.
            given = {"treering.space": str(place.number), **settings}
            settled: list[Statement] = [(f"SET LOCAL {name} = '{value}'", {}) for name, value in given.items()]
            settled.append((f"SELECT {_GENERIC_PLANS}", {}))
        else:
            chosen = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
            sql = f"SELECT {_GENERIC_PLANS}, set_config('treering.space', %(number)s, true), {chosen}"
            settled = [(sql, {"number": str(place.number)})]
        return [(self.begin, {}), *settled, *bound([(self.row, {})], place)]


READ = Kind("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
WRITE = Kind(
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    {
        "synchronous_commit": "on",
        "lock_timeout": f"{int(LOOKING_SECONDS * 1000)}ms",
        "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    },
    f"{_SPACE_ROW} FOR NO KEY UPDATE",
)
BESIDE = Kind("BEGIN ISOLATION LEVEL READ COMMITTED")
"""Writes rows outside the ledger, without waiting for other writers."""
LOOK = Kind(WRITE.begin, WRITE.settings, WRITE.row)
"""Checks whether a commit succeeded after the connection was lost. The writer still holds its right to a connection."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An open transaction, and the content of the space's row at its beginning."""

    pool: Connections
    connection: PreparingConnection
    row: SpaceRow
    mark: str | None
    """The mark, if the database does not serve the space."""
    answers: list[list[Row]]
    """All rows of each of its first statements."""

    def end(self) -> None:
        """Roll back, and return the connection."""
        give_back(self.pool, self.connection)


class Primary:
    """A space in its database, with its connections."""

    def __init__(self, pool: Connections, rows_at: SpacePlace, place: str) -> None:
        self.place = place
        self.rows_at = rows_at
        self._pool = pool
        self._beginnings = {kind: kind.beginning(rows_at) for kind in (READ, WRITE, BESIDE, LOOK)}

    @property
    def number(self) -> int:
        """The number of the space in the database."""
        return self.rows_at.number

    @contextmanager
    def as_writer(self, deadline: float) -> Iterator[None]:
        """Acquire the right to use a connection for writing. Raises `Unavailable` after a timeout."""
        with self._pool.as_writer(timeout=max(0.0, deadline - time.monotonic())) as may:
            if not may:
                raise locked(self.place)
            yield

    def begin(self, kind: Kind, statements: Sequence[Statement], deadline: float) -> Begun:
        """Begin a transaction with its first statements.

        If the server closed the connection, another one is tried, because nothing has been done. Raises the driver's
        error after a timeout.
        """
        while True:
            check_interrupt()
            connection = self._pool.take(timeout=max(0.01, deadline - time.monotonic()))
            try:
                return self.begun_on(self._pool, connection, kind, statements)
            except psycopg.OperationalError as error:
                give_back(self._pool, connection)
                waited = isinstance(error, errors.LockNotAvailable)
                if not (waited or connection.closed) or time.monotonic() > deadline:
                    raise
            except BaseException:  # including Ctrl-C: a connection that is not passed on is returned
                give_back(self._pool, connection)
                raise

    def give_up(self) -> None:
        """Release the share of the connections."""
        self._pool.give_up()

    def begun_on(
        self, pool: Connections, connection: PreparingConnection, kind: Kind, statements: Sequence[Statement]
    ) -> Begun:
        """Begin a transaction on a connection of a pool, of the primary or a replica."""
        first, *others = self._beginnings[kind]
        beginning = [first, *connection.plans, *others]
        answers = exchange(connection, [*beginning, *bound(statements, self.rows_at)])
        rows, given = answers[len(beginning) - 1], answers[len(beginning) :]
        if not rows:
            raise Corrupt(
                f"The row of the space {self.place} is missing.",
                hint="Restore the database from a backup, or import an export into a new space.",
            )
        *row, mark = rows[0]
        connection.note_growth(self.number, row[0])
        return Begun(pool, connection, SpaceRow(*row), mark or None, given)


def open_primary(
    target: Target, *, create: bool, wait_seconds: float, mark: str | None = None, pool: Connections | None = None
) -> Primary:
    """Connect to the database of a space; create tables and the space if they are missing. Raises `NotFound`.

    `mark`: for the row of a new space. `pool`: connections of the program, used in place of those of this process.
    """
    with translated(target.shown):
        pool = pool or shared_pool(target)
        try:
            connection = pool.take(timeout=wait_seconds)
            try:
                number = _find_space(connection, target, create=create, mark=mark)
                partition = _partition_of(connection, number)
            finally:
                pool.put_back(connection)
        except BaseException:  # including Ctrl-C: a space that is not opened has no share of the pool
            pool.give_up()
            raise
    return Primary(pool, SpacePlace(number, partition), target.shown)


def _find_space(connection: psycopg.Connection, target: Target, *, create: bool, mark: str | None) -> int:
    if not is_current(connection):
        if not create and not _has_schema(connection):
            raise _no_space(target)
        migrate(connection)
    with connection.transaction():
        see_name(connection, target.space)
        space = number_of(connection, target.space)
        if space is None and not create:
            raise _no_space(target)
        return space or _create_space(connection, target, mark)


# The partition of a space, if every table has it and it is equivalent to its table: the session has the same rights,
# row-level security is as strict, and the table has no additional policies or triggers.
_PARTITION = f"""
SELECT n FROM generate_series(0, {PARTITIONS - 1}) AS n
WHERE NOT ({IS_DISTRIBUTED})
AND satisfies_hash_partition(to_regclass('{SCHEMA}.spaces'), {PARTITIONS}, n, %s::bigint)
AND NOT EXISTS (
  SELECT FROM unnest(%s::text[]) AS name JOIN pg_class t ON t.oid = to_regclass('{SCHEMA}.' || name)
  LEFT JOIN (pg_class p JOIN pg_inherits i ON i.inhrelid = p.oid)
    ON i.inhparent = t.oid AND p.oid = to_regclass(format('{SCHEMA}.%%s_%%s', name, n))
    AND pg_get_expr(p.relpartbound, p.oid) = format('FOR VALUES WITH (modulus {PARTITIONS}, remainder %%s)', n)
    AND p.relkind = 'r' AND p.relrowsecurity >= t.relrowsecurity AND p.relforcerowsecurity >= t.relforcerowsecurity
  WHERE p.oid IS NULL OR t.relhastriggers
  OR EXISTS (SELECT FROM pg_policy WHERE polrelid = t.oid AND polname <> ALL(%s))
  OR EXISTS (
    SELECT FROM unnest('{{SELECT,INSERT,UPDATE,DELETE}}'::text[]) AS what
    WHERE has_table_privilege(t.oid, what) AND NOT has_table_privilege(p.oid, what)
  )
)
"""  # noqa: S608 - our own names


def _partition_of(connection: psycopg.Connection, space: int) -> int | None:
    row = connection.execute(_PARTITION, (space, list(TABLES), list(POLICIES))).fetchone()
    return None if row is None else int(row[0])


def _no_space(target: Target) -> NotFound:
    return NotFound(
        f"There is no space {target.space!r} at {target.shown}.",
        hint="Create it with `treering init` or `treering add .`; or choose another with ?space=NAME.",
    )


def _has_schema(connection: psycopg.Connection) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.space_names",)).fetchone()
    return bool(row and row[0])


def _create_space(connection: psycopg.Connection, target: Target, mark: str | None) -> int:
    if mark is None:
        _check_placements(connection, target)
    connection.execute("INSERT INTO space_names(name) VALUES(%s) ON CONFLICT DO NOTHING", (target.space,))
    space = number_of(connection, target.space)
    if space is None:
        raise Corrupt(
            f"The space {target.space!r} cannot be created.",
            hint="Check the row-level security policies of the tables.",
        )
    see_number(connection, space)
    sql = "INSERT INTO spaces(space, sequence, hash, moving) VALUES(%s, 0, %s, %s) ON CONFLICT DO NOTHING"
    connection.execute(sql, (space, GENESIS, mark))
    return space


_MAY_READ_PLACEMENTS = (
    f"SELECT has_table_privilege(to_regclass('{SCHEMA}.placements'), 'SELECT') "
    f"AND has_table_privilege(to_regclass('{SCHEMA}.servers'), 'SELECT')"
)
_PLACED = "SELECT s.address FROM placements p JOIN servers s ON s.name = p.server WHERE p.name = %s"


def _check_placements(connection: psycopg.Connection, target: Target) -> None:
    """Raise `InvalidInput` for a new space if the server list of an earlier version contains its name."""
    may = connection.execute(_MAY_READ_PLACEMENTS).fetchone()
    placed = connection.execute(_PLACED, (target.space,)).fetchone() if may and may[0] else None
    if placed:
        raise InvalidInput(
            f"{target.shown} does not exist, but this database was a directory that has it on {placed[0]}.",
            hint="Open it there with ?space=NAME; or delete its row from treering.placements to create a new space.",
        )


_PATH = SQL("SET LOCAL search_path = {}").format(Identifier(SCHEMA))
_NAME = SQL("SET LOCAL treering.space_name = {}")
_NUMBER = SQL("SET LOCAL treering.space = {}")
_NUMBER_OF = "SELECT space FROM space_names WHERE name = %s"


def see_name(connection: psycopg.Connection, name: str) -> None:
    """Make a transaction see the space with a name, and find tables in our schema."""
    connection.execute(_PATH)
    connection.execute(_NAME.format(Literal(name)))


def see_number(connection: psycopg.Connection, number: int) -> None:
    """Make a transaction see the rows of a space, by its number."""
    connection.execute(_NUMBER.format(Literal(str(number))))


def number_of(connection: psycopg.Connection, name: str) -> int | None:
    """Return the number of the space that the transaction sees by name, or `None`."""
    row = connection.execute(_NUMBER_OF, (name,)).fetchone()
    return None if row is None else int(row[0])
