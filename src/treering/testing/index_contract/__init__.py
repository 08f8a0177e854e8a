"""What every index must do, as tests.

A backend's own test class inherits `IndexContract`:

class TestMyIndex(IndexContract):
    @pytest.fixture
    def open_index(self, clock):
        def open_index():
            ledger = MemoryLedger(clock=clock)
            index = MyIndex(ledger, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
            return Indexed(ledger, index, catch_up=index.catch_up)
        return open_index

One that applies changes only when it is told to inherits `LateIndexContract` besides.
"""

from treering.testing.index_contract.code import CodeNames
from treering.testing.index_contract.days import Days
from treering.testing.index_contract.graph import EntityGraph
from treering.testing.index_contract.histories import Histories
from treering.testing.index_contract.late import LateIndexContract
from treering.testing.index_contract.passages import PassagesByKey
from treering.testing.index_contract.places import Places
from treering.testing.index_contract.stage import EMBEDDER, LedgerWithIndex
from treering.testing.index_contract.together import Together
from treering.testing.index_contract.upkeep import Upkeeping
from treering.testing.index_contract.vectors import ByMeaning
from treering.testing.index_contract.words import ByWords

__all__ = ["EMBEDDER", "IndexContract", "LateIndexContract", "LedgerWithIndex"]


class IndexContract(
    ByWords,
    Places,
    Days,
    PassagesByKey,
    CodeNames,
    ByMeaning,
    EntityGraph,
    Upkeeping,
    Together,
    Histories,
):
    """Inherit this in a test class and return the fixture `open_index`."""
