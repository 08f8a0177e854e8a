"""What every embedder must do, as tests.

An embedder's own test class inherits `EmbedderContract`:

class TestMyEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return MyEmbedder()
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treering.ports.embedder import Embedder

TEXTS = (
    "The cache is flushed before the writer process is forked.",
    "",
    "def commit(self, patch): ...",
    "Sourdough needs a starter, flour, water, salt and a day of patience. " * 30,
    "決定: 台帳は追記のみとする",
    "a\0b \ud7ff \u202e",
    "ok",
)
QUESTION = "When is the cache flushed?"
_NEAR = 1e-5


class EmbedderContract:
    """Inherit this in a test class and return the fixture `embedder`."""

    def test_vectors_are_of_unit_length_and_of_the_dimension_announced(self, embedder: Embedder) -> None:
        vectors = embedder.embed_documents(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=_NEAR)

    def test_a_question_is_one_vector_of_the_same_space(self, embedder: Embedder) -> None:
        for text in (QUESTION, ""):
            vector = embedder.embed_query(text)
            assert vector.dtype == np.float32
            assert vector.shape == (embedder.dimension,)
            assert abs(float(np.linalg.norm(vector)) - 1) <= _NEAR

    def test_no_texts_give_no_vectors(self, embedder: Embedder) -> None:
        assert embedder.embed_documents([]).shape == (0, embedder.dimension)

    def test_a_vector_does_not_depend_on_the_texts_beside_it_nor_on_their_order(self, embedder: Embedder) -> None:
        together = embedder.embed_documents(TEXTS)
        reversed_ = embedder.embed_documents(TEXTS[::-1])[::-1]
        alone = np.stack([embedder.embed_documents([text])[0] for text in TEXTS])
        np.testing.assert_array_equal(together, reversed_)
        np.testing.assert_array_equal(together, alone)

    def test_the_same_text_has_the_same_vector_again(self, embedder: Embedder) -> None:
        np.testing.assert_array_equal(embedder.embed_documents(TEXTS), embedder.embed_documents(TEXTS))
        np.testing.assert_array_equal(embedder.embed_query(QUESTION), embedder.embed_query(QUESTION))

    def test_a_question_is_nearest_to_the_text_that_shares_its_words(self, embedder: Embedder) -> None:
        cosines = embedder.embed_documents(TEXTS) @ embedder.embed_query(QUESTION)
        assert int(cosines.argmax()) == 0

    def test_its_id_is_a_name_that_stays(self, embedder: Embedder) -> None:
        before = embedder.model_id
        embedder.embed_query(QUESTION)
        assert before
        assert embedder.model_id == before

    def test_threads_share_it(self, embedder: Embedder) -> None:
        expected = embedder.embed_query(QUESTION)
        with ThreadPoolExecutor(4) as pool:
            for vector in pool.map(embedder.embed_query, [QUESTION] * 8):
                np.testing.assert_array_equal(vector, expected)
