"""What every ledger must do, as tests.

A backend's own test class inherits `LedgerContract`:

class TestMyLedger(LedgerContract):
    @pytest.fixture
    def open_ledger(self, clock, tmp_path):
        def open_ledger(policy=None):
            return MyLedger(fresh_place(tmp_path), clock=clock, policy=policy)
        return open_ledger
"""

from treering.testing.ledger_contract.claims import Claims
from treering.testing.ledger_contract.evidence import Evidence
from treering.testing.ledger_contract.history import ChangeFeed, LedgerHistory
from treering.testing.ledger_contract.reading import LedgerReads, Scopes
from treering.testing.ledger_contract.reverting import Erasure, Reverting
from treering.testing.ledger_contract.review import Review, Rules
from treering.testing.ledger_contract.transfer import Transfer, Work
from treering.testing.ledger_contract.writing import Writing


class LedgerContract(
    Writing,
    Evidence,
    Claims,
    Work,
    LedgerReads,
    LedgerHistory,
    ChangeFeed,
    Reverting,
    Review,
    Rules,
    Scopes,
    Erasure,
    Transfer,
):
    """Inherit this in a test class and return the fixture `open_ledger`."""
