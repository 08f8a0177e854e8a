import pytest
from workflow_parts import at_hand, discussion, kept_run, messages, run

from treering.retrieval.text.analysis import estimate_tokens

LONG = [f"On day {number} the crew of the Heron found {number} new islands and named them all." for number in range(12)]


def compact(**keys):
    return [{"type": "ContextCompactor", **keys}]


def test_a_conversation_that_fits_is_given_as_it_was_said():
    given = run(compact(), scene=at_hand("Hi", "Hello")).text
    assert given == "## Recent, word for word\n\nann: Hi\nbob: Hello"


def test_older_messages_are_given_as_memories_and_the_oldest_as_a_summary(space):
    talk = discussion(space, *LONG, settings={"min_per_summary": 1})
    talk.update()
    given = kept_run(space, talk, compact(recentContextTokens=60, oldContextTokens=200)).text
    oldest, _, rest = given.partition("## Old, as memories")
    old, _, recent = rest.partition("## Recent, word for word")
    assert oldest.startswith("## Oldest, as a summary")
    assert LONG[11] in recent
    assert LONG[0] not in recent
    assert old.strip()
    assert "11 new islands" not in old


@pytest.mark.parametrize("tokens", [0, 10, 50, 200])
def test_compacted_parts_respect_token_limits(space, tokens):
    talk = discussion(space, *LONG, settings={"min_per_summary": 1})
    talk.update()
    keys = dict.fromkeys(["recentContextTokens", "oldContextTokens", "oldestContextTokens"], tokens)
    given = kept_run(space, talk, compact(**keys)).text
    assert estimate_tokens(given) <= 3 * (tokens + 20)


def test_older_messages_without_a_memory_yet_are_not_omitted(space):
    talk = discussion(space, *LONG[:4])
    talk.update()
    talk.append(messages(*LONG[4:]))
    given = kept_run(space, talk, compact(recentContextTokens=30)).text
    assert f"ann: {LONG[6]}" in given.partition("## Recent")[0]


def test_the_last_messages_may_be_omitted():
    given = run(compact(lookbackStartTurn=1), scene=at_hand("Hi", "Hello")).text
    assert given == "## Recent, word for word\n\nann: Hi"
