"""Opening a space that lies in a Postgres database."""

from contextlib import ExitStack

from treering.edges.address import Address
from treering.edges.stores.postgres.jobs import PostgresJobs
from treering.edges.stores.postgres.leases import PostgresLeases
from treering.edges.stores.postgres.ledger import PostgresLedger
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.target import target_of
from treering.ports.stores import LedgerStores, Needs


def open_stores(address: Address, needs: Needs) -> LedgerStores:
    """Open the space an address names. Raises `InvalidInput`, `NotFound`, `Unavailable`, `Corrupt`."""
    with ExitStack() as closing:
        space = PostgresSpace(target_of(address), create=needs.create)
        closing.callback(space.close)
        return LedgerStores(
            ledger=PostgresLedger(space, clock=needs.clock, anchor=needs.anchor),
            jobs=PostgresJobs(space),
            leases=PostgresLeases(space),
            close=closing.pop_all().close,
        )
