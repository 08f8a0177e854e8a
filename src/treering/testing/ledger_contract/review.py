"""The gate: direct writes by channel, and review of all others."""

import pytest

from treering.core.errors import Conflict, Corrupt, NotFound
from treering.core.patch import (
    RecordedCreate,
    record_hash,
)
from treering.core.policy import Policy
from treering.core.writing.journal import POLICY, POLICY_CHANGED, policy_hash, policy_in
from treering.ports.ledger import Ledger
from treering.testing.builders import ADA, Builder, author
from treering.testing.ledger_contract.stage import LedgerStage, OpenLedger, contents, erasing, updating

EVE = author("agent", "eve")
REVIEWED = Policy(direct_channels=frozenset({"user", "system"}))


class Review(LedgerStage):
    """Proposals, approvals and trust."""

    def test_a_proposal_changes_no_object_and_is_in_the_log(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        patch = make.patch(node, reason="Found it.")
        record = ledger.propose(patch)
        assert (record.status, record.operations) == ("proposed", patch.operations)
        assert ledger.patch(patch.id) == record
        with pytest.raises(NotFound):
            ledger.get(node.id)
        (event,) = ledger.events()
        assert (event.event_type, event.target, event.reason) == ("proposed", patch.id, "Found it.")

    def test_the_same_key_again_proposes_nothing_again(self, ledger: Ledger, make: Builder) -> None:
        first, second = make.patch(make.node("Hive"), by=EVE), make.patch(make.node("Hive"), by=EVE)
        record = ledger.propose(first, idempotency_key="once")
        assert ledger.propose(second, idempotency_key="once") == record
        assert list(ledger.patches()) == [record]
        ledger.approve(first.id, by=ADA)
        assert ledger.propose(second, idempotency_key="once").status == "applied"
        with pytest.raises(Conflict) as refused:
            ledger.commit(second, idempotency_key="once")
        assert refused.value.details == {"patch_id": first.id}

    def test_an_approved_proposal_is_applied_in_its_authors_name(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        patch = make.patch(node, by=EVE)
        ledger.propose(patch)
        receipt = ledger.approve(patch.id, by=ADA)
        assert (receipt.patch_id, receipt.results[0].outcome) == (patch.id, "created")
        assert ledger.get(node.id).origin_channel == "agent"
        record = ledger.patch(patch.id)
        assert (record.status, record.decided_by) == ("applied", "ada")
        assert record.operations == (RecordedCreate(id=node.id, revision=1),)
        told = [(event.event_type, event.actor) for event in ledger.events()]
        assert told == [("proposed", "eve"), ("created", "eve"), ("approved", "ada")]
        approved = ledger.events_of(patch.id)[-1]
        assert (approved.before, approved.reason) == ({"status": "proposed"}, "")
        assert record.decided_at == receipt.committed_at
        ledger.revert(patch.id, by=ADA, reason="Wrong.")
        assert ledger.get(node.id).status == "archived"

    def test_one_event_of_a_patch_holds_the_hash_of_its_record(self, ledger: Ledger, make: Builder) -> None:
        written, reviewed = make.patch(make.node("Hive"), make.node("Box")), make.patch(make.node("Tub"), by=EVE)
        ledger.commit(written)
        ledger.propose(reviewed)
        ledger.approve(reviewed.id, by=ADA)
        events = list(ledger.events())
        assert [event.patch_hash for event in events] == ["", record_hash(ledger.patch(written.id)), "", "", ""]
        assert events[-1].after == {"status": "applied", "hash": record_hash(ledger.patch(reviewed.id))}

    def test_what_was_proposed_cannot_be_guessed_once_it_is_decided(self, ledger: Ledger, make: Builder) -> None:
        known = make.node("Hive")
        ledger.commit(make.patch(known))
        approved, rejected = make.patch(make.node("Box"), by=EVE), make.patch(make.node("Tub"), by=EVE)
        dropped = make.patch(updating(known.id, name="Keg"), by=EVE)
        salts = {ledger.propose(patch).salt for patch in (approved, rejected, dropped)}
        assert len(salts) == 3
        ledger.approve(approved.id, by=ADA)
        ledger.reject(rejected.id, by=ADA, reason="No.")
        ledger.commit(make.patch(erasing(known.id)))
        assert {ledger.patch(patch.id).salt for patch in (approved, rejected, dropped)} == {""}
        assert not any(salt in text for salt in salts for text in contents(ledger))
        ledger.verify()

    def test_a_proposal_that_went_stale_is_a_conflict_and_stays_proposed(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive")
        ledger.commit(make.patch(node))
        patch = make.patch(updating(node.id, name="Late"), by=EVE)
        ledger.propose(patch)
        ledger.commit(make.patch(updating(node.id, name="Early")))
        with pytest.raises(Conflict) as refused:
            ledger.approve(patch.id, by=ADA)
        assert refused.value.details["current"] == 2
        assert ledger.patch(patch.id).status == "proposed"

    def test_a_rejected_proposal_keeps_no_content_and_is_decided(self, ledger: Ledger, make: Builder) -> None:
        patch = make.patch(make.node("Hive"), by=EVE)
        ledger.propose(patch)
        record = ledger.reject(patch.id, by=ADA, reason="Not so.")
        assert (record.status, record.operations, record.decided_by) == ("rejected", (), "ada")
        event = list(ledger.events())[-1]
        assert (event.event_type, event.reason, event.actor) == ("rejected", "Not so.", "ada")
        assert (event.before, event.timestamp) == ({"status": "proposed"}, record.decided_at)
        for decide in (ledger.approve, lambda patch_id, by: ledger.reject(patch_id, by=by, reason="")):
            with pytest.raises(Conflict):
                decide(patch.id, by=ADA)
        with pytest.raises(Conflict):
            ledger.revert(patch.id, by=ADA, reason="")

    def test_patches_are_listed_newest_first_and_by_status(self, ledger: Ledger, make: Builder) -> None:
        patches = [make.patch(make.node(name)) for name in ("One", "Two", "Three")]
        ledger.commit(patches[0])
        ledger.propose(patches[1])
        ledger.commit(patches[2])
        assert [record.id for record in ledger.patches()] == [patch.id for patch in reversed(patches)]
        assert [record.id for record in ledger.patches(status="proposed")] == [patches[1].id]
        assert [record.id for record in ledger.patches(limit=1)] == [patches[2].id]


# The policy: audited, in force from the next transaction on, and carried with the space.


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
        new.commit(make.patch(erasing(node.id), by=EVE))

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
