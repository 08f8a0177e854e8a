"""The policy: audited, in force from the next transaction on, and carried with the space."""

import pytest

from treering.core.audit import verify_chain
from treering.core.errors import Conflict, Corrupt, Denied
from treering.core.patch import Erase
from treering.core.policy import Policy
from treering.core.policy_log import POLICY, POLICY_CHANGED, policy_hash, policy_in
from treering.ports.ledger import Ledger
from treering.testing.builders import ADA, Builder, author
from treering.testing.ledger_contract.stage import LedgerStage, OpenLedger

EVE = author("agent", "eve")
REVIEWED = Policy(direct_channels=frozenset({"user", "system"}))
OPEN = Policy(erasing_channels=frozenset({"user", "agent"}))


class Rules(LedgerStage):
    """`policy` and `change_policy`."""

    def test_the_default_is_in_force_until_a_policy_is_set(self, ledger: Ledger) -> None:
        assert ledger.policy == Policy()
        assert ledger.change_policy(REVIEWED, by=ADA)
        assert ledger.policy == REVIEWED
        assert ledger.change_policy(Policy(), by=ADA)
        assert ledger.policy == Policy()

    def test_a_change_is_in_the_log_with_who_why_and_both_hashes(self, ledger: Ledger) -> None:
        ledger.change_policy(REVIEWED, by=ADA, reason="Agents are new here.")
        (event,) = ledger.events()
        assert (event.event_type, event.target, event.actor, event.channel) == (POLICY_CHANGED, POLICY, "ada", "user")
        assert event.reason == "Agents are new here."
        assert event.before == {"hash": policy_hash(Policy())}
        assert event.after
        assert event.after["hash"] == policy_hash(REVIEWED)
        assert policy_in(event) == REVIEWED
        assert list(ledger.events_of(POLICY)) == [event]
        ledger.change_policy(OPEN, by=ADA)
        assert ledger.events_of(POLICY)[-1].before == {"hash": policy_hash(REVIEWED)}

    def test_the_same_policy_again_changes_nothing(self, ledger: Ledger) -> None:
        assert not ledger.change_policy(Policy(), by=ADA)
        ledger.change_policy(REVIEWED, by=ADA)
        assert not ledger.change_policy(REVIEWED.model_copy(), by=ADA)
        assert ledger.sequence() == 1

    def test_the_default_of_a_ledger_is_in_the_log_once_it_is_set(self, open_ledger: OpenLedger) -> None:
        ledger = open_ledger(policy=REVIEWED)
        assert ledger.change_policy(REVIEWED, by=ADA)
        assert [policy_in(event) for event in ledger.events_of(POLICY)] == [REVIEWED]

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

    def test_the_policy_is_no_change_of_an_object(self, ledger: Ledger, make: Builder) -> None:
        ledger.change_policy(REVIEWED, by=ADA)
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        assert [change.object_id for change in ledger.changes(0, 10)] == [node.id]

    def test_the_policy_goes_with_an_export(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        node = make.node("Hive")
        old.change_policy(REVIEWED, by=ADA)
        old.commit(make.patch(node))
        old.change_policy(OPEN, by=ADA)
        new.load(old.records())
        assert (new.policy, new.verify()) == (OPEN, old.verify())
        new.commit(make.patch(Erase(id=node.id, expected_revision=1), by=EVE))

    def test_a_policy_that_was_set_for_an_empty_ledger_stays_over_an_import(
        self, open_ledger: OpenLedger, make: Builder
    ) -> None:
        old, new, same = open_ledger(), open_ledger(), open_ledger()
        old.change_policy(OPEN, by=ADA)
        old.commit(make.patch(make.node("Hive")))
        new.change_policy(Policy(self_approval=True), by=ADA)
        new.change_policy(REVIEWED, by=ADA)
        new.load(old.records())
        assert new.policy == REVIEWED
        assert [event.seq for event in new.events_of(POLICY)] == [1, 3]
        assert new.verify().seq == 3
        same.change_policy(OPEN, by=ADA)
        same.load(old.records())
        assert same.verify() == old.verify()

    def test_an_import_that_is_refused_leaves_the_policy(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        old.commit(make.patch(make.node("Hive")))
        new.change_policy(REVIEWED, by=ADA)
        cut = [record for record in old.records() if record.table != "patch"]
        with pytest.raises(Corrupt):
            new.load(cut)
        assert (new.policy, new.sequence()) == (REVIEWED, 1)
        new.commit(make.patch(make.node("Box")))
        with pytest.raises(Conflict):
            new.load(old.records())
