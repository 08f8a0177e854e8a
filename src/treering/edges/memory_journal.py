"""The journal of buffered memories: files beside the space, each held by one process, read again after a crash.

A record is its length and its CRC-32, four bytes each, then what `memory_codecs` packed. A record that was cut short
was never acknowledged, and is left out. There is no journal on Windows, which has no such locks.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from treering.core.errors import Unavailable
from treering.edges.file_lock import try_lock
from treering.edges.memory_codecs import Packer
from treering.edges.private_files import make_folder, sync_folder

_FRAME = struct.Struct(">II")
_ENDING = ".journal"


class FileJournal:
    """Keeps entries in files of a folder. One process and one buffer use it; others have files of their own there."""

    def __init__(self, folder: Path, packer: Packer) -> None:
        self._folder = folder
        self._packer = packer
        self._old: list[_HeldFile] = []
        self._current: _HeldFile | None = None

    def append(self, entry: Mapping[str, Any]) -> None:
        """Keep an entry, on the disk before this returns. Raises `Unavailable` where the disk refuses."""
        data = self._packer.pack(json.dumps(entry, ensure_ascii=False).encode())
        try:
            if self._current is None:
                self._current = _HeldFile.made(self._folder)
            self._current.append(_FRAME.pack(len(data), zlib.crc32(data)) + data)
        except OSError as error:
            raise Unavailable(
                f"The journal in {self._folder} cannot be written: {error.strerror}.",
                hint="Free space or give rights there, or set memory.storage.enable_async_writes=false.",
            ) from error

    def cut(self) -> None:
        """Begin a new file with the next entry."""
        if self._current:
            self._old.append(self._current)
            self._current = None

    def drop(self) -> None:
        """Remove all files but the current one."""
        for held in self._old:
            held.remove()
        self._old.clear()

    def left(self) -> list[Mapping[str, Any]]:
        """Return what processes left that are gone, and hold their files from now on."""
        for path in sorted(self._folder.glob(f"*{_ENDING}")):
            if held := _HeldFile.taken(path):
                self._old.append(held)
        records = [data for held in self._old for data in _records(held.path.read_bytes())]
        return [json.loads(self._packer.unpack(data)) for data in records]

    def close(self) -> None:
        """Let go of the files; those with entries stay, for the next process."""
        for held in (*self._old, *filter(None, [self._current])):
            held.close()
        self._old, self._current = [], None


class _HeldFile:
    """A file that this process holds a lock on, as long as it lives."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    @classmethod
    def made(cls, folder: Path) -> "_HeldFile":
        make_folder(folder)
        # Locked before it bears a name that others look for.
        path = folder / f"{uuid4().hex}.new"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        try_lock(descriptor)
        named = path.with_suffix(_ENDING)
        path.rename(named)
        sync_folder(folder)
        return cls(named, descriptor)

    @classmethod
    def taken(cls, path: Path) -> "_HeldFile | None":
        """Return the file, if nobody else holds it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        # What its holder removed meanwhile is nobody's any more.
        if try_lock(descriptor) and path.exists():
            return cls(path, descriptor)
        os.close(descriptor)
        return None

    def append(self, data: bytes) -> None:
        """Write a whole record, or nothing of it."""
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


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _FRAME.size <= len(data):
        length, check = _FRAME.unpack_from(data, at)
        record = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(record) < length or zlib.crc32(record) != check:
            return
        yield record
        at += _FRAME.size + length
