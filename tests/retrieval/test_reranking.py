import numpy as np
import pytest

from treering.retrieval.search.reranking import Reranking, blended
from treering.testing.fakes import OverlapReranker, SteppingClock

TRUSTED = [1.0, 1.0, 1.0]


def reranking(reranker):
    return Reranking(reranker, 20, SteppingClock())


def test_a_cost_has_pairs_and_milliseconds():
    _, cost = reranking(OverlapReranker()).of("which cache", ["a cache", "a cellar"])
    assert cost.told()["model"] == "overlap"
    assert cost.told()["pairs"] == 2
    assert cost.told()["milliseconds"] >= 0


def test_half_of_a_score_is_the_reranker_s_and_half_the_previous_one():
    read, _ = reranking(OverlapReranker()).of("the cache", ["about something else", "the cache is flushed"])
    assert read == (0.0, 1.0)
    assert blended([0.9, 0.5], read, TRUSTED[:2]) == pytest.approx([0.7, 0.7])


def test_reranked_hits_stay_between_the_best_and_the_last_of_them():
    assert all(0.4 <= score <= 0.9 for score in blended([0.9, 0.7, 0.4], [0.0, 0.5, 1.0], TRUSTED))


def test_equal_scores_of_the_reranker_leave_the_order():
    read, _ = reranking(OverlapReranker()).of("which cache", ["alike"] * 3)
    scores = blended([0.9, 0.7, 0.4], read, TRUSTED)
    assert scores == sorted(scores, reverse=True)


def test_the_score_of_the_reranker_counts_as_far_as_the_text_is_trusted():
    _, honest, poison = blended([0.9, 0.5, 0.5], [0.0, 1.0, 1.0], [1.0, 1.0, 0.4])
    assert honest == pytest.approx(0.7)
    assert poison == pytest.approx(0.58)


def test_no_hits_cost_nothing():
    read, cost = reranking(OverlapReranker()).of("which cache", [])
    assert (read, cost.pairs) == ((), 0)
    assert blended([], [], []) == []


def test_single_score_is_the_best():
    class Flat(OverlapReranker):
        def score(self, question, texts):
            return np.full(len(texts), -7.0, np.float32)

    read, _ = reranking(Flat()).of("which cache", ["cache"])
    assert read == (1.0,)
