from typing import Any

import pytest

from treering.core.errors import Denied
from treering.core.objects import Channel, Object
from treering.core.patch import Author, Erase, MoveScope, Operation, Supersede, Transition, Update
from treering.core.policy import (
    ALL_CHANNELS,
    Policy,
    check_approval,
    check_gate,
    check_policy_change,
    check_reverter,
    check_revision_of,
    check_trust,
    loosened_fields,
    needs_review,
)
from treering.core.writing.journal import policy_hash
from treering.testing.builders import ADA, BOB, Builder, author
from treering.testing.fakes import SteppingClock

make = Builder(SteppingClock())
KNOWN = make.fact("Ada", "hives", 3)
EVE = author("agent", "eve")
REVIEWED = Policy(direct_channels=frozenset({"user"}))


def trusts(policy: Policy, by: Author, part: Object | Operation) -> bool:
    try:
        check_trust(make.patch(part, by=by), policy)
    except Denied:
        return False
    return True


def test_a_refusal_names_the_channel_and_a_way_out() -> None:
    with pytest.raises(Denied) as refused:
        check_trust(make.patch(Erase(id=KNOWN.id, expected_revision=1), by=EVE), Policy())
    assert refused.value.details == {"channel": "agent"}
    assert refused.value.hint


def test_a_space_without_a_policy_lets_every_channel_write_directly() -> None:
    assert not any(needs_review(make.patch(make.node("x"), by=by), Policy()) for by in (ADA, EVE))


def test_patches_of_other_channels_and_reviewed_operations_wait() -> None:
    erase = make.patch(Erase(id=KNOWN.id, expected_revision=1))
    waiting = make.patch(make.node("x"), by=EVE)
    assert needs_review(waiting, REVIEWED)
    assert not needs_review(make.patch(make.node("x")), REVIEWED)
    assert needs_review(erase, Policy(reviewed_operations=frozenset({"erase"})))
    check_gate(erase, Policy())
    with pytest.raises(Denied):
        check_gate(waiting, REVIEWED)


@pytest.mark.parametrize(
    ("channel", "allowed"), [("user", True), ("import", True), ("system", True), ("agent", False), ("adapter", False)]
)
def test_only_declaring_channels_declare(channel: Channel, allowed: bool) -> None:
    for memory_source in ("user_declared", "human_curated"):
        fact = make.fact("Ada", "hives", 3, memory_source=memory_source)
        change = Update(id=fact.id, expected_revision=1, changes={"memory_source": memory_source})
        assert trusts(Policy(), author(channel), fact) is allowed
        assert trusts(Policy(), author(channel), change) is allowed


def test_an_adapter_proposes_candidates_and_no_more() -> None:
    adapter = author("adapter")
    source = make.source("3 hives.")
    active = make.fact("Ada", "hives", 3, make.evidence(source))
    assert trusts(Policy(), adapter, source)
    assert trusts(Policy(), adapter, KNOWN)
    assert trusts(Policy(), adapter, Transition(id=source.id, expected_revision=1, to="archived"))
    for part in (
        active,
        Transition(id=KNOWN.id, expected_revision=1, to="active"),
        Supersede(id=KNOWN.id, expected_revision=1, by=active.id),
        MoveScope(id=KNOWN.id, expected_revision=1, to="/"),
    ):
        assert not trusts(Policy(), adapter, part)
        assert trusts(Policy(), EVE, part)


def test_an_adapter_rewrites_only_candidates() -> None:
    adapter = author("adapter")
    active = KNOWN.model_copy(update={"status": "active"})
    check_revision_of(KNOWN, {}, adapter, Policy())
    check_revision_of(make.node("x"), {}, adapter, Policy())
    check_revision_of(None, {}, adapter, Policy())
    check_revision_of(active, {}, EVE, Policy())
    with pytest.raises(Denied):
        check_revision_of(active, {}, adapter, Policy())


def test_an_adapter_moves_the_evidence_of_what_is_believed_within_its_sources() -> None:
    source, other = make.source("x", "y"), make.source("z", origin="z.md")
    active, adapter = make.fact("a", "b", 1, make.evidence(source)), author("adapter")
    moved = {"evidence_refs": (make.evidence(source, 1),)}
    check_revision_of(active, moved, adapter, Policy())
    for changes in (
        {**moved, "title": "c"},
        {"evidence_refs": ()},
        {"evidence_refs": (make.evidence(source, 1), make.evidence(other))},
        {"evidence_refs": (make.evidence(source, 1, role="contradicts"),)},
    ):
        with pytest.raises(Denied):
            check_revision_of(active, changes, adapter, Policy())


@pytest.mark.parametrize("channel", ["agent", "adapter", "import"])
def test_only_erasing_channels_erase(channel: Channel) -> None:
    erase = Erase(id=KNOWN.id, expected_revision=1)
    assert trusts(Policy(), ADA, erase)
    assert not trusts(Policy(), author(channel), erase)
    assert trusts(Policy(erasing_channels=frozenset({channel})), author(channel), erase)


def test_own_proposal_needs_permission_to_approve() -> None:
    check_approval(ADA, BOB, Policy())
    check_approval(ADA, ADA, Policy(self_approval=True))
    with pytest.raises(Denied):
        check_approval(ADA, ADA, Policy())


def test_a_reviewed_channel_approves_nothing_under_any_name() -> None:
    check_approval(EVE, ADA, REVIEWED)
    with pytest.raises(Denied):
        check_approval(EVE, author("agent", "not eve"), REVIEWED)


def test_where_every_channel_is_reviewed_people_review_one_another() -> None:
    check_approval(ADA, BOB, Policy(direct_channels=frozenset()))


def test_reverting_needs_a_channel_that_writes_directly_and_is_believed() -> None:
    check_reverter(EVE, Policy())
    for by, policy in ((EVE, REVIEWED), (author("adapter"), Policy())):
        with pytest.raises(Denied):
            check_reverter(by, policy)


@pytest.mark.parametrize(
    ("old", "new", "loosened"),
    [
        ({"direct_channels": {"user"}}, {"direct_channels": {"user", "agent"}}, True),
        ({"direct_channels": {"user", "agent"}}, {"direct_channels": {"user"}}, False),
        ({"direct_channels": {"user"}}, {"direct_channels": set()}, True),
        ({"direct_channels": set()}, {"direct_channels": set()}, False),
        ({"reviewed_operations": {"erase"}}, {}, True),
        ({}, {"reviewed_operations": {"erase"}}, False),
        ({}, {"candidate_only_channels": set()}, True),
        ({}, {"candidate_only_channels": {"adapter", "agent"}}, False),
        ({}, {"erasing_channels": {"user", "agent"}}, True),
        ({}, {"erasing_channels": {"user"}}, False),
        ({}, {"declaring_channels": {"user", "agent"}}, True),
        ({}, {"declaring_channels": set()}, False),
        ({}, {"channel_trust": {"agent": "high"}}, True),
        ({}, {"channel_trust": {"user": "low"}}, False),
        ({}, {"trust_weights": {"low": 0.9}}, True),
        ({}, {"trust_weights": {"low": 0.5}}, False),
        ({}, {"functional_predicates": {"age"}}, True),
        ({"functional_predicates": {"age"}}, {}, False),
        ({"newer_supersedes": False}, {}, True),
        ({}, {"newer_supersedes": False}, False),
        ({}, {"silenced_rules": {"stale": "Later."}}, True),
        ({"silenced_rules": {"stale": "Later."}}, {}, False),
        ({}, {"self_approval": True}, True),
        ({"self_approval": True}, {}, False),
    ],
)
def test_what_loosens_a_policy_is_left_to_persons(old: dict[str, Any], new: dict[str, Any], loosened: bool) -> None:
    before, after = Policy.model_validate(old), Policy.model_validate(new)
    assert bool(loosened_fields(before, after)) == loosened
    check_policy_change(before, after, ADA)
    check_policy_change(before, after, author("system"))
    for by in (EVE, author("adapter"), author("import")):
        if loosened:
            with pytest.raises(Denied) as refused:
                check_policy_change(before, after, by)
            assert refused.value.hint
        else:
            check_policy_change(before, after, by)


def test_every_field_of_a_policy_is_looked_at_for_loosening() -> None:
    loosest = Policy.model_validate(
        {
            "candidate_only_channels": set(),
            "erasing_channels": ALL_CHANNELS,
            "declaring_channels": ALL_CHANNELS,
            "channel_trust": dict.fromkeys(ALL_CHANNELS, "high"),
            "trust_weights": {"low": 1, "medium": 1},
            "functional_predicates": set(),
            "silenced_rules": {"stale": "Later."},
            "self_approval": True,
            "shared_scopes": {"/discussion"},
        }
    )
    strictest = Policy(
        direct_channels=frozenset({"user"}),
        reviewed_operations=frozenset({"erase"}),
        newer_supersedes=False,
        private_scopes=frozenset({"/me"}),
    )
    assert set(loosened_fields(strictest, loosest)) == Policy.model_fields.keys() - {"trust_weights"}


def test_longer_of_a_private_and_a_shared_scope_counts() -> None:
    policy = Policy(private_scopes=frozenset({"/me", "/me/a/b"}), shared_scopes=frozenset({"/me/a", "/me/a/b"}))
    scopes = ("/me", "/me/a", "/me/a/x", "/me/a/b", "/mean")
    assert [policy.is_private(one) for one in scopes] == [True, False, False, True, False]
    assert [policy.is_shared(one) for one in scopes] == [False, True, True, False, False]


def test_equal_policies_have_equal_hashes_whatever_the_order_of_their_sets() -> None:
    channels: list[Channel] = ["user", "agent", "system", "import", "adapter"]
    hashes = {policy_hash(Policy(direct_channels=frozenset(channels[n:] + channels[:n]))) for n in range(5)}
    assert hashes == {policy_hash(Policy())}
    assert policy_hash(REVIEWED) not in hashes
