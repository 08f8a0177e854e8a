import pytest

from treering.core.errors import Defect
from treering.core.patch import Transition, Update
from treering.core.policy import WITHDRAWN_BY_CASCADE
from treering.core.writing import integrity
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.testing.memory_ledger import MemoryLedger


@pytest.fixture
def make():
    return Builder(SteppingClock())


@pytest.fixture
def ledger():
    return MemoryLedger(clock=SteppingClock())


def test_a_comparison_that_contests_and_frees_in_turn_is_our_fault_and_ends(make, ledger, monkeypatch):
    known, rival = make.fact("Ada", "hives", 3), make.fact("Ada", "hives", 4)
    ledger.commit(make.patch(known))
    rightly = integrity.contradict
    monkeypatch.setattr(integrity, "contradict", lambda one, other: one.status != "contested" and rightly(one, other))
    with pytest.raises(Defect) as caught:
        ledger.commit(make.patch(rival))
    assert set(caught.value.details["ids"]) == {known.id, rival.id}
    assert "bug in Treering" in caught.value.hint
    assert ledger.sequence() == 1


def test_a_cascade_that_withdraws_the_same_again_is_our_fault_and_ends(make, ledger, monkeypatch):
    source = make.source("3 hives.")
    first = make.fact("Ada", "hives", 3, make.evidence(source))
    second = make.fact("Otto", "hives", 3, derived_from=(first.id,))
    ledger.commit(make.patch(source, first, second))
    ledger.commit(make.patch(Update(id=first.id, expected_revision=1, changes={"derived_from": [second.id]})))
    monkeypatch.setattr(integrity, "WITHDRAWN_BY_CASCADE", WITHDRAWN_BY_CASCADE | {"stale"})
    with pytest.raises(Defect) as caught:
        ledger.commit(make.patch(Transition(id=source.id, expected_revision=1, to="archived")))
    assert set(caught.value.details["ids"]) == {first.id, second.id}


def test_one_patch_may_change_an_object_as_often_as_it_says(make, ledger):
    node = make.node("Hive")
    changes = [Update(id=node.id, expected_revision=1, changes={"summary": f"{n}"}) for n in range(1, 100)]
    ledger.commit(make.patch(node))
    ledger.commit(make.patch(*changes))
    assert ledger.get(node.id).revision == 100


def test_the_fall_of_one_source_takes_any_number_with_it(make, ledger):
    source = make.source("3 hives.")
    facts = [make.fact(f"Ada {n}", "hives", 3, make.evidence(source)) for n in range(100)]
    ledger.commit(make.patch(source, *facts))
    receipt = ledger.commit(make.patch(Transition(id=source.id, expected_revision=1, to="archived")))
    assert len(receipt.staled) == 100
