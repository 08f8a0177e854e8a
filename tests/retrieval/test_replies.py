"""Which turn answers a question."""

import pytest

from treering.core.evidence import Lines, Segment, Turn
from treering.retrieval.search.question import asks, reply_among


def turn(position: int, text: str, speaker: str, *, number: int | None = None) -> Segment:
    place = Turn(turn=position if number is None else number, speaker=speaker)
    return Segment(segment_id=f"seg_{position}", locator=place, excerpt=text, hash="", position=position)


ASKED = turn(3, "And which colour?", "Ann")


@pytest.mark.parametrize(
    "text",
    [
        "Which colour?",
        'Did he say "why?"',
        "Really?! 😀",
        "(You too?)",
        "Look at this one, do you like it? [image: a green wall]",
        "どの色ですか？",
    ],
)
def test_a_text_whose_last_sentence_is_a_question_asks(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["", "Why? Because.", "Is it? Yes 😀", "A statement.", "[image: who is it?]", "Fine!"])
def test_a_text_that_goes_on_after_its_question_does_not(text: str) -> None:
    assert not asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "Tell me which port it listens on.",
        "I forgot. Please remind me of the release date",
        "ok, and which port does it use",
        "what is the timeout",
        "where's the config",
        "Explain the retry rule.",
        "Thanks!\nlist the open tickets",
    ],
)
def test_a_request_and_a_question_without_its_mark_ask_too(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "What a day!",
        "He will tell me tomorrow.",
        "When I got home, I cooked.",
        "What he did is fine, I think.",
        "Tell me the port. It is 8080.",
        "Lists are fine.",
        "However it is done",
    ],
)
def test_a_statement_that_looks_like_one_does_not(text: str) -> None:
    assert not asks(text)


def test_the_next_turn_by_somebody_else_is_the_reply() -> None:
    reply = turn(4, "Green.", "Bob")
    assert reply_among(ASKED, [turn(5, "Later.", "Bob"), reply, turn(2, "Before.", "Bob")]) == reply


def test_a_turn_that_asks_nothing_has_no_reply() -> None:
    assert reply_among(turn(3, "Fine.", "Ann"), [turn(4, "Green.", "Bob")]) is None


def test_who_goes_on_speaking_does_not_answer_the_own_question() -> None:
    assert reply_among(ASKED, [turn(4, "I mean the wall.", "Ann"), turn(5, "Green.", "Bob")]) is None


def test_the_rest_of_the_same_message_is_no_reply() -> None:
    assert reply_among(ASKED, [turn(4, "It goes on.", "Bob", number=3)]) is None


def test_the_last_turn_has_no_reply() -> None:
    assert reply_among(ASKED, [turn(2, "Before.", "Bob")]) is None


def test_what_is_no_turn_has_no_reply() -> None:
    lines = Lines(path="a.md", start=1, end=1)
    page = Segment(segment_id="seg_1", locator=lines, excerpt="Why?", hash="", position=1)
    assert reply_among(page, [page.model_copy(update={"segment_id": "seg_2", "position": 2})]) is None
