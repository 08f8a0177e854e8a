"""The journal of buffered memories: files next to the space, each locked by one process, and read after a crash.

A record consists of its length and CRC-32, four bytes each, and its compressed data. A truncated record was never
acknowledged, and is skipped. Entries that cannot be written to the space, or not be read, are set aside in JSON files
in `set-aside/`, with the reason. There is no journal on Windows, which lacks such locks.
"""

import base64
import gzip
import json
import logging
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import zstandard

from treering.core.errors import Corrupt, TreeringError, Unavailable, needing
from treering.extensions.client.config import Compression
from treering.extensions.client.items.buffering import SetAside, WriteJournal
from treering.system.machine import make_folder, sync_folder, try_lock, write_new

Bytes = Callable[[bytes], bytes]
RAW = 0


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression format. `number` identifies it in records, so it never changes."""

    number: int
    pack: Bytes
    unpack: Bytes


def _lz4() -> Codec:
    with needing("lz4", "memory.compression.algorithm=lz4"):
        from lz4 import frame
    return Codec(3, frame.compress, frame.decompress)


_CODECS: Mapping[str, Callable[[], Codec]] = {
    "gzip": lambda: Codec(1, lambda data: gzip.compress(data, compresslevel=6), gzip.decompress),
    "zstd": lambda: Codec(2, zstandard.ZstdCompressor().compress, zstandard.ZstdDecompressor().decompress),
    "lz4": _lz4,
}
_BY_NUMBER = {1: "gzip", 2: "zstd", 3: "lz4"}


class Packer:
    """Packs records as configured, and unpacks records of all formats."""

    def __init__(self, compression: Compression) -> None:
        self._least = compression.min_size_bytes
        self._codec = _CODECS[compression.algorithm]() if compression.enabled else None

    def pack(self, data: bytes) -> bytes:
        """Return the number of the codec and the compressed data; data that does not shrink is stored as it is."""
        if self._codec and len(data) >= self._least:
            packed = self._codec.pack(data)
            if len(packed) < len(data):
                return bytes([self._codec.number]) + packed
        return bytes([RAW]) + data

    def unpack(self, record: bytes) -> bytes:
        """Return the data of a record. Raises `Corrupt` if its codec is unknown or its data damaged."""
        number, data = record[0], record[1:]
        if number == RAW:
            return data
        if number not in _BY_NUMBER:
            raise _damaged(f"unknown codec {number}")
        try:
            return _CODECS[_BY_NUMBER[number]]().unpack(data)
        except (zlib.error, zstandard.ZstdError, OSError, EOFError, RuntimeError) as error:
            raise _damaged(str(error)) from error


def _damaged(why: str) -> Corrupt:
    return Corrupt(f"A journal record cannot be decompressed: {why}.", hint="Restore the file from a backup.")


_LOG = logging.getLogger(__name__)
_FRAME = struct.Struct(">II")
_ENDING = ".journal"
_ASIDE = "set-aside"
LOOK_SECONDS = 1.0
_PACKED = "packed"
"""The key of the bytes of an unreadable record, in base64."""


class FileJournal(WriteJournal):
    """Stores entries in files of a folder, which other processes may use with their own files."""

    def __init__(self, folder: Path, packer: Packer) -> None:
        super().__init__()
        self._folder = folder
        self._packer = packer
        self._old: list[_HeldFile] = []
        self._current: _HeldFile | None = None
        self._read_up_to: dict[str, int] = {}
        """The end of the records read in each file of other clients."""
        self._seen: int | None = None
        """The time of the folder when files of other clients were last looked at."""
        self._look_at = 0.0

    def append(self, entry: Mapping[str, Any]) -> None:
        """Store an entry durably. Raises `Unavailable` if the disk cannot be written."""
        data = self._packer.pack(json.dumps(entry, ensure_ascii=False).encode())
        try:
            if self._current is None:
                self._current = _HeldFile.create(self._folder)
            self._current.append(_FRAME.pack(len(data), zlib.crc32(data)) + data)
            _mark_changed(self._folder)
        except OSError as error:
            raise Unavailable(
                f"Cannot write the journal in {self._folder}: {error.strerror}.",
                hint="Free disk space or fix the permissions there, or set memory.storage.enable_async_writes=false.",
            ) from error

    def cut(self) -> None:
        """Start a new file with the next entry."""
        if self._current:
            self._old.append(self._current)
            self._current = None

    def drop(self) -> None:
        """Remove all files but the current one."""
        for held in self._old:
            held.remove()
        self._old.clear()

    def left(self) -> list[Mapping[str, Any]]:
        """Return the entries of processes that ended, and lock their files."""
        for path in sorted(self._folder.glob(f"*{_ENDING}")):
            if held := _HeldFile.take(path):
                self._old.append(held)
        records = [record for held in self._old for record in _records(held.path.read_bytes())]
        return [entry for record in records if (entry := self._read(record)) is not None]

    def elsewhere(self) -> list[Mapping[str, Any]]:
        """Return the entries that other clients added since the last call; skip unreadable ones.

        While the time of the folder is unchanged, files are looked at once a second: earlier versions do not set it.
        """
        changed, now = _changed_at(self._folder), time.monotonic()
        if changed == self._seen and now < self._look_at:
            return []
        self._seen, self._look_at = changed, now + LOOK_SECONDS
        entries: list[Mapping[str, Any]] = []
        own = {held.path.name for held in (*self._old, *filter(None, [self._current]))}
        ends: dict[str, int] = {}
        for name, size in sorted(_sizes(self._folder).items()):
            end = self._read_up_to.get(name, 0)
            if name in own:
                continue
            for record in _records(_from(self._folder / name, end)) if size != end else ():
                if isinstance(record, _Damaged):
                    break
                end += _FRAME.size + len(record)
                with suppress(TreeringError, ValueError):
                    entries.append(self._unpacked(record))
            ends[name] = end
        self._read_up_to = ends
        return entries

    def set_aside(self, data: Mapping[str, Any], reason: str) -> None:
        """Store an entry in a separate file, with the reason. Raises `Unavailable` if the disk cannot be written."""
        folder = self._folder / _ASIDE
        content = json.dumps({"reason": reason, "data": data}, ensure_ascii=False, indent=1).encode(errors="replace")
        try:
            make_folder(folder)
            write_new(folder / f"{uuid4().hex}.json", content)
            sync_folder(folder)
        except OSError as error:
            raise Unavailable(
                f"Cannot write {folder}: {error.strerror}.", hint="Free disk space or fix the permissions there."
            ) from error

    def aside(self) -> list[SetAside]:
        """Return the entries set aside by any process, oldest first; those readable again are decoded."""
        files = [(path.stat().st_mtime_ns, path) for path in (self._folder / _ASIDE).glob("*.json")]
        return [one for _, path in sorted(files) if (one := self._aside_of(path))]

    def forget_aside(self, key: str) -> None:
        """Remove an entry that was set aside."""
        (self._folder / _ASIDE / f"{key}.json").unlink(missing_ok=True)

    def _read(self, record: "bytes | _Damaged") -> Mapping[str, Any] | None:
        """Return the entry in a record; set unreadable ones aside."""
        data = record.data if isinstance(record, _Damaged) else record
        try:
            if isinstance(record, _Damaged):
                raise Corrupt(f"{len(data)} bytes of the journal are damaged.", hint="")
            return self._unpacked(record)
        except (TreeringError, ValueError) as error:
            reason = error.message if isinstance(error, TreeringError) else str(error)
            _LOG.warning("A record in %s could not be read and was set aside: %s", self._folder, reason)
            self.set_aside({_PACKED: base64.b64encode(data).decode()}, reason)
            return None

    def _unpacked(self, data: bytes) -> Mapping[str, Any]:
        entry = json.loads(self._packer.unpack(data))
        if not isinstance(entry, Mapping):
            raise Corrupt("A journal record is not an entry.", hint="")
        return entry

    def _aside_of(self, path: Path) -> SetAside | None:
        try:
            content = json.loads(path.read_bytes())
            data = content["data"]
            if set(data) == {_PACKED}:
                data = self._readable(data)
            return SetAside(path.stem, str(content["reason"]), data)
        except FileNotFoundError:
            return None  # another process wrote or removed it
        except (ValueError, TypeError, KeyError) as error:
            return SetAside(path.stem, f"{path} cannot be read: {error!r}.", {})

    def _readable(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the entry in an earlier unreadable record, if it can be read now, for instance with a new codec."""
        try:
            return self._unpacked(base64.b64decode(data[_PACKED]))
        except (TreeringError, ValueError):
            return data

    def close(self) -> None:
        """Release the files; those with entries stay for the next process."""
        for held in (*self._old, *filter(None, [self._current])):
            held.close()
        self._old, self._current = [], None


class _HeldFile:
    """A file that this process holds a lock on."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @classmethod
    def create(cls, folder: Path) -> "_HeldFile":
        make_folder(folder)
        # Lock it before it gets a name that other processes look for.
        path = folder / f"{uuid4().hex}.new"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        try_lock(descriptor)
        named = path.with_suffix(_ENDING)
        path.rename(named)
        sync_folder(folder)
        return cls(named, descriptor)

    @classmethod
    def take(cls, path: Path) -> "_HeldFile | None":
        """Return the file, unless another process holds it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        # It may have been removed by its holder in the meantime.
        if try_lock(descriptor) and path.exists():
            return cls(path, descriptor)
        os.close(descriptor)
        return None

    def append(self, data: bytes) -> None:
        """Write a whole record, or nothing."""
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            os.fdatasync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class _Damaged:
    """Damaged data after the last intact record."""

    data: bytes


def _sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the journals in a folder by name: a file that did not grow is not opened."""
    with suppress(FileNotFoundError), os.scandir(folder) as files:
        return {file.name: size for file in files if file.name.endswith(_ENDING) and (size := _size(file)) is not None}
    return {}


def _size(file: "os.DirEntry[str]") -> int | None:
    try:
        return file.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return None


def _mark_changed(folder: Path) -> None:
    """Set the time of a folder, to the nanosecond, unless it belongs to another user: a journal in it grew."""
    now = time.time_ns()
    with suppress(OSError):
        os.utime(folder, ns=(now, now))


def _changed_at(folder: Path) -> int | None:
    with suppress(OSError):
        return folder.stat().st_mtime_ns
    return None


def _from(path: Path, start: int) -> bytes:
    """Return the bytes of a file from an offset; none if it is gone or belongs to another user of the machine."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(start)
        return file.read()
    return b""


def _records(data: bytes) -> Iterator[bytes | _Damaged]:
    at = 0
    while at + _FRAME.size <= len(data):
        length, check = _FRAME.unpack_from(data, at)
        record = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(record) < length:
            return
        if zlib.crc32(record) != check:
            yield _Damaged(data[at:])
            return
        yield record
        at += _FRAME.size + length
