"""Codecs of the journal of buffered memories. Each record names the one it was written with."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import zstandard

from treering.core.errors import Corrupt, MissingExtra
from treering.memories.client.config import Compression

Bytes = Callable[[bytes], bytes]
RAW = 0


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to pack bytes. `number` stands in what it wrote, for ever."""

    number: int
    pack: Bytes
    unpack: Bytes


def _lz4() -> Codec:
    try:
        from lz4 import frame
    except ModuleNotFoundError as error:
        raise MissingExtra("lz4", needed_for="memory.compression.algorithm=lz4") from error
    return Codec(3, frame.compress, frame.decompress)


_CODECS: Mapping[str, Callable[[], Codec]] = {
    "gzip": lambda: Codec(1, lambda data: gzip.compress(data, compresslevel=6), gzip.decompress),
    "zstd": lambda: Codec(2, zstandard.ZstdCompressor().compress, zstandard.ZstdDecompressor().decompress),
    "lz4": _lz4,
}
_BY_NUMBER = {1: "gzip", 2: "zstd", 3: "lz4"}


class Packer:
    """Packs records as a configuration says, and unpacks what any configuration packed."""

    def __init__(self, compression: Compression) -> None:
        self._least = compression.min_size_bytes
        self._codec = _CODECS[compression.algorithm]() if compression.enabled else None

    def pack(self, data: bytes) -> bytes:
        """Return a byte that names the codec, and the packed data; data that does not shrink stays as it is."""
        if self._codec and len(data) >= self._least:
            packed = self._codec.pack(data)
            if len(packed) < len(data):
                return bytes([self._codec.number]) + packed
        return bytes([RAW]) + data

    def unpack(self, record: bytes) -> bytes:
        """Return what was packed. Raises `Corrupt` for what no codec wrote."""
        number, data = record[0], record[1:]
        if number == RAW:
            return data
        if number not in _BY_NUMBER:
            raise _damaged(f"codec {number} is unknown")
        try:
            return _CODECS[_BY_NUMBER[number]]().unpack(data)
        except (zlib.error, zstandard.ZstdError, OSError, EOFError, RuntimeError) as error:
            raise _damaged(str(error)) from error


def _damaged(why: str) -> Corrupt:
    return Corrupt(f"A record of the journal cannot be unpacked: {why}.", hint="Restore the file from a backup.")
