"""What is taken for a decision or a failure, and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.extensions.statements.outcomes import Outcome, outcomes_of


@pytest.mark.parametrize(
    ("said", "decision", "reason"),
    [
        (
            "We decided to keep the ledger in one file because it needs no server.",
            "Keep the ledger in one file",
            "it needs no server",
        ),
        ("Decision: the worker polls every two seconds.", "The worker polls every two seconds", ""),
        ("Okay, let's use SQLite for the queue.", "Use SQLite for the queue", ""),
        ("We'll go with plan B since the first one costs too much.", "Go with plan B", "the first one costs too much"),
        ("From now on every migration has a test.", "Every migration has a test", ""),
        ("Decision: bodyLimit answers 413.", "bodyLimit answers 413", ""),
        ("Since the disk is slow, we decided to cache pages.", "Cache pages", "the disk is slow"),
        (
            "We agreed to keep retries out, because the server cannot know; callers repeat.",
            "Keep retries out; callers repeat",
            "the server cannot know",
        ),
        ("For the cache we decided on Redis.", "For the cache we decided on Redis", ""),
        ("We decided to use httpx since version 2.", "Use httpx since version 2", ""),
        ("I've settled on three retries.", "Three retries", ""),
    ],
)
def test_what_is_said_to_be_settled_is_a_decision_with_its_reason(said: str, decision: str, reason: str) -> None:
    assert list(outcomes_of(f"Good morning. {said} Thanks!")) == [Outcome("decision", said, reason, decision)]


@pytest.mark.parametrize(
    "said",
    [
        "The build failed because the certificate had expired.",
        "That did not work since the port was taken.",
        "The root cause was a missing index.",
    ],
)
def test_why_something_failed_is_a_failure(said: str) -> None:
    assert [(one.kind, one.text) for one in outcomes_of(said)] == [("failure", said)]


@pytest.mark.parametrize(
    "said",
    [
        "Never use thread::sleep in tests.",
        "Please always run the formatter before a commit.",
        "Don't ever push to main.",
        "Also, never pass a token in an address.",
    ],
)
def test_a_command_without_an_end_is_a_rule(said: str) -> None:
    assert [(one.kind, one.text) for one in outcomes_of(f"Thanks. {said}")] == [("rule", said)]


@pytest.mark.parametrize(
    "said",
    [
        "Have we decided to use Postgres?",
        "Remind me what we decided.",
        "We have not decided on a name yet.",
        "If we decided to move, it would take a week.",
        "Let's keep going!",
        "I chose blue.",
        "The test failed.",
        "```\nwe decided to use tabs\n```",
        "We decided if it rains.",
        "Never mind the old branch.",
        "Always happy to help you with it.",
        "Always interested in other ways.",
        "Never appears with that option.",
        "Never had a chance to try it.",
        "Should we never use sleep in tests?",
        "I never use sleep in tests.",
    ],
)
def test_questions_wishes_and_code_are_neither(said: str) -> None:
    assert list(outcomes_of(said)) == []


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert all(one.text in " ".join(text.split()) for one in outcomes_of(f"{text}"))
