"""Opening a space that lies in a Postgres database."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from treering.core.audit import Anchor
from treering.core.errors import InvalidInput
from treering.edges.address import Address
from treering.edges.stores.postgres.backlog import PostgresBacklog
from treering.edges.stores.postgres.index import PostgresIndex
from treering.edges.stores.postgres.jobs import PostgresJobs
from treering.edges.stores.postgres.leases import PostgresLeases
from treering.edges.stores.postgres.ledger import PostgresLedger
from treering.edges.stores.postgres.lent_pool import LentPool
from treering.edges.stores.postgres.marks import COPYING, Mark
from treering.edges.stores.postgres.plan import EXEMPT
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.target import target_of
from treering.edges.stores.postgres.vector_claims import PostgresVectorClaims
from treering.edges.stores.postgres.vector_feed import PostgresVectorFeed
from treering.ports.stores import BackUp, Needs, Protection, Stores


def open_stores(address: Address, needs: Needs) -> Stores:
    """Open the space an address names. Raises `InvalidInput`, `NotFound`, `Unavailable`, `Corrupt`."""
    with ExitStack() as closing:
        lent = None if needs.connection is None else LentPool(needs.connection)
        space = PostgresSpace(target_of(address), create=needs.create, arriving=needs.arriving, pool=lent)
        closing.callback(space.close)
        index = PostgresIndex(space, model_id=needs.model_id, dimension=needs.dimension)
        return Stores(
            # The index moves in the ledger's own transactions: what was committed is found.
            ledger=PostgresLedger(space, clock=needs.clock, followers=[index], anchor=needs.anchor),
            index=index,
            jobs=PostgresJobs(space),
            leases=PostgresLeases(space),
            backlog=PostgresBacklog(space),
            claims=PostgresVectorClaims(space, needs.model_id, needs.dimension),
            back_up=_back_up_of(space.place),
            close=closing.pop_all().close,
            feed=PostgresVectorFeed(space, needs.model_id, needs.dimension),
            protection=partial(_protection, space),
            arrival=PostgresArrival(space) if needs.arriving else None,
        )


class PostgresArrival:
    """Marks the row of a space as an unfinished copy: each transaction of others reads the mark first."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def begin(self) -> None:
        """Refuse, durably, whoever opens the space from now on, and all that is written there but the copy."""
        self._mark(COPYING)

    def end(self) -> None:
        """Let the space be used."""
        self._mark(None)

    def _mark(self, mark: Mark | None) -> None:
        with self._space.write() as transaction:
            said = "" if mark is None else str(mark)
            transaction.later("UPDATE spaces SET moving = nullif(%(mark)s, '') WHERE space = %(space)s", mark=said)


def _protection(space: PostgresSpace) -> Protection:
    """Say whether row-level security holds the role that connected; `SET ROLE`, which can be taken back, is not one."""
    with space.read() as transaction:
        [[role, exempt]] = transaction.rows(f"SELECT session_user::text, ({EXEMPT} session_user)")
    return Protection(role, exempt)


def _back_up_of(place: str) -> BackUp:
    """Return what says that a space is not a file: its server makes the backups of all its spaces."""

    def back_up(target: Path, *, replace: bool, copied: Callable[[int, int], None]) -> Anchor:  # noqa: ARG001 - the port's
        raise InvalidInput(
            f"{place} is not a file that could be copied.",
            hint="Back up the database with pg_dump or by its write-ahead log, or export the space: treering export.",
        )

    return back_up
