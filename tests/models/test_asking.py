"""Asking for data inside a budget, through the real adapter with a model that is a function."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from treering.core.errors import Denied, InvalidInput, Unavailable
from treering.extensions.encoder.asking import (
    Asked,
    Budget,
    Misanswered,
    ask,
    most_used,
    prompt_with_schema,
    try_asking,
)
from treering.extensions.encoder.language_model import (
    Answer,
    ModelText,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserText,
)
from treering.extensions.encoder.language_models import PydanticAIModel, ScriptedModel


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


PARIS = '{"name": "Paris", "people": 2100000}'


class Priced(FunctionModel):
    """A function that costs what a model with a known price costs."""

    system = "openai"


@pytest.fixture
def answering():
    """Make models that give one answer after the other, the last for ever; `model.prompts` are what they were asked."""
    made = []

    def make(answers, kind=FunctionModel):
        prompts = []

        def respond(messages, info):
            prompts.append(messages[-1].parts[-1].content)
            text = answers[min(len(prompts), len(answers)) - 1]
            return ModelResponse([TextPart(text)], usage=RequestUsage(input_tokens=100, output_tokens=20))

        model = PydanticAIModel(kind(respond, model_name="gpt-4o-mini"))
        model.prompts = prompts
        made.append(model)
        return model

    yield make
    for model in made:
        model.close()


def test_an_answer_of_the_shape_requested_is_given_as_data(answering):
    model = answering([PARIS])
    asked = ask(model, "Which city?", City, budget=Budget(requests=1))
    assert asked == Asked(City(name="Paris", people=2_100_000), Usage(1, 100, 20, None))
    assert '"people"' in model.prompts[0]


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{PARIS}\n```",
        f"Here you are:\n\n{PARIS}\n\nAnything else?",
        f'<think>Maybe {{the}} answer is {{}} or {{"name": 1}}</think>{PARIS}',
        PARIS.replace("{", "{\n  ").replace(", ", ",\n  "),
        f"[{PARIS}]",
    ],
)
def test_the_data_is_found_in_whatever_is_written_around_it(answering, text):
    assert ask(answering([text]), "Which city?", City, budget=Budget(requests=1)).value.name == "Paris"


def test_a_wrong_answer_is_shown_to_the_model_with_what_is_wrong_and_repaired(answering):
    model = answering(['{"name": "Paris", "people": "many"}', PARIS])
    asked = ask(model, "Which city?", City, budget=Budget(requests=2))
    assert (asked.value.people, asked.repaired, asked.usage.requests) == (2_100_000, True, 2)
    assert "people: Input should be a valid integer" in model.prompts[1]
    assert '"many"' in model.prompts[1]
    assert model.prompts[0] in model.prompts[1]


@pytest.mark.parametrize(
    "text", ["", "I would rather not.", '{"name": "Par', "{" * 5_000, '{"a":' * 5_000, "[]", '"{}"']
)
def test_a_model_that_stays_wrong_is_asked_twice_and_no_more(answering, text):
    model = answering([text])
    with pytest.raises(Unavailable, match="did not answer in the requested format") as failure:
        ask(model, "Which city?", City, budget=Budget(requests=9))
    assert failure.value.hint
    assert len(model.prompts) == 2


def test_an_answer_that_does_not_fit_can_be_had_as_a_value(answering):
    outcome = try_asking(answering(['{"name": 3}']), "Which city?", City, budget=Budget(requests=2))
    assert isinstance(outcome, Misanswered)
    assert "people: Field required" in outcome.why
    assert outcome.usage.requests == 2


def test_many_mistakes_are_summed_up(answering):
    class Row(BaseModel):
        cells: list[int]

    outcome = try_asking(answering([json.dumps({"cells": ["x"] * 50})]), "?", Row, budget=Budget(requests=2))
    assert outcome.why.endswith("and 45 more")


def test_no_answer_breaks_the_reading_of_answers(answering):
    said = [""]
    model = answering(said)

    @settings(max_examples=60, deadline=None)
    @given(st.text(alphabet='{}[]":,\\ntruefalse0123 é', max_size=80))
    def check(text):
        said[0] = text
        assert isinstance(try_asking(model, "?", City, budget=Budget(requests=2)), Asked | Misanswered)

    check()


def test_a_budget_of_requests_is_kept_with_the_repair(answering):
    model, budget = answering(["nonsense"]), Budget(requests=1)
    with pytest.raises(Denied, match="of 1 requests, 1 are used"):
        ask(model, "Which city?", City, budget=budget)
    assert len(model.prompts) == 1
    assert budget.used.requests == 1


def test_a_call_that_might_exceed_the_tokens_is_not_made(answering):
    model, budget = answering([PARIS]), Budget(tokens=500)
    with pytest.raises(Denied, match="tokens") as refusal:
        ask(model, "Which city?", City, budget=budget, max_output_tokens=500)
    assert model.prompts == []
    assert refusal.value.details["used"]["tokens"] == "0"
    assert ask(model, "Which city?", City, budget=budget, max_output_tokens=100).value.name == "Paris"
    assert budget.used.input_tokens + budget.used.output_tokens == 120


def test_a_ceiling_in_dollars_is_refused_where_the_price_is_not_known(answering):
    model = answering([PARIS])
    with pytest.raises(InvalidInput, match="price") as refusal:
        ask(model, "Which city?", City, budget=Budget(dollars=Decimal(1)))
    assert "tokens" in refusal.value.hint
    assert model.prompts == []


def test_dollars_are_counted_and_kept(answering):
    model, budget = answering([PARIS], kind=Priced), Budget(dollars=Decimal("0.001"))
    ask(model, "?", City, budget=budget, max_output_tokens=1_000)
    assert budget.used.cost == Decimal("0.000027")
    with pytest.raises(Denied, match=r"of 0\.001 dollars, 0\.000027 are used"):
        ask(model, "?", City, budget=budget, max_output_tokens=2_000)


def test_a_call_that_fails_counts_as_a_request_and_holds_nothing_back(answering):
    budget = Budget(requests=2, tokens=1_000)

    def fail():
        raise Unavailable("Nobody there.")

    with pytest.raises(Unavailable):
        budget.spend(Usage(1, 500, 500), fail)
    assert budget.used == Usage(requests=1)
    assert ask(answering([PARIS]), "?", City, budget=budget, max_output_tokens=100).value.name == "Paris"


def test_calls_under_way_are_held_against_the_ceiling():
    budget, inside, go_on = Budget(requests=1), threading.Event(), threading.Event()

    def slow():
        inside.set()
        go_on.wait(10)
        return Answer("", Usage(1, 10, 10))

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(budget.spend, Usage(1, 10, 10), slow)
        inside.wait(10)
        with pytest.raises(Denied, match="1 are reserved"):
            budget.spend(Usage(1, 10, 10), slow)
        go_on.set()
        assert first.result().usage.requests == 1


def test_many_threads_never_exceed_a_ceiling():
    budget = Budget(requests=50)

    def call(_):
        try:
            return budget.spend(Usage(1, 1, 1), lambda: Answer("", Usage(1, 1, 1))).usage.requests
        except Denied:
            return 0

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(call, range(200))) <= 50
    assert budget.used.requests <= 50


@pytest.mark.parametrize("ceilings", [{}, {"requests": -1}, {"dollars": Decimal("-0.1")}])
def test_a_budget_without_a_ceiling_is_refused(ceilings):
    with pytest.raises(InvalidInput) as refusal:
        Budget(**ceilings)
    assert refusal.value.hint


def test_the_most_a_call_can_use_covers_its_shape_and_its_longest_answer(answering):
    model = answering([PARIS])
    whole = prompt_with_schema("Which city?", City)
    most = most_used(model, whole, system="Be brief.", max_output_tokens=300)
    assert most.input_tokens > most_used(model, "Which city?", max_output_tokens=300).input_tokens
    assert (most.requests, most.output_tokens, most.cost) == (1, 300, None)


def test_the_most_a_call_can_use_counts_messages_and_tools():
    model = ScriptedModel([])
    call = ToolCall("weather", {"town": "Ulm " * 100}, "c1")
    tool = ToolSpec("weather", "Tell the weather. " * 100, {"type": "object"})
    talk = [UserText("Hello. " * 100), ModelText("", (call,)), ToolResult(call, "rain " * 100)]
    text = most_used(model, "Hello. " * 100, max_output_tokens=10).input_tokens
    messages = most_used(model, talk, max_output_tokens=10).input_tokens
    offered = most_used(model, talk, tools=[tool], max_output_tokens=10).input_tokens
    assert messages > text + 200
    assert offered > messages + 400
