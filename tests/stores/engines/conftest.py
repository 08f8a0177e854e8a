"""Spaces in memory whose vectors an engine searches."""

from dataclasses import dataclass

import pytest

from held_back import HeldBack, HeldBackIndex, embed_all
from treering.extensions.engines.passage_texts import PassageDescriber
from treering.extensions.engines.selection import EngineIndex
from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.index.index import SqliteIndex
from treering.stores.sqlite.index.vector_feed import SqliteVectorFeed
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.index_contract import EMBEDDER, LedgerWithIndex
from treering.testing.vector_engine_contract import FedSpace, follow_up, selected_for


@dataclass(frozen=True)
class Fed:
    """A space with its feed; `late`: what holds its index back, where something does."""

    space: FedSpace
    late: HeldBack | None = None


@pytest.fixture
def new_fed(clock):
    """Open spaces with their feeds; close them after the test."""
    opened = []

    def new_fed(*, late=False):
        database = Database(MEMORY)
        index = SqliteIndex(database, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        feed = SqliteVectorFeed(database, EMBEDDER.model_id, EMBEDDER.dimension)
        held = HeldBack(index, database.write) if late else None
        opened.append(SqliteLedger(database, clock=clock, followers=[held or index]))
        return Fed(FedSpace(opened[-1], HeldBackIndex(index, held) if held else index, feed), held)

    yield new_fed
    for ledger in opened:
        ledger.close()


@pytest.fixture
def open_fed(new_fed):
    """Open spaces with their feeds."""
    return lambda: new_fed().space


@pytest.fixture
def shows_graph():
    """Whether the engine is told what passages are."""
    return False


@pytest.fixture
def composed(open_new_engine, shows_graph, clock):
    """Put spaces together with engines that search their vectors. They follow when they are told to."""

    def composed(fed):
        space = fed.space
        describe = PassageDescriber(space.index, space.ledger) if shows_graph else None
        selected = selected_for(open_new_engine, space, clock, describe=describe)
        index = EngineIndex.over(space.index, selected)

        def catch_up():
            if fed.late:
                fed.late.catch_up()
                embed_all(index)
            follow_up(selected)
            assert selected.report().problem == ""

        return LedgerWithIndex(space.ledger, index, catch_up)

    return composed


@pytest.fixture
def open_composed(new_fed, composed):
    """Open spaces whose vectors an engine searches."""
    return lambda: composed(new_fed())


@pytest.fixture
def open_late(new_fed, composed):
    """Open spaces whose vectors an engine searches, and whose index is late with it."""
    return lambda: composed(new_fed(late=True))
