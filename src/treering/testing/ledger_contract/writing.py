"""Creating, changing, refusing: one patch, whole or not at all."""

import threading

import pytest

from treering.core.errors import Conflict, IllegalTransition, InvalidPatch, NotFound
from treering.core.objects import Object
from treering.core.patch import AddLink, Link, Merge, MoveScope, Operation, Patch, RemoveLink
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder, author, content_of
from treering.testing.ledger_contract.stage import LedgerStage, contents, moving, node_of, source_of, updating


class Writing(LedgerStage):
    """Patches that change objects, nodes and links."""

    def test_all_five_kinds_of_object_are_read_back_as_they_were_written(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("Ada keeps bees.", payload={"a": [1, {"b": None}]}, metadata={"lang": "en"})
        made: list[Object] = [
            source,
            make.node("Bee hive", aliases=("hive",)),
            make.knowledge("procedure", {"steps": ["open", "look"]}, make.evidence(source)),
            make.activity("Visited the hives", outcome="success"),
            make.work("Buy smoke"),
        ]
        receipt = ledger.commit(make.patch(*made))
        assert [(result.outcome, result.revision) for result in receipt.results] == [("created", 1)] * 5
        for item in made:
            assert _said(ledger.get(item.id)) == _said(item)

    def test_what_is_created_is_stamped_with_the_ledgers_time_and_the_authors_channel(
        self, ledger: Ledger, make: Builder
    ) -> None:
        node = make.node("Hive", origin_channel="user", revision=7)
        receipt = ledger.commit(make.patch(node, by=author("agent")))
        stored = ledger.get(node.id)
        assert (stored.revision, stored.origin_channel) == (1, "agent")
        assert stored.created_at == stored.updated_at == receipt.committed_at

    def test_an_id_is_used_once(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        with pytest.raises(Conflict):
            ledger.commit(make.patch(node))

    def test_an_update_makes_another_revision_and_keeps_the_first(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        receipt = ledger.commit(make.patch(updating(node.id, summary="Where bees live.")))
        assert (receipt.results[0].outcome, receipt.results[0].revision) == ("updated", 2)
        first, second = ledger.history(node.id)
        assert isinstance(first, type(node))
        assert isinstance(second, type(node))
        assert (first.summary, second.summary) == ("", "Where bees live.")
        assert second.updated_at > first.updated_at == second.created_at

    def test_an_update_that_changes_nothing_says_so_and_leaves_no_trace_in_the_log(
        self, ledger: Ledger, make: Builder
    ) -> None:
        node = make.node("Hive", summary="Where bees live.")
        first = ledger.commit(make.patch(node))
        receipt = ledger.commit(make.patch(updating(node.id, summary="Where bees live.")))
        assert (receipt.results[0].outcome, receipt.results[0].revision) == ("unchanged", 1)
        assert (receipt.sequence, receipt.head) == (first.sequence, first.head)

    def test_a_stale_revision_is_a_conflict_that_carries_the_current_one(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        ledger.commit(make.patch(updating(node.id, summary="One.")))
        with pytest.raises(Conflict) as refused:
            ledger.commit(make.patch(updating(node.id, summary="Two.")))
        assert refused.value.details["current"] == 2
        assert refused.value.details["expected"] == 1

    def test_operations_of_one_patch_may_build_on_one_another(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        receipt = ledger.commit(make.patch(node, updating(node.id, summary="One."), updating(node.id, 2, name="Box")))
        stored = node_of(ledger, node.id)
        assert (stored.revision, stored.name, stored.summary) == (3, "Box", "One.")
        assert receipt.results[-1].revision == 3

    def test_a_result_names_the_revision_that_the_whole_patch_leaves(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("3 hives."), make.source("4 hives.", origin="other.md")
        known = make.fact("Ada", "hives", 3, make.evidence(one))
        ledger.commit(make.patch(one, two, known))
        rival, node = make.fact("Ada", "hives", 4, make.evidence(two)), make.node("Hive")
        renamed = updating(node.id, name="Box")
        receipt = ledger.commit(make.patch(rival, node, renamed))
        left = [(item.id, ledger.get(item.id).revision) for item in (rival, node, node)]
        assert [(result.id, result.revision) for result in receipt.results] == left
        assert [revision for _, revision in left] == [2, 2, 2]

    def test_a_failed_patch_changes_nothing(self, ledger: Ledger, make: Builder) -> None:
        node, item = make.node("Hive"), make.work("Buy smoke")
        ledger.commit(make.patch(node, item))
        before = contents(ledger)
        failing: list[Operation] = [
            updating(node.id, 9, summary="Two."),
            updating(node.id, colour="red"),
            moving(item.id, 1, "closed"),
            updating(make.node("Nowhere").id, summary="x"),
        ]
        for operation in failing:
            with pytest.raises((InvalidPatch, IllegalTransition, Conflict, NotFound)):
                ledger.commit(make.patch(make.node("Other"), updating(node.id, summary="Seen?"), operation))
            assert contents(ledger) == before

    def test_the_same_idempotency_key_gives_the_first_receipt_and_writes_nothing(
        self, ledger: Ledger, make: Builder
    ) -> None:
        patch = make.patch(make.node("Hive"))
        first = ledger.commit(patch, idempotency_key="once")
        before = contents(ledger)
        again = ledger.commit(patch, idempotency_key="once")
        other = ledger.commit(make.patch(make.node("Box")), idempotency_key="once")
        assert not first.replayed
        assert again == other == first.model_copy(update={"replayed": True})
        assert contents(ledger) == before

    def test_a_failed_commit_does_not_use_up_its_idempotency_key(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        with pytest.raises(NotFound):
            ledger.commit(make.patch(updating(node.id, summary="Too early.")), idempotency_key="once")
        assert not ledger.commit(make.patch(node), idempotency_key="once").replayed

    def test_a_patch_id_is_used_once(self, ledger: Ledger, make: Builder) -> None:
        patch = make.patch(make.node("Hive"))
        ledger.commit(patch)
        before = contents(ledger)
        with pytest.raises(Conflict):
            ledger.commit(make.patch(make.node("Box")).model_copy(update={"id": patch.id}))
        with pytest.raises(Conflict):
            ledger.propose(make.patch(make.node("Box")).model_copy(update={"id": patch.id}))
        assert contents(ledger) == before

    def test_every_way_to_change_an_object_has_its_own_event(self, ledger: Ledger, make: Builder) -> None:
        one, two, three, work = make.node("One"), make.node("Two"), make.node("Three"), make.work("Mow")
        ledger.commit(make.patch(one, two, three, work))
        patch = make.patch(
            Merge(id=two.id, expected_revision=1, into=one.id),
            moving(work.id, 1, "in_progress"),
            MoveScope(id=three.id, expected_revision=1, to="/away"),
        )
        ledger.commit(patch)
        told = [(event.target, event.event_type) for event in ledger.events(after=4)]
        changes = {(one.id, "updated"), (two.id, "merged"), (work.id, "transitioned"), (three.id, "moved")}
        assert set(told) == changes

    def test_new_references_must_lead_somewhere(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        activity = make.activity("Visit", related_node_refs=(node.id,))
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(activity))
        assert refused.value.details["missing"] == node.id
        ledger.commit(make.patch(activity, node))

    def test_one_origin_is_one_source_until_it_is_archived(self, ledger: Ledger, make: Builder) -> None:
        first = make.source("One.")
        ledger.commit(make.patch(first))
        with pytest.raises(Conflict) as refused:
            ledger.commit(make.patch(make.source("Two.")))
        assert refused.value.details == {"id": first.id, "current": 1}
        ledger.commit(make.patch(make.source("Two.", scope="/elsewhere")))
        ledger.commit(make.patch(moving(first.id, 1, "archived")))
        ledger.commit(make.patch(make.source("Two.")))

    def test_a_segment_id_names_one_text_for_ever(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("One.")
        ledger.commit(make.patch(source))
        forged = make.segments(source, "Two.")
        forged[0]["segment_id"] = source.segments[0].segment_id
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(updating(source.id, segments=forged)))
        ledger.commit(make.patch(updating(source.id, segments=[])))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(updating(source.id, 2, segments=forged)))
        ledger.commit(make.patch(updating(source.id, 2, segments=make.segments(source, "One."))))
        assert source_of(ledger, source.id).segments == source.segments

    def test_a_node_made_twice_is_one_node_with_another_alias(self, ledger: Ledger, make: Builder) -> None:
        first, second = make.node("Hive"), make.node("HIVE", aliases=("box",))
        activity = make.activity("Visit", related_node_refs=(second.id,))
        ledger.commit(make.patch(first))
        receipt = ledger.commit(make.patch(second, activity))
        assert (receipt.results[0].outcome, receipt.results[0].id) == ("duplicate", first.id)
        assert node_of(ledger, first.id).aliases == ("HIVE", "box")
        stored = ledger.get(activity.id)
        assert getattr(stored, "related_node_refs", ()) == (first.id,)
        with pytest.raises(NotFound):
            ledger.get(second.id)

    def test_a_merged_node_keeps_where_it_went(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("Hive"), make.node("Bee box", aliases=("box",))
        ledger.commit(make.patch(one, two))
        ledger.commit(make.patch(Merge(id=two.id, expected_revision=1, into=one.id)))
        merged = node_of(ledger, two.id)
        assert (merged.status, merged.merged_into) == ("merged", one.id)
        assert node_of(ledger, one.id).aliases == ("Bee box", "box")
        with pytest.raises((IllegalTransition, InvalidPatch)):
            ledger.commit(make.patch(Merge(id=two.id, expected_revision=2, into=one.id)))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(Merge(id=one.id, expected_revision=2, into=two.id)))

    def test_a_node_becomes_merged_only_by_a_merge(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        with pytest.raises(InvalidPatch, match="without a node to merge into"):
            ledger.commit(make.patch(moving(node.id, 1, "merged")))

    def test_a_name_that_is_taken_cannot_be_taken_by_changing_or_moving(self, ledger: Ledger, make: Builder) -> None:
        source, other, away = make.source("1."), make.source("2.", origin="b"), make.source("3.", scope="/away")
        node, twin, far = make.node("Hive"), make.node("Box"), make.node("Hive", scope="/away")
        ledger.commit(make.patch(source, other, away, node, twin, far))
        before = contents(ledger)
        for operation in (
            updating(other.id, origin=source.origin),
            updating(twin.id, slug=node.slug),
            MoveScope(id=away.id, expected_revision=1, to="/"),
            MoveScope(id=far.id, expected_revision=1, to="/"),
        ):
            with pytest.raises(Conflict):
                ledger.commit(make.patch(operation))
        assert contents(ledger) == before

    def test_a_name_is_taken_and_free_as_the_patch_has_left_it(self, ledger: Ledger, make: Builder) -> None:
        hive, notes = make.node("Hive"), make.source("One.")
        ledger.commit(make.patch(hive, notes))
        second, again, third = make.node("Hive"), make.source("Two."), make.node("Nest")
        moved = MoveScope(id=notes.id, expected_revision=1, to="/old")
        renamed = updating(hive.id, name="Box", slug="box")
        receipt = ledger.commit(make.patch(renamed, second, moved, again, third))
        assert {result.outcome for result in receipt.results} == {"updated", "created"}
        for taken in (make.node("Tree"), make.node("Twig")):
            with pytest.raises(Conflict):
                ledger.commit(make.patch(taken, updating(third.id, slug=taken.slug)))

    def test_links_are_added_once_and_removed(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("Hive"), make.node("Garden")
        link = Link(type="part_of", source=one.id, target=two.id)
        receipt = ledger.commit(make.patch(one, two, AddLink(link=link)))
        kept = link.model_copy(update={"patch_id": receipt.patch_id})
        assert list(ledger.links(one.id)) == list(ledger.links(two.id)) == [kept]
        assert ledger.commit(make.patch(AddLink(link=link))).results[0].outcome == "unchanged"
        assert ledger.commit(make.patch(RemoveLink(link=link))).results[0].outcome == "unlinked"
        assert ledger.commit(make.patch(RemoveLink(link=link))).results[0].outcome == "unchanged"
        assert list(ledger.links(one.id)) == []

    def test_links_that_mean_nothing_are_refused(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.node("Hive"), make.node("Garden")
        ledger.commit(make.patch(one, two))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(AddLink(link=Link(type="about", source=one.id, target=one.id))))
        nobody = make.node("X").id
        for source, target in ((one.id, nobody), (nobody, one.id)):
            with pytest.raises(NotFound):
                ledger.commit(make.patch(AddLink(link=Link(type="about", source=source, target=target))))

    def test_an_object_moves_to_another_scope(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive", scope="/run/1")
        ledger.commit(make.patch(node))
        ledger.commit(make.patch(MoveScope(id=node.id, expected_revision=1, to="/run")))
        assert (ledger.get(node.id).scope, ledger.get(node.id).revision) == ("/run", 2)
        [again] = ledger.commit(make.patch(MoveScope(id=node.id, expected_revision=2, to="/run"))).results
        assert (again.outcome, again.id, again.revision) == ("unchanged", node.id, 2)

    def test_writers_in_many_threads_lose_nothing(self, ledger: Ledger, make: Builder) -> None:
        patches = [make.patch(make.node(f"Node {number}")) for number in range(24)]
        threads = [threading.Thread(target=_commit_all, args=(ledger, patches[part::4])) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ledger.patches()) == 24
        assert ledger.verify().seq == 24


def _said(item: Object) -> dict[str, object]:
    """Return the content of an object, without what the ledger adds to evidence when it checks it."""
    return {name: value for name, value in content_of(item).items() if name != "evidence_refs"}


def _commit_all(ledger: Ledger, patches: list[Patch]) -> None:
    for patch in patches:
        ledger.commit(patch)
