"""Lenient reading of JSON from other programs, in which any value may be missing or of another type."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

from treering.core.characters import well_formed

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Malformed:
    """The reason why bytes are not valid JSON."""

    why: str


def parse(data: bytes) -> object:
    """Parse JSON; return `Malformed` if it is invalid."""
    try:
        value: object = json.loads(data)
    except RecursionError:
        return Malformed("it is nested too deeply to be read")
    except ValueError as error:  # also a number with too many digits, and bytes that are not text
        return Malformed(f"it is not valid JSON ({str(error)[:_SHOWN]})")
    return value


def over_limit(most_bytes: int) -> Malformed:
    """Return the error for a part that is too large to be parsed."""
    return Malformed(f"it exceeds the limit max_part_bytes of {most_bytes:,} bytes")


def elements(data: bytes) -> Iterator[bytes | Malformed]:
    """Yield the bytes of each element of a JSON array, so that a broken one does not affect the others."""
    opening = data.find(b"[")
    depth, start = 1, opening + 1
    for token in _TOKEN.finditer(data, start):
        mark = token.group()
        if mark in b"[{":
            if depth == 1:
                yield from _between(data, start, token.start())
                start = token.start()
            depth += 1
        elif mark in b"]}":
            depth -= 1
            if depth <= 1:
                yield from _between(data, start, token.end() if depth else token.start())
                start = token.end()
            if depth == 0:
                return
        elif mark == b'"':  # a string without an end
            break
    if data[start:].strip(b", \t\r\n"):
        yield Malformed("the file ends in the middle of it")


def record(value: object) -> Record:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> Sequence[object]:
    """Return a JSON array; an empty one for any other value."""
    return value if isinstance(value, list) else ()


def words(value: object) -> str:
    """Return a text with valid Unicode; an empty one for any other value."""
    return well_formed(value).replace("\0", "") if isinstance(value, str) else ""


def first_words(found: Record, *names: str) -> str:
    """Return the first of these members that is a text and not blank."""
    return next((text for text in (words(found.get(name)) for name in names) if text.strip()), "")


def moment(value: object) -> datetime | None:
    """Parse a time: ISO 8601 (UTC by default), or seconds, milliseconds or microseconds since 1970."""
    if isinstance(value, str):
        return _number(float(value)) if _NUMBER.fullmatch(value) else _iso(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _number(value)


def first_moment(found: Record, *names: str) -> datetime | None:
    """Return the first of these members that is a time."""
    return next((time for time in (moment(found.get(name)) for name in names) if time), None)


_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}"]', re.DOTALL)
_SLASHED = re.compile(r"^(\d{4})/(\d\d)/(\d\d)(?: \([^()]{1,12}\))?")  # 2023/04/10 (Mon) 14:47
_NUMBER = re.compile(r"\d{9,17}(?:\.\d{1,9})?")
_EARLIEST, _LATEST = datetime(1971, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_MOST_SECONDS = _LATEST.timestamp()
_SHOWN = 80


def _between(data: bytes, start: int, end: int) -> Iterator[bytes]:
    element = data[start:end].strip(b", \t\r\n")
    if element:
        yield element


def _number(value: float) -> datetime | None:
    if not isinstance(value, int) and not isfinite(value):
        return None
    scale = next((scale for scale in (1, 1_000, 1_000_000) if value <= _MOST_SECONDS * scale), 0)
    return _likely(datetime.fromtimestamp(value / scale, UTC)) if scale and value > 0 else None


def _iso(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(_SLASHED.sub(r"\1-\2-\3", text.strip()).removesuffix(" UTC"))
        return _likely(time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _likely(time: datetime) -> datetime | None:
    return time if _EARLIEST <= time < _LATEST else None
