"""The index on a real Postgres server keeps the contract of all indexes."""

import pytest
from postgres_spaces import new_space, open_target

from treering.edges.stores.postgres.index import PostgresIndex
from treering.edges.stores.postgres.ledger import PostgresLedger
from treering.testing.index_contract import EMBEDDER, IndexContract, LedgerWithIndex


class TestPostgresIndex(IndexContract):
    @pytest.fixture
    def open_index(self, server, clock):
        opened = []

        def open_index():
            opened.append(open_target(server, new_space()))
            index = PostgresIndex(opened[-1], model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
            ledger = PostgresLedger(opened[-1], clock=clock, server_time=False, followers=[index])
            return LedgerWithIndex(ledger, index)

        yield open_index
        for space in opened:
            space.close()
