"""Files that are no text: kept as stubs that say what they are. A zip file that is damaged or hostile is refused."""

import mimetypes
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath

from treering.ports.format import DocumentDraft, FileToRead, FormatLimits, Unreadable
from treering.sources.reading.archives import ZipBounds, fault_of


@dataclass(frozen=True, slots=True)
class BinaryFormat:
    """Reads any file as a stub without segments: its size, its hash and its media type. It is asked last."""

    name: str = "binary"
    limits: FormatLimits = field(default_factory=FormatLimits)

    def claims(self, _path: str, _head: bytes, /) -> bool:
        """Claim every file."""
        return True

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable:
        """Say what a file is."""
        media_type = _media_type(file.path, data)
        if media_type == "application/zip" or data.startswith(_ZIP):
            fault = fault_of(data, ZipBounds())
            if fault:
                return Unreadable(fault)
        described = {"size": len(data), "sha256": sha256(data).hexdigest(), "media_type": media_type}
        warnings = (_UNKNOWN,) if data and _is_unknown(media_type, data) else ()
        return DocumentDraft("binary_stub", payload=described, warnings=warnings)


_MEDIA = mimetypes.MimeTypes()  # the table of the language, not of the machine
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
_UNKNOWN = "its bytes are neither text nor a known binary format: only its size and hash are kept"


def _is_unknown(media_type: str, data: bytes) -> bool:
    """Tell whether neither the bytes nor the name tell of a binary format."""
    told = media_type != "application/octet-stream" and not media_type.startswith(_TEXTUAL)
    return not told and not data.startswith(tuple(_SIGNATURES))


def _media_type(path: str, data: bytes) -> str:
    by_signature = next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), None)
    return _MEDIA.guess_type(PurePosixPath(path).name)[0] or by_signature or "application/octet-stream"
