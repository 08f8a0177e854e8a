from collections.abc import Iterable
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.retrieval.search import fusion
from treering.retrieval.search.fusion import (
    NEIGHBOURS,
    QUICK,
    VECTORS,
    WALKED,
    WORDS,
    ArmScore,
    Fused,
    favour,
    fuse,
    lend_to_neighbours,
)

Item = TypeVar("Item")
SCORES = st.dictionaries(st.integers(0, 30), st.floats(-1e6, 1e6), max_size=12)
ARMS = st.dictionaries(st.sampled_from([VECTORS, WORDS, "names", "unweighted"]), SCORES)
BESIDE = st.dictionaries(st.integers(0, 30), st.lists(st.integers(0, 30), max_size=4, unique=True))


def keys(ranked: list[Fused]) -> list[int]:
    return [hit.key for hit in ranked]


@given(ARMS)
@settings(max_examples=150)
def test_every_candidate_is_ranked_once_from_0_to_1(
    arms: dict[str, dict[int, float]],
) -> None:
    ranked = fuse(arms)
    assert sorted(keys(ranked)) == sorted(set().union(*arms.values()))
    assert all(-1e-9 <= hit.score <= 1 + 1e-9 for hit in ranked)
    assert all(0 <= part.normalised <= 1 for hit in ranked for part in hit.parts.values())


@given(ARMS, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_neither_the_order_of_arms_nor_of_candidates_matters(arms: dict[str, dict[int, float]], random: Random) -> None:
    shuffled = {arm: dict(_shuffled(scores.items(), random)) for arm, scores in _shuffled(arms.items(), random)}
    assert {hit.key: pytest.approx(hit.score) for hit in fuse(arms)} == {hit.key: hit.score for hit in fuse(shuffled)}


@given(ARMS, st.integers(0, 12))
@settings(max_examples=100)
def test_a_limit_only_cuts_the_end(arms: dict[str, dict[int, float]], limit: int) -> None:
    assert fuse(arms, limit=limit) == fuse(arms)[:limit]


@given(st.dictionaries(st.integers(0, 30), st.floats(0.01, 100), min_size=1), st.floats(0.01, 100))
@settings(max_examples=100)
def test_the_unit_in_which_an_arm_scores_does_not_matter(scores: dict[int, float], factor: float) -> None:
    once = {hit.key: hit.score for hit in fuse({WORDS: scores})}
    scaled = {hit.key: hit.score for hit in fuse({WORDS: {key: raw * factor for key, raw in scores.items()}})}
    assert scaled == pytest.approx(once)


def test_equal_candidates_are_ranked_by_key() -> None:
    ranked = fuse({WORDS: {7: 2.0, 3: 2.0, 5: 2.0}})
    assert [(hit.key, hit.parts[WORDS].rank) for hit in ranked] == [(3, 1), (5, 2), (7, 3)]


def test_a_candidate_that_both_arms_like_beats_the_favourite_of_one() -> None:
    ranked = fuse({VECTORS: {1: 0.8, 2: 0.78, 3: 0.3}, WORDS: {2: 9.0, 3: 10.0}})
    assert keys(ranked)[0] == 2


def test_the_parts_explain_the_score() -> None:
    best = fuse({VECTORS: {1: 0.9, 2: 0.3}, WORDS: {1: 4.0, 2: 8.0}})[0]
    assert (best.key, best.parts[VECTORS].rank, best.parts[WORDS].rank, best.parts[WORDS].raw) == (1, 1, 2, 4.0)
    assert best.score == pytest.approx((1.0 + 0.5) / 2)


def test_a_part_is_between_the_floor_of_its_arm_and_the_best_or_the_ceiling() -> None:
    [best, middle, worst] = fuse({VECTORS: {1: 0.9, 2: 0.6, 3: 0.3}})
    assert [hit.parts[VECTORS].normalised for hit in (best, middle, worst)] == pytest.approx([1.0, 0.5, 0.0])
    [over, half, under] = fuse({WALKED: {1: 1.5, 2: 0.5, 3: -0.5}}, {WALKED: 1.0})
    assert [(hit.score, hit.parts[WALKED].normalised) for hit in (over, half, under)] == [(1, 1), (0.5, 0.5), (0, 0)]
    [nothing] = fuse({WORDS: {1: 0.0}})
    assert (nothing.score, nothing.parts[WORDS].normalised) == (0.0, 0.0)


def test_an_arm_that_found_nothing_leaves_its_weight_to_the_others() -> None:
    assert fuse({VECTORS: {}, WORDS: {1: 3.0}})[0].score == pytest.approx(1.0)


def test_what_the_words_did_not_find_counts_as_nothing_in_common() -> None:
    unmatched = fuse({VECTORS: {1: 0.5, 2: 0.5}, WORDS: {1: 3.0}})[1]
    assert unmatched.key == 2
    assert WORDS not in unmatched.parts


def test_a_passage_whose_vector_is_not_made_yet_is_not_punished_for_it() -> None:
    arms = {VECTORS: {1: 0.8, 2: 0.6, 3: 0.4}, WORDS: {2: 5.0, 4: 10.0}}
    scores = {hit.key: hit.score for hit in fuse(arms)}
    assert scores[4] == pytest.approx((0.5 + 1.0) / 2)
    assert scores[4] > scores[3]


def test_small_differences_among_few_candidates_are_not_blown_up() -> None:
    scores = {hit.key: hit.score for hit in fuse({VECTORS: {1: 0.80, 2: 0.79, 3: 0.78}})}
    assert scores[3] > 0.8
    below_nought = {hit.key: hit.score for hit in fuse({VECTORS: {1: -0.40, 2: -0.41}})}
    assert below_nought == pytest.approx({1: 1.0, 2: 0.9})


@given(ARMS, BESIDE)
@settings(max_examples=100)
def test_lending_keeps_scores_between_0_and_1(arms: dict[str, dict[int, float]], beside: dict[int, list[int]]) -> None:
    ranked = lend_to_neighbours(fuse(arms), beside)
    assert all(-1e-9 <= hit.score <= 1 + 1e-9 for hit in ranked)
    assert len(set(keys(ranked))) == len(ranked)


def test_the_answer_beside_a_good_question_rises() -> None:
    ranked = fuse({WORDS: {10: 9.0, 20: 3.0, 11: 2.5}})
    lent = lend_to_neighbours(ranked, {10: [11], 11: [10, 12], 20: [19, 21]})
    assert keys(lent)[:2] == [10, 11]
    assert lent[1].parts[NEIGHBOURS].raw == pytest.approx(1.0)


def test_a_turn_beside_a_hit_joins_although_no_arm_found_it() -> None:
    assert 12 in keys(lend_to_neighbours(fuse({WORDS: {11: 2.5}}), {11: [10, 12], 12: [11]}))


def test_a_turn_borrows_from_two_beside_it_at_most_and_from_itself_where_one_is_missing():
    ranked = fuse({WORDS: {10: 9.0, 11: 4.5}})
    lent = {hit.key: hit for hit in lend_to_neighbours(ranked, {10: [11, 12, 13], 11: [10]}, share=0.2)}
    between, last = lent[10], lent[11]
    assert between.score == pytest.approx((1.0 + 0.2 * (0.5 + 0.0)) / 1.4)
    assert last.score == pytest.approx((0.5 + 0.2 * (1.0 + 0.5)) / 1.4)
    assert (between.parts[NEIGHBOURS], last.parts[NEIGHBOURS]) == (ArmScore(0, 0.5, 0.25), ArmScore(0, 1.0, 0.5))
    assert between.parts[WORDS] == ranked[0].parts[WORDS]
    three = lend_to_neighbours(ranked, {10: [12, 13, 11]}, share=0.2)
    assert [hit.score for hit in three if hit.key == 10] == pytest.approx([1.0 / 1.4])


def test_turns_without_neighbours_keep_their_scores() -> None:
    ranked = fuse({WORDS: {1: 4.0, 2: 3.0}})
    assert lend_to_neighbours(ranked, {}) == ranked
    assert lend_to_neighbours(ranked, {}, limit=1) == ranked[:1]


def test_an_arm_with_a_ceiling_is_not_stretched_to_the_best_it_found() -> None:
    ranked = fuse({WALKED: {1: 0.5, 2: 0.25}}, {WALKED: 1.0})
    assert [(hit.key, hit.score) for hit in ranked] == [(1, 0.5), (2, 0.25)]
    assert fuse({WORDS: {1: 0.5, 2: 0.25}}, {WORDS: 1.0})[0].score == 1.0


def test_an_arm_without_a_weight_counts_as_nothing() -> None:
    assert [hit.score for hit in fuse({WORDS: {1: 2.0}, "other": {2: 9.0}}, {WORDS: 1.0})] == [1.0, 0.0]


CLUES = st.dictionaries(
    st.sampled_from(["speaker", "date"]), st.dictionaries(st.integers(0, 30), st.floats(0, 1), max_size=8), max_size=2
)


@given(ARMS, CLUES)
@settings(max_examples=100)
def test_clues_keep_scores_between_0_and_1_and_add_no_candidate(
    arms: dict[str, dict[int, float]], clues: dict[str, dict[int, float]]
) -> None:
    ranked = fuse(arms)
    favoured = favour(ranked, clues, {"speaker": 0.2, "date": 0.4})
    assert sorted(keys(favoured)) == sorted(keys(ranked))
    assert all(-1e-9 <= hit.score <= 1 + 1e-9 for hit in favoured)


@given(ARMS, st.none() | st.integers(0, 5))
@settings(max_examples=50)
def test_without_a_clue_nothing_changes(arms: dict[str, dict[int, float]], limit: int | None) -> None:
    ranked = fuse(arms)
    assert favour(ranked, {}, {}, limit=limit) == ranked[:limit]


def test_a_clue_lifts_what_it_points_at_and_says_so() -> None:
    ranked = fuse({WORDS: {1: 4.0, 2: 3.6, 3: 1.0}})
    favoured = favour(ranked, {"speaker": {2: 1.0, 9: 1.0}}, {"speaker": 0.2}, limit=2)
    assert keys(favoured) == [2, 1]
    assert favoured[0].score == pytest.approx((0.9 + 0.2) / 1.2)
    assert favoured[0].parts == {**ranked[1].parts, "speaker": ArmScore(0, 1.0, 1.0)}
    assert favoured[1].parts == ranked[0].parts


def _shuffled(items: Iterable[Item], random: Random) -> list[Item]:
    listed = list(items)
    random.shuffle(listed)
    return listed


def test_parts_are_worked_out_for_the_candidates_that_are_asked_for_them(monkeypatch):
    made = []
    part = fusion.ArmScore
    monkeypatch.setattr(fusion, "ArmScore", lambda *given: (made.append(1), part(*given))[1])
    ranked = fuse({WORDS: {key: 1.0 + key for key in range(50)}, VECTORS: {key: key / 100 for key in range(40)}})
    assert made == []
    assert {WORDS, VECTORS} == ranked[-1].parts.keys()
    assert ranked[-1].parts[WORDS].rank == 50
    assert len(made) == 1


def test_what_only_the_quick_model_says_of_a_candidate_counts_as_what_is_to_be_expected_of_it() -> None:
    arms = {VECTORS: {1: 0.8, 2: 0.75, 3: 0.5}, QUICK: {1: 0.7}}
    assert keys(fuse(arms, {VECTORS: 1.0})) == [2, 1, 3]
    [_, quick, _] = fuse(arms, {VECTORS: 1.0})
    assert (quick.parts[VECTORS].raw, quick.parts[QUICK].raw) == (0.8, 0.7)
    assert QUICK not in fuse(arms, {VECTORS: 1.0})[0].parts


def test_a_share_of_the_quick_model_moves_its_candidates_to_the_middle_and_no_others() -> None:
    arms = {VECTORS: {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.5}, QUICK: {1: 0.9, 4: 0.5}}
    whole, none = ({hit.key: hit.score for hit in fuse(arms, {VECTORS: 1.0, QUICK: share})} for share in (1.0, 0.0))
    assert none[1] == none[4]
    assert (none[2], none[3]) == (pytest.approx(whole[2]), pytest.approx(whole[3]))
    assert whole[4] < none[4] < whole[1]
