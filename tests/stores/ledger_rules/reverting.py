"""Taking a patch back: everything it did, or a reason why not."""

import pytest

from treering.core.errors import Conflict, Denied, InvalidPatch, NotFound
from treering.core.patch import AddLink, Erase, Link, Operation, RemoveLink, Transition, Update
from treering.ports.ledger import Ledger
from treering.testing.builders import ADA, Builder, author
from treering.testing.ledger_contract.stage import (
    LedgerStage,
    contents,
    knowledge_of,
    status_of,
    work_of,
)


class RevertRules(LedgerStage):
    """The reversal of applied patches."""

    def test_what_was_created_ends(self, ledger: Ledger, make: Builder) -> None:
        source, node, item = make.source("One."), make.node("Hive"), make.work("Buy smoke")
        activity, fact = make.activity("Visit"), make.fact("Ada", "hives", 3, make.evidence(source))
        receipt = ledger.commit(make.patch(source, node, item, activity, fact))
        ledger.revert(receipt.patch_id, by=ADA, reason="Wrong.")
        statuses = status_of(ledger, source.id, node.id, item.id, activity.id, fact.id)
        assert statuses == ["archived", "archived", "cancelled", "archived", "archived"]
        assert work_of(ledger, item.id).lifecycle_state == "archived"

    def test_a_cascade_is_undone_with_what_caused_it(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(source, fact))
        gone = ledger.commit(make.patch(Transition(id=source.id, expected_revision=1, to="archived")))
        assert status_of(ledger, source.id, fact.id) == ["archived", "stale"]
        ledger.revert(gone.patch_id, by=ADA, reason="Wrong.")
        assert status_of(ledger, source.id, fact.id) == ["active", "active"]

    def test_taking_back_what_knowledge_rests_on_makes_it_stale(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        made = ledger.commit(make.patch(source))
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        ledger.commit(make.patch(fact))
        receipt = ledger.revert(made.patch_id, by=ADA, reason="Wrong.")
        assert receipt.staled == (fact.id,)
        assert status_of(ledger, source.id, fact.id) == ["archived", "stale"]

    def test_each_object_of_a_patch_goes_back_to_its_own_revision(self, ledger: Ledger, make: Builder) -> None:
        old, new = make.node("Old"), make.node("New")
        ledger.commit(make.patch(old))
        ledger.commit(make.patch(Update(id=old.id, expected_revision=1, changes={"aliases": ["Hive"]})))
        done = ledger.commit(make.patch(new, Update(id=old.id, expected_revision=2, changes={"name": "Older"})))
        ledger.revert(done.patch_id, by=ADA, reason="Wrong.")
        assert status_of(ledger, new.id, old.id) == ["archived", "active"]
        assert getattr(ledger.get(old.id), "name", "") == "Old"
        assert [ledger.events_of(thing.id)[-1].event_type for thing in (new, old)] == ["reverted", "reverted"]

    def test_a_name_comes_back_that_the_patch_gave_to_another(self, ledger: Ledger, make: Builder) -> None:
        old, new = make.node("Hive"), make.node("Hive")
        ledger.commit(make.patch(old))
        passed_on = Update(id=old.id, expected_revision=1, changes={"name": "Box", "slug": "box"})
        ledger.revert(ledger.commit(make.patch(passed_on, new)).patch_id, by=ADA, reason="Wrong.")
        assert status_of(ledger, new.id, old.id) == ["archived", "active"]
        assert getattr(ledger.get(old.id), "slug", "") == "hive"

    def test_revert_returns_evidence_of_a_merged_duplicate(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("3 hives."), make.source("Three.", origin="other.md")
        fact = make.fact("Ada", "hives", 3, make.evidence(one))
        ledger.commit(make.patch(one, two, fact))
        merged = ledger.commit(make.patch(make.fact("Ada", "hives", 3, make.evidence(two))))
        ledger.revert(merged.patch_id, by=ADA, reason="Wrong.")
        assert [ref.source_id for ref in knowledge_of(ledger, fact.id).evidence_refs] == [one.id]

    def test_a_child_leaves_its_parent_again(self, ledger: Ledger, make: Builder) -> None:
        parent, child = make.work("Parent"), make.work("Child")
        ledger.commit(make.patch(parent, child))
        patch = make.patch(Update(id=child.id, expected_revision=1, changes={"parent_ref": parent.id}))
        ledger.revert(ledger.commit(patch).patch_id, by=ADA, reason="Wrong.")
        assert work_of(ledger, parent.id).child_refs == ()
        assert work_of(ledger, child.id).parent_ref is None

    def test_what_changed_since_is_a_conflict_and_nothing_is_taken_back(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        receipt = ledger.commit(make.patch(one, two))
        ledger.commit(make.patch(Update(id=two.id, expected_revision=1, changes={"summary": "Since."})))
        before = contents(ledger)
        with pytest.raises(Conflict) as refused:
            ledger.revert(receipt.patch_id, by=ADA, reason="Wrong.")
        assert refused.value.details["changed"] == [{"id": two.id, "left_at": 1, "current": 2}]
        assert contents(ledger) == before

    def test_a_link_that_a_patch_added_and_removed_does_not_come_back(self, ledger: Ledger, make: Builder) -> None:
        one, two, three = make.node("One"), make.node("Two"), make.node("Three")
        passing = Link(type="about", source=one.id, target=two.id)
        cut = Link(type="about", source=one.id, target=three.id)
        ledger.commit(make.patch(one, two, three, AddLink(link=cut)))
        steps: list[Operation] = [
            AddLink(link=passing),
            RemoveLink(link=passing),
            RemoveLink(link=cut),
            AddLink(link=cut),
        ]
        done = ledger.commit(make.patch(*steps))
        ledger.revert(done.patch_id, by=ADA, reason="Wrong.")
        assert [link.target for link in ledger.links(one.id)] == [three.id]

    def test_a_link_to_an_erased_object_does_not_come_back(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("One"), make.node("Two")
        link = Link(type="about", source=one.id, target=two.id)
        ledger.commit(make.patch(one, two, AddLink(link=link)))
        cut = ledger.commit(make.patch(RemoveLink(link=link)))
        ledger.commit(make.patch(Erase(id=two.id, expected_revision=1)))
        with pytest.raises((Conflict, InvalidPatch)):
            ledger.revert(cut.patch_id, by=ADA, reason="Wrong.")

    def test_a_name_taken_since_does_not_come_back(self, ledger: Ledger, make: Builder) -> None:
        source, node = make.source("One."), make.node("Hive")
        ledger.commit(make.patch(source, node))
        ended = [
            ledger.commit(make.patch(Transition(id=item.id, expected_revision=1, to="archived")))
            for item in (source, node)
        ]
        ledger.commit(make.patch(make.source("Two."), make.node("Hive")))
        for receipt in ended:
            with pytest.raises(Conflict):
                ledger.revert(receipt.patch_id, by=ADA, reason="Wrong.")

    def test_a_channel_without_trust_takes_nothing_back(self, ledger: Ledger, make: Builder) -> None:
        done = ledger.commit(make.patch(make.node("One")))
        with pytest.raises(Denied):
            ledger.revert(done.patch_id, by=author("adapter"), reason="Wrong.")

    def test_a_patch_that_never_was_cannot_be_reverted(self, ledger: Ledger, make: Builder) -> None:
        with pytest.raises(NotFound):
            ledger.revert(make.patch(make.node("One")).id, by=ADA, reason="Wrong.")
