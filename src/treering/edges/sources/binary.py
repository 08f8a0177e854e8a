"""Files that are no text: kept as stubs that say what they are."""

import mimetypes
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath

from treering.ports.format import DocumentDraft, FileToRead, FormatLimits


@dataclass(frozen=True, slots=True)
class BinaryFormat:
    """Reads any file as a stub without segments: its size, its hash and its media type. It is asked last."""

    name: str = "binary"
    limits: FormatLimits = field(default_factory=FormatLimits)

    def claims(self, _path: str, _head: bytes, /) -> bool:
        """Claim every file."""
        return True

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft:
        """Say what a file is."""
        described = {"size": len(data), "sha256": sha256(data).hexdigest(), "media_type": _media_type(file.path, data)}
        return DocumentDraft("binary_stub", payload=described)


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


def _media_type(path: str, data: bytes) -> str:
    by_signature = next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), None)
    return _MEDIA.guess_type(PurePosixPath(path).name)[0] or by_signature or "application/octet-stream"
