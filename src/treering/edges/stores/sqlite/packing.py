"""How texts lie in the database: short ones as they are, longer ones compressed."""

import threading

import zstandard

from treering.core.errors import Corrupt

_WORTH_COMPRESSING = 256
_MAX_TEXT = 1 << 30
_local = threading.local()


def pack(text: str) -> str | bytes:
    """Compress a text where that saves room."""
    if len(text) < _WORTH_COMPRESSING:
        return text
    return _compressor().compress(text.encode())


def unpack(stored: str | bytes) -> str:
    """Give back what was packed. Raises `Corrupt` where the bytes do not decompress."""
    if isinstance(stored, str):
        return stored
    try:
        return _decompressor().decompress(stored, max_output_size=_MAX_TEXT).decode()
    except (zstandard.ZstdError, UnicodeDecodeError) as error:
        raise Corrupt("A stored text does not decompress.", hint="Restore the space from a backup.") from error


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
