from datetime import timedelta

import pytest
from recollection_parts import BEGAN, Script, said, summaries

from treering.core.fencing import fence
from treering.extensions.discussions.search import DiscussionSearch
from treering.extensions.discussions.stateless import StatelessDiscussion
from treering.verbs.ingest.turns import Message

LINES = (
    "Ada bought a red boat",
    "Where is it?",
    "In the harbour, says Ada Byron",
    "東京タワーに登りました",
    "Ada Byron left",
)


@pytest.fixture
def at_hand():
    return StatelessDiscussion(said(*LINES), generator=Script())


def look(discussion, query, **options):
    return [one.text for one in discussion.search(query, DiscussionSearch(**options))]


def test_the_last_turns_represent_memories(at_hand):
    assert summaries(at_hand.recent_memories(2, skip=1)) == [f"user: {LINES[2]}", f"assistant: {LINES[3]}"]
    assert at_hand.recent_memories(2, skip=9) == at_hand.recent_memories(0) == []
    assert [memory.first for memory in at_hand.all_memories()] == [0, 1, 2, 3, 4]
    assert at_hand.newer_memories() == at_hand.all_memories()
    assert at_hand.all_memories()[0].at == BEGAN


def test_messages_are_cleaned_and_those_of_the_system_are_omitted():
    recalled = fence("of old", origin="a note")
    told = [Message(content="Be kind.", role="system"), *said(f"{recalled} Hello", " ", "Bye")]
    discussion = StatelessDiscussion(told)
    assert [kept.text for kept in discussion.messages()] == ["Hello", "Bye"]
    assert [kept.text for kept in discussion.last_messages(1)] == ["Bye"]
    assert discussion.last_messages(0) == []


@pytest.mark.parametrize("mode", ["keywords", "natural", "semantic", "hybrid"])
def test_a_question_in_a_sentence_finds_what_answers_it(at_hand, mode):
    assert look(at_hand, "Who was it that bought the boat?", mode=mode)[0] == LINES[0]


def test_keywords_are_phrases_and_the_rarer_counts_more(at_hand):
    assert look(at_hand, "boat red") == [], "this phrase stands nowhere"
    assert look(at_hand, "red boat; harbour; byron") == [LINES[2], LINES[0], LINES[4]]
    assert look(at_hand, "タワー") == [LINES[3]]
    assert look(at_hand, "none") == look(at_hand, "") == look(at_hand, " ; ") == []
    assert look(at_hand, "harbour; byron", limit=1) == [LINES[2]]


def test_time_and_shared_names_count(at_hand):
    assert look(at_hand, "boat", date_prefix="2023") == []
    assert look(at_hand, "boat", since=BEGAN, until=BEGAN + timedelta(seconds=1)) == [LINES[0]]
    assert look(at_hand, "byron", recency=0.001)[0] == LINES[4]
    assert look(at_hand, "harbour", expand_entities=True) == [LINES[2], LINES[4]]


def test_the_summary_is_made_by_the_generator_only_where_a_fresh_one_is_requested(at_hand):
    def never(_summary, _memories):
        raise AssertionError("a model was asked")

    script = Script(fold_with=never)
    discussion = StatelessDiscussion(said(*LINES), generator=script)
    assert "Ada bought a red boat" in discussion.summary()
    script.fold_with = None
    assert discussion.summary(refresh=True) == " / ".join(summaries(discussion.all_memories()))
    script.fold_with = lambda _summary, _memories: " "
    assert discussion.fold_summary() == discussion.summary() != ""


def test_empty_summary_changes_nothing(at_hand):
    assert at_hand.write_summary(" All of it. ") == at_hand.summary() == "All of it."
    assert at_hand.write_summary(" ") == "All of it."


def test_of_no_messages_there_is_nothing():
    nothing = StatelessDiscussion([])
    assert (nothing.summary(refresh=True), nothing.state(), nothing.all_memories(), look(nothing, "x")) == (
        "",
        "",
        [],
        [],
    )
