"""Open a space in a SQLite file or in memory."""

from contextlib import ExitStack
from functools import partial

from treering.ports.stores import IncomingCopy, Needs, Stores
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
        index = SqliteIndex(
            database,
            model_id=needs.model_id,
            dimension=needs.dimension,
            quick=needs.quick,
            saves_tables=needs.saves_tables,
        )
        arrival = IncomingCopy(partial(_mark, database, ARRIVING_ID), partial(_mark, database, APPLICATION_ID))
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
            arrival=arrival if needs.arriving else None,
            tables=index,
        )


def _mark(database: Database, application: int) -> None:
    """Write who may open the file: everyone, or only the program that copies a space into it."""
    with database.write() as connection:
        connection.pragma("application_id", application)
