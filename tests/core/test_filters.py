from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.errors import InvalidInput
from treering.core.filters import (
    EVERYTHING,
    MOST_CONDITIONS,
    MOST_VALUES,
    And,
    Compare,
    Not,
    Or,
    asked_texts,
    matches,
    parse_filter,
)

RECORD = {"kind": "fact", "status": "active", "title": "Bees", "metadata.n": 3, "metadata.done": True}

fields = st.sampled_from(["kind", "status", "title", "metadata.n", "metadata.x"])
scalars = st.text(max_size=3) | st.integers(-2, 2) | st.booleans() | st.floats(-2, 2)
records = st.dictionaries(fields, scalars)
comparisons = st.one_of(
    st.tuples(fields, scalars).map(lambda pair: {pair[0]: pair[1]}),
    st.tuples(fields, st.lists(scalars, max_size=3)).map(lambda pair: {pair[0]: pair[1]}),
    st.tuples(fields, st.sampled_from(["eq", "ne", "lt", "lte", "gt", "gte"]), scalars).map(
        lambda triple: {triple[0]: {triple[1]: triple[2]}}
    ),
    st.tuples(fields, st.booleans()).map(lambda pair: {pair[0]: {"exists": pair[1]}}),
    st.tuples(fields, st.text(max_size=2)).map(lambda pair: {pair[0]: {"prefix": pair[1]}}),
)
filters = st.recursive(
    comparisons,
    lambda inner: (
        inner.map(lambda part: {"not": part})
        | st.lists(inner, max_size=3).map(lambda parts: {"and": parts})
        | st.lists(inner, max_size=3).map(lambda parts: {"or": parts})
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("data", "passes"),
    [
        ({}, True),
        ({"kind": "fact"}, True),
        ({"kind": "decision"}, False),
        ({"kind": "fact", "status": "stale"}, False),
        ({"kind": ["fact", "decision"]}, True),
        ({"kind": []}, False),
        ({"or": [{"kind": "decision"}, {"not": {"status": "stale"}}]}, True),
        ({"or": []}, False),
        ({"and": []}, True),
        ({"title": {"prefix": "Be"}}, True),
        ({"title": {"prefix": ""}}, True),
        ({"metadata.n": {"gte": 3, "lt": 4}}, True),
        ({"metadata.n": {"gt": "2"}}, False),
        ({"metadata.n": {"prefix": "3"}}, False),
        ({"metadata.done": True}, True),
        ({"metadata.done": 1}, False),
        ({"metadata.n": True}, False),
        ({"metadata.x": {"exists": False}}, True),
        ({"metadata.x": {"ne": 1}}, True),
        ({"metadata.x": {"lt": 1}}, False),
        ({"kind": {"in": ["fact"]}}, True),
    ],
)
def test_a_filter_means_what_it_says(data: Mapping[str, Any], passes: bool) -> None:
    assert matches(parse_filter(data), RECORD) is passes


def test_nothing_asked_is_everything() -> None:
    assert parse_filter(None) == parse_filter({}) == EVERYTHING


def test_times_are_compared_as_moments_whatever_their_form() -> None:
    record = {"updated_at": "2026-01-01T00:00:00.000000Z"}
    for text in ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"):
        assert matches(parse_filter({"updated_at": {"gte": text, "lte": text}}), record)
        assert matches(parse_filter({"updated_at": text}), record)
        assert not matches(parse_filter({"updated_at": {"gt": text}}), record)
    assert matches(parse_filter({"updated_at": {"prefix": "2026-01"}}), record)
    with pytest.raises(InvalidInput):
        parse_filter({"updated_at": {"gt": "yesterday"}})


@given(filters, records)
def test_not_is_the_opposite(data: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    where = parse_filter(data)
    assert matches(Not(where), record) is not matches(where, record)


@given(st.lists(filters, max_size=3), records)
def test_and_and_or_are_all_and_any(parts: list[Mapping[str, Any]], record: Mapping[str, Any]) -> None:
    parsed = [parse_filter(part) for part in parts]
    each = [matches(part, record) for part in parsed]
    assert matches(parse_filter({"and": parts}), record) is all(each)
    assert matches(parse_filter({"or": parts}), record) is any(each)
    assert matches(And(tuple(parsed)), record) is all(each)
    assert matches(Or(tuple(parsed)), record) is any(each)


@given(fields, scalars, records)
def test_equal_and_not_equal_share_all_records(field: str, value: Any, record: Mapping[str, Any]) -> None:
    equal, unequal = Compare(field, "eq", value), Compare(field, "ne", value)
    assert matches(equal, record) is not matches(unequal, record)


@given(fields, scalars, records)
def test_orders_agree_with_one_another(field: str, value: Any, record: Mapping[str, Any]) -> None:
    below, above = (matches(Compare(field, sign, value), record) for sign in ("lt", "gt"))
    at_most, at_least = (matches(Compare(field, sign, value), record) for sign in ("lte", "gte"))
    assert not (below and above)
    assert at_most >= below
    assert at_least >= above


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"knd": "fact"}, "kind"),
        ({"metadata.": "x"}, "metadata.<key>"),
        ({"kind": {"equals": "fact"}}, "eq"),
        ({"kind": {"in": "fact"}}, "For example"),
        ({"kind": {"exists": "yes"}}, "For example"),
        ({"kind": {"prefix": 3}}, "For example"),
        ({"kind": None}, "For example"),
        ({"kind": {"eq": {}}}, "For example"),
        ({"and": "kind"}, "For example"),
        ({"or": [["kind"]]}, "For example"),
        ({"not": "kind"}, "For example"),
    ],
)
def test_a_wrong_filter_is_refused_with_a_hint(data: Mapping[str, Any], hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_filter(data)
    assert hint in refused.value.hint


def test_a_filter_nested_too_deep_is_refused() -> None:
    data: dict[str, Any] = {"kind": "fact"}
    for _ in range(20_000):
        data = {"not": data}
    with pytest.raises(InvalidInput):
        parse_filter(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"title": {"in": ["x"] * (MOST_VALUES + 1)}}, "10001 values in its lists; at most 10000"),
        ({"and": [{"title": ["x"] * 6_000}, {"kind": ["y"] * 6_000}]}, "12000 values in its lists; at most 10000"),
        ({"or": [{"title": "x"}] * (MOST_CONDITIONS + 1)}, "201 conditions; at most 200"),
        ({"or": [{"and": [{"title": "x"}, {"title": "y"}]}] * 100}, "301 conditions; at most 200"),
    ],
)
def test_a_filter_larger_than_a_limit_is_refused_with_the_limit(data, told):
    with pytest.raises(InvalidInput, match=told):
        parse_filter(data)


def test_a_filter_up_to_the_limits_is_taken():
    parse_filter({"title": ["x"] * MOST_VALUES})
    parse_filter({"or": [{"title": "x"}] * (MOST_CONDITIONS - 1)})


@pytest.mark.parametrize(
    "data", [{"q" * 100_000: 1}, {"kind": {"q" * 100_000: 1}}, {"kind": {"prefix": ["q" * 100_000]}}]
)
def test_an_error_shows_the_beginning_of_what_it_refuses(data):
    with pytest.raises(InvalidInput) as refused:
        parse_filter(data)
    assert len(refused.value.message) < 200


def test_texts_that_a_filter_asks_for_are_named_where_all_of_it_has_to_hold():
    where = parse_filter({"and": [{"title": "Bees"}, {"status": ["active", 7]}], "kind": "fact"})
    assert sorted(asked_texts(where)) == [("kind", ("fact",)), ("status", ("active",)), ("title", ("Bees",))]
    assert list(asked_texts(parse_filter({"or": [{"title": "Bees"}]}))) == [("title", ("Bees",))]


@pytest.mark.parametrize(
    "data", [{"or": [{"title": "Bees"}, {"kind": "fact"}]}, {"not": {"title": "Bees"}}, {"title": {"ne": "Bees"}}, {}]
)
def test_what_a_filter_may_do_without_is_not_requested(data):
    where = parse_filter(data)
    assert list(asked_texts(where)) == []
