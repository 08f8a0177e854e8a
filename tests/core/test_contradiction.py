import pytest

from treering.core.policy import Policy
from treering.testing.builders import Builder, day
from treering.testing.fakes import SteppingClock
from treering.testing.memory_ledger import MemoryLedger


@pytest.fixture
def make():
    return Builder(SteppingClock())


@pytest.fixture
def ledger():
    return MemoryLedger(clock=SteppingClock())


def test_a_claim_with_several_rivals_gets_each_revision_once(make, ledger):
    source = make.source("Ada keeps bees.")
    quote = make.evidence(source)
    open_ended = make.fact("Ada", "hives", 0)
    later = make.fact("Ada", "hives", 0, quote, valid_from=day("2026-01-01"), status="active")
    earlier = make.fact("Ada", "hives", 1, quote, valid_from=day("2025-01-01"), status="active")
    ledger.commit(make.patch(source))
    for claim in (open_ended, later, earlier):
        ledger.commit(make.patch(claim))
    assert [ledger.get(claim.id).status for claim in (open_ended, later, earlier)] == [
        "candidate",
        "active",
        "superseded",
    ]
    assert ledger.verify()


def test_what_contradicts_after_the_newer_has_superseded_is_contested_once(make, ledger):
    source = make.source("Ada keeps bees.")
    quote = make.evidence(source)
    first = make.fact("Ada", "hives", 1, quote, valid_from=day("2025-01-01"), status="active")
    undated = make.fact("Ada", "hives", 2, quote, status="active")
    newest = make.fact("Ada", "hives", 3, quote, valid_from=day("2026-01-01"), status="active")
    ledger.commit(make.patch(source))
    ledger.commit(make.patch(first))
    contested = ledger.commit(make.patch(undated)).contested
    assert set(contested) == {first.id, undated.id}
    ledger.commit(make.patch(newest))
    assert ledger.get(newest.id).status == "contested"
    assert [item.revision for item in ledger.history(newest.id)] == [1, 2]
    assert ledger.verify()


def test_unverified_claim_is_contested_by_a_newer_one(make, ledger):
    source = make.source("Ada keeps bees.")
    quote = make.evidence(source)
    proposed = make.fact("Ada", "hives", 1, quote, valid_from=day("2025-01-01"), status="candidate")
    believed = make.fact("Ada", "hives", 2, quote, valid_from=day("2026-01-01"), status="active")
    ledger.commit(make.patch(source, proposed))
    assert set(ledger.commit(make.patch(believed)).contested) == {proposed.id, believed.id}
    assert [ledger.get(claim.id).status for claim in (proposed, believed)] == ["contested", "contested"]


def test_a_policy_may_keep_the_newer_from_superseding(make):
    ledger = MemoryLedger(clock=SteppingClock(), policy=Policy(newer_supersedes=False))
    source = make.source("Ada keeps bees.")
    quote = make.evidence(source)
    older = make.fact("Ada", "hives", 1, quote, valid_from=day("2025-01-01"), status="active")
    newer = make.fact("Ada", "hives", 2, quote, valid_from=day("2026-01-01"), status="active")
    ledger.commit(make.patch(source, older))
    ledger.commit(make.patch(newer))
    assert [ledger.get(claim.id).status for claim in (older, newer)] == ["contested", "contested"]
