"""Rules of trust: who may write what directly, and who decides."""

import pytest

from treering.core.audit import verify_chain
from treering.core.errors import Denied, InvalidInput, InvalidPatch, NotFound
from treering.core.objects import Channel
from treering.core.patch import (
    ACTOR,
    REASON,
    Erase,
    MoveScope,
    Supersede,
    Transition,
    Update,
)
from treering.core.policy import Policy
from treering.ports.ledger import Ledger
from treering.testing.builders import ADA, BOB, Builder, author
from treering.testing.ledger_contract.stage import LedgerStage, OpenLedger, contents

EVE = author("agent", "eve")
REVIEWED = Policy(direct_channels=frozenset({"user", "system"}))
OPEN = Policy(erasing_channels=frozenset({"user", "agent"}))


class ReviewRules(LedgerStage):
    """Proposals, approvals and trust."""

    def test_a_proposal_that_could_not_be_applied_is_refused(self, ledger: Ledger, make: Builder) -> None:
        with pytest.raises(InvalidPatch):
            ledger.propose(make.patch(make.fact("Ada", "hives", 3, status="active")))
        assert contents(ledger) == []

    def test_author_cannot_approve_their_own_proposal(self, ledger: Ledger, make: Builder) -> None:
        patch = make.patch(make.node("Hive"), by=ADA)
        ledger.propose(patch)
        with pytest.raises(Denied):
            ledger.approve(patch.id, by=ADA)
        ledger.approve(patch.id, by=BOB)

    def test_a_space_may_allow_approving_ones_own(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger(Policy(self_approval=True))
        patch = make.patch(make.node("Hive"), by=ADA)
        ledger.propose(patch)
        ledger.approve(patch.id, by=ADA)

    def test_a_reviewed_channel_cannot_approve_under_another_name(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger(REVIEWED)
        patch = make.patch(make.node("Hive"), by=EVE)
        ledger.propose(patch)
        with pytest.raises(Denied):
            ledger.approve(patch.id, by=author("agent", "not eve"))
        ledger.approve(patch.id, by=ADA)

    def test_who_writes_or_decides_has_a_name_and_a_reason_of_bounded_length(
        self, ledger: Ledger, make: Builder
    ) -> None:
        done = ledger.commit(make.patch(make.node("Hive")))
        patch = make.patch(make.node("Box"), by=EVE)
        ledger.propose(patch)
        before = contents(ledger)
        nobody, at_length = author("user", "a" * (ACTOR + 1)), "w" * (REASON + 1)
        for write in (ledger.commit, ledger.propose):
            for refused in (make.patch(make.node("Tub"), by=nobody), make.patch(make.node("Tub"), reason=at_length)):
                with pytest.raises(InvalidInput):
                    write(refused)
        with pytest.raises(InvalidInput):
            ledger.approve(patch.id, by=nobody)
        for decide, decided in ((ledger.reject, patch.id), (ledger.revert, done.patch_id)):
            for by, reason in ((nobody, ""), (ADA, at_length)):
                with pytest.raises(InvalidInput):
                    decide(decided, by=by, reason=reason)
        assert contents(ledger) == before

    def test_a_reviewed_channel_cannot_write_directly(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger(REVIEWED)
        with pytest.raises(Denied):
            ledger.commit(make.patch(make.node("Hive"), by=EVE))
        assert contents(ledger) == []

    def test_a_reviewed_channel_cannot_revert(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger(REVIEWED)
        done = ledger.commit(make.patch(make.node("Hive")))
        with pytest.raises(Denied):
            ledger.revert(done.patch_id, by=EVE, reason="")

    def test_a_reviewed_operation_waits_whoever_asks(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger(Policy(reviewed_operations=frozenset({"erase"})))
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        patch = make.patch(Erase(id=node.id, expected_revision=1), by=ADA)
        with pytest.raises(Denied):
            ledger.commit(patch)
        ledger.propose(patch)
        ledger.approve(patch.id, by=BOB)
        with pytest.raises(NotFound):
            ledger.get(node.id)

    @pytest.mark.parametrize("channel", ["agent", "adapter"])
    def test_a_channel_cannot_say_that_a_user_declared_it(
        self, ledger: Ledger, make: Builder, channel: Channel
    ) -> None:
        for memory_source in ("user_declared", "human_curated"):
            fact = make.fact("Ada", "hives", 3, memory_source=memory_source)
            with pytest.raises(Denied):
                ledger.commit(make.patch(fact, by=author(channel)))

    def test_an_untrusted_channel_cannot_raise_what_it_wrote(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source), status="candidate")
        believed = make.fact("Ada", "bees", 9, make.evidence(source))
        adapter = author("adapter")
        ledger.commit(make.patch(source, fact, by=adapter))
        ledger.commit(make.patch(believed))
        refused = [
            make.fact("Ada", "bees", 10, make.evidence(source)),
            Transition(id=fact.id, expected_revision=1, to="active"),
            Supersede(id=fact.id, expected_revision=1, by=believed.id),
            MoveScope(id=fact.id, expected_revision=1, to="/elsewhere"),
            Erase(id=fact.id, expected_revision=1),
            Update(id=fact.id, expected_revision=1, changes={"memory_source": "user_declared"}),
            Update(id=believed.id, expected_revision=1, changes={"title": "Ada has bees"}),
        ]
        before = contents(ledger)
        for part in refused:
            with pytest.raises(Denied):
                ledger.commit(make.patch(part, by=adapter))  # type: ignore[arg-type]  # a list of both kinds
        assert contents(ledger) == before
        reworded = Update(id=fact.id, expected_revision=1, changes={"title": "Ada has hives"})
        assert ledger.commit(make.patch(reworded, by=adapter)).results[0].outcome == "updated"

    def test_an_agent_does_not_erase(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        with pytest.raises(Denied):
            ledger.commit(make.patch(Erase(id=node.id, expected_revision=1), by=EVE))


class PolicyRules(LedgerStage):
    """`policy` and `change_policy`."""

    def test_what_was_direct_before_a_change_waits_after_it(self, ledger: Ledger, make: Builder) -> None:
        ledger.commit(make.patch(make.node("Hive"), by=EVE))
        ledger.change_policy(REVIEWED, by=ADA)
        waiting = make.patch(make.node("Box"), by=EVE)
        with pytest.raises(Denied):
            ledger.commit(waiting)
        ledger.propose(waiting)
        with pytest.raises(Denied):
            ledger.approve(waiting.id, by=author("agent", "mallory"))
        with pytest.raises(Denied):
            ledger.revert(ledger.patches()[-1].id, by=EVE, reason="Mine.")
        ledger.approve(waiting.id, by=ADA)
        assert verify_chain(ledger.events()) == ledger.verify()

    def test_a_channel_that_speaks_for_no_person_may_tighten_and_not_loosen(self, ledger: Ledger) -> None:
        ledger.change_policy(OPEN, by=EVE)
        assert ledger.change_policy(REVIEWED.model_copy(update={"erasing_channels": frozenset({"user"})}), by=EVE)
        before = ledger.policy
        with pytest.raises(Denied) as caught:
            ledger.change_policy(OPEN, by=EVE)
        assert caught.value.details["fields"] == ["direct_channels", "erasing_channels"]
        assert (ledger.policy, ledger.sequence()) == (before, 2)
        assert ledger.change_policy(OPEN, by=ADA)
