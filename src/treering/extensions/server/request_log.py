"""The log of requests: lines of text or JSON objects on standard error, without content of the client."""

import json
import logging
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from treering.core.errors import InvalidInput
from treering.surfaces.python.logs import VisibleFormatter, log_to_stderr

LogFormat = Literal["json", "text"]
REQUESTS = "treering.requests"
"""The logger of requests."""
_WITHOUT_CONTENT = "psycopg.pool"
"""The loggers whose values are about connections to a database, not from clients."""


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
        has_content = not record.name.startswith(_WITHOUT_CONTENT)
        fields["message"] = str(record.msg if has_content else record.getMessage()).strip()
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            fields["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(fields)


def log_requests(log_format: LogFormat) -> None:
    """Log requests, too, and all that is logged in one format."""
    log_to_stderr(JsonLines() if log_format == "json" else TextLines(logging.BASIC_FORMAT))
    logging.getLogger(REQUESTS).setLevel(logging.INFO)


def log_format_of(text: str) -> LogFormat | None:
    """Parse a log format; `None` if none is given. Raises `InvalidInput` for an unknown one."""
    for known in get_args(LogFormat):
        if text == known:
            return known  # type: ignore[no-any-return]  # one of the words of the type
    if text:
        raise InvalidInput(f"--log-format has no value {text[:100]!r}.", hint="Write json or text.")
    return None


def _request_of(record: logging.LogRecord) -> RequestFields | None:
    request = getattr(record, "request", None)
    return request if isinstance(request, RequestFields) else None


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
