"""The last calls of a server, for its web page."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from treering.core.canonical import render_time
from treering.verbs.envelope import Envelope

_MOST = 200
_CHARS = 200
_TEXTS = ("task", "text", "query", "name", "id")


@dataclass(frozen=True, slots=True)
class RecentCall:
    """A call: its time, name and text."""

    number: int
    time: str
    what: str
    text: str


class RecentCalls:
    """Stores the last calls. Safe to use from many threads."""

    def __init__(self) -> None:
        self._calls: deque[RecentCall] = deque(maxlen=_MOST)
        self._last = 0
        self._lock = Lock()

    @property
    def last(self) -> int:
        """The number of the last call; 0 before the first one."""
        return self._last

    def note(self, verb: str, envelope: Envelope) -> None:
        """Store an answered call."""
        now = render_time(datetime.now(UTC))
        what = " ".join(filter(None, (verb, envelope.mode, envelope.scope if envelope.scope != "/" else "")))
        with self._lock:
            self._last += 1
            self._calls.append(RecentCall(self._last, now, what, _asked(envelope.input)[:_CHARS]))

    def since(self, number: int) -> list[RecentCall]:
        """Return the stored calls after the one with this number, oldest first."""
        with self._lock:
            return [call for call in self._calls if call.number > number]


def _asked(given: object) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, Mapping):
        return ""
    return next((text for name in _TEXTS if isinstance(text := given.get(name), str) and text), "")
