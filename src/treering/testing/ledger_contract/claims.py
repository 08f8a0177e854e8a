"""Claims that cannot both hold."""

from treering.core.objects import Knowledge, Source
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder, day
from treering.testing.ledger_contract.stage import LedgerStage, status_of


class Claims(LedgerStage):
    """Contradiction, supersession and their resolution."""

    def test_two_values_for_one_thing_contest_each_other(self, ledger: Ledger, make: Builder) -> None:
        receipt, one, two = contest(ledger, make)
        assert status_of(ledger, one.id, two.id) == ["contested", "contested"]
        assert set(receipt) == {one.id, two.id}

    def test_a_newer_claim_of_the_same_source_supersedes(self, ledger: Ledger, make: Builder) -> None:
        source, old, new = two_years(make)
        ledger.commit(make.patch(source, old))
        ledger.commit(make.patch(new))
        assert status_of(ledger, old.id, new.id) == ["superseded", "active"]
        (link,) = ledger.links(old.id)
        assert (link.type, link.source, link.target) == ("supersedes", new.id, old.id)


def two_years(make: Builder) -> tuple[Source, Knowledge, Knowledge]:
    """Return a source with one claim for each of two years, and the claims."""
    source = make.source("3 hives in 2025.", "4 hives in 2026.")
    old = make.fact("Ada", "hives", 3, make.evidence(source, 0), valid_from=day("2025-01-01"))
    new = make.fact("Ada", "hives", 4, make.evidence(source, 1), valid_from=day("2026-01-01"))
    return source, old, new


def contest(ledger: Ledger, make: Builder) -> tuple[tuple[str, ...], Knowledge, Knowledge]:
    """Commit two claims that contradict each other; return the ids reported as contested, and the claims."""
    left, right = make.source("3 hives."), make.source("4 hives.", origin="other.md")
    one = make.fact("Ada", "hives", 3, make.evidence(left))
    two = make.fact("Ada", "hives", 4, make.evidence(right))
    ledger.commit(make.patch(left, right, one))
    return ledger.commit(make.patch(two)).contested, one, two
