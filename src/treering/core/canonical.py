"""Canonical forms: ids, times, and JSON values as bytes, so that equal values have equal hashes."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from operator import is_
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer

from treering.core.characters import digest as digest  # callers that must start fast import it from there
from treering.core.characters import normalise_text as normalise_text
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
_OBJECTS = frozenset({"source", "node", "knowledge", "activity", "work_item"})
_KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}
_OBJECT_IDS = re.compile(f"(?:{'|'.join(PREFIXES[kind] for kind in sorted(_OBJECTS))}):[{_ALPHABET}]{{{_BODY}}}")
_UTC_OFFSET = -len("+00:00")
_KEY_CHARS = 20
"""Characters of a message's hash."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


is_none = partial(is_, None)
"""A quick `exclude_if` of optional fields."""


class FrozenModel(BaseModel):
    """A value of the core: immutable, without unknown fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def make_id(kind: str, *, at: datetime, entropy: bytes) -> str:
    """Make the id of a new object of `kind` from the time and 10 random bytes (ULID, Crockford base 32)."""
    milliseconds = int(at.timestamp() * 1000)
    number = (milliseconds << 80) | int.from_bytes(entropy[:10], "big")
    return f"{PREFIXES[kind]}:{_base32(number, _BODY)}"


def make_segment_id(entropy: bytes) -> str:
    """Make a segment id, unique within its source, from 8 random bytes."""
    return "seg_" + _base32(int.from_bytes(entropy[:8], "big"), 13)


def kind_of(identity: str) -> str:
    """Return the kind of object an id names. Raises `InvalidInput` for text that is not an id."""
    prefix, _, body = identity.partition(":")
    kind = _KINDS.get(prefix)
    if kind is None or len(body) != _BODY or not set(body) <= set(_ALPHABET):
        raise InvalidInput(
            f"{identity!r} is not a valid id.",
            hint="An id is a prefix (src: node: know: act: work:) followed by 26 characters.",
            details={"given": identity},
        )
    return kind


def is_object(text: str) -> bool:
    """Return whether a text has the form of an object id: of a source, a node, and so on."""
    prefix, _, body = text.partition(":")
    return _KINDS.get(prefix) in _OBJECTS and len(body) == _BODY and set(body) <= set(_ALPHABET)


def ids_in(text: str) -> Sequence[str]:
    """Return the object ids in a text."""
    return _OBJECT_IDS.findall(text)


def is_node(identity: str) -> bool:
    """Return whether an id is the id of a node."""
    return identity.startswith(f"{PREFIXES['node']}:")


def is_patch(target: str) -> bool:
    """Return whether the target of an audit event is a patch, and not an object or the policy."""
    return target.startswith(f"{PREFIXES['patch']}:")


def _base32(number: int, length: int) -> str:
    pairs = []
    for _ in range((length + 1) // 2):
        pairs.append(_PAIRS[number & 1023])
        number >>= 10
    return "".join(reversed(pairs))[-length:]


@lru_cache(maxsize=256)  # all events of a transaction have the same time
def render_time(time: datetime) -> str:
    """Write a time in the form the ledger stores: `2026-01-31T12:00:00.000000Z`."""
    moment = time if time.tzinfo is UTC else time.astimezone(UTC)
    return f"{moment.isoformat(timespec='microseconds')[:_UTC_OFFSET]}Z"


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time. Raises `InvalidInput` if it is malformed or has no time zone."""
    try:
        time = datetime.fromisoformat(text)
        # Near the first and the last year, an offset can lead outside the calendar.
        moment = time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text!r} is not a valid time.", hint="Write 2026-01-31T12:00:00Z.") from error
    if moment is None:
        raise InvalidInput(f"{text!r} has no time zone.", hint="Add Z or an offset such as +02:00.")
    return moment


Instant = Annotated[
    AwareDatetime,
    AfterValidator(lambda time: time.astimezone(UTC)),
    PlainSerializer(render_time, return_type=str, when_used="json"),
]


def plain_json(value: Any) -> Any:
    """Return a value as it is after a round trip through JSON. Raises `ValueError` if JSON cannot contain it."""
    if value == {}:  # as in most objects
        return {}
    try:
        text = canonical_json(value)
        text.encode()
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error


Json = Annotated[Any, AfterValidator(plain_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(plain_json)]


def canonical_json(value: Any) -> str:
    """Write a JSON value with sorted keys and without white space."""
    return _ENCODER.encode(value)


def normalise(value: Any) -> Any:
    """Apply `normalise_text` to every text inside a JSON value; drop empty parts of objects."""
    match value:
        case str():
            return normalise_text(value)
        case dict():
            return {key: normalise(part) for key, part in value.items() if part not in (None, "", [], {})}
        case list() | tuple():
            return [normalise(part) for part in value]
        case _:
            return value


def message_key(role: str, content: str) -> str:
    """Hash the role and content of a message; white space does not count."""
    return digest(f"{role}\n{' '.join(content.split())}")[:_KEY_CHARS]


def chain_hashes(keys: Iterable[str], *, after: str = "") -> Iterator[str]:
    """Yield a hash of each message, given by its `message_key`, together with all messages before it.

    `after` is the hash of the message before the first. Equal messages at different places have different hashes,
    and two records of one conversation have the same hashes up to the first message in which they differ.
    """
    for key in keys:
        after = digest(f"{after}\n{key}")[:_KEY_CHARS]
        yield after
