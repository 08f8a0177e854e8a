"""Binary files: zip files, whose members are read in memory with limits, and stubs that describe other files.

They may come from strangers, so nothing is written to disk, and damaged or hostile files are refused.
"""

import mimetypes
import re
import stat
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from lzma import LZMAError
from pathlib import PurePosixPath
from posixpath import dirname, normpath
from typing import BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable

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
"""Errors of reading a damaged or encrypted zip file."""


@dataclass(frozen=True, slots=True)
class ZipBounds:
    """Limits for reading a zip file. Sizes in bytes, after decompression."""

    max_members: int = 200_000
    max_bytes: int = 500_000_000
    """The sum of all members that are read."""
    max_ratio: int = 200
    """The maximum compression ratio of members larger than `ratio_from`."""
    ratio_from: int = 1_000_000
    max_directory_bytes: int = 50_000_000


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason why a member, or a whole zip file, is not read."""

    why: str


class Archive:
    """The members of a zip file by name, without names that point outside the file's own folder."""

    def __init__(self, archive: ZipFile, bounds: ZipBounds) -> None:
        self._archive = archive
        self._bounds = bounds
        self._left = bounds.max_bytes
        self._members = {info.filename: info for info in archive.infolist() if _stays_inside(info)}

    @property
    def names(self) -> Sequence[str]:
        """The names of all members that are files, in order."""
        return sorted(self._members)

    @property
    def passed_over(self) -> Sequence[str]:
        """The names of all other entries that are not folders."""
        names = {info.filename for info in self._archive.infolist() if info.filename[-1:] != "/"}
        return sorted(names - self._members.keys())

    @property
    def unpacked_bytes(self) -> int:
        """The declared size of all members."""
        return sum(info.file_size for info in self._members.values())

    def info(self, name: str) -> ZipInfo:
        """Return the metadata of a member."""
        return self._members[name]

    def leading_out(self) -> str | None:
        """Return the first entry whose name, or target as a symbolic link, is outside the zip file."""
        return next((info.orig_filename for info in self._archive.infolist() if self._leads_out(info)), None)

    def _leads_out(self, info: ZipInfo) -> bool:
        if leads_out(info.orig_filename):
            return True
        if not stat.S_ISLNK(info.external_attr >> 16) or info.file_size > _LONGEST_LINK:
            return False
        try:
            target = self._archive.read(info).decode("utf-8", "replace")
        except _BROKEN:
            return True
        place = normpath(f"{dirname(info.filename)}/{target}" if dirname(info.filename) else target)
        return target.startswith(("/", "\\")) or place.startswith("..")

    def read(self, name: str) -> bytes | Refused:
        """Read a member. Its declared size is not trusted."""
        info = self._members[name]
        if self._is_bloated(info.file_size, info):
            return Refused("it is packed so tightly that it looks like an attack")
        most = min(self._left, max(self._bounds.ratio_from, info.compress_size * self._bounds.max_ratio))
        try:
            with self._archive.open(info) as member:
                data = member.read(most + 1)
        except _BROKEN as error:
            return Refused(f"it cannot be unpacked{_reason(error)}")
        if len(data) > most:
            return Refused(f"its unpacked size exceeds the limit of {most:,} bytes")
        self._left -= len(data)
        return data

    def _is_bloated(self, size: int, info: ZipInfo) -> bool:
        return size > self._bounds.ratio_from and size > info.compress_size * self._bounds.max_ratio


def is_plain(name: str) -> bool:
    """Return whether a name is a path below its folder, without characters that no path should have."""
    return not _LEADS_OUT.search(name)


def leads_out(name: str) -> bool:
    """Return whether a name points outside its folder."""
    return bool(_OUTSIDE.search(name))


def _reason(error: Exception) -> str:
    return f" ({str(error)[:_SHOWN]})" if str(error) else ""


def open_archive(stream: BinaryIO, bounds: ZipBounds) -> Archive | Refused:
    """Open a zip file."""
    try:
        if _directory_bytes(stream) > bounds.max_directory_bytes:
            return Refused("its list of members is too long")
        archive = ZipFile(stream)
    except _BROKEN as error:
        return Refused(f"it is not a valid zip file{_reason(error)}")
    if len(archive.infolist()) > bounds.max_members:
        return Refused(f"it has more than {bounds.max_members:,} members")
    return Archive(archive, bounds)


def fault_of(data: bytes, bounds: ZipBounds) -> str:
    """Return why a zip file is refused: truncated, damaged, or with an entry that points outside; else empty."""
    archive = open_archive(BytesIO(data), bounds)
    if isinstance(archive, Refused):
        return f"{archive.why}; it may be truncated"
    outside = archive.leading_out()
    return f"its entry {outside[:_SHOWN]!r} points outside the zip file" if outside is not None else ""


_END_MARK, _END_BYTES, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_SHOWN = 80
_LONGEST_LINK = 4_096
_OUTSIDE = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|^[/\\]|^[A-Za-z]:")
_LEADS_OUT = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|^[/\\]|^[A-Za-z]:|\\|[\x00-\x1f]")


def _directory_bytes(stream: BinaryIO) -> int:
    """Return the declared size of the directory, before it is read."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END_BYTES - _LONGEST_COMMENT))
    tail = stream.read()
    end = tail.rfind(_END_MARK)
    return int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0


def _stays_inside(info: ZipInfo) -> bool:
    # `is_dir` fails on an empty name.
    return info.filename[-1:] not in {"", "/"} and is_plain(info.filename)


@dataclass(frozen=True, slots=True)
class BinaryFormat:
    """Reads any file as a stub without segments: its size, hash and media type. It is tried last."""

    name: str = "binary"
    limits: FormatLimits = field(default_factory=FormatLimits)

    def claims(self, _path: str, _head: bytes, /) -> bool:
        """Claim every file."""
        return True

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable:
        """Describe a file."""
        media_type = _media_type(file.path, data)
        if media_type == "application/zip" or data.startswith(_ZIP):
            fault = fault_of(data, ZipBounds())
            if fault:
                return Unreadable(fault)
        described = {"size": len(data), "sha256": sha256(data).hexdigest(), "media_type": media_type}
        warnings = (_UNKNOWN,) if data and _is_unknown(media_type, data) else ()
        return DocumentDraft("binary_stub", payload=described, warnings=warnings)


_MEDIA = mimetypes.MimeTypes()  # the table of Python, not of the machine
_SIGNATURES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b": "application/gzip",
    b"\x28\xb5\x2f\xfd": "application/zstd",
    b"SQLite format 3": "application/vnd.sqlite3",
    b"\x7fELF": "application/x-executable",
    b"MZ": "application/x-msdownload",
    b"\0asm": "application/wasm",
}
_ZIP = b"PK\x03\x04"
_TEXTUAL = ("application/json", "application/xml", "application/javascript", "application/x-sh", "text/")
_UNKNOWN = "it is neither text nor a known binary format: only its size and hash are stored"


def _is_unknown(media_type: str, data: bytes) -> bool:
    """Return whether neither the bytes nor the name indicate a binary format."""
    is_binary = media_type != "application/octet-stream" and not media_type.startswith(_TEXTUAL)
    return not is_binary and not data.startswith(tuple(_SIGNATURES))


def _media_type(path: str, data: bytes) -> str:
    by_signature = next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), None)
    return _MEDIA.guess_type(PurePosixPath(path).name)[0] or by_signature or "application/octet-stream"
