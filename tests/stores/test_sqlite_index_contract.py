"""The index, the jobs and the leases of SQLite pass the contracts of their ports."""

import pytest

from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.jobs import SqliteJobs
from treering.stores.sqlite.leases import SqliteLeases
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.index_contract import EMBEDDER, IndexContract, LedgerWithIndex
from treering.testing.work_contracts import JobsContract, LeaseContract


@pytest.fixture
def open_ledger(clock):
    """Open ledgers in memory with what follows them; close them after the test."""
    opened = []

    def open_ledger():
        database = Database(MEMORY)
        index = SqliteIndex(database, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        jobs = SqliteJobs(database.read, database.write)
        opened.append(SqliteLedger(database, clock=clock, followers=[index, jobs]))
        return database, opened[-1], index, jobs

    yield open_ledger
    for ledger in opened:
        ledger.close()


class TestSqliteIndex(IndexContract):
    @pytest.fixture
    def open_index(self, open_ledger):
        def open_index():
            _, ledger, index, _ = open_ledger()
            return LedgerWithIndex(ledger, index)

        return open_index


class TestSqliteJobs(JobsContract):
    @pytest.fixture
    def open_jobs(self, open_ledger):
        def open_jobs():
            _, ledger, _, jobs = open_ledger()
            return ledger, jobs

        return open_jobs


class TestSqliteLeases(LeaseContract):
    @pytest.fixture
    def leases(self, open_ledger, clock):
        database, *_ = open_ledger()
        return SqliteLeases(database, clock)
