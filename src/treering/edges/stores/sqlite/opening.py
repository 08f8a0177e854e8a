"""Opening a space that is one SQLite file, or one in memory."""

from contextlib import ExitStack

from treering.edges.address import Address
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.files import APPLICATION_ID, ARRIVING_ID
from treering.edges.stores.sqlite.index import SqliteIndex
from treering.edges.stores.sqlite.jobs import SqliteJobs
from treering.edges.stores.sqlite.leases import SqliteLeases
from treering.edges.stores.sqlite.ledger import SqliteLedger
from treering.edges.stores.sqlite.vector_feed import SqliteVectorFeed
from treering.ports.stores import Needs, Stores


def open_stores(address: Address, needs: Needs) -> Stores:
    """Open the file an address names. Raises `NotFound`, `Unavailable`, `Corrupt`."""
    with ExitStack() as closing:
        database = Database(address.place, create=needs.create, arriving=needs.arriving)
        closing.callback(database.close)
        index = SqliteIndex(database, model_id=needs.model_id, dimension=needs.dimension)
        jobs = SqliteJobs(database)
        ledger = SqliteLedger(
            database,
            clock=needs.clock,
            policy=needs.policy if database.read_only else None,
            # They move in the ledger's own transactions: what was committed is found.
            followers=(index, jobs),
            anchor=needs.anchor,
        )
        return Stores(
            ledger=ledger,
            index=index,
            jobs=jobs,
            leases=SqliteLeases(database, needs.clock),
            back_up=ledger.back_up,
            close=closing.pop_all().close,
            read_only=database.read_only,
            feed=SqliteVectorFeed(database, needs.model_id, needs.dimension),
            arrival=SqliteArrival(database) if needs.arriving else None,
        )


class SqliteArrival:
    """Marks the file of a space as an unfinished copy, by the number that tells whose database it is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self) -> None:
        """Refuse, durably, whoever opens the space from now on, and all that is written there but the copy."""
        self._mark(ARRIVING_ID)

    def end(self) -> None:
        """Let the space be used."""
        self._mark(APPLICATION_ID)

    def _mark(self, application: int) -> None:
        with self._database.write() as connection:
            connection.pragma("application_id", application)
