"""Looking now and then, in a thread of its own, for work that nobody is at: what processes left that died."""

import logging
import threading
from collections.abc import Callable, Sequence

from treering.core.errors import TreeringError

LOOKING_SECONDS = 5.0

_LOG = logging.getLogger(__name__)


class Caretaker:
    """Looks after what is served, from `start` until `stop`. Whatever fails is told of, and looked after again."""

    def __init__(self, looks: Sequence[Callable[[], None]], *, seconds: float = LOOKING_SECONDS) -> None:
        self._looks = looks
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="treering-caretaker", daemon=True)
        self._told = ""

    def start(self) -> None:
        """Begin. Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for a look that is under way."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(self._seconds):
            for look in self._looks:
                self._do(look)

    def _do(self, look: Callable[[], None]) -> None:
        try:
            look()
        except TreeringError as error:
            if str(error) != self._told and not self._over.is_set():
                self._told = str(error)
                _LOG.warning("Work that waits cannot be looked for: %s", error)
