"""What every reranker must do, as tests.

A reranker's own test class inherits `RerankerContract`:

class TestMyReranker(RerankerContract):
    @pytest.fixture
    def reranker(self):
        return MyReranker()
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treering.ports.reranker import Reranker

QUESTION = "When is the cache flushed?"
TEXTS = (
    "The office plants are watered on Mondays.",
    "The cache is flushed before the writer process is forked.",
    "",
    "Sourdough needs a starter, flour, water, salt and a day of patience. " * 30,
    "決定: 台帳は追記のみとする",
    "a\0b \ud7ff \u202e",
)
_ANSWERING = 1


class RerankerContract:
    """Inherit this in a test class and return the fixture `reranker`."""

    def test_there_is_one_score_for_each_text(self, reranker: Reranker) -> None:
        scores = reranker.score(QUESTION, TEXTS)
        assert scores.dtype == np.float32
        assert scores.shape == (len(TEXTS),)
        assert np.isfinite(scores).all()

    def test_no_texts_give_no_scores(self, reranker: Reranker) -> None:
        assert reranker.score(QUESTION, []).shape == (0,)

    def test_the_text_that_answers_scores_highest(self, reranker: Reranker) -> None:
        assert int(reranker.score(QUESTION, TEXTS).argmax()) == _ANSWERING

    def test_a_score_does_not_depend_on_the_texts_beside_it_nor_on_their_order(self, reranker: Reranker) -> None:
        together = reranker.score(QUESTION, TEXTS)
        np.testing.assert_array_equal(together, reranker.score(QUESTION, TEXTS[::-1])[::-1])
        alone = [reranker.score(QUESTION, [text])[0] for text in TEXTS]
        np.testing.assert_array_equal(together, alone)

    def test_a_question_of_any_length_is_scored(self, reranker: Reranker) -> None:
        for question in ("", "a\0b \ud7ff", QUESTION * 500):
            assert np.isfinite(reranker.score(question, TEXTS)).all()

    def test_its_id_is_a_name_that_stays(self, reranker: Reranker) -> None:
        before = reranker.model_id
        reranker.score(QUESTION, TEXTS[:1])
        assert before
        assert reranker.model_id == before

    def test_threads_share_it(self, reranker: Reranker) -> None:
        expected = reranker.score(QUESTION, TEXTS)
        with ThreadPoolExecutor(4) as pool:
            for scores in pool.map(lambda _: reranker.score(QUESTION, TEXTS), range(4)):
                np.testing.assert_array_equal(scores, expected)
