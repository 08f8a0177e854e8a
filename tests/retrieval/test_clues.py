import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.ports.passages import PassageHead
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.question import DATE, ROLE, SPEAKER, clues_of
from treering.retrieval.tuning import TUNING

TALK = "src:talk"


def head(key, heading="", *, talk=TALK, kind="conversation", part="seg_1"):
    return PassageHead(key, talk, part, "source", kind, "/", "prose", "", heading, "")


def turns(*headings, talk=TALK):
    """Make the turns of a conversation, with keys from 1."""
    return {key: head(key, heading, talk=talk) for key, heading in enumerate(headings, start=1)}


@pytest.mark.parametrize("question", ["What did Caroline paint?", "what did CAROLINE paint", "Caroline's painting?"])
def test_the_turns_of_who_is_named_are_pointed_at(question):
    assert clues_of(question, turns("Caroline", "Melanie", "Caroline"), {}) == {SPEAKER: {1: 1.0, 3: 1.0}}


def test_a_first_name_is_enough_and_a_part_of_a_word_is_not():
    there = turns("Ann Lee (2023-05-08)", "Bob")
    assert clues_of("What did Ann buy?", there, {})[SPEAKER] == {1: 1.0}
    assert clues_of("What did Ann Lee buy?", there, {})[SPEAKER] == {1: 1.0}
    assert clues_of("Who planned the annual banner?", there, {}) == {}


def test_where_everybody_who_speaks_is_named_nobody_is_pointed_at():
    there = turns("Caroline", "Melanie")
    assert clues_of("What do Caroline and Melanie paint?", there, {}) == {}
    assert clues_of("What does Caroline paint?", turns("Caroline", "Caroline"), {}) == {}


def test_a_name_points_at_turns_of_the_conversations_where_others_speak_too():
    both = {1: head(1, "Ann", talk="src:a"), 2: head(2, "Bob", talk="src:a"), 3: head(3, "Ann", talk="src:b")}
    assert clues_of("What did Ann say?", both, {}) == {SPEAKER: {1: 1.0}}


def test_roles_are_no_names():
    assert SPEAKER not in clues_of("Which user did the assistant mean?", turns("user", "assistant"), {})


def test_turns_of_a_time_requested_are_pointed_at():
    there = {**turns("Ann", "Bob", "Ann"), 4: head(4, kind="note")}
    assert clues_of("What happened on 8 May 2023?", there, {1: 1.0, 2: 0.5, 4: 1.0, 9: 1.0}) == {DATE: {1: 1.0, 2: 0.5}}


@pytest.mark.parametrize(
    ("question", "pointed_at"),
    [
        ("Which hotel did you recommend?", {2: 1.0}),
        ("Can you remind me of the name?", {2: 1.0}),
        ("What did we discuss in our previous conversation?", {2: 1.0}),
        ("Where did I put my keys?", {1: 1.0}),
        ("What is our plan?", {1: 1.0}),
        ("Where is the hotel?", None),
    ],
)
def test_who_is_asked_about_points_at_the_turns_of_a_role(question, pointed_at):
    assert clues_of(question, turns("user (2023-05-08)", "assistant (2023-05-08)"), {}).get(ROLE) == pointed_at


@pytest.mark.parametrize("fields", [{"kind": "note"}, {"part": ""}])
def test_what_is_no_turn_has_no_clues(fields):
    there = {1: head(1, "Ann (2023-05-08)", **fields), 2: head(2, "Bob", **fields)}
    assert not is_turn(there[1])
    assert clues_of("What did Ann tell me in May 2023?", there, {1: 1.0}) == {}


def test_a_meeting_has_turns():
    assert clues_of("What did Ann say?", {1: head(1, "Ann", kind="meeting_record"), 2: head(2, "Bob")}, {}) == {
        SPEAKER: {1: 1.0}
    }


def test_every_clue_has_a_weight():
    assert TUNING.clues.weights.keys() == {SPEAKER, DATE, ROLE}


HEADINGS = st.sampled_from(["Ann", "Bob (2023-05-08)", "user", "assistant", "", "Ann Lee (2024-05-09)", "é\n(x)"])
QUESTIONS = st.lists(st.sampled_from(["Ann", "bob", "May", "2023", "8", "I", "you told", "2024-05", "é"]), max_size=6)


@settings(max_examples=100)
@given(st.lists(HEADINGS, max_size=6), QUESTIONS.map(" ".join), st.dictionaries(st.integers(1, 9), st.just(0.5)))
def test_clues_are_of_turns_that_are_there_and_are_between_0_and_1(headings, question, dated):
    there = turns(*headings)
    for name, scores in clues_of(question, there, dated).items():
        assert name in TUNING.clues.weights
        assert scores.keys() <= there.keys()
        assert all(0 < score <= 1 for score in scores.values())
