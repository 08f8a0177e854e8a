"""Rules of work items: their order, their family, and how they end."""

import pytest

from treering.core.errors import InvalidInput, InvalidPatch
from treering.core.patch import FIELDS, Transition
from treering.ports.ledger import Ledger, Record
from treering.testing.builders import Builder
from treering.testing.ledger_contract.stage import LedgerStage, updating, work_of


class WorkRules(LedgerStage):
    """Rules of work items."""

    def test_work_cannot_be_its_own_ancestor(self, ledger: Ledger, make: Builder) -> None:
        parent = make.work("Parent")
        child = make.work("Child", parent_ref=parent.id)
        ledger.commit(make.patch(parent, child))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(updating(parent.id, 2, parent_ref=child.id)))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(updating(child.id, 1, parent_ref=child.id)))

    def test_a_cycle_within_one_patch_is_refused(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.work("One"), make.work("Two")
        tied = [item.model_copy(update={"depends_on": (other.id,)}) for item, other in ((one, two), (two, one))]
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(*tied))

    def test_resolved_work_says_what_resolved_it(self, ledger: Ledger, make: Builder) -> None:
        item = make.work("Buy smoke")
        ledger.commit(make.patch(item))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Transition(id=item.id, expected_revision=1, to="resolved")))
        done = Transition(id=item.id, expected_revision=1, to="resolved", resolution="Bought.")
        ledger.commit(make.patch(done))
        assert work_of(ledger, item.id).resolution == "Bought."

    def test_a_resolution_may_come_before_the_end_and_stays(self, ledger: Ledger, make: Builder) -> None:
        item = make.work("Buy smoke")
        ledger.commit(make.patch(item))
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=1, to="in_progress", resolution="Ordered.")))
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=2, to="blocked")))
        assert work_of(ledger, item.id).resolution == "Ordered."
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=3, to="in_progress")))
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=4, to="resolved")))
        assert work_of(ledger, item.id).resolution == "Ordered."

    def test_a_resolution_that_is_too_long_is_refused_by_name(self, ledger: Ledger, make: Builder) -> None:
        item = make.work("Buy smoke")
        ledger.commit(make.patch(item))
        long = Transition(id=item.id, expected_revision=1, to="resolved", resolution="x" * (FIELDS["resolution"] + 1))
        with pytest.raises(InvalidInput) as refused:
            ledger.commit(make.patch(long))
        assert refused.value.details["fields"][0]["field"] == "resolution"

    def test_closed_work_can_be_reopened(self, ledger: Ledger, make: Builder) -> None:
        item = make.work("Buy smoke")
        ledger.commit(make.patch(item))
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=1, to="resolved", resolution="Bought.")))
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=2, to="closed")))
        ledger.commit(make.patch(Transition(id=item.id, expected_revision=3, to="open")))
        assert ledger.get(item.id).status == "open"

    def test_work_knows_when_it_was_opened(self, ledger: Ledger, make: Builder) -> None:
        item = make.work("Buy smoke")
        receipt = ledger.commit(make.patch(item))
        assert work_of(ledger, item.id).opened_at == receipt.committed_at


Rows = list[Record]
