"""Rules of creating and changing objects and nodes."""

import pytest

from treering.core.errors import Conflict, IllegalTransition, InvalidPatch
from treering.core.patch import Merge, Transition, Update
from treering.ports.ledger import Ledger
from treering.testing.builders import Builder, author
from treering.testing.ledger_contract.stage import LedgerStage, node_of, updating


class ObjectRules(LedgerStage):
    """Patches that change objects, nodes and links."""

    def test_an_update_names_wrong_fields_and_the_nearest_right_one(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(updating(node.id, sumary="x")))
        assert "summary" in refused.value.hint

    @pytest.mark.parametrize(
        "field",
        [
            "id",
            "type",
            "revision",
            "created_at",
            "updated_at",
            "status",
            "scope",
            "origin_channel",
            "merged_into",
            "salt",
        ],
    )
    def test_an_update_cannot_change_what_the_ledger_stamps(self, ledger: Ledger, make: Builder, field: str) -> None:
        node, other = make.node("Hive"), make.node("Box", scope="/b", status="archived", origin_channel="system")
        ledger.commit(make.patch(node))
        value = {**other.model_dump(), "merged_into": other.id, "revision": 9}[field]
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(Update(id=node.id, expected_revision=1, changes={field: value, "name": "New"})))
        assert refused.value.details == {"fields": [field]}
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(updating(node.id, updated_at=other.updated_at, id=other.id)))
        assert refused.value.details == {"fields": ["id", "updated_at"]}

    def test_an_update_may_name_what_the_patch_found_to_be_there_already(self, ledger: Ledger, make: Builder) -> None:
        node, work = make.node("Hive"), make.work("Mow")
        ledger.commit(make.patch(node, work))
        twin = make.node("Hive")
        ledger.commit(make.patch(twin, updating(work.id, related_node_refs=[twin.id])))
        assert getattr(ledger.get(work.id), "related_node_refs", ()) == (node.id,)

    def test_words_through_a_less_trusted_channel_bring_the_object_down_to_it(
        self, ledger: Ledger, make: Builder
    ) -> None:
        said, filed = make.node("Hive"), make.node("Box")
        ledger.commit(make.patch(said, filed))
        agent, user = author("agent"), author("user")
        ledger.commit(make.patch(updating(said.id, name="Hives"), updating(filed.id, kind="document"), by=agent))
        assert [ledger.get(node.id).origin_channel for node in (said, filed)] == ["agent", "user"]
        ledger.commit(make.patch(Update(id=said.id, expected_revision=2, changes={"name": "Hive"}), by=user))
        assert ledger.get(said.id).origin_channel == "agent"
        same = {"name": "Box", "slug": "crate"}
        ledger.commit(make.patch(Update(id=filed.id, expected_revision=2, changes=same), by=agent))
        assert ledger.get(filed.id).origin_channel == "user"

    def test_words_through_a_more_trusted_channel_do_not_raise_the_object(self, ledger: Ledger, make: Builder) -> None:
        read = make.node("Hive")
        ledger.commit(make.patch(read, by=author("adapter")))
        ledger.commit(make.patch(updating(read.id, name="Hives"), by=author("user")))
        assert ledger.get(read.id).origin_channel == "adapter"

    def test_an_illegal_transition_names_both_states_and_the_allowed_ones(self, ledger: Ledger, make: Builder) -> None:
        item = make.work("Buy smoke")
        ledger.commit(make.patch(item))
        with pytest.raises(IllegalTransition) as refused:
            ledger.commit(make.patch(Transition(id=item.id, expected_revision=1, to="closed")))
        assert refused.value.details == {
            "id": item.id,
            "from": "open",
            "to": "closed",
            "allowed": ["blocked", "cancelled", "in_progress", "resolved"],
        }

    def test_an_object_cannot_start_in_a_status_that_has_to_be_reached(self, ledger: Ledger, make: Builder) -> None:
        with pytest.raises(IllegalTransition):
            ledger.commit(make.patch(make.work("Buy smoke", status="closed")))

    def test_a_segment_must_match_its_hash(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("One.")
        forged = source.segments[0].model_copy(update={"excerpt": "Two."})
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(source.model_copy(update={"segments": (forged,)})))

    def test_a_segment_id_appears_once_in_a_source(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("One.")
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(source.model_copy(update={"segments": source.segments * 2})))
        ledger.commit(make.patch(source))
        with pytest.raises(InvalidPatch):
            ledger.commit(make.patch(updating(source.id, segments=make.segments(source, "One.", "One."))))

    def test_a_node_made_again_takes_the_new_summary(self, ledger: Ledger, make: Builder) -> None:
        one = make.node("Hive", summary="Of bees.")
        ledger.commit(make.patch(one))
        receipt = ledger.commit(make.patch(make.node("Hive", summary="Where bees live.")))
        assert [(result.outcome, result.id, result.revision) for result in receipt.results] == [("updated", one.id, 2)]
        assert ledger.commit(make.patch(make.node("Hive"))).results[0].outcome == "duplicate"
        assert node_of(ledger, one.id).summary == "Where bees live."

    def test_a_node_made_again_by_a_less_trusted_channel_is_trusted_as_that_one(
        self, ledger: Ledger, make: Builder
    ) -> None:
        one = make.node("Hive", summary="Of bees.")
        ledger.commit(make.patch(one))
        ledger.commit(make.patch(make.node("Hive", summary="Found in a file."), by=author("adapter")))
        assert node_of(ledger, one.id).summary == "Of bees."
        ledger.commit(make.patch(make.node("Hive", summary="Where bees live."), by=author("agent")))
        again = node_of(ledger, one.id)
        assert (again.summary, again.origin_channel) == ("Where bees live.", "agent")

    def test_only_two_different_nodes_are_merged(self, ledger: Ledger, make: Builder) -> None:
        node, work = make.node("Hive"), make.work("Mow")
        ledger.commit(make.patch(node, work))
        for one, other in ((node, work), (work, node), (node, node)):
            with pytest.raises(InvalidPatch, match="must be nodes"):
                ledger.commit(make.patch(Merge(id=one.id, expected_revision=1, into=other.id)))

    def test_a_node_that_takes_another_in_keeps_its_own_name_out_of_its_aliases(
        self, ledger: Ledger, make: Builder
    ) -> None:
        one, two = make.node("Hive"), make.node("Bee box", aliases=("Hive", "box"))
        ledger.commit(make.patch(one, two))
        ledger.commit(make.patch(Merge(id=two.id, expected_revision=1, into=one.id)))
        assert node_of(ledger, one.id).aliases == ("Bee box", "box")

    def test_an_archived_node_comes_back_unless_its_name_was_given_away(self, ledger: Ledger, make: Builder) -> None:
        node, adapter = make.node("Hive"), author("adapter")
        ledger.commit(make.patch(node))
        ledger.commit(make.patch(Transition(id=node.id, expected_revision=1, to="archived")))
        ledger.commit(make.patch(Transition(id=node.id, expected_revision=2, to="active"), by=adapter))
        assert node_of(ledger, node.id).status == "active"
        ledger.commit(make.patch(Transition(id=node.id, expected_revision=3, to="archived")))
        ledger.commit(make.patch(make.node("Hive")))
        with pytest.raises(Conflict):
            ledger.commit(make.patch(Transition(id=node.id, expected_revision=4, to="active")))
