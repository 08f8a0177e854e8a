"""The adapter for a file that was sent: a document, an export of conversations, or an archive of files."""

from collections.abc import Container, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from typing import Any, BinaryIO

from treering.edges.sources.conversations.archive import Refused
from treering.edges.sources.files import draft_file, over_limit
from treering.edges.sources.formats import BUILT_IN
from treering.edges.sources.names import shown
from treering.edges.sources.packed_files import PackedBounds, PackedFile, PackedFiles, open_packed
from treering.ports.adapter import AlreadyRead, Reading, ReadLimits, Skipped, Unchanged, Vanished
from treering.ports.format import FileToRead, Formats


class UploadAdapter:
    """Reads one file from a stream, whatever is asked for: no file of the machine is opened.

    The name it was sent under is its origin, with `upload:` before it. So the same name again is an update, and a
    file that an archive does not hold any more is gone. Option: `redact_secrets` (default true).
    """

    def __init__(self, stream: BinaryIO, formats: Formats = BUILT_IN, bounds: PackedBounds | None = None) -> None:
        """`stream` can seek."""
        self._stream = stream
        self._formats = formats
        self._bounds = bounds or PackedBounds()

    def origin(self, target: str) -> str:
        """Return `upload:` and the name."""
        return f"upload:{target}"

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:  # noqa: ARG002 - one shape for all adapters
        """Return nothing: an archive is not read to be counted."""
        return None

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield one result per file, then what is gone. Raises `InvalidInput` for an archive that is refused."""
        reader = _UploadReader(known, limits, self._formats, redact_secrets=bool(options.get("redact_secrets", True)))
        origin = self.origin(target)
        exported = reader.collected(self._stream, target, origin)
        if exported is not None:
            return exported
        packed = open_packed(self._stream, target, self._bounds)
        if packed:
            return reader.unpacked(packed, origin)
        return reader.alone(self._stream, target, origin)


class _UploadReader:
    def __init__(self, known: AlreadyRead, limits: ReadLimits, formats: Formats, *, redact_secrets: bool) -> None:
        self._known = known
        self._limits = limits
        self._formats = formats
        self._redact_secrets = redact_secrets

    def collected(self, stream: BinaryIO, path: str, origin: str) -> Iterator[Reading] | None:
        """Return the sources of a file that holds many; `None` where it is no such file."""
        file = FileToRead(path, self._limits, redact_secrets=self._redact_secrets)
        for collection in self._formats.collections_of(path):
            stream.seek(0)
            found = collection.read(stream, file, origin=origin)
            if found is not None:
                return found
        stream.seek(0)
        return None

    def alone(self, stream: BinaryIO, path: str, origin: str) -> Iterator[Reading]:
        """Return a file as one source."""
        most = self._formats.max_bytes(path, self._limits)
        data = stream.read(most + 1)
        if len(data) > most:
            yield Skipped(origin, over_limit(stream.seek(0, 2), most, self._limits))
        else:
            yield self._file(data, path, origin)

    def unpacked(self, packed: PackedFiles, root: str) -> Iterator[Reading]:
        """Return the files of an archive, and what it held before and does not hold any more."""
        names = {f"{root}#{shown(name)}" for name in packed.names}
        for file in packed.files(lambda name: self._formats.max_bytes(name, self._limits)):
            yield from self._packed_file(file, f"{root}#{shown(file.name)}")
        for origin in sorted(self._known.fingerprints):
            if not _is_told(origin, names):
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
        if self._known.fingerprints.get(origin) == sha256(data).hexdigest():
            return Unchanged(origin)
        return draft_file(
            data,
            path=path,
            origin=origin,
            commit=None,
            limits=self._limits,
            redact_secrets=self._redact_secrets,
            formats=self._formats,
        )


def _is_told(origin: str, files: Container[str]) -> bool:
    """Tell whether a source is a file of the archive, or of an export in it: a newer export may leave it out."""
    return origin in files or any(origin[:at] in files for at, char in enumerate(origin) if char == "#")
