"""A memory that is being stored in the background: awaited, or waited for."""

import asyncio
import logging
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any

_LOG = logging.getLogger(__name__)


class StoringMemory(Coroutine[Any, Any, str]):
    """A running store call: `await` it for the id, or call `result()` without an event loop.

    It continues even if it is not awaited, so that a synchronous tool runner loses nothing. If it fails and is not
    awaited, the error is logged. It is also a coroutine for `asyncio.create_task` and `asyncio.run`.
    """

    def __init__(self, work: "Future[str]") -> None:
        self._work = work
        self._waiting: Coroutine[Any, Any, str] | None = None
        self._is_awaited = False

    def result(self, timeout: float | None = None) -> str:
        """Wait for the id. Raises the errors of storing, and `TimeoutError` after `timeout` seconds."""
        self._is_awaited = True
        return self._work.result(timeout)

    def __await__(self) -> Generator[Any, Any, str]:
        return self._wait().__await__()

    def send(self, value: Any, /) -> Any:
        """Resume waiting, as a coroutine does."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception at the point of waiting, as in a coroutine."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """Stop waiting. Storing continues."""
        if self._waiting is not None:
            self._waiting.close()

    def __del__(self) -> None:
        if not self._is_awaited:
            self._work.add_done_callback(_log_failure)

    def _coroutine(self) -> Coroutine[Any, Any, str]:
        if self._waiting is None:
            self._waiting = self._wait()
        return self._waiting

    async def _wait(self) -> str:
        self._is_awaited = True
        return await asyncio.wrap_future(self._work)


def _log_failure(work: "Future[str]") -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _LOG.warning("Storing a memory in the background failed: %s", error)
