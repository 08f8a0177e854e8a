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

An index that applies changes only on request also inherits `LateIndexContract`.
"""

from treering.testing.index_contract.graph import EntityGraph
from treering.testing.index_contract.histories import Histories
from treering.testing.index_contract.passages import CodeNames, Days, PassagesByKey
from treering.testing.index_contract.stage import EMBEDDER, LedgerWithIndex
from treering.testing.index_contract.vectors import ByMeaning, LateIndexContract, Together, Upkeeping
from treering.testing.index_contract.words import ByWords, Places

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
