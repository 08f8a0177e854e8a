from datetime import UTC, date, datetime

from treering.ports.passages import AskedDays
from treering.retrieval.search.question import Question, days_asked
from treering.retrieval.text.analysis import LONGEST_QUERY

NOW = datetime(2023, 6, 27, tzinfo=UTC)


def test_a_day_that_is_asked_for_counts_with_the_days_beside_it_and_its_month_by_half():
    assert list(days_asked("What happened on 8 May 2023?", NOW)) == [
        AskedDays(date(2023, 5, 7), date(2023, 5, 9)),
        AskedDays(date(2023, 5, 1), date(2023, 5, 31), weight=0.5),
    ]


def test_a_month_that_is_asked_for_is_no_longer_than_it_is():
    assert list(days_asked("What happened in May 2023?", NOW)) == [AskedDays(date(2023, 5, 1), date(2023, 5, 31))]


def test_a_question_that_is_asked_at_no_time_is_about_the_dates_it_names_in_full():
    assert list(days_asked("What happened last week, and in May?", None)) == []
    assert Question.of("What happened in 2022?", embedder=None).days == (
        AskedDays(date(2022, 1, 1), date(2022, 12, 31)),
    )


def test_the_ends_of_the_calendar_are_no_failure():
    assert list(days_asked("on 31 December 2023", datetime(9999, 12, 31, tzinfo=UTC)))
    assert list(days_asked("What happens today?", datetime(9999, 12, 31, tzinfo=UTC)))
    assert list(days_asked("What happened today?", datetime(1, 1, 1, tzinfo=UTC)))


def test_of_a_very_long_question_the_beginning_is_read_and_the_rest_counted():
    asked = Question.of("honey " * 10_000 + "wax last week", embedder=None, now=NOW)
    assert (len(asked.text), asked.unread) == (LONGEST_QUERY, 60_013 - LONGEST_QUERY)
    assert "wax" not in asked.terms.words
    assert asked.days == ()
