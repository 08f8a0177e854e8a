"""The fixtures that the parts of the contract share."""

from typing import Protocol, TypeVar

import pytest

from treering.core.canonical import canonical_json
from treering.core.objects import Knowledge, Node, Source, WorkItem
from treering.core.patch import Erase, Transition, Update
from treering.core.policy import Policy
from treering.ports.ledger import Ledger, Selection
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock

_Item = TypeVar("_Item", Source, Knowledge, Node, WorkItem)


class OpenLedger(Protocol):
    """Opens a new, empty ledger with the clock of the test. Its fixture closes it."""

    def __call__(self, policy: Policy | None = None) -> Ledger: ...


class LedgerStage:
    """A ledger, its clock and a builder. A subclass gives `open_ledger`."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    @pytest.fixture
    def make(self, clock: SteppingClock) -> Builder:
        return Builder(clock)

    @pytest.fixture
    def ledger(self, open_ledger: OpenLedger) -> Ledger:
        return open_ledger()


def contents(ledger: Ledger) -> list[str]:
    """Return everything the ledger holds, as texts that can be compared and searched."""
    return [canonical_json([record.table, dict(record.row)]) for record in ledger.records()]


def source_of(ledger: Ledger, identity: str) -> Source:
    """Read a source."""
    return _read(ledger, identity, Source)


def knowledge_of(ledger: Ledger, identity: str) -> Knowledge:
    """Read a piece of knowledge."""
    return _read(ledger, identity, Knowledge)


def node_of(ledger: Ledger, identity: str) -> Node:
    """Read a node."""
    return _read(ledger, identity, Node)


def work_of(ledger: Ledger, identity: str) -> WorkItem:
    """Read a work item."""
    return _read(ledger, identity, WorkItem)


def _read(ledger: Ledger, identity: str, wanted: type[_Item]) -> _Item:
    item = ledger.get(identity)
    assert isinstance(item, wanted)
    return item


def status_of(ledger: Ledger, *identities: str) -> list[str]:
    """Return the statuses of objects, in the order asked."""
    return [ledger.get(identity).status for identity in identities]


def updating(identity: str, revision: int = 1, /, **changes: object) -> Update:
    """Return the operation that changes fields of an object."""
    return Update(id=identity, expected_revision=revision, changes=changes)


def moving(identity: str, revision: int, to: str) -> Transition:
    """Return the operation that changes the status of an object."""
    return Transition(id=identity, expected_revision=revision, to=to)


def erasing(identity: str, revision: int = 1) -> Erase:
    """Return the operation that erases an object."""
    return Erase(id=identity, expected_revision=revision)


def selected(ledger: Ledger, selection: Selection) -> list[str]:
    """Return the ids of the objects of a selection, in its order."""
    return [item.id for item in ledger.select(selection)]
