"""Zip files that strangers wrote: members are read into memory, within bounds, and never put on a disk."""

import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from lzma import LZMAError
from typing import BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

_BROKEN = (
    BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    RuntimeError,
)
"""What reading a damaged or encrypted zip file may raise."""


@dataclass(frozen=True, slots=True)
class ZipBounds:
    """How much of a zip file is read. Sizes in bytes, of what is packed out of it."""

    max_members: int = 200_000
    max_bytes: int = 500_000_000
    """Of all members that are read, together."""
    max_ratio: int = 200
    """How many times larger a member may be than it lies there, from `ratio_from` on."""
    ratio_from: int = 1_000_000
    max_directory_bytes: int = 50_000_000


@dataclass(frozen=True, slots=True)
class Refused:
    """A member, or a whole zip file, that is not read, and why."""

    why: str


class Archive:
    """The members of a zip file by name. A name that leads out of the file's own folder is no member."""

    def __init__(self, archive: ZipFile, bounds: ZipBounds) -> None:
        self._archive = archive
        self._bounds = bounds
        self._left = bounds.max_bytes
        self._members = {info.filename: info for info in archive.infolist() if _stays_inside(info)}

    @property
    def names(self) -> Sequence[str]:
        """Return the names of all members that are files, in order."""
        return sorted(self._members)

    def read(self, name: str) -> bytes | Refused:
        """Read a member. What it says of its own size is not believed."""
        info = self._members[name]
        if self._is_bloated(info.file_size, info):
            return Refused("it is packed so tightly that it looks like an attack")
        most = min(self._left, max(self._bounds.ratio_from, info.compress_size * self._bounds.max_ratio))
        try:
            with self._archive.open(info) as member:
                data = member.read(most + 1)
        except _BROKEN as error:
            return Refused(f"it cannot be unpacked ({str(error)[:_SHOWN] or type(error).__name__})")
        if len(data) > most:
            return Refused(f"unpacked it is over the limit of {most:,} bytes")
        self._left -= len(data)
        return data

    def _is_bloated(self, size: int, info: ZipInfo) -> bool:
        return size > self._bounds.ratio_from and size > info.compress_size * self._bounds.max_ratio


def open_archive(stream: BinaryIO, bounds: ZipBounds) -> Archive | Refused:
    """Open a zip file."""
    try:
        if _directory_bytes(stream) > bounds.max_directory_bytes:
            return Refused("its list of members is too long")
        archive = ZipFile(stream)
    except _BROKEN as error:
        return Refused(f"it is no zip file that can be read ({str(error)[:_SHOWN] or type(error).__name__})")
    if len(archive.infolist()) > bounds.max_members:
        return Refused(f"it has more than {bounds.max_members:,} members")
    return Archive(archive, bounds)


_END_MARK, _END_BYTES, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_SHOWN = 80
_LEADS_OUT = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|^[/\\]|^[A-Za-z]:|\\|[\x00-\x1f]")


def _directory_bytes(stream: BinaryIO) -> int:
    """Return the size the list of members has by its own account, before it is read at all."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT))
    tail = stream.read()
    end = tail.rfind(_END_MARK)
    return int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0


def _stays_inside(info: ZipInfo) -> bool:
    # `is_dir` fails on an empty name.
    return info.filename[-1:] not in {"", "/"} and not _LEADS_OUT.search(info.filename)
