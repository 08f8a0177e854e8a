"""Times are UTC, timezone-aware, and in JSON ISO 8601 with microseconds."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, PlainSerializer

from treering.core.errors import InvalidInput


def render_time(time: datetime) -> str:
    """Write a time in the one form the ledger stores: `2026-01-31T12:00:00.000000Z`."""
    moment = time if time.tzinfo is UTC else time.astimezone(UTC)
    return f"{moment.isoformat(timespec='microseconds')[:_UTC_OFFSET]}Z"


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time. Raises `InvalidInput` where it is malformed or has no zone."""
    try:
        time = datetime.fromisoformat(text)
        # Near the first and the last year an offset can lead out of the calendar.
        moment = time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text!r} is not a time.", hint="Write 2026-01-31T12:00:00Z.") from error
    if moment is None:
        raise InvalidInput(f"{text!r} has no time zone.", hint="End it with Z or an offset such as +02:00.")
    return moment


_UTC_OFFSET = -len("+00:00")

Instant = Annotated[
    AwareDatetime,
    AfterValidator(lambda time: time.astimezone(UTC)),
    PlainSerializer(render_time, return_type=str, when_used="json"),
]
