"""Claims that cannot both hold."""

from typing import Any

import pytest

from treering.core.errors import IllegalTransition, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.objects import Knowledge
from treering.core.patch import Supersede, Update
from treering.core.policy import Policy
from treering.ports.ledger import Ledger
from treering.testing.builders import ADA, Builder, day
from treering.testing.ledger_contract.claims import contest, two_years
from treering.testing.ledger_contract.stage import LedgerStage, OpenLedger, knowledge_of, moving, status_of


class ClaimRules(LedgerStage):
    """Contradiction, supersession and their resolution."""

    def test_likeness_of_text_invalidates_nothing(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada visited Rome and Roma.")
        facts = [
            make.relation("Ada", "visited", "Rome", make.evidence(source)),
            make.relation("Ada", "visited", "Roma", make.evidence(source)),
            make.fact("Ada", "hives", 3, make.evidence(source)),
            make.fact("Ada B.", "hives", 4, make.evidence(source)),
            make.fact("Ada", "hives", 4, make.evidence(source), scope="/other"),
        ]
        ledger.commit(make.patch(source, *facts))
        assert status_of(ledger, *(fact.id for fact in facts)) == ["active"] * 5

    def test_a_functional_relation_has_one_object_at_a_time(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.relation("Ada", "lives in", "Rome"), make.relation("Ada", "Lives_in", "Paris")
        receipt = ledger.commit(make.patch(one, make.relation("Ada", "lives in", "rome "), two))
        assert set(receipt.contested) == {one.id, two.id}

    def test_values_of_different_times_do_not_contradict(self, ledger: Ledger, make: Builder) -> None:
        one = make.fact("Ada", "hives", 3, valid_until=day("2026-01-01"))
        two = make.fact("Ada", "hives", 4, valid_from=day("2026-01-01"))
        receipt = ledger.commit(make.patch(one, two))
        assert receipt.contested == ()

    def test_an_older_claim_that_arrives_late_does_not_win(self, ledger: Ledger, make: Builder) -> None:
        source, old, new = two_years(make)
        ledger.commit(make.patch(source, new))
        ledger.commit(make.patch(old))
        assert status_of(ledger, old.id, new.id) == ["superseded", "active"]

    def test_a_newer_candidate_of_the_same_source_supersedes_nothing(self, ledger: Ledger, make: Builder) -> None:
        source, old, new = two_years(make)
        ledger.commit(make.patch(source, old))
        ledger.commit(make.patch(new.model_copy(update={"status": "candidate"})))
        assert status_of(ledger, old.id, new.id) == ["contested", "contested"]

    def test_a_newer_claim_supersedes_a_contested_one_of_the_same_source(self, ledger: Ledger, make: Builder) -> None:
        source, old, new = two_years(make)
        other = make.source("5 hives in 2025.", origin="other.md")
        rival = make.fact("Ada", "hives", 5, make.evidence(other), valid_until=day("2026-01-01"))
        ledger.commit(make.patch(source, other, old, rival))
        assert status_of(ledger, old.id, rival.id) == ["contested", "contested"]
        ledger.commit(make.patch(new))
        assert status_of(ledger, old.id, rival.id, new.id) == ["superseded", "active", "active"]

    def test_a_newer_claim_of_another_source_contests(self, ledger: Ledger, make: Builder) -> None:
        source, old, _ = two_years(make)
        other = make.source("4 hives.", origin="other.md")
        new = make.fact("Ada", "hives", 4, make.evidence(other), valid_from=day("2026-01-01"))
        ledger.commit(make.patch(source, other, old, new))
        assert status_of(ledger, old.id, new.id) == ["contested", "contested"]

    @pytest.mark.parametrize("status", ["active", "candidate"])
    def test_candidate_without_evidence_contests_no_supported_claim(
        self, ledger: Ledger, make: Builder, status: str
    ) -> None:
        source = make.source("3 hives.")
        known, proposal = (
            make.fact("Ada", "hives", 3, make.evidence(source), status=status),
            make.fact("Ada", "hives", 4),
        )
        receipt = ledger.commit(make.patch(source, proposal, known))
        assert (receipt.contested, status_of(ledger, known.id, proposal.id)) == ((), [status, "candidate"])

    def test_candidate_that_gets_evidence_contests_a_supported_claim(self, ledger: Ledger, make: Builder) -> None:
        source, other = make.source("3 hives."), make.source("4 hives.", origin="other.md")
        known, proposal = make.fact("Ada", "hives", 3, make.evidence(source)), make.fact("Ada", "hives", 4)
        ledger.commit(make.patch(source, other, known, proposal))
        evidence = {"evidence_refs": [make.evidence(other)]}
        ledger.commit(make.patch(Update(id=proposal.id, expected_revision=1, changes=evidence)))
        assert status_of(ledger, known.id, proposal.id) == ["contested", "contested"]

    def test_claim_is_free_of_proposals_when_its_evidence_arrives(self, ledger: Ledger, make: Builder) -> None:
        source, one, two = make.source("3 hives."), make.fact("Ada", "hives", 3), make.fact("Ada", "hives", 4)
        ledger.commit(make.patch(source, one, two))
        assert status_of(ledger, one.id, two.id) == ["contested", "contested"]
        evidence = {"evidence_refs": [make.evidence(source)]}
        ledger.commit(make.patch(Update(id=one.id, expected_revision=2, changes=evidence)))
        assert status_of(ledger, one.id, two.id) == ["candidate", "candidate"]

    def test_a_space_may_want_every_contradiction_contested(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger(Policy(newer_supersedes=False))
        source, old, new = two_years(make)
        ledger.commit(make.patch(source, old, new))
        assert status_of(ledger, old.id, new.id) == ["contested", "contested"]

    def test_naming_the_winner_resolves_and_can_be_reverted(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        settled = ledger.commit(make.patch(Supersede(id=one.id, expected_revision=2, by=two.id)))
        assert status_of(ledger, one.id, two.id) == ["superseded", "active"]
        ledger.revert(settled.patch_id, by=ADA, reason="Too early.")
        assert status_of(ledger, one.id, two.id) == ["contested", "contested"]
        assert list(ledger.links(one.id)) == []

    def test_the_winner_that_nothing_contradicts_any_more_is_verified_now(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        settled = ledger.commit(make.patch(Supersede(id=one.id, expected_revision=2, by=two.id)))
        assert knowledge_of(ledger, two.id).last_verified_at == settled.committed_at
        assert [ledger.events_of(claim.id)[-1].event_type for claim in (one, two)] == ["superseded", "settled"]

    def test_only_knowledge_supersedes_knowledge(self, ledger: Ledger, make: Builder) -> None:
        node, fact = make.node("Hive"), make.fact("Ada", "hives", 3)
        ledger.commit(make.patch(node, fact))
        for one, other in ((fact, node), (node, fact)):
            with pytest.raises(InvalidPatch, match="must be knowledge"):
                ledger.commit(make.patch(Supersede(id=one.id, expected_revision=1, by=other.id)))

    def test_a_contested_claim_cannot_be_activated_over_its_rival(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(moving(one.id, 2, "active")))
        assert refused.value.details["rivals"] == [two.id]

    def test_a_contested_claim_is_activated_in_the_patch_that_removes_its_rival(
        self, ledger: Ledger, make: Builder
    ) -> None:
        _, one, two = contest(ledger, make)
        ledger.commit(make.patch(moving(two.id, 2, "archived"), moving(one.id, 2, "active")))
        assert status_of(ledger, one.id, two.id) == ["active", "archived"]

    def test_an_archived_claim_that_comes_back_contests_what_took_its_place(
        self, ledger: Ledger, make: Builder
    ) -> None:
        _, one, two = contest(ledger, make)
        ledger.commit(make.patch(moving(two.id, 2, "archived")))
        ledger.commit(make.patch(moving(two.id, 3, "active")))
        assert status_of(ledger, one.id, two.id) == ["contested", "contested"]

    def test_a_claim_is_free_when_its_rival_is_gone(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        ledger.commit(make.patch(moving(two.id, 2, "archived")))
        assert status_of(ledger, one.id, two.id) == ["active", "archived"]

    def test_a_claim_that_was_never_verified_is_a_candidate_when_it_is_free(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source, other = make.source("3 hives."), make.source("4 hives.", origin="other.md")
        one = make.fact("Ada", "hives", 3, make.evidence(source), status="candidate")
        two = make.fact("Ada", "hives", 4, make.evidence(other))
        ledger.commit(make.patch(source, other, one, two))
        assert status_of(ledger, one.id, two.id) == ["contested", "contested"]
        ledger.commit(make.patch(moving(two.id, 2, "archived")))
        assert status_of(ledger, one.id, two.id) == ["candidate", "archived"]
        assert ledger.events_of(one.id)[-1].event_type == "settled"

    def test_a_claim_is_free_when_its_rival_loses_its_evidence(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        (ref,) = knowledge_of(ledger, two.id).evidence_refs
        ledger.commit(make.patch(moving(ref.source_id, 1, "archived")))
        assert status_of(ledger, one.id, two.id) == ["active", "stale"]

    def test_a_claim_corrected_to_agree_is_free(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        agreed = {"subject": "Ada", "predicate": "hives", "value": 3}
        ledger.commit(make.patch(Update(id=two.id, expected_revision=2, changes={"payload": agreed})))
        assert ledger.get(one.id).status == "active"

    def test_knowledge_is_superseded_only_by_naming_its_successor(self, ledger: Ledger, make: Builder) -> None:
        source, old, new = two_years(make)
        later = new.model_copy(update={"valid_from": None, "payload": old.payload, "title": "x", "scope": "/b"})
        candidate = make.fact("Ada", "bees", 9)
        ledger.commit(make.patch(source, old, later, candidate))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(moving(old.id, 1, "superseded")))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Supersede(id=old.id, expected_revision=1, by=candidate.id)))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Supersede(id=old.id, expected_revision=1, by=old.id)))
        ledger.commit(make.patch(Supersede(id=old.id, expected_revision=1, by=later.id)))
        with pytest.raises(IllegalTransition):
            ledger.commit(make.patch(moving(old.id, 2, "active")))

    def test_two_decisions_on_one_question_contest_each_other(self, ledger: Ledger, make: Builder) -> None:
        left, right = make.source("We take SQLite."), make.source("We take Postgres.", origin="other.md")
        one = _decision(make, "Which store?", "SQLite", make.evidence(left))
        two = _decision(make, "which  store", "Postgres", make.evidence(right))
        receipt = ledger.commit(make.patch(left, right, one, two))
        assert set(receipt.contested) == {one.id, two.id}
        ledger.commit(make.patch(Supersede(id=one.id, expected_revision=2, by=two.id)))
        assert status_of(ledger, one.id, two.id) == ["superseded", "active"]

    def test_decisions_that_agree_ask_otherwise_or_are_open_do_not_contradict(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source = make.source("We take SQLite.")
        given = (
            ("Which store?", "SQLite"),
            ("Which store?", "sqlite "),
            ("Which store?", ""),
            ("Which queue?", "Redis"),
        )
        decisions = [
            _decision(make, question, outcome, make.evidence(source), title=f"{place}")
            for place, (question, outcome) in enumerate(given)
        ]
        other = _decision(make, "Which store?", "Postgres", make.evidence(source), scope="/other")
        receipt = ledger.commit(make.patch(source, *decisions, other))
        assert receipt.contested == ()

    def test_what_someone_contests_stays_contested_until_it_is_settled(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, fact))
        ledger.commit(make.patch(moving(fact.id, 1, "contested")))
        assert status_of(ledger, fact.id) == ["contested"]
        ledger.commit(make.patch(Update(id=fact.id, expected_revision=2, changes={"summary": "Counted in May."})))
        assert status_of(ledger, fact.id) == ["contested"]
        ledger.commit(make.patch(moving(fact.id, 3, "active")))
        assert status_of(ledger, fact.id) == ["active"]
        assert not knowledge_of(ledger, fact.id).disputed

    def test_a_dispute_outlives_a_rival(self, ledger: Ledger, make: Builder) -> None:
        left, right = make.source("3 hives."), make.source("4 hives.", origin="other.md")
        one = make.fact("Ada", "hives", 3, make.evidence(left))
        two = make.fact("Ada", "hives", 4, make.evidence(right))
        ledger.commit(make.patch(left, right, one))
        ledger.commit(make.patch(moving(one.id, 1, "contested")))
        ledger.commit(make.patch(two))
        ledger.commit(make.patch(moving(two.id, 2, "archived")))
        assert status_of(ledger, one.id, two.id) == ["contested", "archived"]

    def test_evidence_against_knowledge_contests_it_until_it_is_settled(self, ledger: Ledger, make: Builder) -> None:
        source, against = make.source("3 hives."), make.source("There is no hive.", origin="other.md")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, against, fact))
        refs = [*knowledge_of(ledger, fact.id).evidence_refs, make.evidence(against, role="contradicts")]
        receipt = ledger.commit(make.patch(Update(id=fact.id, expected_revision=1, changes={"evidence_refs": refs})))
        assert receipt.contested == (fact.id,)
        ledger.commit(make.patch(moving(fact.id, 3, "active")))
        ledger.commit(make.patch(Update(id=fact.id, expected_revision=4, changes={"summary": "Counted."})))
        assert status_of(ledger, fact.id) == ["active"]

    def test_the_same_knowledge_with_evidence_against_it_contests_what_is_known(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source, against = make.source("3 hives."), make.source("There is no hive.", origin="other.md")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, against, fact))
        again = make.fact("Ada", "hives", 3, make.evidence(against, role="contradicts"), status="candidate")
        assert ledger.commit(make.patch(again)).contested == (fact.id,)
        assert knowledge_of(ledger, fact.id).disputed

    def test_a_dispute_is_no_field_to_update(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source), disputed=True)
        ledger.commit(make.patch(source, fact))
        assert status_of(ledger, fact.id) == ["active"]
        with pytest.raises(InvalidPatch, match="disputed"):
            ledger.commit(make.patch(Update(id=fact.id, expected_revision=1, changes={"disputed": True})))

    def test_a_claim_that_won_over_one_rival_stays_contested_by_another(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        third = make.source("5 hives.", origin="third.md")
        three = make.fact("Ada", "hives", 5, make.evidence(third))
        ledger.commit(make.patch(third, three))
        ledger.commit(make.patch(Supersede(id=one.id, expected_revision=2, by=two.id)))
        assert status_of(ledger, one.id, two.id, three.id) == ["superseded", "contested", "contested"]

    def test_a_claim_without_evidence_does_not_win(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.relation("Ada", "lives in", "Rome"), make.relation("Ada", "lives in", "Paris")
        ledger.commit(make.patch(one, two))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Supersede(id=one.id, expected_revision=2, by=two.id)))

    def test_what_was_put_away_is_not_superseded(self, ledger: Ledger, make: Builder) -> None:
        _, one, two = contest(ledger, make)
        ledger.commit(make.patch(moving(one.id, 2, "archived")))
        with pytest.raises(IllegalTransition):
            ledger.commit(make.patch(Supersede(id=one.id, expected_revision=3, by=two.id)))

    def test_what_derives_from_superseded_knowledge_becomes_stale(self, ledger: Ledger, make: Builder) -> None:
        source, old, new = two_years(make)
        derived = make.relation("Ada", "is", "a beekeeper", status="active", derived_from=(old.id,))
        ledger.commit(make.patch(source, old, derived))
        receipt = ledger.commit(make.patch(new))
        assert receipt.staled == (derived.id,)


def _decision(make: Builder, question: str, outcome: str, *evidence: EvidenceRef, **fields: Any) -> Knowledge:
    return make.knowledge("decision", {"question": question, "outcome": outcome}, *evidence, **fields)
