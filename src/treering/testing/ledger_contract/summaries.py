"""Summaries: they hold only while everything they tell of does."""

import pytest

from treering.core.errors import InvalidPatch
from treering.core.objects import Knowledge, Source
from treering.core.patch import Erase, Supersede, Transition, Update
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder
from treering.testing.ledger_contract.stage import LedgerStage, status_of


class Summaries(LedgerStage):
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

    def test_withdrawing_what_an_early_version_tells_of_withdraws_that_and_all_later_ones(
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

    def test_an_early_version_stays_while_what_it_tells_of_is_read_anew_and_holds(
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

    def test_what_nobody_declared_and_nothing_supports_is_not_active(self, ledger: Ledger, make: Builder) -> None:
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
