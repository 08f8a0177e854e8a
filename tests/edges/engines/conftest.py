"""Spaces in memory whose vectors an engine searches."""

import pytest

from treering.derived.engine_describing import PassageDescriber
from treering.derived.engine_following import EngineFollower
from treering.derived.engine_index import EngineIndex
from treering.derived.engine_tail import EngineTail
from treering.derived.engine_vectors import EngineInUse, EngineVectors
from treering.edges.stores.sqlite.database import MEMORY, Database
from treering.edges.stores.sqlite.index import SqliteIndex
from treering.edges.stores.sqlite.ledger import SqliteLedger
from treering.edges.stores.sqlite.vector_feed import SqliteVectorFeed
from treering.testing.index_contract import EMBEDDER, LedgerWithIndex
from treering.testing.vector_engine_contract import FedSpace, follow_up


class FollowerKeeping:
    """The upkeep of an engine by its follower alone."""

    def __init__(self, engine, follower):
        self.engine = engine
        self.follower = follower
        self.to_forget = follower.to_forget
        self.begin_anew = follower.begin

    def forget(self):
        follow_up(self.follower)
        return True

    def differences(self):
        return []


@pytest.fixture
def open_fed(clock):
    """Open spaces with their feeds; close them after the test."""
    opened = []

    def open_fed():
        database = Database(MEMORY)
        index = SqliteIndex(database, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        opened.append(SqliteLedger(database, clock=clock, followers=[index]))
        return FedSpace(opened[-1], index, SqliteVectorFeed(database, EMBEDDER.model_id, EMBEDDER.dimension))

    yield open_fed
    for ledger in opened:
        ledger.close()


@pytest.fixture
def shows_graph():
    """Whether the engine is told what passages are."""
    return False


@pytest.fixture
def open_composed(open_fed, open_new_engine, shows_graph):
    """Open spaces whose vectors an engine searches. It follows when it is told to."""

    def open_composed():
        fed, engine = open_fed(), open_new_engine()
        describe = PassageDescriber(fed.index, fed.ledger) if shows_graph else None
        follower = EngineFollower(engine, fed.feed, "a-space", describe=describe)
        used = EngineInUse(engine, EngineTail(fed.feed, EMBEDDER.dimension))
        failures = []
        vectors = EngineVectors(fed.index.vectors, fed.feed, lambda: used, failures.append)
        index = EngineIndex(fed.index, vectors, FollowerKeeping(engine, follower))

        def catch_up():
            assert failures == []
            follow_up(follower)

        return LedgerWithIndex(fed.ledger, index, catch_up)

    return open_composed
