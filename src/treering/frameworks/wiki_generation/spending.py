"""Charge the model calls of agents to a budget."""

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from treering.core.errors import Denied
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Answer, Usage
from treering.extensions.wiki.generating import CeilingReached
from treering.retrieval.text.analysis import estimate_tokens

MOST_ANSWERED = 8_000
"""Tokens reserved for an answer, if the model does not declare a maximum."""

_Handler = Callable[[ModelRequest[Any]], ModelResponse[Any]]


class SpendingMiddleware(AgentMiddleware[Any, Any, Any]):
    """Charge the calls of one agent to a budget. `used`: their usage, estimated if a provider does not report it.

    Place it before all others, so that none of them retries a call over budget. Raises `CeilingReached` then.
    """

    def __init__(self, budget: Budget | None) -> None:
        super().__init__()
        self._budget = budget
        self.used: Usage = Usage()

    def wrap_model_call(self, request: ModelRequest[Any], handler: _Handler) -> ModelResponse[Any]:
        """Make one call of the model, if the budget allows it."""
        responses: list[ModelResponse[Any]] = []
        prompt = "\n".join(str(one.text) for one in [request.system_message, *request.messages] if one is not None)
        tools = "\n".join(str(getattr(tool, "args", tool)) for tool in request.tools)
        given = estimate_tokens(prompt) + estimate_tokens(tools)

        def call() -> Answer:
            responses.append(handler(request))
            return Answer("", _usage(request.model, responses[0], given))

        most = int(getattr(request.model, "max_tokens", None) or MOST_ANSWERED)
        reserved = Usage(1, given, most, price_of(request.model, given, most))
        self.used += self._spend(reserved, call, lambda: bool(responses)).usage
        return responses[0]

    def _spend(self, most: Usage, call: Callable[[], Answer], is_made: Callable[[], bool]) -> Answer:
        if self._budget is None:
            return call()
        try:
            return self._budget.spend(most, call)
        except Denied as error:
            if is_made():
                raise
            raise CeilingReached(error.message, hint=error.hint, details=error.details) from error


def price_of(model: BaseChatModel, given: int, answered: int) -> Decimal | None:
    """Return the cost of tokens in US dollars; `None` if the price is unknown or `genai-prices` is missing."""
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    with suppress(ImportError, LookupError, ValueError):
        from genai_prices import Usage as Tokens
        from genai_prices import calc_price

        if name:
            return calc_price(Tokens(input_tokens=given, output_tokens=answered), str(name)).total_price
    return None


def _usage(model: BaseChatModel, response: ModelResponse[Any], given: int) -> Usage:
    messages = [one for one in response.result if isinstance(one, AIMessage)]
    usages = [one.usage_metadata for one in messages if one.usage_metadata]
    if usages:
        read, written = sum(one["input_tokens"] for one in usages), sum(one["output_tokens"] for one in usages)
    else:
        read = given
        written = sum(estimate_tokens(f"{one.text}{[call['args'] for call in one.tool_calls]}") for one in messages)
    return Usage(1, read, written, price_of(model, read, written))
