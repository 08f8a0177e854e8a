"""How texts lie in the database: short ones as they are, longer ones compressed."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import zstandard
from pydantic import BaseModel, ValidationError

from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Object, parse_object

_Model = TypeVar("_Model", bound=BaseModel)

_WORTH_COMPRESSING = 256
_MAX_TEXT = 1 << 30
_local = threading.local()


def pack(text: str) -> str | bytes:
    """Compress a text where that saves room."""
    if len(text) < _WORTH_COMPRESSING:
        return text
    return _compressor().compress(text.encode())


def unpack(stored: str | bytes) -> str:
    """Return what was packed. Raises `Corrupt` where the bytes do not decompress."""
    if isinstance(stored, str):
        return stored
    try:
        return _decompressor().decompress(stored, max_output_size=_MAX_TEXT).decode()
    except (zstandard.ZstdError, UnicodeDecodeError, TypeError) as error:
        raise Corrupt("A stored text does not decompress.", hint="Restore the space from a backup.") from error


def unpack_json(stored: str | bytes) -> Any:
    """Return packed JSON as data. Raises `Corrupt` for what is none."""
    try:
        return json.loads(unpack(stored))
    except (ValueError, RecursionError) as error:
        raise _unreadable(str(error)) from error


def unpack_model(model: type[_Model], stored: str | bytes) -> _Model:
    """Return a packed value. Raises `Corrupt` for what is none of its kind."""
    try:
        return model.model_validate_json(unpack(stored))
    except ValidationError as error:
        raise _unreadable(f"no {model.__name__}") from error


def unpack_object(stored: str, words: Callable[[str], Mapping[str, str]]) -> Object:
    """Make an object from its stored form and the words of its segments, by segment id.

    Raises `Corrupt` where it is no object, or words are missing.
    """
    data = unpack_json(stored)
    try:
        if data.get("segments"):
            known = words(data["id"])
            data["segments"] = [{**part, "excerpt": known[part["segment_id"]]} for part in data["segments"]]
        return parse_object(data)
    except (AttributeError, KeyError, TypeError, InvalidInput) as error:
        raise _unreadable(str(error)) from error


def _unreadable(what: str) -> Corrupt:
    return Corrupt(f"A stored row is damaged: {what}.", hint="Restore the space from a backup.")


def _compressor() -> zstandard.ZstdCompressor:
    # A zstandard context must not be shared between threads.
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=3)
    compressor: zstandard.ZstdCompressor = _local.compressor
    return compressor


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    decompressor: zstandard.ZstdDecompressor = _local.decompressor
    return decompressor
