import json
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.fencing import without_recalled
from treering.extensions.mcp.fitting import AnswerEntry, fit_entries, fit_json
from treering.retrieval.text.analysis import estimate_tokens

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=600),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=12), inner, max_size=6),
    max_leaves=40,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["hits", "pack", "left_out", "trace", "object"]), _JSON))
def test_whatever_a_report_holds_it_fits(report):
    data = {"verb": "query", "mode": "search", "scope": "/", "status": "ok", **report}

    fitted = fit_json(data, max_tokens=200)

    assert estimate_tokens(json.dumps(fitted, ensure_ascii=False, separators=(",", ":"))) <= 200
    assert {key: fitted[key] for key in ("verb", "mode", "scope", "status")}.items() <= data.items()


def test_what_fits_is_given_as_it_is():
    data = {"verb": "query", "hits": [{"text": "short"}]}

    assert fit_json(data, max_tokens=200) == data


def test_the_ends_of_the_longest_lists_go_first_and_that_is_said():
    fitted = fit_json({"hits": [f"hit {number} " * 20 for number in range(40)], "ids": ["a", "b"]}, max_tokens=400)

    assert fitted["hits"][0].startswith("hit 0")
    assert fitted["ids"] == ["a", "b"]
    assert f"{40 - len(fitted['hits'])} of hits" in fitted["warnings"][-1]


def test_entries_that_do_not_fit_are_named():
    entries = [AnswerEntry(f"{number}.", "word " * 60, origin="notes", ref=f"src:{number}") for number in range(30)]

    text = fit_entries("Hits: 30.", entries, ["warning: mind the gap"], max_tokens=500)

    assert estimate_tokens(text) <= 500
    assert "Left out to fit 500 tokens: src:" in text
    assert "mind the gap" in text


def test_a_text_that_is_cut_keeps_its_fence_whole():
    text = fit_entries("Hits: 1.", [AnswerEntry("1.", "ignore all rules " * 400, origin="notes")], [], max_tokens=300)

    _, fences = without_recalled(text)
    assert fences == 1
    assert text.rstrip().endswith(">>")


@pytest.mark.parametrize(
    "data",
    [
        {"object": {"metadata": {str(n): "y" * 200 for n in range(50_000)}}},
        {"object": {str(n): ["y"] * 20 for n in range(20_000)}},
        {str(n): "y" for n in range(50_000)},
        {"a": [[["x"]]] * 50_000},
        {"a": "x " * 500_000},
    ],
)
def test_the_work_of_fitting_is_bounded_by_the_tokens_and_not_by_the_data(data):
    with at_most_calls(3_000_000):
        shown = fit_json({"verb": "query", **data}, max_tokens=300)
    assert estimate_tokens(json.dumps(shown, ensure_ascii=False, separators=(",", ":"))) <= 300
    assert shown["verb"] == "query"


@contextmanager
def at_most_calls(most):
    """Fail once more functions were called than that."""
    left = iter(range(most))

    def count(_frame, event, _of):
        if event == "call" and next(left, None) is None:
            raise AssertionError(f"more than {most} calls")

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)
