"""One way to write a value as bytes, so that equal meanings have equal hashes."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
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


# Which message is which: hashes that tell equal messages apart and show where two records of a conversation differ.


_KEY_CHARS = 20


def message_key(role: str, content: str) -> str:
    """Hash what a message says, by whom; white space does not count."""
    return digest(f"{role}\n{' '.join(content.split())}")[:_KEY_CHARS]


def chain_hashes(keys: Iterable[str], *, after: str = "") -> Iterator[str]:
    """Yield for each message, by its `message_key`, the hash of it and of all before it.

    `after` is the hash of the message before the first. Equal messages at different places have different hashes,
    and two records of one conversation have the same hashes up to the first message in which they differ.
    """
    for key in keys:
        after = digest(f"{after}\n{key}")[:_KEY_CHARS]
        yield after
