"""Open a space in a Postgres database."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from treering.core.audit import Anchor
from treering.core.errors import InvalidInput
from treering.extensions.postgres.connection.failures import translated
from treering.extensions.postgres.connection.pools import LentPool, connected, shared_pool
from treering.extensions.postgres.connection.primary import COPYING
from treering.extensions.postgres.connection.schema import FINDING, SCHEMA, is_distributed
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.target import Target, target_of
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.vector_queue import PostgresVectorClaims
from treering.extensions.postgres.index.vectors import PostgresVectorFeed
from treering.extensions.postgres.ledger.jobs import PostgresBacklog, PostgresJobs, PostgresLeases
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.extensions.postgres.plan import EXEMPT
from treering.ports.stores import BackUp, IncomingCopy, Needs, Protection, Stores
from treering.system.address import Address


def open_stores(address: Address, needs: Needs) -> Stores:
    """Open the space of an address. Raises `InvalidInput`, `NotFound`, `Unavailable`, `Corrupt`."""
    with ExitStack() as closing:
        lent = None if needs.connection is None else LentPool(needs.connection)
        space = PostgresSpace(target_of(address), create=needs.create, arriving=needs.arriving, pool=lent)
        closing.callback(space.close)
        arrival = IncomingCopy(partial(_mark, space, COPYING), partial(_mark, space, None))
        jobs = PostgresJobs(space.read, space.write)
        index = PostgresIndex(space, model_id=needs.model_id, dimension=needs.dimension, quick=needs.quick)
        return Stores(
            # They are updated in the ledger's transactions, so that committed changes are found.
            ledger=PostgresLedger(space, clock=needs.clock, followers=[index, jobs], anchor=needs.anchor),
            index=index,
            jobs=jobs,
            leases=PostgresLeases(space),
            backlog=PostgresBacklog(space),
            claims=PostgresVectorClaims(space, needs.model_id, needs.dimension),
            back_up=_back_up_of(space.place),
            close=closing.pop_all().close,
            feed=PostgresVectorFeed(space, needs.model_id, needs.dimension),
            protection=partial(_protection, space),
            arrival=arrival if needs.arriving else None,
        )


def _mark(space: PostgresSpace, mark: str | None) -> None:
    """Write who may open the space: everyone, or only the program that copies a space into it."""
    with space.write() as transaction:
        transaction.later("UPDATE spaces SET moving = %(mark)s::text WHERE space = %(space)s", mark=mark)


def _protection(space: PostgresSpace) -> Protection:
    """Return whether row-level security applies to the role that connected, regardless of `SET ROLE`."""
    with space.read() as transaction:
        [[role, exempt]] = transaction.rows(f"SELECT session_user::text, ({EXEMPT} session_user)")
    return Protection(role, exempt)


def _back_up_of(place: str) -> BackUp:
    """Return a function that refuses a backup: the database server backs up all of its spaces."""

    def back_up(target: Path, *, replace: bool, copied: Callable[[int, int], None]) -> Anchor:  # noqa: ARG001 - the port's
        raise InvalidInput(
            f"{place} is not a file, so it cannot be copied.",
            hint="Back up the database with pg_dump or its write-ahead log, or export the space: treering export.",
        )

    return back_up


# One index look-up per space, regardless of the length of its queue.
_SPACES_OF = """
SELECT space FROM (
  WITH RECURSIVE next(space) AS (
    (SELECT space FROM {table} WHERE {free} ORDER BY space LIMIT 1)
    UNION ALL
    SELECT (SELECT q.space FROM {table} q WHERE q.space > next.space AND {free} ORDER BY q.space LIMIT 1)
    FROM next WHERE next.space IS NOT NULL
  ) SELECT space FROM next WHERE space IS NOT NULL
) AS of_{table}
"""
# Citus refuses recursion over several spaces. Its servers read their queues in parallel.
_DISTRIBUTED_SPACES_OF = "SELECT space FROM {table} WHERE {free} GROUP BY space"
_UNCLAIMED = "claimed_until <= extract(epoch FROM now())::double precision"
_FREE = {"vector_queue": _UNCLAIMED, "promised_work": _UNCLAIMED, "waiting_objects": "true"}


def spaces_with_work(address: Address) -> "WaitingSpaces":
    """Return a function that finds the spaces with pending work in the database of an address."""
    return WaitingSpaces(target_of(address))


class WaitingSpaces:
    """Finds the spaces of a database with background work that no process does. `close` returns its connections."""

    def __init__(self, target: Target) -> None:
        self._place = target.shown
        with translated(self._place):
            self._pool = shared_pool(target)

    def names(self) -> Sequence[str]:
        """Return the names of the spaces, the oldest first. Raises `Unavailable`."""
        with connected(self._pool, self._place) as connection, connection.transaction():
            connection.execute(f"SET LOCAL search_path = {SCHEMA}; SET LOCAL {FINDING} = 'on'")
            spaces_of = _DISTRIBUTED_SPACES_OF if is_distributed(connection) else _SPACES_OF
            spaces = " UNION ".join(spaces_of.format(table=table, free=free) for table, free in _FREE.items())
            sql = f"SELECT name FROM space_names WHERE space IN ({spaces}) ORDER BY space"  # noqa: S608 - our own SQL
            return [name for (name,) in connection.execute(sql)]

    def close(self) -> None:
        """Return the connections to their pool."""
        self._pool.give_up()
