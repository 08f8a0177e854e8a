"""Summaries of a text's own sentences: decisions, names and dates before remarks, and greetings never."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.extensions.statements.extractive import (
    WORTH_KEEPING,
    best,
    dated,
    entities_of,
    phrases_of,
    sentences_of,
    sort_of,
    told,
    weight_of,
)

TALK = (
    "Hey! How are you doing? It rained. We decided to use Postgres instead of MySQL. "
    "Dr. Smith said e.g. the logs are full. The deadline is Friday, 3 May."
)


def texts(sentences):
    return [sentence.text for sentence in sentences]


def test_sentences_end_where_people_end_them():
    assert texts(sentences_of(TALK)) == [
        "Hey!",
        "How are you doing?",
        "It rained.",
        "We decided to use Postgres instead of MySQL.",
        "Dr. Smith said e.g. the logs are full.",
        "The deadline is Friday, 3 May.",
    ]


def test_sentences_end_in_other_scripts_too():
    assert texts(sentences_of("私は東京に住んでいます。犬が好きです。")) == [
        "私は東京に住んでいます。",
        "犬が好きです。",
    ]


def test_code_and_links_are_no_sentences():
    assert texts(sentences_of("Run this:\n```sh\nrm -rf build\n```\nhttps://example.org/a.b")) == ["Run this:"]


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "Thanks!",
        "You're welcome! Let me know if you need anything else.",
        "Sounds good, see you then!",
        "lol",
        "…",
    ],
)
def test_pleasantries_are_not_worth_keeping(text):
    assert all(sentence.weight < WORTH_KEEPING for sentence in sentences_of(text))


@pytest.mark.parametrize("text", ["We do Postgres", "So we use tabs.", "Ok, then we go with oak", "We'll ship 2.0"])
def test_a_short_sentence_that_says_what_will_be_done_is_a_decision(text):
    (sentence,) = sentences_of(text)
    assert sort_of(sentence.text) == "decision"
    assert sentence.weight >= WORTH_KEEPING


@pytest.mark.parametrize(
    "text",
    ["We do not know.", "We do that", "We use to have a garden, it was nice", "Do we use tabs?", "We do have to go"],
)
def test_what_only_sounds_like_a_decision_is_none(text):
    assert sort_of(text) != "decision"


@pytest.mark.parametrize(
    "text",
    [
        "Just install the runner.",
        "Could you add a task for the audit?",
        "40MB zip file",
        "Let me try to write it in Rust.",
    ],
)
def test_what_somebody_is_told_to_do_and_what_is_measured_is_worth_keeping(text):
    assert all(sentence.weight >= WORTH_KEEPING for sentence in sentences_of(text))


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("We decided to use Postgres.", "Postgres is a database."),
        ("I love hiking in the mountains.", "There are mountains on the way."),
        ("The invoice of 400 euros is due on 3 May.", "There was an invoice somewhere."),
        ("I moved to Berlin last year.", "Did you move to Berlin last year?"),
        ("The server crashes when the cache is full.", "It does that then."),
        ("我明天去上海出差。", "好的"),
    ],
)
def test_more_informative_statement_weighs_more(more, less):
    assert weight_of(more) > weight_of(less)
    assert weight_of(more) >= WORTH_KEEPING


def test_what_a_model_says_weighs_less_than_what_a_person_says():
    (by_model,) = sentences_of("Postgres stores JSON well.", speaker="assistant")
    (by_person,) = sentences_of("Postgres stores JSON well.", speaker="Ada")
    assert by_model.weight < by_person.weight


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("Let's use the blue one.", "decision"),
        ("I prefer tea.", "preference"),
        ("We need to call the bank by Friday.", "open"),
        ("The bank is closed.", "fact"),
    ],
)
def test_sentences_are_sorted_by_what_they_are_about(text, sort):
    assert sort_of(text) == sort


def test_the_best_sentences_stay_in_order_and_within_their_bounds():
    kept = best(sentences_of(TALK), most=2, words=80)
    assert texts(kept) == ["We decided to use Postgres instead of MySQL.", "The deadline is Friday, 3 May."]
    assert texts(best(sentences_of(TALK), most=5, words=9)) == ["We decided to use Postgres instead of MySQL."]


def test_what_is_said_twice_is_reported_once():
    twice = sentences_of("We decided to use Postgres.  We decided to use  postgres. We decided to use Postgres.")
    assert len(best(twice, most=5, words=80)) == 1


def test_told_names_speaker_and_day_on_change():
    said = [
        *sentences_of("I moved to Rome. I love Rome.", speaker="Ada", when="2024-05-01"),
        *sentences_of("The key is with Tom.", speaker="Bob", when="2024-05-02"),
    ]
    assert told(said) == "[2024-05-01] Ada: I moved to Rome. I love Rome. [2024-05-02] Bob: The key is with Tom."


@pytest.mark.parametrize("opening", ["Ben: I will pay", "Update: we pay", "Grandma's rule, always: we pay"])
def test_told_names_speaker_around_an_apparent_speaker(opening):
    said = sentences_of(f"I like oak. {opening} by 4 May. I can wait.", speaker="Ada")
    assert told(said) == f"Ada: I like oak. Ada: {opening} by 4 May. Ada: I can wait."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I ran a race last Saturday.", "I ran a race last Saturday (2023-05-06)."),
        ("We moved last month, on a Monday.", "We moved last month (2023-04-01 to 2023-04-30), on a Monday."),
        ("It was on 3 May 2021.", "It was on 3 May 2021."),
        ("It was good.", "It was good."),
    ],
)
def test_days_seen_from_the_day_they_were_spoken_of_are_named(text, told):
    (sentence,) = sentences_of(text, when="2023-05-09")
    assert dated(sentence).text == told
    (undated,) = sentences_of(text)
    assert dated(undated) == undated


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I will do the exam in May.", "I will do the exam in May (2027-05-01 to 2027-05-31)."),
        ("We’re going to move on 3 March.", "We’re going to move on 3 March (2027-03-03)."),
        ("I'll pay it on the 5th.", "I'll pay it on the 5th (2026-10-05)."),
        ("I will finish it in September.", "I will finish it in September (2026-09-01 to 2026-09-30)."),
        ("I did the exam in May.", "I did the exam in May (2026-05-01 to 2026-05-31)."),
        (
            "We went in May and will go back in March.",
            "We went in May (2026-05-01 to 2026-05-31) and will go back in March (2027-03-01 to 2027-03-31).",
        ),
        ("I will tell you what I did in May.", "I will tell you what I did in May (2026-05-01 to 2026-05-31)."),
    ],
)
def test_planned_dates_without_a_year_are_ahead(text, told):
    (sentence,) = sentences_of(text, when="2026-09-14")
    assert dated(sentence).text == told


def test_names_dates_and_amounts_are_entities_and_the_rest_are_phrases():
    said = sentences_of("We pay 400 euros to Acme on 3 May for the garden fence. They know Acme well.", speaker="Ada")
    assert entities_of(said)[:2] == ["Ada", "Acme"]
    assert {"400 euros", "3 May"} <= set(entities_of(said))
    assert "garden fence" in phrases_of(said)


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet="aB .!?。\n:[]`-1'", max_size=120))
def test_every_text_can_be_cut_and_reported(text):
    kept = best(sentences_of(text, speaker="Ada"), most=3, words=20)
    assert len(kept) <= 3
    assert told(kept).count("Ada: ") >= bool(kept)


def test_a_sentence_without_end_is_cut_and_costs_no_time():
    (sentence,) = sentences_of("my " + "word " * 20_000)
    assert len(sentence.text) <= 321
