"""The log of a server: on standard error, with terminal control characters escaped."""

import json
import logging
import traceback
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Any, Literal, get_args

from treering.core.canonical import render_time
from treering.core.characters import visible
from treering.core.errors import InvalidInput, TimedOut, Unavailable
from treering.verbs.envelope import Envelope

LogFormat = Literal["json", "text"]
REQUESTS = "treering.requests"
"""The logger of requests."""
_STAYS = "Earlier writes are saved; repeat the call to continue."
_MOST = 200
_CHARS = 200
_TEXTS = ("task", "text", "query", "name", "id")


@dataclass(frozen=True, slots=True)
class RequestFields:
    """The logged fields of a request, without content from the client."""

    method: str
    route: str
    """The template of its path."""
    status: int
    ms: float
    key: str
    """The id of its key; empty for one without."""
    request_id: str


class VisibleFormatter(logging.Formatter):
    """Formats a record, its traceback included, without characters that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return visible(super().format(record))


class TextLines(VisibleFormatter):
    """Formats a request as one line that begins with the time."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a request, or the lines of another record."""
        request = _request_of(record)
        if request is None:
            return super().format(record)
        key = f" key={request.key}" if request.key else ""
        what = f"{request.method} {request.route} {request.status} {request.ms} ms{key} id={request.request_id}"
        return f"{_time(record)} {what}"


class JsonLines(logging.Formatter):
    """Format each record as one JSON object without content.

    A message is logged as the program's template without the inserted values, and an error as its class and location,
    because both may quote the client.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields: dict[str, Any] = {"time": _time(record), "level": record.levelname.casefold(), "logger": record.name}
        request = _request_of(record)
        if request:
            return json.dumps(fields | asdict(request))
        fields["message"] = str(record.msg).strip()
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            fields["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(fields)


def log_warnings() -> None:
    """Log warnings and errors to standard error. Does nothing if the program has already configured logging."""
    _log_to_stderr(VisibleFormatter(logging.BASIC_FORMAT))


def log_requests(log_format: LogFormat) -> None:
    """Log requests, too, and all that is logged in one format."""
    _log_to_stderr(JsonLines() if log_format == "json" else TextLines(logging.BASIC_FORMAT))
    logging.getLogger(REQUESTS).setLevel(logging.INFO)


def log_format_of(text: str) -> LogFormat | None:
    """Parse a log format; `None` if none is given. Raises `InvalidInput` for an unknown one."""
    for known in get_args(LogFormat):
        if text == known:
            return known  # type: ignore[no-any-return]  # one of the words of the type
    if text:
        raise InvalidInput(f"--log-format has no value {text[:100]!r}.", hint="Write json or text.")
    return None


def _log_to_stderr(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _request_of(record: logging.LogRecord) -> RequestFields | None:
    request = getattr(record, "request", None)
    return request if isinstance(request, RequestFields) else None


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class Deadline:
    """Signals the thread of a call to stop. Safe to use from many threads.

    `seconds`: the time limit from now on; `None`: no limit.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._at = None if seconds is None else monotonic() + seconds
        self._why = ""

    @property
    def left(self) -> float | None:
        """The remaining seconds, at least 0; `None` without a limit."""
        return None if self._at is None else max(0.0, self._at - monotonic())

    def end(self, why: str) -> None:
        """Stop the work at its next check. `why` is the reason to report."""
        self._why = self._why or why

    def check(self) -> None:
        """Raise `Unavailable` if the work was stopped, `TimedOut` if its time is over."""
        if self._why:
            raise Unavailable(self._why, hint=_STAYS)
        if self._at is not None and monotonic() >= self._at:
            raise TimedOut(
                f"The call exceeded its limit of {self._seconds:g} seconds.",
                hint=f"Send a smaller request, or allow more time (--timeout, --work-timeout). {_STAYS}",
                details={"seconds": self._seconds},
            )


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
