"""An event loop for models: the port is synchronous, the providers are not."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from queue import SimpleQueue
from typing import TypeVar

_CLOSING_SECONDS = 5.0

Result = TypeVar("Result")
Told = TypeVar("Told")


class ModelLoop:
    """An event loop in a thread of its own, started by the first answer.

    The port is synchronous, the providers are not. One loop serves all threads, because a connection
    kept open belongs to the loop it was opened in.
    """

    def __init__(self, model: AbstractAsyncContextManager[object]) -> None:
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
