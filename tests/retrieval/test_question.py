from datetime import UTC, date, datetime

import numpy as np
import pytest

from treering.ports.models import MOST_QUERIES
from treering.ports.passages import AskedDays
from treering.retrieval.search.question import Question, asks_about_chore, asks_how_to, asks_what_changed, days_asked
from treering.retrieval.text.analysis import LONGEST_QUERY
from treering.retrieval.text.dates import asked_ranges
from treering.testing.fakes import HashingEmbedder

NOW = datetime(2023, 6, 27, tzinfo=UTC)


def test_a_single_day_includes_the_days_before_and_after():
    assert list(days_asked(asked_ranges("What happened on 8 May 2023?", NOW))) == [
        AskedDays(date(2023, 5, 7), date(2023, 5, 9))
    ]


def test_a_month_requested_is_no_longer_than_it_is():
    assert list(days_asked(asked_ranges("What happened in May 2023?", NOW))) == [
        AskedDays(date(2023, 5, 1), date(2023, 5, 31))
    ]


def test_a_question_that_is_asked_at_no_time_is_about_the_dates_it_names_in_full():
    assert list(days_asked(asked_ranges("What happened last week, and in May?", None))) == []
    assert Question.of("What happened in 2022?", embedder=None).days == (
        AskedDays(date(2022, 1, 1), date(2022, 12, 31)),
    )


def test_the_ends_of_the_calendar_are_no_failure():
    assert list(days_asked(asked_ranges("on 31 December 2023", datetime(9999, 12, 31, tzinfo=UTC))))
    assert not list(days_asked(asked_ranges("What happens today?", datetime(9999, 12, 31, tzinfo=UTC))))
    assert not list(days_asked(asked_ranges("What happened today?", datetime(1, 1, 1, tzinfo=UTC))))


def test_of_a_very_long_question_the_beginning_is_read_and_the_rest_counted():
    asked = Question.of("honey " * 10_000 + "wax last week", embedder=None, now=NOW)
    assert (len(asked.text), asked.unread) == (LONGEST_QUERY, 60_013 - LONGEST_QUERY)
    assert "wax" not in asked.terms.words
    assert asked.days == ()


class CountingEmbedder(HashingEmbedder):
    """Counts the questions it embeds; `name` is the model it says it is."""

    def __init__(self, name="counting"):
        super().__init__()
        self.name, self.embedded = name, []

    @property
    def model_id(self):
        return self.name

    def embed_query(self, text):
        self.embedded.append(text)
        return super().embed_query(text)


def test_a_question_asked_again_is_not_embedded_again():
    embedder = CountingEmbedder()
    first, again = (Question.of("Where do the bees live?", embedder=embedder).meaning.own for _ in range(2))
    assert embedder.embedded == ["Where do the bees live?"]
    np.testing.assert_array_equal(first, again)


def test_each_embedder_and_each_model_embeds_a_question_itself():
    one, other = CountingEmbedder(), CountingEmbedder()
    for embedder in (one, other, one):
        Question.of("Where do the bees live?", embedder=embedder)
    one.name = "another"
    Question.of("Where do the bees live?", embedder=one)
    assert (len(one.embedded), len(other.embedded)) == (2, 1)


def test_only_the_vectors_of_the_last_questions_are_remembered():
    embedder = CountingEmbedder()
    for number in range(MOST_QUERIES + 1):
        Question.of(f"Where is hive {number}?", embedder=embedder)
    Question.of(f"Where is hive {MOST_QUERIES}?", embedder=embedder)
    assert len(embedder.embedded) == MOST_QUERIES + 1
    Question.of("Where is hive 0?", embedder=embedder)
    assert len(embedder.embedded) == MOST_QUERIES + 2


def test_a_remembered_vector_cannot_be_changed():
    embedder = CountingEmbedder()
    for _ in range(2):
        meaning = Question.of("Where do the bees live?", embedder=embedder).meaning
    with pytest.raises(ValueError, match="read-only"):
        meaning.own += 1


def test_a_question_that_could_not_be_embedded_is_asked_again():
    class Waking(CountingEmbedder):
        def embed_query(self, text):
            vector = super().embed_query(text)
            if len(self.embedded) == 1:
                raise ConnectionError("still asleep")
            return vector

    embedder = Waking()
    with pytest.raises(ConnectionError):
        Question.of("Where do the bees live?", embedder=embedder)
    assert Question.of("Where do the bees live?", embedder=embedder).meaning.own is not None


@pytest.mark.parametrize(
    "text",
    ["run the tests", "Build the docs", "how do I run the tests", "why was Redis chosen", "which port do we use"],
)
def test_documentation_answers_jobs_and_past_decisions(text):
    assert asks_how_to(text)


@pytest.mark.parametrize(
    "text",
    [
        "run",
        "Fix the retry of uploads",
        "test_upload fails with a timeout",
        "why does the parser return None",
        "Uploads fail after a timeout\nHow can I find out why?",
    ],
)
def test_code_answers_tasks_and_behaviour(text):
    assert not asks_how_to(text)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("how do I run the tests", True),
        ("how are releases made", True),
        ("release a new version", True),
        ("what should I do before submitting a patch", True),
        ("how do I set up a development environment", True),
        ("supported Python versions", True),
        ("which versions of tmux does it work with", True),
        ("how do I mock responses in a test", False),
        ("how do I set a timeout", False),
        ("which port does the development server use", False),
    ],
)
def test_chores_are_work_on_the_project_itself(text, asked):
    assert asks_about_chore(text) == asked


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("what changed lately", True),
        ("What's new?", True),
        ("show the latest commits", True),
        ("what changed in the latest release", False),
        ("new changes of the parser", False),
        ("what is the last one", False),
    ],
)
def test_question_of_the_latest_changes_is_recognized(text, asked):
    assert asks_what_changed(text) == asked
