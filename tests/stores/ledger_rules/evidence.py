"""What knowledge rests on: checked when written, counted once, withdrawn at once."""

import pytest

from treering.core.errors import InvalidPatch
from treering.core.objects import Knowledge, Source
from treering.core.patch import Erase, MoveScope, Supersede, Transition, Update
from treering.ports.ledger import Ledger
from treering.testing.builders import BOB, Builder, author, day
from treering.testing.ledger_contract.evidence import chain
from treering.testing.ledger_contract.stage import LedgerStage, knowledge_of, moving, status_of, updating


class EvidenceRules(LedgerStage):
    """Rules of evidence, duplicates and the cascade."""

    def test_active_knowledge_needs_evidence(self, ledger: Ledger, make: Builder) -> None:
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(make.fact("Ada", "hives", 3, status="active")))
        ledger.commit(make.patch(make.fact("Ada", "hives", 3)))

    def test_what_a_user_declares_is_its_own_evidence(self, ledger: Ledger, make: Builder) -> None:
        fact = make.fact("Ada", "hives", 3, status="active", memory_source="user_declared")
        ledger.commit(make.patch(fact))
        assert ledger.get(fact.id).status == "active"

    def test_what_a_user_declares_from_something_falls_with_it(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has 3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source), memory_source="user_declared")
        known = {"derived_from": (fact.id,), "status": "active", "memory_source": "user_declared"}
        derived = make.relation("Ada", "is", "a beekeeper", **known)
        ledger.commit(make.patch(source, fact, derived))
        assert ledger.commit(make.patch(moving(source.id, 1, "archived"))).staled == (fact.id, derived.id)

    def test_evidence_that_does_not_hold_is_refused(self, ledger: Ledger, make: Builder) -> None:
        source, gone, absent = make.source("Ada has 3 hives."), make.source("Old.", origin="old"), make.source("x")
        ledger.commit(make.patch(source, gone))
        ledger.commit(make.patch(moving(gone.id, 1, "archived")))
        wrong = [
            make.evidence(source, quote_hash="0" * 40),
            make.evidence(source, segment_id="seg_0000000000000"),
            make.evidence(gone),
            make.evidence(absent),
        ]
        for ref in wrong:
            for status in ("active", "candidate"):
                with pytest.raises(InvalidPatch):
                    ledger.commit(make.patch(make.fact("Ada", "hives", 3, ref, status=status)))

    def test_what_holds_elsewhere_or_at_another_time_is_no_duplicate(self, ledger: Ledger, make: Builder) -> None:
        facts = [
            make.relation("Ada", "visited", "Rome"),
            make.relation("Ada", "visited", "Rome", scope="/trip"),
            make.relation("Ada", "visited", "Rome", valid_from=day("2026-01-01")),
        ]
        receipt = ledger.commit(make.patch(*facts))
        assert [result.outcome for result in receipt.results] == ["created"] * 3

    def test_a_candidate_said_again_with_evidence_becomes_active(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has 3 hives.")
        fact = make.fact("Ada", "hives", 3)
        ledger.commit(make.patch(source, fact))
        ledger.commit(make.patch(make.fact("Ada", "hives", 3, make.evidence(source))))
        assert ledger.get(fact.id).status == "active"

    def test_knowledge_with_another_source_stays(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("Ada has 3 hives."), make.source("Three hives.", origin="other.md")
        fact = make.fact("Ada", "hives", 3, make.evidence(one), make.evidence(two))
        ledger.commit(make.patch(one, two, fact))
        assert ledger.commit(make.patch(moving(one.id, 1, "invalid"))).staled == ()
        assert ledger.commit(make.patch(moving(two.id, 1, "archived"))).staled == (fact.id,)

    def test_evidence_against_is_no_support(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has no hives.")
        against = make.evidence(source, role="contradicts")
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(source, make.fact("Ada", "hives", 3, against)))

    def test_what_lost_its_evidence_can_be_reworded_and_keeps_what_is_known_of_it(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source = make.source("Ada has 3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, fact))
        ledger.commit(make.patch(moving(source.id, 1, "archived")))
        refs = knowledge_of(ledger, fact.id).evidence_refs
        ledger.commit(make.patch(updating(fact.id, 2, title="Three hives")))
        stored = knowledge_of(ledger, fact.id)
        assert (stored.status, stored.title, stored.evidence_refs) == ("stale", "Three hives", refs)

    def test_active_knowledge_cannot_give_its_evidence_up(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has 3 hives.")
        fact, guess = make.fact("Ada", "hives", 3, make.evidence(source)), make.fact("Bob", "hives", 3)
        ledger.commit(make.patch(source, fact, guess))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(updating(fact.id, 1, evidence_refs=[])))
        ledger.commit(make.patch(updating(guess.id, 1, title="Perhaps")))

    def test_stale_knowledge_is_active_again_once_verified(self, ledger: Ledger, make: Builder) -> None:
        old, new = make.source("Ada has 3 hives."), make.source("Still 3 hives.", origin="new.md")
        fact = make.fact("Ada", "hives", 3, make.evidence(old))
        ledger.commit(make.patch(old, new, fact))
        ledger.commit(make.patch(moving(old.id, 1, "archived")))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(moving(fact.id, 2, "active")))
        fresh = [ref.model_dump() for ref in (make.evidence(new),)]
        receipt = ledger.commit(make.patch(updating(fact.id, 2, evidence_refs=fresh), moving(fact.id, 2, "active")))
        stored = knowledge_of(ledger, fact.id)
        assert (stored.status, stored.last_verified_at) == ("active", receipt.committed_at)

    def test_a_source_that_comes_back_revives_nothing_by_itself(self, ledger: Ledger, make: Builder) -> None:
        source, fact, _, _ = chain(make)
        ledger.commit(make.patch(source, fact))
        ledger.commit(make.patch(moving(source.id, 1, "invalid")))
        ledger.commit(make.patch(moving(source.id, 2, "active")))
        assert ledger.get(fact.id).status == "stale"
        ledger.commit(make.patch(moving(fact.id, 2, "active")))
        assert ledger.get(fact.id).status == "active"

    def test_archived_knowledge_takes_what_derives_from_it_along(self, ledger: Ledger, make: Builder) -> None:
        source, fact, derived, last = chain(make)
        ledger.commit(make.patch(source, fact, derived, last))
        receipt = ledger.commit(make.patch(moving(fact.id, 1, "archived")))
        assert receipt.staled == (derived.id, last.id)

    def test_circular_derivation_is_no_support(self, ledger: Ledger, make: Builder) -> None:
        source, one, two, _ = chain(make)
        ledger.commit(make.patch(source, one, two))
        ledger.commit(make.patch(updating(one.id, 1, derived_from=[two.id])))
        receipt = ledger.commit(make.patch(moving(source.id, 1, "archived")))
        assert set(receipt.staled) == {one.id, two.id}

    def test_promoting_a_duplicate_to_the_parent_scope_adds_its_evidence_there(
        self, ledger: Ledger, make: Builder
    ) -> None:
        one, two = make.source("3 hives."), make.source("Three hives.", origin="run.md", scope="/run")
        known = make.fact("Ada", "hives", 3, make.evidence(one))
        found = make.fact("Ada", "hives", 3, make.evidence(two), scope="/run")
        ledger.commit(make.patch(one, two, known, found))
        ledger.commit(make.patch(MoveScope(id=found.id, expected_revision=1, to="/")))
        assert len(knowledge_of(ledger, known.id).evidence_refs) == 2
        assert ledger.get(found.id).status == "archived"
        assert ledger.events_of(found.id)[-1].event_type == "merged"

    def test_a_channel_that_only_proposes_cannot_add_belief_by_repeating_it(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source = make.source("Ada has 3 hives.")
        fact = make.fact("Ada", "hives", 3)
        ledger.commit(make.patch(source, fact, by=BOB))
        again = make.fact("Ada", "hives", 3, make.evidence(source), status="candidate")
        ledger.commit(make.patch(again, by=author("adapter")))
        stored = knowledge_of(ledger, fact.id)
        assert (stored.status, len(stored.evidence_refs)) == ("candidate", 1)


class SummaryRules(LedgerStage):
    """What a summary rests on, and what becomes of its versions."""

    def test_a_summary_falls_with_any_part_of_its_evidence(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("Ada has 3 hives."), make.source("Bob has none.", origin="bob.md")
        told = _memory(make, "both", make.evidence(one), make.evidence(two))
        ledger.commit(make.patch(one, two, told))
        receipt = ledger.commit(make.patch(_archive(two)))
        assert receipt.staled == (told.id,)
        assert ledger.get(told.id).status == "stale"

    def test_a_summary_falls_with_any_knowledge_it_tells_of(self, ledger: Ledger, make: Builder) -> None:
        source, memories = _memories(make, 2)
        whole = _version(make, 1, memories)
        ledger.commit(make.patch(source, *memories, whole))
        assert ledger.commit(make.patch(_archive(memories[0]))).staled == (whole.id,)

    def test_a_summary_falls_with_a_memory_that_is_erased(self, ledger: Ledger, make: Builder) -> None:
        source, memories = _memories(make, 2)
        whole = _version(make, 1, memories)
        ledger.commit(make.patch(source, *memories, whole))
        receipt = ledger.commit(make.patch(Erase(id=memories[1].id, expected_revision=1)))
        assert receipt.staled == (whole.id,)

    def test_a_summary_needs_all_its_evidence_to_be_active(self, ledger: Ledger, make: Builder) -> None:
        source, (first, second) = _memories(make, 2)
        ledger.commit(make.patch(source, first, second))
        ledger.commit(make.patch(_archive(first)))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(_version(make, 1, [first, second])))

    def test_a_later_version_rests_on_the_one_it_replaces(self, ledger: Ledger, make: Builder) -> None:
        versions = _versions(ledger, make)
        assert status_of(ledger, *versions) == ["superseded", "superseded", "active"]

    def test_withdrawing_what_an_early_version_mentions_withdraws_that_and_all_later_ones(
        self, ledger: Ledger, make: Builder
    ) -> None:
        versions = _versions(ledger, make)
        second = ledger.dependents(versions[1])[0]
        assert second == versions[2]
        told = ledger.get(versions[1])
        assert isinstance(told, Knowledge)
        memory = ledger.get(told.derived_from[-1])
        receipt = ledger.commit(make.patch(_archive(memory)))
        assert status_of(ledger, *versions) == ["superseded", "archived", "stale"]
        assert receipt.staled == (versions[2],)
        assert ledger.events_of(versions[1])[-1].event_type == "withdrawn"

    def test_an_early_version_stays_while_what_it_mentions_is_read_again_and_holds(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source = make.source("Message 0.", "Message 1.")
        first = _memory(make, "story", make.evidence(source, 0))
        second = _memory(make, "story so far", make.evidence(source, 1), derived_from=(first.id,))
        ledger.commit(make.patch(source, first))
        ledger.commit(make.patch(second, Supersede(id=first.id, expected_revision=1, by=second.id)))
        again = make.segments(source, "Before.", "Message 0.", "Message 1.")
        ledger.commit(make.patch(Update(id=source.id, expected_revision=1, changes={"segments": again})))
        assert status_of(ledger, first.id, second.id) == ["superseded", "active"]

    def test_a_summary_does_not_rest_on_a_memory_that_was_replaced(self, ledger: Ledger, make: Builder) -> None:
        source, (first, second) = _memories(make, 2)
        whole = _version(make, 1, [first])
        ledger.commit(make.patch(source, first, second, whole))
        replaced = Supersede(id=first.id, expected_revision=1, by=second.id)
        ledger.commit(make.patch(replaced))
        condensed = _condensed(make, first)
        assert ledger.get(whole.id).status == "stale"
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(condensed))

    def test_a_summary_cannot_rest_on_itself(self, ledger: Ledger, make: Builder) -> None:
        source, (first, second) = _memories(make, 2)
        whole = _version(make, 1, [first])
        ledger.commit(make.patch(source, first, second, whole))
        for changes in ({"derived_from": [whole.id]}, {"derived_from": [whole.id], "evidence_refs": []}):
            with pytest.raises(InvalidPatch):
                ledger.commit(make.patch(Update(id=first.id, expected_revision=1, changes=changes)))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Update(id=whole.id, expected_revision=1, changes={"derived_from": [whole.id]})))

    def test_knowledge_cannot_rest_on_a_summary_of_it(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has 3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        between = make.relation("Ada", "is", "a beekeeper", status="active", derived_from=(fact.id,))
        whole = _version(make, 1, [between])
        ledger.commit(make.patch(source, fact, between, whole))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Update(id=fact.id, expected_revision=1, changes={"derived_from": [whole.id]})))

    def test_what_derives_from_a_circle_and_carries_more_can_be_reworded(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has 3 hives.")
        one = make.fact("Ada", "hives", 3, make.evidence(source))
        two = make.relation("Ada", "is", "a beekeeper", status="active", derived_from=(one.id,))
        whole = _version(make, 1, [two])
        later = _version(make, 2, [whole])
        ledger.commit(make.patch(source, one, two, whole, later))
        ledger.commit(make.patch(Update(id=one.id, expected_revision=1, changes={"derived_from": [two.id]})))
        ledger.commit(make.patch(Update(id=whole.id, expected_revision=1, changes={"title": "Ada's bees"})))
        assert status_of(ledger, one.id, two.id, whole.id, later.id) == ["active"] * 4

    def test_two_summaries_made_at_once_cannot_carry_each_other(self, ledger: Ledger, make: Builder) -> None:
        one = _memory(make, "one", status="candidate")
        two = _memory(make, "two", status="active", derived_from=(one.id,))
        one = one.model_copy(update={"derived_from": (two.id,)})
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(one, two))

    def test_what_a_person_wrote_outright_is_its_own_evidence(self, ledger: Ledger, make: Builder) -> None:
        told = _memory(make, "by hand", status="active", memory_source="user_declared")
        ledger.commit(make.patch(told))
        assert ledger.get(told.id).status == "active"

    def test_undeclared_knowledge_without_evidence_is_not_active(self, ledger: Ledger, make: Builder) -> None:
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(_memory(make, "from nowhere", status="active")))


def _memory(make: Builder, key: str, *evidence: object, **fields: object) -> Knowledge:
    payload = {"form": "memory", "key": key}
    return make.knowledge("summary", payload, *evidence, **fields)  # type: ignore[arg-type]  # as the builder takes them


def _memories(make: Builder, count: int) -> tuple[Source, list[Knowledge]]:
    source = make.source(*(f"Message {number}." for number in range(count)))
    return source, [_memory(make, f"memory {number}", make.evidence(source, number)) for number in range(count)]


def _version(make: Builder, number: int, parents: list[Knowledge]) -> Knowledge:
    payload = {"form": "rolling_summary", "key": str(number)}
    derived = tuple(parent.id for parent in parents)
    return make.knowledge("summary", payload, status="active", derived_from=derived)


def _condensed(make: Builder, parent: Knowledge) -> Knowledge:
    payload = {"form": "condensation", "key": "condensed"}
    return make.knowledge("summary", payload, status="active", derived_from=(parent.id,))


def _versions(ledger: Ledger, make: Builder) -> list[str]:
    """Write three versions, each with one more memory; return their ids."""
    source, memories = _memories(make, 3)
    ledger.commit(make.patch(source, *memories))
    versions: list[Knowledge] = []
    for number, memory in enumerate(memories):
        version = _version(make, number, [*versions[-1:], memory])
        replacing = [Supersede(id=one.id, expected_revision=1, by=version.id) for one in versions[-1:]]
        ledger.commit(make.patch(version, *replacing))
        versions.append(version)
    return [version.id for version in versions]


def _archive(item: object) -> Transition:
    assert isinstance(item, Source | Knowledge)
    return Transition(id=item.id, expected_revision=item.revision, to="archived")
