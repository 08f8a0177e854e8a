"""A memory that is being stored: what the asynchronous client hands out, to be awaited, waited for, or left alone."""

import asyncio
import logging
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any

_LOG = logging.getLogger(__name__)


class StoringMemory(Coroutine[Any, Any, str]):
    """Storing that has begun: `await` it for the id, or call `result()` where nothing can be awaited.

    It goes on whether anybody waits or not, so that a synchronous tool runner loses nothing. Where it fails and nobody
    asked, that is logged. It is a coroutine for `asyncio.create_task` and `asyncio.run`, too.
    """

    def __init__(self, work: "Future[str]") -> None:
        self._work = work
        self._waiting: Coroutine[Any, Any, str] | None = None
        self._asked = False

    def result(self, timeout: float | None = None) -> str:
        """Wait for the id. Raises what storing raises, and `TimeoutError` after `timeout` seconds."""
        self._asked = True
        return self._work.result(timeout)

    def __await__(self) -> Generator[Any, Any, str]:
        return self._wait().__await__()

    def send(self, value: Any, /) -> Any:
        """Go on waiting, as a coroutine does."""
        return self._coroutine().send(value)

    def throw(self, *given: Any) -> Any:
        """Raise something where it waits, as a coroutine does."""
        return self._coroutine().throw(*given)

    def close(self) -> None:
        """Wait no more. Storing goes on."""
        if self._waiting is not None:
            self._waiting.close()

    def __del__(self) -> None:
        if not self._asked:
            self._work.add_done_callback(_tell_of_failure)

    def _coroutine(self) -> Coroutine[Any, Any, str]:
        if self._waiting is None:
            self._waiting = self._wait()
        return self._waiting

    async def _wait(self) -> str:
        self._asked = True
        return await asyncio.wrap_future(self._work)


def _tell_of_failure(work: "Future[str]") -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _LOG.warning("A memory that nobody waited for was not stored: %s", error)
