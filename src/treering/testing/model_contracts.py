"""What every embedder must do, as tests.

An embedder's own test class inherits `EmbedderContract`:

class TestMyEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return MyEmbedder()
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Protocol

import numpy as np
import pytest

from treering.core.errors import InvalidInput
from treering.extensions.encoder.language_model import (
    LanguageModel,
    ModelText,
    PromptMessage,
    SystemText,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserText,
)
from treering.ports.models import Embedder, Reranker

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


# What every reranker must do, as tests.


RERANKED_TEXTS = (
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
        scores = reranker.score(QUESTION, RERANKED_TEXTS)
        assert scores.dtype == np.float32
        assert scores.shape == (len(RERANKED_TEXTS),)
        assert np.isfinite(scores).all()

    def test_no_texts_give_no_scores(self, reranker: Reranker) -> None:
        assert reranker.score(QUESTION, []).shape == (0,)

    def test_the_text_that_answers_scores_highest(self, reranker: Reranker) -> None:
        assert int(reranker.score(QUESTION, RERANKED_TEXTS).argmax()) == _ANSWERING

    def test_a_score_does_not_depend_on_the_texts_beside_it_nor_on_their_order(self, reranker: Reranker) -> None:
        together = reranker.score(QUESTION, RERANKED_TEXTS)
        np.testing.assert_array_equal(together, reranker.score(QUESTION, RERANKED_TEXTS[::-1])[::-1])
        alone = [reranker.score(QUESTION, [text])[0] for text in RERANKED_TEXTS]
        np.testing.assert_array_equal(together, alone)

    def test_a_question_of_any_length_is_scored(self, reranker: Reranker) -> None:
        for question in ("", "a\0b \ud7ff", QUESTION * 500):
            assert np.isfinite(reranker.score(question, RERANKED_TEXTS)).all()

    def test_its_id_is_a_name_that_stays(self, reranker: Reranker) -> None:
        before = reranker.model_id
        reranker.score(QUESTION, RERANKED_TEXTS[:1])
        assert before
        assert reranker.model_id == before

    def test_threads_share_it(self, reranker: Reranker) -> None:
        expected = reranker.score(QUESTION, RERANKED_TEXTS)
        with ThreadPoolExecutor(4) as pool:
            for scores in pool.map(lambda _: reranker.score(QUESTION, RERANKED_TEXTS), range(4)):
                np.testing.assert_array_equal(scores, expected)


# What every language model behind the port must do, as tests.


WEATHER = ToolSpec(
    "weather",
    "Tell the weather of a town.",
    {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
)
CALL = ToolCall("weather", {"town": "Ulm"}, "call-1")
TALK = "It rains in Ulm.\nTake a coat, and an umbrella."


class ModelGiving(Protocol):
    """Makes a model that gives these answers, one after the other: texts, and calls of tools."""

    def __call__(self, *answers: str | Sequence[ToolCall]) -> LanguageModel: ...


class ModelContract:
    """Inherit this in a test class and return the fixture `model_giving`, which closes the models it created."""

    def test_a_text_is_answered_by_a_text(self, model_giving: ModelGiving) -> None:
        answer = model_giving(TALK).answer("How is the weather?")
        assert (answer.text, answer.tool_calls) == (TALK, ())

    def test_an_empty_answer_is_an_answer(self, model_giving: ModelGiving) -> None:
        assert model_giving("").answer("Anything to add?").text == ""

    def test_what_was_used_is_told(self, model_giving: ModelGiving) -> None:
        usage = model_giving(TALK).answer("How is the weather?", system="Be brief.").usage
        assert usage.requests == 1
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        assert usage.cost is None or usage.cost >= 0

    def test_messages_are_answered_as_a_text_is(self, model_giving: ModelGiving) -> None:
        said = UserText("Hello."), ModelText("Hello!"), UserText("How is the weather?")
        messages: list[PromptMessage] = [SystemText("Be brief."), *said]
        assert model_giving(TALK).answer(messages, system="You know Ulm.").text == TALK

    def test_a_tool_is_called_and_its_result_answered(self, model_giving: ModelGiving) -> None:
        model = model_giving([CALL], TALK)
        messages: list[PromptMessage] = [UserText("How is the weather in Ulm?")]
        wish = model.answer(messages, tools=[WEATHER])
        (call,) = wish.tool_calls
        assert (call.name, dict(call.arguments), bool(call.id)) == ("weather", {"town": "Ulm"}, True)
        messages += [wish.message(), ToolResult(call, "rain")]
        last = model.answer(messages, tools=[WEATHER])
        assert (last.text, last.tool_calls) == (TALK, ())

    def test_several_calls_of_one_answer_are_told_apart(self, model_giving: ModelGiving) -> None:
        calls = [CALL, ToolCall("weather", {"town": "Bonn"}, "call-2")]
        found = model_giving(calls).answer("And in Bonn?", tools=[WEATHER]).tool_calls
        assert [dict(call.arguments) for call in found] == [{"town": "Ulm"}, {"town": "Bonn"}]
        assert len({call.id for call in found}) == len(found)

    @pytest.mark.parametrize(
        "messages", [(), (ModelText("Hello!"),), (UserText("Hello."), ToolResult(CALL, "rain"))], ids=str
    )
    def test_messages_that_are_no_prompt_are_refused(
        self, model_giving: ModelGiving, messages: Sequence[PromptMessage]
    ) -> None:
        with pytest.raises(InvalidInput) as refusal:
            model_giving(TALK).answer(messages)
        assert refusal.value.hint

    def test_its_id_is_a_name_that_stays(self, model_giving: ModelGiving) -> None:
        model = model_giving(TALK)
        before = model.model_id
        model.answer("How is the weather?")
        assert before
        assert model.model_id == before

    def test_a_price_is_not_known_or_grows_with_the_tokens(self, model_giving: ModelGiving) -> None:
        model = model_giving(TALK)
        few, many = (model.price(input_tokens=tokens, output_tokens=tokens) for tokens in (1_000, 1_000_000))
        assert (few is None) == (many is None)
        assert few is None or many is None or Decimal(0) <= few <= many

    def test_threads_share_it(self, model_giving: ModelGiving) -> None:
        model = model_giving(*[TALK] * 16)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(model.answer, ["How is the weather?"] * 16))
        assert {answer.text for answer in answers} == {TALK}
