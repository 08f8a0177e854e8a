"""Of a passage the lines are shown that answer a query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.evidence import Definition
from treering.models.static_model import StaticEmbedder
from treering.retrieval.search.lines import (
    LineQuery,
    lines_as_text,
    shown_lines,
    symbol_of,
)

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


def answering_lines(text, query, **options):
    return LineQuery(query).lines_of(text, **options)


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


def nested(text, query, **options):
    lines = text.split("\n")
    return [lines[place].strip() for place in LineQuery(query).lines_of(text, nested=True, **options).shown]


def text_shown(text, query, *, first_line=0, max_chars=240, most=6):
    asked = LineQuery(query)
    answer = asked.lines_of(text, most=most)
    return lines_as_text(
        shown_lines(text, answer.shown, asked.terms, columns=answer.columns, first_line=first_line, max_chars=max_chars)
    )


YAML = "name: CI\njobs:\n  build:\n    steps: []\n  lint:\n    runs-on: ubuntu\n    timeout-minutes: 17\n"
TOML = '[server]\nport = 8080\n\n[tool.gizmo]\nname = "x"\nsize = 3\ndepth = 4\n'
TABLE = "# Limits\n\n| Name | Value |\n|---|---|\n| pool | 10 |\n| idle | 30 |\n| burst_quota | 250 |\n"
CSV = "city,river\n" + "".join(f"Town{number},Brook\n" for number in range(90)) + "Narwhalton,Isar\n"
MINIFIED = "function f(a,b){return a+b};" * 40 + "window.snorkelMode=1;" + "function g(a){return a};" * 40


@pytest.mark.parametrize(
    ("text", "query", "answer"),
    [
        (CODE, "which handler handles a failed task", '"""Handle a failed task."""'),
        (TABLE, "burst_quota", "| burst_quota | 250 |"),
        (YAML, "lint timeout", "timeout-minutes: 17"),
        (TOML, "depth of gizmo", "depth = 4"),
        (CSV, "river of Narwhalton", "Narwhalton,Isar"),
    ],
)
def test_only_matching_line_of_any_text_is_shown(text, query, answer):
    assert answer in shown(text, query)


def test_line_of_code_is_shown_with_its_signature():
    assert nested(CODE, "reject_on_worker_lost", most=2) == [
        "def on_failure(self, failure):",
        "self.reject_on_worker_lost",
    ]


@pytest.mark.parametrize(("text", "query", "key"), [(YAML, "timeout", "lint:"), (TOML, "depth", "[tool.gizmo]")])
def test_line_of_data_is_shown_with_its_key(text, query, key):
    assert key in nested(text, query, most=2)


def test_line_with_all_words_is_shown_with_its_neighbours():
    text = "\n".join(["x = limit"] * 9 + ["a = 1", "self.retry_limit = 3", "b = 2"] + ["y = retry"] * 9)
    assert shown(text, "retry_limit", most=3) == ["a = 1", "self.retry_limit = 3", "b = 2"]


def test_repeated_line_takes_one_place():
    text = "\n".join(["continue ROUTES"] * 8 + ["raise UnsupportedRoute()"])
    assert "raise UnsupportedRoute()" in shown(text, "unsupported routes", most=3)


def test_vectors_choose_the_line_if_no_word_does():
    text = "\n".join(["The kettle is blue."] * 12 + ["Cars may not exceed 50 km/h."] + ["A bird sings."] * 12)
    answer = LineQuery("maximum speed of vehicles", StaticEmbedder()).lines_of(text, most=1)
    assert (answer.shown, answer.matched) == ((12,), frozenset())


@pytest.mark.parametrize(
    ("text", "query", "answer"),
    [
        (MINIFIED, "snorkelMode", "window.snorkelMode=1"),
        ("We talked for a while. " * 40 + "The deadline is Tuesday. " + "And so on. " * 40, "deadline", "is Tuesday."),
    ],
)
def test_long_line_is_cut_around_the_answer(text, query, answer):
    row = text_shown(text, query)
    assert answer in row
    assert len(row) <= 250


def test_numbers_and_marks_are_of_lines_of_files_alone():
    assert text_shown("a = 1\nretry = 3", "retry", first_line=9) == "9- a = 1\n10: retry = 3"
    assert text_shown("Hello.\nRetry later.", "retry") == "Hello.\nRetry later."


def test_symbol_with_words_of_the_query_is_named():
    terms = LineQuery("when to retry").terms
    assert symbol_of("Task.apply, Task.retry, …", terms, "acme/task.py") == "Task.retry"
    assert symbol_of("Task.retry (part 2)", terms, "acme/task.py") == "Task.retry"
    assert symbol_of("Calling tasks, and retrying them", terms, "a.md") == "Calling tasks, and retrying them"
    assert symbol_of("task.py", terms, "acme/task.py") == ""


def test_symbol_around_the_matching_lines_is_named():
    text = 'def test_often():\n    check()\n\n\nclass Limit:\n    def count(self):\n        """How often to retry."""\n'
    definitions = [Definition(name="test_often", first=1, last=2), Definition(name="Limit.count", first=6, last=7)]

    def named(query, *, heading="test_often, Limit"):
        asked = LineQuery(query)
        lines = asked.lines_of(text).matched
        return symbol_of(heading, asked.terms, "limits.py", lines=lines, definitions=definitions)

    assert named("how often to retry") == "Limit"
    assert named("how often to retry", heading="test_often, Limit.reset, …") == "Limit.count"
    assert named("check") == "test_often"
    assert named("often a port") == "test_often"
    assert named("retry", heading="Limits") == "Limits"


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


def test_left_out_lines_are_marked_between_numbered_ones():
    text = "\n".join(["def retry():", "    a = 1", "    b = 2", "    c = 3", "    limit = 5", "", "    return limit"])
    rows = shown_lines(text, (0, 4, 6), frozenset({"limit"}), first_line=10, max_chars=240)
    assert lines_as_text(rows) == "10- def retry():\n…\n14:     limit = 5\n16:     return limit"
