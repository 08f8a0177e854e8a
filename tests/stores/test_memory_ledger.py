from collections.abc import Callable

import pytest
from ledger_rules import LedgerRules

from treering.core.policy import Policy
from treering.ports.ledger import Ledger
from treering.testing.fakes import SteppingClock
from treering.testing.ledger_contract import LedgerContract
from treering.testing.memory_ledger import MemoryLedger


class TestMemoryLedger(LedgerContract, LedgerRules):
    @pytest.fixture
    def open_ledger(self, clock: SteppingClock) -> Callable[..., Ledger]:
        def open_ledger(policy: Policy | None = None) -> Ledger:
            return MemoryLedger(clock=clock, policy=policy)

        return open_ledger
