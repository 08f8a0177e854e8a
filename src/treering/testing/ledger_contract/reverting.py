"""Taking a patch back: everything it did, or a reason why not."""

import pytest

from treering.core.canonical import digest
from treering.core.errors import Conflict, InvalidPatch, NotFound
from treering.core.patch import AddLink, Link, Merge, MoveScope, RemoveLink
from treering.ports.ledger import Ledger, Selection
from treering.testing.builders import ADA, BOB, Builder, author, content_of
from treering.testing.ledger_contract.stage import (
    LedgerStage,
    OpenLedger,
    contents,
    erasing,
    moving,
    source_of,
    updating,
)


class Reverting(LedgerStage):
    """The reversal of applied patches."""

    def test_fields_go_back_to_what_they_were(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("One.", "Two.")
        ledger.commit(make.patch(source))
        before = ledger.get(source.id)
        patch = make.patch(updating(source.id, title="New", segments=[]))
        changed = ledger.commit(patch)
        receipt = ledger.revert(changed.patch_id, by=ADA, reason="Wrong.")
        assert content_of(ledger.get(source.id)) == content_of(before)
        assert (ledger.get(source.id).revision, receipt.results[0].revision) == (3, 3)

    def test_links_come_and_go_back(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        link = Link(type="about", source=one.id, target=two.id)
        ledger.commit(make.patch(one, two))
        tied = ledger.commit(make.patch(AddLink(link=link)))
        ledger.revert(tied.patch_id, by=ADA, reason="Wrong.")
        assert list(ledger.links(one.id)) == []
        ledger.commit(make.patch(AddLink(link=link)))
        cut = ledger.commit(make.patch(RemoveLink(link=link)))
        ledger.revert(cut.patch_id, by=ADA, reason="Wrong.")
        assert len(ledger.links(one.id)) == 1

    def test_merges_moves_and_transitions_are_undone(self, ledger: Ledger, make: Builder) -> None:
        one, two, item = make.node("One"), make.node("Two"), make.work("Buy smoke")
        ledger.commit(make.patch(one, two, item))
        before = [content_of(ledger.get(thing.id)) for thing in (one, two, item)]
        patch = make.patch(
            Merge(id=two.id, expected_revision=1, into=one.id),
            MoveScope(id=one.id, expected_revision=2, to="/garden"),
            moving(item.id, 1, "in_progress"),
        )
        receipt = ledger.commit(patch)
        ledger.revert(receipt.patch_id, by=ADA, reason="Wrong.")
        assert [content_of(ledger.get(thing.id)) for thing in (one, two, item)] == before

    def test_a_patch_is_reverted_once_and_the_reversal_can_be_reverted(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("One")
        ledger.commit(make.patch(node))
        patch = make.patch(updating(node.id, name="Two"))
        done = ledger.commit(patch)
        undone = ledger.revert(done.patch_id, by=ADA, reason="Wrong.")
        with pytest.raises(Conflict):
            ledger.revert(done.patch_id, by=ADA, reason="Again.")
        ledger.revert(undone.patch_id, by=ADA, reason="Right after all.")
        assert getattr(ledger.get(node.id), "name", "") == "Two"

    def test_both_patches_and_the_log_tell_of_it(self, ledger: Ledger, make: Builder) -> None:
        done = ledger.commit(make.patch(make.node("One")))
        undone = ledger.revert(done.patch_id, by=author("user", "eve"), reason="Wrong.")
        old, new = ledger.patch(done.patch_id), ledger.patch(undone.patch_id)
        assert (old.status, old.reverted_by) == ("reverted", new.id)
        assert (new.status, new.reverts, new.reason, new.source.actor) == ("applied", old.id, "Wrong.", "eve")
        assert (old.decided_at, new.decided_at) == (done.committed_at, undone.committed_at)
        (event,) = ledger.events_of(old.id)
        assert (event.event_type, event.actor, event.patch_id) == ("reverted", "eve", new.id)
        assert event.before == {"status": "applied"}

    def test_erased_content_does_not_come_back(self, ledger: Ledger, make: Builder) -> None:
        node, other = make.node("One"), make.node("Two")
        made = ledger.commit(make.patch(node, other))
        erased = ledger.commit(make.patch(erasing(node.id)))
        with pytest.raises(InvalidPatch):
            ledger.revert(erased.patch_id, by=ADA, reason="Wrong.")
        with pytest.raises(Conflict):
            ledger.revert(made.patch_id, by=ADA, reason="Wrong.")


# Erasure: the content goes everywhere, the fact stays.


MARK = "xyzzy-plugh"


class Erasure(LedgerStage):
    """Nothing of an erased object can be read again."""

    def test_erased_content_is_nowhere(self, ledger: Ledger, make: Builder) -> None:
        source = make.source(f"It says {MARK}.", title=MARK, metadata={MARK: MARK})
        ledger.commit(make.patch(source), idempotency_key="k")
        ledger.commit(make.patch(updating(source.id, segments=[])))
        receipt = ledger.commit(make.patch(erasing(source.id, 2)))
        assert (receipt.results[0].outcome, receipt.results[0].id) == ("erased", source.id)
        for read in (ledger.get, ledger.history):
            with pytest.raises(NotFound):
                read(source.id)
        with pytest.raises(NotFound):
            ledger.get(source.id, as_of=1)
        with pytest.raises(NotFound):
            ledger.segment(source.id, source.segments[0].segment_id)
        assert ledger.heads([source.id]) == {}
        assert ledger.sources(scope="/", root=source.origin) == {}
        assert ledger.segments([(source.id, source.segments[0].segment_id)]) == {}
        assert list(ledger.select(Selection())) == list(ledger.select(Selection(as_of=1))) == []
        assert not any(MARK in text or source.salt in text for text in contents(ledger))

    def test_the_log_keeps_the_fact_and_verifies(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        made = ledger.commit(make.patch(node))
        ledger.commit(make.patch(erasing(node.id), reason="Asked to."))
        created, erased = ledger.events_of(node.id)
        assert (erased.event_type, erased.reason, erased.after) == ("erased", "Asked to.", None)
        assert erased.before == created.after
        assert ledger.verify().seq == made.sequence + 1

    def test_what_rested_on_it_becomes_stale_in_the_same_patch(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, fact))
        receipt = ledger.commit(make.patch(erasing(source.id)))
        assert receipt.staled == (fact.id,)
        assert ledger.get(fact.id).status == "stale"

    def test_a_claim_is_free_when_its_rival_is_erased(self, ledger: Ledger, make: Builder) -> None:
        left, right = make.source("3."), make.source("4.", origin="other.md")
        one = make.fact("Ada", "hives", 3, make.evidence(left))
        two = make.fact("Ada", "hives", 4, make.evidence(right))
        ledger.commit(make.patch(left, right, one, two))
        ledger.commit(make.patch(erasing(two.id, 2)))
        assert ledger.get(one.id).status == "active"

    def test_its_links_go(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        link = Link(type="about", source=one.id, target=two.id)
        ledger.commit(make.patch(one, two, AddLink(link=link)))
        ledger.commit(make.patch(erasing(two.id)))
        assert list(ledger.links(one.id)) == list(ledger.links(one.id, as_of=3)) == []
        ledger.verify()

    def test_a_text_that_another_source_holds_too_stays_there(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("Shared words."), make.source("Shared words.", origin="other.md")
        ledger.commit(make.patch(one, two))
        ledger.commit(make.patch(erasing(one.id)))
        assert source_of(ledger, two.id).segments[0].excerpt == "Shared words."
        ledger.verify()

    def test_proposals_that_mention_what_is_erased_are_rejected_and_lose_their_content(
        self, ledger: Ledger, make: Builder
    ) -> None:
        *gone, other = make.node("Hive"), make.node("Tub"), make.node("Box")
        ledger.commit(make.patch(*gone, other))
        about = [make.patch(updating(node.id, summary=MARK)) for node in gone]
        apart = make.patch(updating(other.id, summary="Apart."))
        for patch in (*about, apart):
            ledger.propose(patch)
        erasure = ledger.commit(make.patch(*(erasing(node.id) for node in gone)))
        for patch in about:
            record, event = ledger.patch(patch.id), ledger.events_of(patch.id)[-1]
            assert (record.status, record.operations) == ("rejected", ())
            assert record.decided_at == erasure.committed_at
            assert (event.event_type, event.patch_id) == ("rejected", erasure.patch_id)
        assert ledger.patch(apart.id).status == "proposed"
        assert not any(MARK in text for text in contents(ledger))

    def test_an_approved_erasure_takes_the_proposals_that_mention_it_along(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        about = make.patch(updating(node.id, summary=MARK))
        erasure = make.patch(erasing(node.id))
        for patch in (about, erasure):
            ledger.propose(patch)
        ledger.approve(erasure.id, by=BOB)
        assert (ledger.patch(about.id).status, ledger.patch(erasure.id).status) == ("rejected", "applied")
        assert not any(MARK in text for text in contents(ledger))

    def test_an_idempotency_key_is_erased_and_still_recognised(self, ledger: Ledger, make: Builder) -> None:
        node, other = make.node("Hive"), make.node("Box")
        first = ledger.commit(make.patch(node), idempotency_key=MARK)
        ledger.commit(make.patch(other), idempotency_key="kept")
        ledger.propose(make.patch(updating(node.id, summary="x")), idempotency_key="p")
        ledger.commit(make.patch(erasing(node.id)), idempotency_key="erasing")
        assert not any(MARK in text for text in contents(ledger))
        again = ledger.commit(make.patch(make.node("Hive")), idempotency_key=MARK)
        assert again == first.model_copy(update={"replayed": True})
        assert ledger.commit(make.patch(make.node("Box")), idempotency_key="kept").replayed
        proposed = make.patch(updating(other.id, summary="y"))
        assert ledger.propose(proposed, idempotency_key="p").status == "rejected"
        keys = {record.row["key"] for record in ledger.records() if record.table == "receipt"}
        assert {"kept", "erasing"} < keys
        assert len(keys) == 4

    def test_what_stands_for_an_erased_key_cannot_be_made_of_the_key_alone(
        self, open_ledger: OpenLedger, make: Builder
    ) -> None:
        erased = []
        for ledger in (open_ledger(), open_ledger()):
            node = make.node("Hive")
            asked = make.patch(node).model_copy(update={"request": digest(MARK)})
            ledger.commit(asked, idempotency_key=MARK)
            ledger.commit(make.patch(erasing(node.id)))
            erased += [record.row["key"] for record in ledger.records() if record.table == "receipt"]
            assert not any(digest(MARK) in text for text in contents(ledger))
            again = make.patch(node).model_copy(update={"request": "another"})
            assert ledger.commit(again, idempotency_key=MARK).replayed
        assert len(set(erased)) == 2

    def test_a_key_is_recognised_after_a_second_erasure_of_what_its_patch_touched(
        self, ledger: Ledger, make: Builder
    ) -> None:
        nodes = make.node("Hive"), make.node("Box")
        first = ledger.commit(make.patch(*nodes), idempotency_key=MARK)
        for node in nodes:
            ledger.commit(make.patch(erasing(node.id)))
        again = ledger.commit(make.patch(make.node("Hive")), idempotency_key=MARK)
        assert again == first.model_copy(update={"replayed": True})

    def test_nothing_can_be_written_to_it(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        ledger.commit(make.patch(source))
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        erase = erasing(source.id)
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(erase, fact))
        ledger.commit(make.patch(erase))
        with pytest.raises(NotFound):
            ledger.commit(make.patch(erase))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(fact))

    def test_its_origin_can_be_ingested_anew(self, ledger: Ledger, make: Builder) -> None:
        source, again = make.source("3 hives."), make.source("3 hives.")
        ledger.commit(make.patch(source))
        ledger.commit(make.patch(erasing(source.id)))
        ledger.commit(make.patch(again))
        assert ledger.sources(scope="/", root="notes.md")["notes.md"].id == again.id

    def test_its_id_is_not_given_to_something_else(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        with pytest.raises(Conflict):
            ledger.commit(make.patch(erasing(node.id), node))
        ledger.commit(make.patch(erasing(node.id)))
        with pytest.raises(Conflict):
            ledger.commit(make.patch(node))

    def test_erasure_needs_the_current_revision(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        ledger.commit(make.patch(updating(node.id, name="Box")))
        with pytest.raises(Conflict):
            ledger.commit(make.patch(erasing(node.id)))

    def test_what_is_left_goes_on_after_compaction(self, ledger: Ledger, make: Builder) -> None:
        node, other = make.node("Hive"), make.node("Box")
        made = ledger.commit(make.patch(node, other))
        ledger.commit(make.patch(erasing(node.id)))
        ledger.compact()
        ledger.verify()
        assert ledger.get(other.id).revision == 1
        with pytest.raises(Conflict):
            ledger.revert(made.patch_id, by=ADA, reason="")
