"""Language models: from any provider, through pydantic-ai (extra `llm`), or with prepared answers."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING

from treering.core.errors import MissingExtra, Unavailable
from treering.extensions.encoder.language_model import (
    MAX_OUTPUT_TOKENS,
    Answer,
    LanguageModel,
    ModelText,
    Prompt,
    ToolCall,
    ToolSpec,
    Usage,
    messages_of,
    words_of,
)
from treering.extensions.encoder.provider_calls import HINT, ModelLoop, opening, translating
from treering.retrieval.text.analysis import estimate_tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
    from pydantic_ai.usage import RequestUsage

    from treering.extensions.encoder.pydantic_ai_request import Request

EXTRA = "llm"
ENDPOINT = "custom"
"""The provider in the id of a model behind a URL. Ids are stored, and the URL may be private."""

TIMEOUT_SECONDS = 120.0


def open_model(name: str, *, base_url: str | None = None, api_key: str | None = None) -> LanguageModel:
    """Open a language model. Sends nothing until it is used.

    `name` is `PROVIDER:MODEL` as in pydantic-ai (`openai:gpt-5-mini`, `anthropic:claude-haiku-4-5`). With `base_url`,
    an OpenAI-compatible endpoint such as `http://localhost:11434/v1`, it is the model's name there. Without `api_key`,
    a provider reads the key from its own environment variable; an endpoint gets none.

    Raises `MissingExtra` if pydantic-ai is not installed, `InvalidInput` for an unknown model, a missing key, an
    invalid URL, or a provider whose package is not installed.
    """
    if find_spec("pydantic_ai") is None:
        raise MissingExtra(EXTRA, needed_for="A language model")
    with opening(f"The model {name!r}", api_key, hint=HINT):
        model = _endpoint(name, base_url, api_key) if base_url else _inferred(name, api_key)
    return PydanticAIModel(model, secret=api_key)


class PydanticAIModel:
    """A `LanguageModel` over a model of pydantic-ai. May be used from any thread, also under a running event loop.

    `timeout_seconds` limits one answer including the provider's own retries. `secret` is removed from every error.
    Connections are closed by `close`, or with the object. Nothing is traced or reported.
    """

    def __init__(self, model: Model, *, timeout_seconds: float = TIMEOUT_SECONDS, secret: str | None = None) -> None:
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._secret = secret
        self._loop = ModelLoop(model)
        weakref.finalize(self, self._loop.close)  # runs at the end of the program as well

    @property
    def model_id(self) -> str:
        """The id of the model: `provider:name`."""
        return self._model.model_id

    def answer(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> Answer:
        """Answer one prompt. An empty answer is valid.

        Raises `Unavailable` if the provider is not reachable, too busy, fails, has no credit left for this account, or
        returns an invalid answer; `InvalidInput` if it refuses the key, the model or the prompt.
        """
        request = self._request(prompt, system, tools, max_output_tokens)
        with translating(self.model_id, self._secret):
            return self._answer(self._loop.run(request.answer()), words_of(prompt, tools) + system)

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Estimate the cost of this many tokens in US dollars, from the price list of pydantic-ai.

        `None` if the price is unknown, such as for your own endpoint.
        """
        from pydantic_ai.usage import RequestUsage

        return self._price(RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens))

    def close(self) -> None:
        """Close the connections. A later `answer` opens new ones."""
        self._loop.close()

    def _request(self, prompt: Prompt, system: str, tools: Sequence[ToolSpec], max_output_tokens: int) -> Request:
        from treering.extensions.encoder.pydantic_ai_request import request_of

        return request_of(
            self._model,
            messages_of(prompt),
            system=system,
            tools=tools,
            max_output_tokens=max_output_tokens,
            seconds=self._timeout_seconds,
        )

    def _answer(self, response: ModelResponse, asked: str) -> Answer:
        text = response.text or ""
        calls = tuple(
            ToolCall(call.tool_name, call.args_as_dict(raise_if_invalid=True), call.tool_call_id)
            for call in response.tool_calls
        )
        answered = words_of([ModelText(text, calls)]) if calls else text
        return Answer(text, self._usage(response, asked, answered), calls)

    def _usage(self, response: ModelResponse, asked: str, answered: str) -> Usage:
        """Return the usage, estimated if the provider reports none, so that a budget ends."""
        used = response.usage
        if used.input_tokens or used.output_tokens:
            return Usage(1, used.input_tokens, used.output_tokens, self._price(used))
        given, got = estimate_tokens(asked), estimate_tokens(answered)
        return Usage(1, given, got, self.price(input_tokens=given, output_tokens=got))

    def _price(self, usage: RequestUsage) -> Decimal | None:
        from genai_prices import calc_price

        name, address, provider = self._model.model_name, self._model.base_url, self._model.system
        if address:
            # By address first, because the same provider may have other prices elsewhere.
            with suppress(LookupError, ValueError):
                return calc_price(usage, name, provider_api_url=address).total_price
        with suppress(LookupError, ValueError):
            return calc_price(usage, name, provider_id=provider).total_price
        return None


def _inferred(name: str, api_key: str | None) -> Model:
    from pydantic_ai.models import infer_model

    return infer_model(name, providers(api_key))


def providers(api_key: str | None) -> Callable[[str], Provider[object]]:
    """Return a function from a name to its provider, with this key or the key in its environment variable."""
    from pydantic_ai.providers import infer_provider

    return infer_provider if api_key is None else partial(_provider_with_key, api_key=api_key)


def _provider_with_key(name: str, *, api_key: str) -> Provider[object]:
    """Return a provider with a key. Raises `UserError` if it is unknown or takes no key here."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers import infer_provider_class

    try:
        build: Callable[..., Provider[object]] = infer_provider_class(name)
    except ValueError:
        raise UserError(f"Unknown provider: {name}.") from None
    # A gateway's name returns the class of the provider behind it, which must not receive the gateway's key.
    if name.startswith("gateway/") or "api_key" not in signature(build).parameters:
        raise UserError(f"The provider {name} does not take a key here; set it as its documentation describes.")
    return build(api_key=api_key)


def _endpoint(name: str, base_url: str, api_key: str | None) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel

    return OpenAIChatModel(name, provider=endpoint_provider(ENDPOINT, name, base_url, api_key))


def endpoint_provider(called: str, model: str, base_url: str, api_key: str | None) -> OpenAICompatibleProvider:
    """Return the provider behind a URL. Raises `UserError` if the URL is invalid or the model has no name."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if not model or not base_url.startswith(("http://", "https://")):
        raise UserError("An endpoint needs a model name and a URL that starts with http:// or https://.")
    return OpenAICompatibleProvider(called, base_url=base_url, api_key=api_key)


class ScriptedModel:
    """A `LanguageModel` with prepared answers in order: texts, and tool calls. Thread-safe.

    It ignores tools and length limits.
    """

    def __init__(self, answers: Iterable[str | Sequence[ToolCall]], *, name: str = "scripted") -> None:
        self._answers = deque(answers)
        self._name = name
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """The id of the model."""
        return self._name

    def answer(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,  # noqa: ARG002 - the port's
    ) -> Answer:
        """Return the next answer. Raises `Unavailable` when there is none left."""
        messages_of(prompt)
        with self._lock:
            if not self._answers:
                raise Unavailable(f"{self._name} has no answers left.", hint="Provide one answer per question.")
            given = self._answers.popleft()
        text, calls = (given, ()) if isinstance(given, str) else ("", tuple(given))
        input_tokens = estimate_tokens(system + words_of(prompt, tools))
        return Answer(text, Usage(1, input_tokens, estimate_tokens(text), Decimal(0)), calls)

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:  # noqa: ARG002 - the port's
        """Return 0."""
        return Decimal(0)
