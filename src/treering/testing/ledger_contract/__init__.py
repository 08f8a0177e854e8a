"""What every ledger must do, as tests.

A backend's own test class inherits `LedgerContract`:

class TestMyLedger(LedgerContract):
    @pytest.fixture
    def open_ledger(self, clock, tmp_path):
        def open_ledger(policy=None):
            return MyLedger(fresh_place(tmp_path), clock=clock, policy=policy)
        return open_ledger
"""

from treering.testing.ledger_contract.changes import ChangeFeed
from treering.testing.ledger_contract.claims import Claims
from treering.testing.ledger_contract.erasure import Erasure
from treering.testing.ledger_contract.evidence import Evidence
from treering.testing.ledger_contract.history import LedgerHistory
from treering.testing.ledger_contract.reading import LedgerReads
from treering.testing.ledger_contract.reverting import Reverting
from treering.testing.ledger_contract.review import Review
from treering.testing.ledger_contract.rules import Rules
from treering.testing.ledger_contract.scopes import Scopes
from treering.testing.ledger_contract.summaries import Summaries
from treering.testing.ledger_contract.transfer import Transfer
from treering.testing.ledger_contract.work import Work
from treering.testing.ledger_contract.writing import Writing


class LedgerContract(
    Writing,
    Evidence,
    Summaries,
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
