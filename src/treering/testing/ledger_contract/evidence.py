"""Evidence of knowledge: checked when written, counted once, withdrawn immediately."""

from typing import Any

from treering.core.objects import Source
from treering.core.patch import AddLink, Link, Merge, RemoveLink
from treering.ports.ledger import Ledger, ObjectRequest
from treering.testing.builders import Builder
from treering.testing.ledger_contract.stage import LedgerStage, erasing, knowledge_of, moving, status_of, updating


class Evidence(LedgerStage):
    """Rules of evidence, duplicates and the cascade."""

    def test_evidence_takes_the_hash_of_its_segment(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada has 3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        receipt = ledger.commit(make.patch(source, fact))
        stored = knowledge_of(ledger, fact.id)
        assert stored.evidence_refs[0].quote_hash == source.segments[0].hash
        assert stored.evidence_refs[0].verified_at == stored.last_verified_at == receipt.committed_at

    def test_an_exact_duplicate_is_merged_and_its_evidence_added(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("Ada has 3 hives."), make.source("Three hives: Ada's.", origin="other.md")
        fact = make.fact("Ada", "keeps", "bees", make.evidence(one))
        twin = make.fact("ADA ", "keeps", " Bees", make.evidence(two))
        ledger.commit(make.patch(one, two, fact))
        receipt = ledger.commit(make.patch(twin))
        assert (receipt.results[0].outcome, receipt.results[0].id) == ("duplicate", fact.id)
        assert [ref.source_id for ref in knowledge_of(ledger, fact.id).evidence_refs] == [one.id, two.id]
        same = ledger.commit(make.patch(make.fact("Ada", "keeps", "bees", make.evidence(two))))
        assert (same.results[0].revision, same.sequence) == (2, receipt.sequence)

    def test_withdrawn_evidence_makes_dependents_stale_transitively_in_the_same_patch(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source, fact, derived, last = chain(make)
        ledger.commit(make.patch(source, fact, derived, last))
        receipt = ledger.commit(make.patch(moving(source.id, 1, "archived")))
        assert status_of(ledger, fact.id, derived.id, last.id) == ["stale"] * 3
        assert list(receipt.staled) == [fact.id, derived.id, last.id]
        assert {event.patch_id for event in ledger.events(after=4)} == {receipt.patch_id}

    def test_a_segment_that_vanishes_takes_its_support_along_and_one_that_moves_does_not(
        self, ledger: Ledger, make: Builder
    ) -> None:
        source = make.source("Ada has 3 hives.", "Bob has none.")
        kept = make.fact("Ada", "hives", 3, make.evidence(source, 0))
        lost = make.fact("Bob", "hives", 0, make.evidence(source, 1))
        ledger.commit(make.patch(source, kept, lost))
        moved = make.segments(source, "A new beginning.", "Ada has 3 hives.")
        receipt = ledger.commit(make.patch(updating(source.id, 1, segments=moved)))
        assert receipt.staled == (lost.id,)
        assert ledger.get(kept.id).status == "active"
        assert ledger.segment(source.id, source.segments[1].segment_id).excerpt == "Bob has none."

    def test_dependents_are_listed(self, ledger: Ledger, make: Builder) -> None:
        source, fact, derived, last = chain(make)
        ledger.commit(make.patch(source, fact, derived, last))
        assert list(ledger.dependents(source.id)) == [fact.id]
        assert list(ledger.dependents(fact.id)) == [derived.id]
        assert list(ledger.dependents(last.id)) == []

    def test_the_heads_of_what_rests_on_an_object_are_read_without_it(self, ledger: Ledger, make: Builder) -> None:
        source, fact, derived, last = chain(make)
        ledger.commit(make.patch(source, fact, derived, last))
        (found,) = ledger.read([ObjectRequest(resting=(source.id, last.id))])
        assert found.resting == {source.id: (fact.id,), last.id: ()}
        assert (found.heads[fact.id].status, found.objects) == (fact.status, {})

    def test_what_names_an_object_in_any_field_is_listed(self, ledger: Ledger, make: Builder) -> None:
        source, node, owner = make.source("Ada has 3 hives."), make.node("Hives"), make.node("Ada", kind="person")
        fact = make.fact("Ada", "hives", 3, make.evidence(source), subject_refs=(node.id,))
        work = make.work("Buy smoke", related_node_refs=(node.id,), owner_refs=(owner.id, "bob"))
        ledger.commit(make.patch(source, node, owner, fact, work))
        assert list(ledger.referrers(node.id)) == sorted([fact.id, work.id])
        assert (list(ledger.referrers(owner.id)), list(ledger.referrers(source.id))) == ([work.id], [fact.id])
        assert list(ledger.referrers(work.id)) == []

    def test_what_names_an_object_is_read_as_it_stands_and_as_it_stood(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hives")
        work = make.work("Buy smoke", related_node_refs=(node.id,))
        then = ledger.commit(make.patch(node, work)).sequence
        ledger.commit(make.patch(updating(work.id, 1, related_node_refs=())))
        now, before = ledger.read(
            [ObjectRequest(referrers=(node.id,)), ObjectRequest(referrers=(node.id,), as_of=then)]
        )
        assert (now.referrers, now.objects) == ({node.id: ()}, {})
        assert (before.referrers, before.objects[work.id].revision) == ({node.id: (work.id,)}, 1)

    def test_links_are_read_together_with_other_things(self, ledger: Ledger, make: Builder) -> None:
        one, other = make.node("Hives"), make.node("Bees")
        link = Link(type="part_of", source=other.id, target=one.id)
        then = ledger.commit(make.patch(one, other, AddLink(link=link))).sequence
        ledger.commit(make.patch(RemoveLink(link=link)))
        now, before = ledger.read([ObjectRequest(links=(one.id,)), ObjectRequest(links=(one.id, other.id), as_of=then)])
        assert now.links == {one.id: ()}
        assert [(ids, links[0].source) for ids, links in before.links.items()] == [
            (one.id, other.id),
            (other.id, other.id),
        ]

    def test_a_node_that_was_merged_names_the_one_it_was_merged_into(self, ledger: Ledger, make: Builder) -> None:
        one, other = make.node("Hives"), make.node("Hive")
        ledger.commit(make.patch(one, other))
        ledger.commit(make.patch(Merge(id=other.id, expected_revision=1, into=one.id)))
        assert list(ledger.referrers(one.id)) == [other.id]

    def test_an_erased_object_names_nothing_any_more(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hives")
        work = make.work("Buy smoke", related_node_refs=(node.id,))
        ledger.commit(make.patch(node, work))
        ledger.commit(make.patch(erasing(work.id)))
        assert list(ledger.referrers(node.id)) == []


def chain(make: Builder) -> tuple[Source, Any, Any, Any]:
    """Return a source, a fact with evidence in it, and two relations, each derived from the one before."""
    source = make.source("Ada has 3 hives.")
    fact = make.fact("Ada", "hives", 3, make.evidence(source))
    derived = make.relation("Ada", "is", "a beekeeper", status="active", derived_from=(fact.id,))
    last = make.relation("Ada", "knows", "bees", status="active", derived_from=(derived.id,))
    return source, fact, derived, last
