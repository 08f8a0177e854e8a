"""The toy store passes every contract: one that is always up to date, and one that is late."""

import pytest

from toy_store.toy_index import ToyIndex
from toy_store.toy_tables import ToyTables
from treering.testing.fakes import MemoryJobs, MemoryLeases
from treering.testing.index_contract import EMBEDDER, IndexContract, LateIndexContract, LedgerWithIndex
from treering.testing.memory_ledger import MemoryLedger
from treering.testing.work_contracts import JobsContract, LeaseContract, ProjectionContract


class TestToyIndex(IndexContract):
    @pytest.fixture
    def open_index(self, clock):
        def open_index():
            ledger = MemoryLedger(clock=clock)
            return LedgerWithIndex(ledger, ToyIndex(ledger, dimension=EMBEDDER.dimension))

        return open_index


class TestLateToyIndex(IndexContract, LateIndexContract):
    @pytest.fixture
    def open_index(self, clock):
        def open_index():
            ledger = MemoryLedger(clock=clock)
            index = ToyIndex(ledger, dimension=EMBEDDER.dimension, late=True)
            return LedgerWithIndex(ledger, index, catch_up=index.catch_up)

        return open_index


class TestToyTables(ProjectionContract):
    @pytest.fixture
    def open_projection(self):
        def open_projection():
            tables = ToyTables()
            return tables, tables.contents

        return open_projection


class TestMemoryJobs(JobsContract):
    @pytest.fixture
    def open_jobs(self, clock):
        def open_jobs():
            ledger = MemoryLedger(clock=clock)
            return ledger, MemoryJobs(ledger)

        return open_jobs


class TestMemoryLeases(LeaseContract):
    @pytest.fixture
    def leases(self, clock):
        return MemoryLeases(clock=clock)
