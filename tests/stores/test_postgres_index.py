"""The index on a real Postgres server keeps the contract of all indexes."""

import pytest
from postgres_spaces import new_space, open_target

from held_back import HeldBack, HeldBackIndex, embed_all
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.testing.index_contract import EMBEDDER, IndexContract, LateIndexContract, LedgerWithIndex


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


class TestLatePostgresIndex(LateIndexContract):
    @pytest.fixture
    def open_index(self, server, clock):
        opened = []

        def open_index():
            opened.append(open_target(server, new_space()))
            own = PostgresIndex(opened[-1], model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
            held = HeldBack(own, opened[-1].write)
            ledger = PostgresLedger(opened[-1], clock=clock, server_time=False, followers=[held])
            index = HeldBackIndex(own, held)

            def catch_up():
                held.catch_up()
                embed_all(index)

            return LedgerWithIndex(ledger, index, catch_up)

        yield open_index
        for space in opened:
            space.close()
