"""What every language model behind the port must do, as tests.

A model's own test class inherits `ModelContract`:

class TestMyModel(ModelContract):
    @pytest.fixture
    def model_giving(self):
        def model_giving(*answers):
            return MyModel(made_to_answer=answers)
        return model_giving
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Protocol

import pytest

from treering.core.errors import InvalidInput
from treering.ports.model import (
    Answer,
    LanguageModel,
    ModelText,
    PromptMessage,
    Streaming,
    SystemText,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserText,
)

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
    """Inherit this in a test class and return the fixture `model_giving`, which closes what it made."""

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

    def test_streamed_words_come_to_the_answer_which_is_last(self, model_giving: ModelGiving) -> None:
        model = model_giving(TALK)
        if not isinstance(model, Streaming):
            pytest.skip("it gives whole answers only")
        *words, last = model.stream("How is the weather?", system="Be brief.")
        assert isinstance(last, Answer)
        assert "".join(word for word in words if isinstance(word, str)) == last.text == TALK
        assert last.usage.requests == 1
        assert last.usage.output_tokens > 0

    def test_a_streamed_call_of_a_tool_stands_in_the_answer(self, model_giving: ModelGiving) -> None:
        model = model_giving([CALL])
        if not isinstance(model, Streaming):
            pytest.skip("it gives whole answers only")
        *words, last = model.stream([UserText("How is the weather in Ulm?")], tools=[WEATHER])
        assert isinstance(last, Answer)
        assert [(call.name, dict(call.arguments)) for call in last.tool_calls] == [("weather", {"town": "Ulm"})]
        assert "".join(word for word in words if isinstance(word, str)) == last.text

    def test_a_stream_may_be_left_before_its_end(self, model_giving: ModelGiving) -> None:
        model = model_giving(TALK, "Again.")
        if not isinstance(model, Streaming):
            pytest.skip("it gives whole answers only")
        stream = model.stream("How is the weather?")
        assert isinstance(next(stream), str)
        del stream
        assert model.answer("And now?").text == "Again."

    def test_what_is_refused_is_refused_when_streamed(self, model_giving: ModelGiving) -> None:
        model = model_giving(TALK)
        if not isinstance(model, Streaming):
            pytest.skip("it gives whole answers only")
        with pytest.raises(InvalidInput):
            list(model.stream([]))
