"""Commands that run until they are told to stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told_to_stop() -> Iterator[Callable[[float], bool]]:
    """Take SIGTERM and SIGINT as a wish to stop, which is given time to end what is under way.

    Yields what waits for so many seconds, or until then, and tells whether to stop.
    """
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping.wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
