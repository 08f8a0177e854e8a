import numpy as np
import pytest

from treering.retrieval.search.reranking import Reranked, Reranking, blended
from treering.testing.fakes import OverlapReranker, SteppingClock


class Counting(OverlapReranker):
    """Notes which texts it was asked to read."""

    def __init__(self):
        self.read = []

    def score(self, question, texts):
        self.read += texts
        return super().score(question, texts)


def reranking(reranker, pairs=20):
    return Reranking(reranker, pairs, SteppingClock())


def test_no_more_hits_are_read_than_were_asked_for():
    reranker = Counting()
    found = reranking(reranker, pairs=2).of("which cache", [Reranked(f"cache {n}", 0.5) for n in range(5)])
    assert reranker.read == ["cache 0", "cache 1"]
    assert len(found.scores) == len(found.read) == found.cost.pairs == 2


def test_what_it_cost_is_told_in_pairs_and_milliseconds():
    told = reranking(OverlapReranker()).of("which cache", [Reranked("a cache", 0.5)]).cost.told()
    assert told["model"] == "overlap"
    assert told["pairs"] == 1
    assert told["milliseconds"] >= 0


def test_half_of_a_score_is_what_the_reranker_says_and_half_the_score_so_far():
    first, second = Reranked("about something else", 0.9), Reranked("the cache is flushed", 0.5)
    found = reranking(OverlapReranker()).of("the cache", [first, second])
    assert found.read == (0.0, 1.0)
    assert found.scores == pytest.approx((0.7, 0.7))


def test_hits_that_were_read_stay_between_the_best_and_the_last_of_them():
    hits = [Reranked("", score) for score in (0.9, 0.7, 0.4)]
    scores = blended(hits, [0.0, 0.5, 1.0])
    assert all(0.4 <= score <= 0.9 for score in scores)


def test_where_the_reranker_tells_nothing_apart_the_order_stays():
    hits = [Reranked("alike", score) for score in (0.9, 0.7, 0.4)]
    scores = reranking(OverlapReranker()).of("which cache", hits).scores
    assert list(scores) == sorted(scores, reverse=True)


def test_what_the_reranker_says_of_a_text_counts_as_far_as_the_text_is_trusted():
    trusted, planted = Reranked("", 0.5), Reranked("", 0.5, factor=0.4)
    best = Reranked("", 0.9)
    _, honest, poison = blended([best, trusted, planted], [0.0, 1.0, 1.0])
    assert honest == pytest.approx(0.7)
    assert poison == pytest.approx(0.58)


def test_nothing_found_costs_nothing():
    found = reranking(OverlapReranker()).of("which cache", [])
    assert found.scores == ()
    assert found.cost.pairs == 0


def test_a_score_that_is_alone_is_the_best_there_is():
    class Flat(OverlapReranker):
        def score(self, question, texts):
            return np.full(len(texts), -7.0, np.float32)

    assert reranking(Flat()).of("which cache", [Reranked("cache", 0.5)]).read == (1.0,)
