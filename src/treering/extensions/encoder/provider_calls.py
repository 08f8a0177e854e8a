"""Calls of model providers: an event loop behind the synchronous port, and translated errors."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from treering.core.errors import InvalidInput, TreeringError, Unavailable
from treering.core.secrets.redaction import redact

if TYPE_CHECKING:
    from pydantic_ai.exceptions import AgentRunError, ModelAPIError

_CLOSING_SECONDS = 5.0

Result = TypeVar("Result")


class ModelLoop:
    """An event loop in its own thread, started by the first answer.

    The port is synchronous, but providers are not. One loop serves all threads, because an open connection belongs to
    the loop in which it was opened.
    """

    def __init__(self, model: AbstractAsyncContextManager[object]) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Run `work` in the loop and return its result. It is cancelled if the wait is interrupted."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """Close the connections and end the thread. The next `run` starts again."""
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
        loop.run_until_complete(_end_what_is_left(loop))
    finally:
        loop.close()


async def _end_what_is_left(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel remaining work and close generators, in the loop to which their connections belong."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await loop.shutdown_asyncgens()


HINT = (
    "Use PROVIDER:MODEL, such as openai:gpt-5-mini or anthropic:claude-haiku-4-5, and set the "
    "provider's key; for an OpenAI-compatible endpoint give the model's own name and the URL."
)
_SHOWN_CHARS = 300
_VARIABLE = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`")
_NOT_NOW = frozenset({402, 408, 409, 425, 429})
"""HTTP statuses below 500 that depend on the time or the account, not on the request."""


@contextmanager
def translating(model: str, secret: str | None) -> Iterator[None]:
    """Translate the errors of a provider's package. Their causes are dropped, because they contain the response."""
    from pydantic_ai.exceptions import AgentRunError, UserError

    try:
        yield
    except AgentRunError as error:
        raise _translated(error, model, secret) from None
    except UserError as error:
        raise InvalidInput(f"{model}: {_shown(str(error), secret)}", hint=HINT) from None
    except (ValueError, TypeError, AttributeError, LookupError, AssertionError):
        # The providers' packages do not validate responses: a login page or odd JSON makes them fail.
        raise _garbled(model) from None


@contextmanager
def opening(model: str, secret: str | None, *, hint: str) -> Iterator[None]:
    """Translate the errors of opening a model. Their causes are dropped, because they may contain the key."""
    from pydantic_ai.exceptions import UserError

    try:
        yield
    except (UserError, ValueError) as error:
        raise InvalidInput(f"{model} cannot be opened. {_missing_setting(error, secret)}", hint=hint) from None
    except ImportError as error:
        raise InvalidInput(f"{model} needs a package that is not installed.", hint=str(error)) from error


def _missing_setting(error: Exception, secret: str | None) -> str:
    """Return a message that names the missing environment variable, without the package's advice for programmers."""
    message = _shown(str(error), secret)
    variable = _VARIABLE.search(message)
    return f"The provider needs the environment variable {variable[1]}." if variable else message


def _translated(error: AgentRunError, model: str, secret: str | None) -> TreeringError:
    """Return our error for a provider's: `InvalidInput` for a bad request, `Unavailable` for everything else."""
    from pydantic_ai import exceptions as theirs

    match error:
        case theirs.ModelAuthenticationError():  # without the provider's message, which may contain the key
            return InvalidInput(f"{model} rejected the key.", hint="Check the key and whether it may use this model.")
        case theirs.ModelNotFoundError():
            return InvalidInput(f"The provider has no model {model}, or the URL does not point to its API.", hint=HINT)
        case theirs.ModelContextWindowExceededError():
            return InvalidInput(f"The prompt is too long for {model}.", hint="Send less text per request.")
        case theirs.ContentFilterError():
            return InvalidInput(f"The content filter of {model} rejected this text.", hint="Remove the text.")
        case theirs.ModelHTTPError() if error.status_code < 500 and error.status_code not in _NOT_NOW:
            words = f"{model} rejected the request ({error.status_code}). {_words(error, secret)}"
            return InvalidInput(words, hint="Check whether the model supports such requests, and its limits.")
        case _:
            return _unavailable(error, model, secret)


def _unavailable(error: AgentRunError, model: str, secret: str | None) -> Unavailable:
    from pydantic_ai import exceptions as theirs

    match error:
        case theirs.ModelQuotaExceededError():
            return Unavailable(f"The account for {model} has no credit left.", hint="Top it up, or use another model.")
        case theirs.ModelRateLimitError():
            details = {"retry_after_seconds": error.retry_after}
            return Unavailable(
                f"{model} does not accept more requests now (rate limit).", hint="Wait, then continue.", details=details
            )
        case theirs.ModelRequestTimeout() | theirs.ModelTimeoutError():
            return Unavailable(f"{model} did not answer in time.", hint="Try again, or send a smaller request.")
        case theirs.ModelConnectionError():
            return Unavailable(f"Cannot reach {model}.", hint="Check the network, and the URL if one is set.")
        case theirs.ModelAPIError():
            hint = "Try again later. If a URL is set, check that it points to an OpenAI-compatible API."
            return Unavailable(f"{model} failed. {_words(error, secret)}", hint=hint)
        case _:
            return _garbled(model)


def _garbled(model: str) -> Unavailable:
    hint = "Check that the URL points to an OpenAI-compatible API."
    return Unavailable(f"{model} returned an invalid response.", hint=hint)


def _words(error: ModelAPIError, secret: str | None) -> str:
    message = error.body.get("message") if isinstance(error.body, dict) else error.body or error.message
    return _shown(message if isinstance(message, str) else "", secret)


def _shown(text: str, secret: str | None) -> str:
    """Return a message of a provider for an error: short, on one line, without keys."""
    open_text = text.replace(secret, "[redacted]") if secret else text
    return " ".join(redact(open_text).text.split())[:_SHOWN_CHARS]
