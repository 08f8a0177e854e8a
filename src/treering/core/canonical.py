"""One way to write a value as bytes, so that equal meanings have equal hashes."""

import hashlib
import json
import re
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator

from treering.core.errors import InvalidInput

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_SPACES = re.compile(r"\s+")


def plain_json(value: Any) -> Any:
    """Return a value as it reads back from JSON. Raises `ValueError` for what JSON cannot hold (NaN, bytes, …)."""
    try:
        text = canonical_json(value)
        text.encode()
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error


Json = Annotated[Any, AfterValidator(plain_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(plain_json)]


def canonical_json(value: Any) -> str:
    """Write a JSON value with sorted keys and no spare space."""
    return _ENCODER.encode(value)


def digest(text: str, *, salt: str = "") -> str:
    """Hash a text (BLAKE2b, 160 bits, hex), keyed with `salt` where one is given.

    A salted hash of a short text cannot be guessed once the salt is gone; that is what lets the audit keep
    hashes of erased content. Raises `InvalidInput` for text that is not valid Unicode: no store could keep it.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"A text holds a lone surrogate at character {error.start}, so it is not valid Unicode.",
            hint="Decode it with errors='replace' before giving it to Treering.",
        ) from error
    return hashlib.blake2b(data, digest_size=20, key=salt.encode()).hexdigest()


def normalise_text(text: str) -> str:
    """Fold what does not change meaning: Unicode form (NFKC), case, runs of white space."""
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).strip().casefold()


def normalise(value: Any) -> Any:
    """Fold every text inside a JSON value with `normalise_text`; empty parts are dropped from objects."""
    match value:
        case str():
            return normalise_text(value)
        case dict():
            return {key: normalise(part) for key, part in value.items() if part not in (None, "", [], {})}
        case list() | tuple():
            return [normalise(part) for part in value]
        case _:
            return value
