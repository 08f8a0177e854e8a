"""Open a space in a SQLite file or in memory."""

from contextlib import ExitStack
from functools import partial

from treering.ports.stores import Needs, Stores
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.files import APPLICATION_ID, ARRIVING_ID
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.index.vector_feed import SqliteVectorFeed
from treering.stores.sqlite.jobs import SqliteJobs
from treering.stores.sqlite.leases import SqliteLeases
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.stores.sqlite.noted_answers import note_answer
from treering.stores.sqlite.ready import ReadyFiles
from treering.system.address import Address


def open_stores(address: Address, needs: Needs) -> Stores:
    """Open the file of an address. Raises `NotFound`, `Unavailable`, `Corrupt`."""
    with ExitStack() as closing:
        database = Database(address.place, create=needs.create, arriving=needs.arriving)
        closing.callback(database.close)
        index = SqliteIndex(database, model_id=needs.model_id, dimension=needs.dimension, quick=needs.quick)
        jobs = SqliteJobs(database.read, database.write)
        ledger = SqliteLedger(
            database,
            clock=needs.clock,
            policy=needs.policy if database.read_only else None,
            # They are updated in the ledger's transactions, so that committed changes are found.
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
            note_answer=partial(note_answer, address.file) if address.file else None,
            ready=ReadyFiles(address.file) if address.file else None,
            feed=SqliteVectorFeed(database, needs.model_id, needs.dimension),
            arrival=SqliteArrival(database) if needs.arriving else None,
        )


class SqliteArrival:
    """Marks the file of a space as an unfinished copy, by its application id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self) -> None:
        """Durably refuse everyone who opens the space, and all writes except those of the copy."""
        self._mark(ARRIVING_ID)

    def end(self) -> None:
        """Allow the space to be used."""
        self._mark(APPLICATION_ID)

    def _mark(self, application: int) -> None:
        with self._database.write() as connection:
            connection.pragma("application_id", application)
