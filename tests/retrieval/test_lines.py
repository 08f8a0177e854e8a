"""Of a passage the lines are shown that answer a query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.retrieval.search.lines import answering_lines

CODE = """\
def on_failure(self, failure):
    \"\"\"Handle a failed task.\"\"\"
    is_lost = isinstance(failure, WorkerLost)
    if self.acks_late:
        requeue = is_lost
        if (
            self.reject_on_worker_lost
            and is_lost
        ):
            self.reject(requeue=requeue)
    return failure
"""


def shown(text, query, **options):
    lines = text.split("\n")
    return [lines[place].strip() for place in answering_lines(text, query, **options).shown]


@pytest.mark.parametrize(
    "query", ["reject_on_worker_lost", "where is reject_on_worker_lost used?", "worker lost reject"]
)
def test_lines_with_the_words_of_the_query_are_shown(query):
    assert "self.reject_on_worker_lost" in shown(CODE, query)


def test_rare_words_choose_the_line_before_common_ones():
    text = "\n".join(["the upload retries"] * 20 + ["the upload limit is five retries"] + ["the upload retries"] * 20)
    assert answering_lines(text, "what is the limit of upload retries", most=1).shown == (20,)


def test_lines_that_add_words_are_shown_together():
    text = "Ports\nThe api listens on 8080.\n" + "filler line\n" * 10 + "The admin page listens on 9090.\n"
    assert {"The api listens on 8080.", "The admin page listens on 9090."} <= {*shown(text, "api and admin page")}


def test_first_lines_are_shown_without_a_word_of_the_query():
    found = answering_lines("\n# Title\n\nSome text.\n", "zebra", most=2)
    assert (found.shown, found.matched) == ((1, 3), frozenset())


def test_empty_text_has_no_lines():
    assert answering_lines("", "anything").shown == ()


@given(
    st.lists(st.sampled_from(["retry limit", "", "port 80", "x = retry", "größe", "再試行"]), max_size=30),
    st.sampled_from(["retry limit", "port", "zebra", "?"]),
    st.integers(1, 6),
)
def test_shown_lines_are_ordered_few_and_contain_the_matches(lines, query, most):
    found = answering_lines("\n".join(lines), query, most=most)
    assert list(found.shown) == sorted(set(found.shown))
    assert len(found.shown) <= most
    assert found.matched <= set(found.shown)
    assert all(place < len(lines) and lines[place].strip() for place in found.shown)
