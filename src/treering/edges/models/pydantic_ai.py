"""Language models of any provider, through pydantic-ai. Needs the extra `llm`; imported when a model is opened."""

from __future__ import annotations

import asyncio
import re
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from inspect import signature
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from treering.core.errors import InvalidInput, MissingExtra, TreeringError, Unavailable
from treering.core.redaction import redact
from treering.derived.tokens import estimate_tokens
from treering.ports.model import (
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

if TYPE_CHECKING:
    from decimal import Decimal

    from pydantic_ai.exceptions import AgentRunError, ModelAPIError, UserError
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider
    from pydantic_ai.usage import RequestUsage

    from treering.edges.models.pydantic_ai_request import Request

EXTRA = "llm"
ENDPOINT = "custom"
"""The provider in the id of a model behind a URL. Not the URL: ids are stored, and an address is nobody's business."""

TIMEOUT_SECONDS = 120.0
HINT = (
    "Write PROVIDER:MODEL, such as openai:gpt-5-mini or anthropic:claude-haiku-4-5, and set the provider's key; "
    "for an OpenAI-compatible endpoint give the model's own name and the URL."
)
_CLOSING_SECONDS = 5.0
_SHOWN_CHARS = 300
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
_NOT_NOW = frozenset({402, 408, 409, 425, 429})
"""HTTP statuses below 500 that are about the moment or the account, not about what was asked."""

Result = TypeVar("Result")
Told = TypeVar("Told")


def open_model(name: str, *, base_url: str | None = None, api_key: str | None = None) -> LanguageModel:
    """Open a language model. Nothing is sent until it is asked.

    `name` is `PROVIDER:MODEL` as pydantic-ai knows it (`openai:gpt-5-mini`, `anthropic:claude-haiku-4-5`). With
    `base_url`, an OpenAI-compatible endpoint such as `http://localhost:11434/v1`, it is the model's name there.
    Without `api_key` a provider reads the key from its own environment variable; an endpoint gets none.

    Raises `MissingExtra` where pydantic-ai is not installed, `InvalidInput` for a model nobody knows, a missing
    key, a URL that is none, or a provider whose package is not installed.
    """
    if find_spec("pydantic_ai") is None:
        raise MissingExtra(EXTRA, needed_for="A language model")
    from pydantic_ai.exceptions import UserError

    try:
        model = _endpoint(name, base_url, api_key) if base_url else _inferred(name, api_key)
    except UserError as error:
        raise InvalidInput(f"The model {name!r} cannot be opened. {_missing(error, api_key)}", hint=HINT) from None
    except ImportError as error:
        raise InvalidInput(f"The model {name!r} needs a package that is not installed.", hint=str(error)) from error
    return PydanticAIModel(model, secret=api_key)


class PydanticAIModel:
    """A `LanguageModel` over a model of pydantic-ai. May be used from any thread, also under a running event loop.

    `timeout_seconds` bounds one answer with all the provider's own retries. `secret` is kept out of every error.
    Connections are closed by `close`, or when the object goes. Nothing is traced or reported to anybody.
    """

    def __init__(self, model: Model, *, timeout_seconds: float = TIMEOUT_SECONDS, secret: str | None = None) -> None:
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._secret = secret
        self._loop = _Loop(model)
        weakref.finalize(self, self._loop.close)  # keeps itself alive, and runs at the end of the program too

    @property
    def model_id(self) -> str:
        """Name the model: `provider:name`."""
        return self._model.model_id

    def answer(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> Answer:
        """Answer one prompt. An empty answer is an answer.

        Raises `Unavailable` where the provider cannot be reached, is too busy, fails, has no credit left for this
        account, or answers with what is no answer; `InvalidInput` where it refuses the key, the model or the prompt.
        """
        asked = self._request(prompt, system, tools, max_output_tokens)
        with _translating(self.model_id, self._secret):
            return self._answer(self._loop.run(asked.answer()), words_of(prompt, tools) + system)

    def stream(
        self,
        prompt: Prompt,
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> Iterator[str | Answer]:
        """Yield the words of the answer as they come, and last the whole `Answer`. Raises what `answer` raises.

        A provider that cannot be heard bit by bit is `InvalidInput`. To close the iterator ends the request.
        """
        asked = self._request(prompt, system, tools, max_output_tokens)
        with _translating(self.model_id, self._secret):
            for said in self._loop.stream(asked.stream):
                yield said if isinstance(said, str) else self._answer(said, words_of(prompt, tools) + system)

    def price(self, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Estimate what so many tokens cost, in US dollars, by the price list that came with pydantic-ai.

        `None` where the price is not known, as behind an endpoint of one's own.
        """
        from pydantic_ai.usage import RequestUsage

        return self._price(RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens))

    def close(self) -> None:
        """Close the connections. A later `answer` opens new ones."""
        self._loop.close()

    def _request(self, prompt: Prompt, system: str, tools: Sequence[ToolSpec], max_output_tokens: int) -> Request:
        from treering.edges.models.pydantic_ai_request import request_of

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
        """Return what was used; where the provider does not say, an estimate, or a budget would never end."""
        used = response.usage
        if used.input_tokens or used.output_tokens:
            return Usage(1, used.input_tokens, used.output_tokens, self._price(used))
        given, got = estimate_tokens(asked), estimate_tokens(answered)
        return Usage(1, given, got, self.price(input_tokens=given, output_tokens=got))

    def _price(self, usage: RequestUsage) -> Decimal | None:
        from genai_prices import calc_price

        name, address, provider = self._model.model_name, self._model.base_url, self._model.system
        if address:
            # Known by its address first: what a provider's name costs elsewhere is not what it costs here.
            with suppress(LookupError, ValueError):
                return calc_price(usage, name, provider_api_url=address).total_price
        with suppress(LookupError, ValueError):
            return calc_price(usage, name, provider_id=provider).total_price
        return None


@contextmanager
def _translating(model: str, secret: str | None) -> Iterator[None]:
    """Translate what a provider's package raises. The causes are dropped: they hold what the provider sent."""
    from pydantic_ai.exceptions import AgentRunError, UserError

    try:
        yield
    except AgentRunError as error:
        raise _translated(error, model, secret) from None
    except UserError as error:
        raise InvalidInput(f"{model}: {_shown(str(error), secret)}", hint=HINT) from None
    except NotImplementedError:
        raise InvalidInput(f"{model} cannot be heard bit by bit.", hint="Ask it for whole answers.") from None
    except (ValueError, TypeError, AttributeError, LookupError, AssertionError):
        # The providers' packages trust what they are sent: they trip over a login page and over JSON that is odd.
        raise _garbled(model) from None


class _Loop:
    """An event loop in a thread of its own, started by the first answer.

    The port is synchronous, the providers are not. One loop serves all threads, because a connection
    kept open belongs to the loop it was opened in.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Run `work` in the loop and wait for it; what waits and is interrupted is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        finally:
            future.cancel()

    def stream(self, work: Callable[[Callable[[Told], None]], Coroutine[object, object, None]]) -> Iterator[Told]:
        """Run `work` in the loop and yield what it tells, as it tells it; closed before the end, it is cancelled."""
        told: SimpleQueue[tuple[Told] | None] = SimpleQueue()
        future: Future[None] = asyncio.run_coroutine_threadsafe(work(lambda one: told.put((one,))), self._started())
        future.add_done_callback(lambda _: told.put(None))
        try:
            while one := told.get():
                yield one[0]
            future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """Close the connections and end the thread; the next `run` starts again."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._model.__aexit__(None, None, None), loop).result(_CLOSING_SECONDS)
            loop.call_soon_threadsafe(loop.stop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_keep_running, args=(self._loop,), name="treering-model", daemon=True).start()
                asyncio.run_coroutine_threadsafe(self._model.__aenter__(), self._loop).result()
            return self._loop


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _inferred(name: str, api_key: str | None) -> Model:
    from pydantic_ai.models import infer_model

    return infer_model(name) if api_key is None else infer_model(name, lambda provider: _with_key(provider, api_key))


def _with_key(name: str, api_key: str) -> Provider[object]:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers import infer_provider_class

    try:
        build: Callable[..., Provider[object]] = infer_provider_class(name)
    except ValueError:
        raise UserError(f"Unknown provider: {name}.") from None
    # A gateway's name gives the class of the provider behind it, which must not be sent the gateway's key.
    if name.startswith("gateway/") or "api_key" not in signature(build).parameters:
        raise UserError(f"The provider {name} takes no key here; set it as its documentation says.")
    return build(api_key=api_key)


def _missing(error: UserError, secret: str | None) -> str:
    """Name the variable that is not set; what a provider's package advises beside is for programs of its own."""
    said = _shown(str(error), secret)
    variable = _VARIABLE.search(said)
    return f"Its provider needs the environment variable {variable[1]}." if variable else said


def _endpoint(name: str, base_url: str, api_key: str | None) -> Model:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if not name or not base_url.startswith(("http://", "https://")):
        raise UserError("An endpoint needs the model's name and a URL that begins with http:// or https://.")
    return OpenAIChatModel(name, provider=OpenAICompatibleProvider(ENDPOINT, base_url=base_url, api_key=api_key))


def _translated(error: AgentRunError, model: str, secret: str | None) -> TreeringError:
    """Return our error for a provider's: `InvalidInput` for what was asked, `Unavailable` for everything else."""
    from pydantic_ai import exceptions as theirs

    match error:
        case theirs.ModelAuthenticationError():  # without the provider's words, which may quote the key
            return InvalidInput(f"{model} refuses the key.", hint="Check the key, and that it may use this model.")
        case theirs.ModelNotFoundError():
            return InvalidInput(f"The provider knows no model {model}, or the URL is not its API's.", hint=HINT)
        case theirs.ModelContextWindowExceededError():
            return InvalidInput(f"The prompt is too long for {model}.", hint="Give it less text at a time.")
        case theirs.ContentFilterError():
            return InvalidInput(f"{model} refuses this text by its content filter.", hint="Leave the text out.")
        case theirs.ModelHTTPError() if error.status_code < 500 and error.status_code not in _NOT_NOW:
            words = f"{model} refuses the request ({error.status_code}). {_words(error, secret)}"
            return InvalidInput(words, hint="Check that the model takes such requests, and its limits.")
        case _:
            return _unavailable(error, model, secret)


def _unavailable(error: AgentRunError, model: str, secret: str | None) -> Unavailable:
    from pydantic_ai import exceptions as theirs

    match error:
        case theirs.ModelQuotaExceededError():
            return Unavailable(f"The account for {model} has no credit left.", hint="Top it up, or use another model.")
        case theirs.ModelRateLimitError():
            details = {"retry_after_seconds": error.retry_after}
            return Unavailable(f"{model} takes no more requests now.", hint="Wait, then go on.", details=details)
        case theirs.ModelRequestTimeout() | theirs.ModelTimeoutError():
            return Unavailable(f"{model} did not answer in time.", hint="Try again, or ask for less at a time.")
        case theirs.ModelConnectionError():
            return Unavailable(f"{model} cannot be reached.", hint="Check the network, and the URL where one is set.")
        case theirs.ModelAPIError():
            hint = "Try again later. Where a URL is set, check that it is that of an OpenAI-compatible API."
            return Unavailable(f"{model} failed. {_words(error, secret)}", hint=hint)
        case _:
            return _garbled(model)


def _garbled(model: str) -> Unavailable:
    hint = "Check that the URL is that of an OpenAI-compatible API."
    return Unavailable(f"{model} answered with something that is not an answer.", hint=hint)


def _words(error: ModelAPIError, secret: str | None) -> str:
    said = error.body.get("message") if isinstance(error.body, dict) else error.body or error.message
    return _shown(said if isinstance(said, str) else "", secret)


def _shown(text: str, secret: str | None) -> str:
    """Return foreign words fit for an error: short, on one line, without keys."""
    open_text = text.replace(secret, "[redacted]") if secret else text
    return " ".join(redact(open_text).text.split())[:_SHOWN_CHARS]
