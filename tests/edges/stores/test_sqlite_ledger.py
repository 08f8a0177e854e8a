from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treering.core.policy import Policy
from treering.edges.stores.sqlite.database import MEMORY, Database
from treering.edges.stores.sqlite.ledger import SqliteLedger
from treering.ports.ledger import Ledger
from treering.testing.clocks import SteppingClock
from treering.testing.ledger_contract import LedgerContract

OpenLedger = Callable[..., Ledger]


class TestSqliteLedgerOnAFile(LedgerContract):
    @pytest.fixture
    def open_ledger(self, clock: SteppingClock, tmp_path: Path) -> Iterator[OpenLedger]:
        opened: list[Ledger] = []

        def open_ledger(policy: Policy | None = None) -> Ledger:
            database = Database(str(tmp_path / f"space-{len(opened)}.db"))
            opened.append(SqliteLedger(database, clock=clock, policy=policy))
            return opened[-1]

        yield open_ledger
        for ledger in opened:
            ledger.close()


class TestSqliteLedgerInMemory(LedgerContract):
    @pytest.fixture
    def open_ledger(self, clock: SteppingClock) -> Iterator[OpenLedger]:
        opened: list[Ledger] = []

        def open_ledger(policy: Policy | None = None) -> Ledger:
            opened.append(SqliteLedger(Database(MEMORY), clock=clock, policy=policy))
            return opened[-1]

        yield open_ledger
        for ledger in opened:
            ledger.close()
