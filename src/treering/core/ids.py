"""Identities: a prefix that tells the kind of thing, and a lower-case ULID, ordered by time."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, PlainSerializer

from treering.core.errors import InvalidInput

PREFIXES = {
    "source": "src",
    "node": "node",
    "knowledge": "know",
    "activity": "act",
    "work_item": "work",
    "context_pack": "ctx",
    "patch": "patch",
    "audit_event": "aud",
    "job": "job",
}

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_BODY = 26


def make_id(kind: str, *, at: datetime, entropy: bytes) -> str:
    """Make the id of a new thing of `kind` from the time and 10 random bytes (ULID, Crockford base 32)."""
    milliseconds = int(at.timestamp() * 1000)
    number = (milliseconds << 80) | int.from_bytes(entropy[:10], "big")
    return f"{PREFIXES[kind]}:{_base32(number, _BODY)}"


def make_segment_id(entropy: bytes) -> str:
    """Make a segment id, unique within its source, from 8 random bytes."""
    return "seg_" + _base32(int.from_bytes(entropy[:8], "big"), 13)


def kind_of(identity: str) -> str:
    """Tell what kind of thing an id names. Raises `InvalidInput` for text that is not an id."""
    prefix, _, body = identity.partition(":")
    kind = _KINDS.get(prefix)
    if kind is None or len(body) != _BODY or not set(body) <= set(_ALPHABET):
        raise InvalidInput(
            f"{identity!r} is not an id.",
            hint="An id is a prefix (src: node: know: act: work:) and 26 characters.",
            details={"given": identity},
        )
    return kind


def is_object(text: str) -> bool:
    """Tell whether a text has the form of an object's id: a source's, a node's, and so on."""
    prefix, _, body = text.partition(":")
    return _KINDS.get(prefix) in _OBJECTS and len(body) == _BODY and set(body) <= set(_ALPHABET)


def is_node(identity: str) -> bool:
    """Tell whether an id is a node's."""
    return identity.startswith(f"{PREFIXES['node']}:")


def is_patch(target: str) -> bool:
    """Tell whether what an audit event is about is a patch: not an object, and not the policy."""
    return target.startswith(f"{PREFIXES['patch']}:")


def _base32(number: int, length: int) -> str:
    pairs = []
    for _ in range((length + 1) // 2):
        pairs.append(_PAIRS[number & 1023])
        number >>= 10
    return "".join(reversed(pairs))[-length:]


_OBJECTS = frozenset({"source", "node", "knowledge", "activity", "work_item"})
_KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}


# Times are UTC, timezone-aware, and in JSON ISO 8601 with microseconds.


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
