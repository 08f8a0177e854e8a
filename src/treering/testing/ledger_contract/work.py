"""Work items: their order, their family, and how they end."""

import pytest

from treering.core.errors import InvalidInput, InvalidPatch
from treering.core.lengths import FIELDS
from treering.core.patch import Transition, Update
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder
from treering.testing.ledger_contract.stage import LedgerStage, work_of


class Work(LedgerStage):
    """Rules of work items."""

    def test_work_that_waits_on_itself_is_refused_and_the_cycle_printed(self, ledger: Ledger, make: Builder) -> None:
        one = make.work("One")
        two = make.work("Two", depends_on=(one.id,))
        three = make.work("Three", depends_on=(two.id,))
        ledger.commit(make.patch(one, two, three))
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(_update(one.id, 1, depends_on=[three.id])))
        assert f"{one.id} -> {three.id} -> {two.id} -> {one.id}" in refused.value.message

    def test_work_cannot_be_its_own_ancestor(self, ledger: Ledger, make: Builder) -> None:
        parent = make.work("Parent")
        child = make.work("Child", parent_ref=parent.id)
        ledger.commit(make.patch(parent, child))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(_update(parent.id, 2, parent_ref=child.id)))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(_update(child.id, 1, parent_ref=child.id)))

    def test_a_cycle_within_one_patch_is_refused(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.work("One"), make.work("Two")
        tied = [item.model_copy(update={"depends_on": (other.id,)}) for item, other in ((one, two), (two, one))]
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(*tied))

    def test_a_parent_knows_its_children(self, ledger: Ledger, make: Builder) -> None:
        old, new = make.work("Old parent"), make.work("New parent")
        child = make.work("Child", parent_ref=old.id)
        ledger.commit(make.patch(old, new, child))
        assert work_of(ledger, old.id).child_refs == (child.id,)
        ledger.commit(make.patch(_update(child.id, 1, parent_ref=new.id)))
        assert work_of(ledger, old.id).child_refs == ()
        assert work_of(ledger, new.id).child_refs == (child.id,)

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


def _update(identity: str, revision: int, **changes: object) -> Update:
    return Update(id=identity, expected_revision=revision, changes=changes)
