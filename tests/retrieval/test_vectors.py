"""Vectors in memory, against a dictionary and a sort."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.errors import InvalidInput
from treering.retrieval.index.tables import MAX_KEY, VectorTable, nth_largest

DIMENSION = 70  # not a multiple of 64, so that the padding of sign bits is exercised
TOLERANCE = 1e-4


def unit(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def keyed(*keys: int) -> np.ndarray:
    return np.array(keys, np.int64)


def table_of(seeds: dict[int, int], **options: int) -> VectorTable:
    table = VectorTable(DIMENSION, **options)
    table.add(keyed(*seeds), np.array([unit(seed) for seed in seeds.values()]).reshape(-1, DIMENSION))
    return table


def clustered(*, rows: int, clusters: int, seed: int) -> np.ndarray:
    """Vectors as embedders give them: in clusters, and all leaning the same way."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, DIMENSION)) + rng.standard_normal(DIMENSION)
    points = centres[rng.integers(clusters, size=rows)] + 0.6 * rng.standard_normal((rows, DIMENSION))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


KEYS = st.lists(st.integers(0, 12), max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(st.integers(0, 12), st.integers(0, 5), max_size=6)),
    st.tuples(st.just("discard"), KEYS),
    st.tuples(st.just("search"), st.tuples(st.integers(0, 5), st.integers(0, 8), st.none() | KEYS)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_any_sequence_of_steps_answers_as_a_dictionary_and_a_sort_would(steps):
    table, naive = VectorTable(DIMENSION), {}
    for step, given_ in steps:
        if step == "add":
            table.add(keyed(*given_), np.array([unit(s) for s in given_.values()]).reshape(-1, DIMENSION))
            naive |= given_
        elif step == "discard":
            table.discard(keyed(*given_))
            naive = {key: seed for key, seed in naive.items() if key not in given_}
        else:
            seed, limit, allowed = given_
            keys, cosines = table.search(unit(seed), limit=limit, allowed=None if allowed is None else keyed(*allowed))
            wanted = [
                (-round(float(unit(seed) @ unit(other)), 3), key)
                for key, other in naive.items()
                if allowed is None or key in allowed
            ]
            assert keys.tolist() == [key for _, key in sorted(wanted)[:limit]]
            np.testing.assert_allclose(cosines, [unit(seed) @ unit(naive[key]) for key in keys], atol=TOLERANCE)
        assert table.keys().tolist() == sorted(naive)
        assert len(table) == len(naive)


def test_a_filter_requested_again_sees_what_changed_since():
    table, allowed = table_of({1: 1, 2: 2, 3: 3}), keyed(1, 2, 5)
    assert table.search(unit(2), limit=5, allowed=allowed)[0].tolist() == [2, 1]
    table.add(keyed(5), unit(2)[np.newaxis])
    assert sorted(table.search(unit(2), limit=5, allowed=allowed)[0].tolist()) == [1, 2, 5]
    table.discard(keyed(3))  # now it leaves out nothing
    assert sorted(table.search(unit(2), limit=5, allowed=allowed)[0].tolist()) == [1, 2, 5]
    table.discard(keyed(2))
    table.add(keyed(7), unit(2)[np.newaxis])
    assert table.search(unit(2), limit=5, allowed=allowed)[0].tolist() == [5, 1]


def test_beyond_the_exact_rows_nearly_all_of_the_true_nearest_are_found():
    vectors = clustered(rows=6_000, clusters=60, seed=1)
    queries = clustered(rows=6_040, clusters=60, seed=1)[6_000:]
    table = VectorTable(DIMENSION, exact_rows=1_000, rescored=600)
    table.add(np.arange(6_000), vectors)
    found = [set(table.search(query, limit=10)[0].tolist()) for query in queries]
    true = [set(np.argsort(-(vectors @ query))[:10].tolist()) for query in queries]
    recall = sum(len(a & b) for a, b in zip(found, true, strict=True)) / (10 * len(queries))
    assert recall >= 0.95


def test_signs_of_large_components_count_more():
    spread = np.geomspace(1, 0.05, DIMENSION)
    vectors = (np.random.default_rng(6).standard_normal((6_050, DIMENSION)) * spread).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = VectorTable(DIMENSION, exact_rows=1_000, rescored=300)
    table.add(np.arange(6_000), vectors[:6_000])
    found = [set(table.search(query, limit=10)[0].tolist()) for query in vectors[6_000:]]
    true = [set(np.argsort(-(vectors[:6_000] @ query))[:10].tolist()) for query in vectors[6_000:]]
    assert sum(len(a & b) for a, b in zip(found, true, strict=True)) >= 0.8 * 10 * 50


def test_a_larger_table_computes_more_cosines():
    vectors = clustered(rows=12_040, clusters=30, seed=7)
    queries, rows = vectors[12_000:], vectors[:12_000]
    table = VectorTable(DIMENSION, exact_rows=1_000, rescored=1)
    table.add(np.arange(12_000), rows)
    found = [set(table.search(query, limit=10)[0].tolist()) for query in queries]
    true = [set(np.argsort(-(rows @ query))[:10].tolist()) for query in queries]
    assert sum(len(a & b) for a, b in zip(found, true, strict=True)) >= 0.9 * 10 * 40


def test_a_filter_that_leaves_few_rows_is_answered_exactly_in_a_large_table():
    vectors = clustered(rows=3_000, clusters=30, seed=2)
    table = VectorTable(DIMENSION, exact_rows=400, rescored=10)
    table.add(np.arange(3_000), vectors)
    allowed = np.arange(0, 3_000, 10)
    keys, _ = table.search(unit(1), limit=20, allowed=allowed)
    assert keys.tolist() == allowed[np.argsort(-(vectors[allowed] @ unit(1)))[:20]].tolist()


def test_a_filter_that_leaves_many_rows_never_lets_another_through():
    table = VectorTable(DIMENSION, exact_rows=100, rescored=50)
    table.add(np.arange(1_000), clustered(rows=1_000, clusters=5, seed=3))
    keys, _ = table.search(unit(1), limit=300, allowed=np.arange(500))
    assert len(set(keys.tolist())) == 300
    assert keys.max() < 500


@pytest.mark.parametrize("exact_rows", [10, 10_000])
def test_the_order_of_additions_and_discards_does_not_show_in_the_answer(exact_rows):
    vectors = clustered(rows=800, clusters=4, seed=4)
    vectors[400:] = vectors[:400]  # equal vectors under different keys
    grown = VectorTable(DIMENSION, exact_rows=exact_rows, rescored=60)
    for start in range(700, -1, -100):
        grown.add(np.arange(start, start + 100), vectors[start : start + 100])
    grown.discard(np.arange(0, 800, 3))
    rebuilt = VectorTable(DIMENSION, exact_rows=exact_rows, rescored=60)
    left = np.array([key for key in range(800) if key % 3])
    rebuilt.add(left, vectors[left])
    for seed in range(20):
        for a, b in zip(grown.search(unit(seed), limit=25), rebuilt.search(unit(seed), limit=25), strict=True):
            assert a.tolist() == b.tolist()


def test_scores_are_those_of_search_in_the_order_asked_and_nan_where_there_is_no_vector():
    table = table_of({3: 0, 7: 1, 9: 2})
    keys, cosines = table.search(unit(4), limit=3)
    known = dict(zip(keys.tolist(), cosines.tolist(), strict=True))
    scores = table.scores(unit(4), keyed(9, 1_000_000, 3, -1, 7))
    assert scores[[0, 2, 4]].tolist() == [known[9], known[3], known[7]]
    assert np.isnan(scores[[1, 3]]).all()


def test_half_precision_is_taken_as_well():
    table = VectorTable(DIMENSION)
    table.add(keyed(5), unit(0)[np.newaxis].astype(np.float16))
    assert table.search(unit(0), limit=1)[1][0] == pytest.approx(1, abs=1e-3)


def test_a_key_given_twice_keeps_its_last_vector():
    table = VectorTable(DIMENSION)
    table.add(keyed(1, 2, 1), np.array([unit(0), unit(1), unit(2)]))
    assert len(table) == 2
    assert table.scores(unit(2), keyed(1))[0] == pytest.approx(1, abs=TOLERANCE)


def test_membership_follows_additions_and_discards():
    table = table_of({3: 0, 4: 1})
    table.discard(keyed(3, 99))
    assert 3 not in table
    assert 4 in table
    assert MAX_KEY not in table


def test_an_empty_table_finds_nothing():
    keys, cosines = VectorTable(DIMENSION).search(unit(0), limit=5)
    assert keys.size == cosines.size == 0


def test_vectors_of_another_dimension_are_refused():
    with pytest.raises(InvalidInput, match="shape"):
        VectorTable(DIMENSION).add(keyed(1), np.ones((1, 3), np.float32))
    with pytest.raises(InvalidInput) as refusal:
        table_of({1: 0}).search(np.ones(3, np.float32), limit=1)
    assert "model" in refusal.value.hint


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0, float("nan")])
def test_a_vector_that_is_not_of_unit_length_is_refused_and_nothing_changes(factor):
    table = table_of({1: 0})
    with pytest.raises(InvalidInput, match="unit length"):
        table.add(keyed(1, 2), np.array([unit(5), unit(6) * np.float32(factor)]))
    assert table.keys().tolist() == [1]
    assert table.scores(unit(0), keyed(1))[0] == pytest.approx(1, abs=TOLERANCE)


@pytest.mark.parametrize("key", [-1, MAX_KEY])
def test_a_key_out_of_range_is_refused(key):
    with pytest.raises(InvalidInput, match="out of range"):
        VectorTable(DIMENSION).add(keyed(key), unit(0)[np.newaxis])


def test_a_hundred_thousand_vectors_fit_into_120_megabytes():
    block = clustered(rows=2_000, clusters=10, seed=5)
    wide = np.hstack([block] * 6)[:, :384]
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    table = VectorTable(384)
    tracemalloc.start()
    table.add(np.arange(2_000), wide)
    bytes_per_row = tracemalloc.get_traced_memory()[0] / 2_000
    tracemalloc.stop()
    assert bytes_per_row * 100_000 < 120e6


@pytest.mark.parametrize("n", [1, 200, 20_000, 59_999, 60_000])
@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).random(60_000),
        np.arange(60_000),
        np.arange(60_000)[::-1],
        np.zeros(60_000),
        np.arange(60_000) % 14,  # the sample contains only some of the values
        np.where(np.arange(60_000) < 150, 7, 1).astype(np.uint16),
    ],
    ids=["random", "ascending", "descending", "equal", "periodic", "few"],
)
def test_nth_largest_is_exact_in_any_order_of_values(values, n):
    assert nth_largest(values, n) == np.sort(values)[-n]
