"""Compress the texts in rows, and verify them when they are read."""

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import zstandard
from pydantic import BaseModel, ValidationError

from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Object, parse_object

_Model = TypeVar("_Model", bound=BaseModel)


LEVEL = 3


DICTIONARY = 41_000
"""Added to the number of a dictionary in a frame. The sum is in the range that zstd reserves for private use."""


_NEWEST = 1  # the dictionary for new rows


_WORTH_COMPRESSING = 256


_MAX_TEXT = 1 << 30


_SKIPPABLE = (0x184D2A50).to_bytes(4, "little")


_DIGEST = 16


_local = threading.local()


def pack(text: str) -> str | bytes:
    """Compress a text if it is long enough."""
    if len(text) < _WORTH_COMPRESSING:
        return text
    return _compressor().compress(text.encode())


def text_hash(text: str) -> bytes:
    """Return the hash by which a text of segments is stored once."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def pack_row(text: str) -> bytes:
    """Compress a row of JSON with the dictionary of rows."""
    return _compressor(_NEWEST).compress(text.encode())


def pack_bytes(content: bytes) -> bytes:
    """Compress bytes, with a checksum."""
    return _compressor().compress(content)


def unpack_bytes(stored: bytes) -> bytes:
    """Decompress bytes. Raises `Corrupt` if they are damaged."""
    try:
        return _decompressor_of(stored).decompress(stored, max_output_size=_MAX_TEXT)
    except _NOT_PACKED as error:
        raise _not_decompressed() from error


def pack_sealed(text: str, *, name: str) -> bytes:
    """Compress a text and append a digest of the text and the name of its row. For rows without an audit event."""
    content = text.encode()
    return _compressor(_NEWEST).compress(content) + _seal(content, name)


def unpack_sealed(stored: str | bytes, *, name: str | None) -> str:
    """Decompress a text. Raises `Corrupt` if the text or the name of its row was modified.

    Texts without a digest, from earlier versions, are not checked; neither is any if `name` is `None`.
    """
    if isinstance(stored, str):
        return stored
    try:
        reading = _decompressor_of(stored).decompressobj()
        content, rest = reading.decompress(stored), reading.unused_data
        if not reading.eof or (rest and name is not None and rest != _seal(content, name)):
            raise _unreadable(f"the row {name!r} was modified")
        return content.decode()
    except _NOT_PACKED as error:
        raise _not_decompressed() from error


def unpack(stored: str | bytes) -> str:
    """Decompress a text. Raises `Corrupt` if it is damaged."""
    if isinstance(stored, str):
        return stored
    # No context manager, which would take as long as decompressing: a search unpacks dozens of rows.
    try:
        return _decompressor_of(stored).decompress(stored, max_output_size=_MAX_TEXT).decode()
    except _NOT_PACKED as error:
        raise _not_decompressed() from error


def unpack_json(stored: str | bytes) -> Any:
    """Decompress and parse JSON. Raises `Corrupt` if it is invalid."""
    return json_of(unpack(stored))


def json_of(text: str) -> Any:
    """Parse JSON. Raises `Corrupt` if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(str(error)) from error


def unpack_model(model: type[_Model], stored: str | bytes) -> _Model:
    """Decompress and parse a model. Raises `Corrupt` if it is invalid."""
    return model_of(model, unpack(stored))


def model_of(model: type[_Model], text: str) -> _Model:
    """Parse a model from JSON. Raises `Corrupt` if it is invalid."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise _unreadable(f"no {model.__name__}") from error


def unpack_object(stored: str, words: Callable[[str], Mapping[str, str]]) -> Object:
    """Parse an object from its stored form and the texts of its segments by id.

    Raises `Corrupt` if it is invalid or a text is missing.
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


def _seal(content: bytes, name: str) -> bytes:
    """Return a skippable zstd frame with a digest. Earlier versions ignore it."""
    key = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=_DIGEST).digest()
    digest = hashlib.blake2b(content, digest_size=_DIGEST, key=key).digest()
    return _SKIPPABLE + len(digest).to_bytes(4, "little") + digest


_NOT_PACKED = (zstandard.ZstdError, UnicodeDecodeError, TypeError)


def _not_decompressed() -> Corrupt:
    return Corrupt("A stored text does not decompress.", hint="Restore the space from a backup.")


def _compressor(dictionary: int = 0) -> zstandard.ZstdCompressor:
    # The checksum reveals damage when the text is read.
    known: dict[int, zstandard.ZstdCompressor] = _of_thread("compressors")
    if dictionary not in known:
        shared = _dictionary(dictionary) if dictionary else None
        known[dictionary] = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, dict_data=shared)
    return known[dictionary]


def _decompressor_of(stored: bytes) -> zstandard.ZstdDecompressor:
    """Return the decompressor for a frame. Raises `ZstdError` if its dictionary is unknown."""
    known: dict[int, zstandard.ZstdDecompressor] = _of_thread("decompressors")
    number = zstandard.get_frame_parameters(stored).dict_id
    if number not in known:
        shared = _dictionary(number - DICTIONARY) if number else None
        known[number] = zstandard.ZstdDecompressor(dict_data=shared)
    return known[number]


def _of_thread(name: str) -> Any:
    # A zstandard context must not be shared between threads.
    return _local.__dict__.setdefault(name, {})


@cache
def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    if not 1 <= number <= _NEWEST:
        raise zstandard.ZstdError(f"dictionary {number} is missing")
    data = Path(__file__).with_name(f"rows_{number}.zdict").read_bytes()
    return zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_FULLDICT)
