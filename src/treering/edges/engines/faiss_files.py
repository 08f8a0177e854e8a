"""Files of vectors with checksums: two of a generation, and a manifest that names them and is replaced last."""

import json
import os
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from treering.core.errors import Corrupt, Unavailable
from treering.edges.private_files import make_folder, private, sync_folder
from treering.ports.vector_engine import EngineState

_MANIFEST = "manifest.json"
_FORMAT = 1
_LARGEST_MANIFEST = 65_536
_DIGEST = 32
HINT = "Run `treering index rebuild`: it makes the files anew from the space, which has all vectors."


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file, its size, and the checksum of its content."""

    name: str
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the files of a folder hold."""

    kind: str
    state: EngineState
    index: KeptFile
    keys: KeptFile


class VectorFolder:
    """A folder of such files. A reader that has read the manifest finds the files it names, or reads it again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self) -> Manifest | None:
        """Return what the folder holds, or `None` where it holds nothing. Raises `Corrupt`, `Unavailable`."""
        content = self._content(_MANIFEST, _LARGEST_MANIFEST)
        return None if content is None else _manifest_of(content, self.folder / _MANIFEST)

    def read(self, file: KeptFile) -> bytes | None:
        """Return a file as it was written; `None` where it is gone. Raises `Corrupt` where it is another."""
        content = self._content(file.name, file.size)
        if content is not None and (len(content) != file.size or _checksum(content) != file.checksum):
            raise Corrupt(f"{self.folder / file.name} is not what was written.", hint=HINT)
        return content

    def newer_than(self, manifest: Manifest) -> Manifest | None:
        """Read the manifest again, whose files were not there. Raises `Corrupt` where it is the same still."""
        newer = self.manifest()
        if newer == manifest:
            raise Corrupt(f"Files are missing in {self.folder}.", hint=HINT)
        return newer

    def write(self, kind: str, state: EngineState, index: bytes, keys: bytes) -> Manifest:
        """Write a generation and let the manifest name it; remove those before. Raises `Unavailable`."""
        try:
            make_folder(self.folder)
            generation = uuid4().hex[:12]
            files = [self._write(f"{name}-{generation}", part) for name, part in (("vectors", index), ("keys", keys))]
            made = Manifest(kind, state, *files)
            self._write(_MANIFEST, _packed(made))
            self._remove(but={_MANIFEST, *(file.name for file in files)})
        except OSError as error:
            raise self._unavailable(error) from error
        return made

    def clear(self) -> None:
        """Remove all files, and the folder where nothing else lies in it. Raises `Unavailable`."""
        try:
            (self.folder / _MANIFEST).unlink(missing_ok=True)
            self._remove(but=set())
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()
        except OSError as error:
            raise self._unavailable(error) from error

    def _content(self, name: str, most: int) -> bytes | None:
        try:
            with (self.folder / name).open("rb") as file:
                return file.read(most + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unavailable(error) from error

    def _write(self, name: str, content: bytes) -> KeptFile:
        part = self.folder / f"{name}.part"
        with open(part, "wb", opener=private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / name)
        sync_folder(self.folder)
        return KeptFile(name, len(content), _checksum(content))

    def _remove(self, *, but: set[str]) -> None:
        for pattern in ("vectors-*", "keys-*", f"{_MANIFEST}.part"):
            for path in self.folder.glob(pattern):
                if path.name not in but:
                    path.unlink(missing_ok=True)

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"The files in {self.folder} cannot be read or written: {error.strerror or error}.",
            hint="Look at the folder, its permissions and the room on its disk.",
        )


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=_DIGEST).hexdigest()


def _packed(manifest: Manifest) -> bytes:
    told = {"format": _FORMAT, **asdict(manifest)}
    return json.dumps({"told": told, "checksum": _checksum(_canonical(told))}, indent=1).encode()


def _canonical(told: Any) -> bytes:
    return json.dumps(told, sort_keys=True).encode()


def _manifest_of(content: bytes, path: Path) -> Manifest:
    try:
        read = json.loads(content)
        told = read["told"]
        whole = read["checksum"] == _checksum(_canonical(told))
        if whole and told.pop("format") == _FORMAT:
            files = (KeptFile(**told.pop(name)) for name in ("index", "keys"))
            return Manifest(told["kind"], EngineState(**told["state"]), *files)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # it is told below, once
    raise Corrupt(f"{path} is not what was written, or of another version.", hint=HINT)
