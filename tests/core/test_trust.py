import pytest
from pydantic import ValidationError

from treering.core.policy import CHANNEL_TRUST, TRUST_WEIGHTS, Policy, less_trusted, trust_of


@pytest.mark.parametrize(
    ("channel", "status", "level"),
    [
        ("user", "active", "high"),
        ("system", "active", "high"),
        ("adapter", "active", "medium"),
        ("agent", "active", "low"),
        ("import", "active", "low"),
        ("user", "candidate", "medium"),
        ("adapter", "candidate", "low"),
        ("agent", "candidate", "low"),
    ],
)
def test_trust_is_that_of_the_channel_and_one_level_less_for_a_candidate(channel, status, level):
    assert trust_of(channel, status) == level


def test_a_policy_names_only_the_channels_and_weights_it_changes():
    policy = Policy.model_validate({"channel_trust": {"import": "high"}, "trust_weights": {"low": 0.5}})
    assert policy.channel_trust == {**CHANNEL_TRUST, "import": "high"}
    assert policy.trust_weights == {**TRUST_WEIGHTS, "low": 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"channel_trust": {"friend": "high"}},
        {"channel_trust": {"user": "total"}},
        {"channel_trust": "high"},
        {"trust_weights": {"low": 0}},
        {"trust_weights": {"low": 1.1}},
    ],
)
def test_a_policy_refuses_unknown_channels_levels_and_weights(wrong):
    with pytest.raises(ValidationError):
        Policy.model_validate(wrong)


def test_a_channel_that_there_is_not_is_trusted_least():
    assert trust_of("", "active") == "low"
    assert less_trusted("", "user", CHANNEL_TRUST)
