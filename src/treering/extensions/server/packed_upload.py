"""The adapter for uploaded files: a document, an export of conversations, or an archive of files."""

import stat
import struct
import tarfile
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from gzip import GzipFile
from hashlib import sha256
from io import BytesIO
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from treering.core.characters import shown
from treering.core.errors import InvalidInput
from treering.ports.adapter import AlreadyRead, Reading, ReadLimits, Skipped, Unchanged, Vanished
from treering.ports.format import FileToRead, Formats
from treering.sources.formats import built_in_formats, draft_file, over_limit
from treering.sources.reading.binary import Archive, Refused, ZipBounds, is_plain, leads_out, open_archive

_MB = 1_000_000
_BROKEN = (
    tarfile.TarError,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
)
_HINT = "Nothing of it was stored. Send its files one by one, or in several archives."
_SHOWN = 80
_NO_PATH = Refused("its name is not a path that can be stored")

_MOST_WINDOW = 2**25
_MOST_FRAMES = 100_000
_PACKED_AT_ONCE = 1024
"""Compressed bytes of zstd, from which at most 32 MB result."""
_MOST_AT_ONCE = 2 * _MB

Limit = Callable[[str], int]
"""Returns the maximum number of bytes read of a file, by its name."""


@dataclass(frozen=True, slots=True)
class PackedBounds:
    """Limits of an archive. Sizes in bytes, after decompression."""

    max_files: int = 20_000
    max_bytes: int = 1_000 * _MB
    max_ratio: int = 200
    """The maximum compression ratio of archives larger than `ratio_from`."""
    ratio_from: int = 10 * _MB

    def most_of(self, size: int) -> int:
        """Return the maximum decompressed size of an archive."""
        return min(self.max_bytes, max(self.ratio_from, size * self.max_ratio))


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file of an archive: its bytes, or why it is not read."""

    name: str
    data: bytes | Refused


class PackedFiles(Protocol):
    """A checked archive. It is checked as a whole first, then read file by file in memory, never written to disk."""

    @property
    def names(self) -> Sequence[str]:
        """The names of its files."""
        ...

    def files(self, most: Limit) -> Iterator[PackedFile]:
        """Read its files, each up to its maximum size."""
        ...


def open_packed(stream: BinaryIO, name: str, bounds: PackedBounds) -> PackedFiles | None:
    """Open a zip file, or a tar file, possibly compressed with gzip or zstd, by its name; `None` for other names.

    Raises `InvalidInput` if it is damaged, too large, or contains a name or a link that points outside it.
    """
    lower = name.lower()
    if lower.endswith(".zip"):
        return _ZipFiles(stream, name, bounds)
    if lower.endswith(tuple(_UNPACKING)):
        unpacked = next(one for ending, one in _UNPACKING.items() if lower.endswith(ending))
        return _TarFiles(stream, name, bounds, unpacked)
    return None


class _ZipFiles:
    def __init__(self, stream: BinaryIO, name: str, bounds: PackedBounds) -> None:
        most = bounds.most_of(_size(stream))
        limits = ZipBounds(max_members=bounds.max_files, max_bytes=most, max_ratio=bounds.max_ratio)
        opened = open_archive(stream, limits)
        if isinstance(opened, Refused):
            raise _refused(name, opened.why)
        if (outside := opened.leading_out()) is not None:
            raise _leads_out(name, outside)
        if opened.unpacked_bytes > most:
            raise _too_much(name, most)
        self._archive: Archive = opened

    @property
    def names(self) -> Sequence[str]:
        return (*self._archive.names, *self._archive.passed_over)

    def files(self, most: Limit) -> Iterator[PackedFile]:
        for name in self._archive.names:
            yield PackedFile(name, self._read(name, most(name)))
        for name in self._archive.passed_over:
            yield PackedFile(name, _NO_PATH)

    def _read(self, name: str, most: int) -> bytes | Refused:
        info = self._archive.info(name)
        if stat.S_ISLNK(info.external_attr >> 16):
            return Refused("it is a link")
        return Refused(_over(info.file_size, most)) if info.file_size > most else self._archive.read(name)


class _TarFiles:
    def __init__(self, stream: BinaryIO, name: str, bounds: PackedBounds, unpacked: "_Unpacking") -> None:
        self._stream = stream
        self._name = name
        self._unpacked = unpacked
        self._most = bounds.most_of(_size(stream))
        self._max_files = bounds.max_files
        # A first pass over all members, so that nothing is stored if one is invalid.
        self.names: Sequence[str] = [member.name for _, member in self._members() if not member.isdir()]

    def files(self, most: Limit) -> Iterator[PackedFile]:
        for archive, member in self._members():
            if not member.isdir():
                yield PackedFile(member.name, self._read(archive, member, most(member.name)))

    def _read(self, archive: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> bytes | Refused:
        if not is_plain(member.name):
            return _NO_PATH
        if member.issparse() or not member.isreg():
            return Refused("it is a link" if member.issym() or member.islnk() else "it is not a regular file")
        if member.size > most:
            return Refused(_over(member.size, most))
        file = archive.extractfile(member)
        if file is None:
            return Refused("it is not a regular file")
        return b"".join(iter(lambda: file.read(_MB), b""))

    def _members(self) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        try:
            self._stream.seek(0)
            bounded = _Bounded(self._unpacked(self._stream), self._name, self._most)
            with tarfile.open(fileobj=bounded, mode="r:", errors="replace") as archive:  # type: ignore[call-overload]
                for number, member in enumerate(archive):
                    self._check(number, member)
                    yield archive, member
        except _BROKEN as error:
            raise _refused(
                self._name, f"it cannot be unpacked ({str(error)[:_SHOWN] or type(error).__name__})"
            ) from error

    def _check(self, number: int, member: tarfile.TarInfo) -> None:
        if number >= self._max_files:
            raise _refused(self._name, f"it has more than {self._max_files:,} members")
        if leads_out(member.name) or (member.issym() and leads_out(member.linkname)):
            raise _leads_out(self._name, member.name)


class _Bytes(Protocol):
    """The methods of a stream that `tarfile` needs."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, place: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...


_Unpacking = Callable[[BinaryIO], _Bytes]


class _Unzstd:
    """A decompressed zstd stream, read from the beginning to the end.

    Unlike the library's own reader, it raises `EOFError` for a truncated file.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._frames = 0
        self._given = b""
        self._waiting = bytearray()
        self._place = 0

    def read(self, size: int, /) -> bytes:
        while len(self._waiting) < size and self._more():
            pass
        data = bytes(self._waiting[:size])
        del self._waiting[:size]
        self._place += len(data)
        return data

    def seek(self, place: int, whence: int = 0, /) -> int:
        if whence != 0 or place < self._place:
            raise OSError("it can only be read forwards")
        while self._place < place and self.read(min(place - self._place, _MB)):
            pass
        return self._place

    def tell(self) -> int:
        return self._place

    def _more(self) -> bool:
        """Decompress a little more; little at once, because the size of the result is unknown."""
        given = self._given or self._stream.read(_PACKED_AT_ONCE)
        self._given = b""
        if not given:
            if self._frame is not None:
                raise EOFError("it ends too early")
            return False
        self._frame = self._frame or self._unpacker.decompressobj()
        self._waiting += self._frame.decompress(given)
        if self._frame.eof:
            self._given = self._frame.unused_data
            self._frame = None
            self._frames += 1
            if self._frames > _MOST_FRAMES:
                raise ValueError("it has too many frames")
        return True


def _ungzip(stream: BinaryIO) -> _Bytes:
    return cast("_Bytes", GzipFile(fileobj=stream))


def _as_it_is(stream: BinaryIO) -> _Bytes:
    return stream


_UNPACKING: Mapping[str, _Unpacking] = {
    ".tar": _as_it_is,
    ".tar.gz": _ungzip,
    ".tgz": _ungzip,
    ".tar.zst": _Unzstd,
    ".tzst": _Unzstd,
}


class _Bounded:
    """The decompressed bytes of an archive, limited in total and per read.

    `tarfile` reads headers, such as long names, as a whole.
    """

    def __init__(self, stream: _Bytes, name: str, most: int) -> None:
        self._stream = stream
        self._name = name
        self._most = most

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes."""
        if size < 0 or size > _MOST_AT_ONCE:
            raise _refused(self._name, "a name or a header in it is too long")
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a position."""
        if whence == 0:
            self._check(place)
        return self._stream.seek(place, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()

    def _check(self, place: int) -> None:
        if place > self._most + tarfile.RECORDSIZE:
            raise _too_much(self._name, self._most)


def _size(stream: BinaryIO) -> int:
    size = stream.seek(0, 2)
    stream.seek(0)
    return size


def _over(size: int, most: int) -> str:
    return f"{size:,} bytes exceed the limit of {most:,}"


def _refused(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"The archive {shown(name)} is refused: {why}.", hint=_HINT)


def _too_much(name: str, most: int) -> InvalidInput:
    return _refused(name, f"its unpacked size exceeds the limit of {most:,} bytes")


def _leads_out(name: str, member: str) -> InvalidInput:
    return _refused(name, f"its entry {shown(member[:_SHOWN])!r} points outside it")


class UploadAdapter:
    """Reads one file from a stream, and never opens a file of the machine.

    Its origin is `upload:` and the name it was sent under. So the same name again is an update, and files that an
    archive no longer contains are gone. Option: `redact_secrets` (default true).
    """

    def __init__(self, stream: BinaryIO, formats: Formats | None = None, bounds: PackedBounds | None = None) -> None:
        """Read from a seekable stream."""
        self._stream = stream
        self._formats = formats or built_in_formats()
        self._bounds = bounds or PackedBounds()

    def origin(self, target: str) -> str:
        """Return `upload:` and the name."""
        return f"upload:{target}"

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:  # noqa: ARG002 - one shape for all adapters
        """Return `None`, because an archive is not read to be counted."""
        return None

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield one result per file, then gone files. Raises `InvalidInput` for an archive that is refused."""
        reader = _UploadReader(known, limits, self._formats, redact_secrets=bool(options.get("redact_secrets", True)))
        origin = self.origin(target)
        exported = reader.collected(self._stream, target, origin)
        if exported is not None:
            return exported
        packed = open_packed(self._stream, target, self._bounds)
        if packed:
            return reader.unpacked(packed, origin)
        return reader.alone(self._stream, target, origin)


@dataclass(frozen=True, slots=True)
class _UploadReader:
    known: AlreadyRead
    limits: ReadLimits
    formats: Formats
    redact_secrets: bool

    def collected(self, stream: BinaryIO, path: str, origin: str) -> Iterator[Reading] | None:
        """Return the sources of a file with many, or `None` for another file."""
        file = FileToRead(path, self.limits, redact_secrets=self.redact_secrets)
        for collection in self.formats.collections_of(path):
            stream.seek(0)
            readings = collection.read(stream, file, origin=origin)
            if readings is not None:
                return readings
        stream.seek(0)
        return None

    def alone(self, stream: BinaryIO, path: str, origin: str) -> Iterator[Reading]:
        """Return a file as one source."""
        most = self.formats.max_bytes(path, self.limits)
        data = stream.read(most + 1)
        if len(data) > most:
            yield Skipped(origin, over_limit(stream.seek(0, 2), most, self.limits))
        else:
            yield self._file(data, path, origin)

    def unpacked(self, packed: PackedFiles, root: str) -> Iterator[Reading]:
        """Yield the files of an archive, and those it no longer contains."""
        names = {f"{root}#{shown(name)}" for name in packed.names}
        for file in packed.files(lambda name: self.formats.max_bytes(name, self.limits)):
            yield from self._packed_file(file, f"{root}#{shown(file.name)}")
        for origin in sorted(self.known.fingerprints):
            if not _is_in_archive(origin, names):
                yield Vanished(origin)

    def _packed_file(self, file: PackedFile, origin: str) -> Iterator[Reading]:
        if isinstance(file.data, Refused):
            yield Skipped(origin, file.data.why)
            return
        exported = self.collected(BytesIO(file.data), file.name, origin)
        if exported is not None:
            yield from exported
        else:
            yield self._file(file.data, file.name, origin)

    def _file(self, data: bytes, path: str, origin: str) -> Reading:
        if self.known.fingerprints.get(origin) == sha256(data).hexdigest():
            return Unchanged(origin)
        return draft_file(
            data,
            path=path,
            origin=origin,
            commit=None,
            limits=self.limits,
            redact_secrets=self.redact_secrets,
            formats=self.formats,
        )


def _is_in_archive(origin: str, files: Container[str]) -> bool:
    """Return whether a source is a file of the archive, or from an export in it, which may be an excerpt."""
    return origin in files or any(origin[:at] in files for at, char in enumerate(origin) if char == "#")
