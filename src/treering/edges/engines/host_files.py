"""What a host's store was handed, in a file beside the space: the store itself cannot be asked."""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from treering.core.errors import Corrupt, Unavailable
from treering.edges.private_files import make_folder, private, sync_folder
from treering.ports.vector_engine import EngineState

_HINT = "Run `treering index rebuild` in the program that has the store: it hands everything over again."


@dataclass(frozen=True, slots=True)
class KeptByHost:
    """The state of an engine over a host's store, and the keys of the passages that the store was handed.

    `mark`: what the ids of its documents begin with. `ids`: those that the store gave, by key, where it gives its own.
    """

    mark: str
    state: EngineState
    keys: frozenset[int] = frozenset()
    ids: Mapping[int, str] = field(default_factory=dict)

    def stored_id(self, key: int) -> str:
        """Return the id of the document of a passage in the store."""
        return self.ids.get(key) or document_id(self.mark, key)


def document_id(mark: str, key: int) -> str:
    """Return the id that the document of a passage is given."""
    return f"{mark}-{key}"


class StateFile:
    """Keeps that durably; without a path as long as the process lives. Safe to use from many threads."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: KeptByHost | None = None
        self._stamp: tuple[int, int] | None = None

    def read(self) -> KeptByHost | None:
        """Return what was kept, by this or another process. Raises `Corrupt`, `Unavailable`."""
        if self._path is None:
            return self._kept
        with self._lock:
            try:
                found = self._path.stat()
                if (found.st_mtime_ns, found.st_ino) != self._stamp:
                    self._kept = _read(self._path)
                    self._stamp = found.st_mtime_ns, found.st_ino
            except FileNotFoundError:
                self._kept = self._stamp = None
            except OSError as error:
                raise self._unavailable(error) from error
            return self._kept

    def read_if_whole(self) -> KeptByHost | None:
        """Return what was kept; `None` also where the file is damaged."""
        try:
            return self.read()
        except Corrupt:
            return None

    def write(self, kept: KeptByHost) -> None:
        """Keep it, durably. Raises `Unavailable`."""
        if self._path is None:
            self._kept = kept
            return
        told = {"mark": kept.mark, "state": asdict(kept.state), "keys": sorted(kept.keys)}
        content = json.dumps(told | ({"ids": kept.ids} if kept.ids else {})).encode()
        part = self._path.with_name(f"{self._path.name}.part")
        try:
            make_folder(self._path.parent)
            with open(part, "wb", opener=private) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            raise self._unavailable(error) from error

    def remove(self) -> None:
        """Remove the file."""
        self._kept = self._stamp = None
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"{self._path} cannot be read or written: {error.strerror or error}.",
            hint="Look at the folder and its disk.",
        )


def _read(path: Path) -> KeptByHost:
    try:
        told = json.loads(path.read_bytes())
        ids = {int(key): str(one) for key, one in told.get("ids", {}).items()}
        return KeptByHost(str(told["mark"]), EngineState(**told["state"]), frozenset(map(int, told["keys"])), ids)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Corrupt(f"{path} is not what was written.", hint=_HINT) from None
