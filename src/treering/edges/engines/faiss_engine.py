"""An engine in files: FAISS, flat or HNSW."""

import threading
from dataclasses import replace

import numpy as np

from treering.core.errors import InvalidInput
from treering.edges.engines.dimensions import check_dimension
from treering.edges.engines.engine_address import EngineAddress
from treering.edges.engines.faiss_files import Manifest, VectorFolder
from treering.edges.engines.faiss_rows import FLAT, KINDS, Rows, checked, new_rows, rows_of
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.ports.vectors import Vector

_FEWEST = 256
_SHARE = 20
_MOST = 10_000
"""Changes are written once they are one in so many vectors, but at least and at most so many: files are written whole.
The feed keeps far more."""


class FaissEngine:
    """`ports.vector_engine.VectorEngine` over a folder of files. All vectors are in memory: 1.5 kB for each of 384.

    Searches answer for what was loaded when this process first asked, and for what it has written itself; `refresh`
    loads what another process wrote.
    """

    def __init__(self, folder: VectorFolder, dimension: int, kind: str = FLAT) -> None:
        self._folder = folder
        self._dimension = dimension
        self._kind = kind
        self._lock = threading.RLock()
        self._rows: Rows = new_rows(kind, dimension)
        self._state: EngineState | None = None
        self._manifest: Manifest | None = None
        self._looked = False
        self._kept_back = 0

    @property
    def kind(self) -> str:
        """What people call it."""
        return f"FAISS {self._kind}"

    def state(self) -> EngineState | None:
        """Return what it keeps: what this process has taken over, unless another wrote since. Raises `Corrupt`."""
        with self._lock:
            self.refresh()
            return self._state

    def begin(self, state: EngineState) -> None:
        """Forget everything. The files of before are overwritten, damaged or not."""
        with self._lock:
            self._folder.clear()
            self._rows, self._state, self._looked = new_rows(self._kind, self._dimension), state, True
            self._kept_back = 0
            self.flush()

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Take changes over in memory, and write them once they are many."""
        vectors = checked(changes.vectors, self._dimension)
        with self._lock:
            self._rows.remove(np.array(changes.keys, np.int64))
            self._rows.put(np.array(list(changes.vectors), np.int64), vectors)
            count = int(np.count_nonzero(self._rows.keys() >= 0))
            self._state = replace(state, count=count)
            self._kept_back += len(changes.keys)
            if self._kept_back > max(_MOST, count // 4):
                self.flush()

    def flush(self) -> None:
        """Write the files, and let the manifest name them."""
        with self._lock:
            if self._state is None:
                return
            keys = self._rows.keys().astype("<i8").tobytes()
            self._manifest = self._folder.write(self._kind, self._state, self._rows.packed(), keys)
            self._kept_back = 0

    def is_worth_writing(self, waiting: int, count: int) -> bool:
        """Tell whether so many changes are worth writing all vectors again."""
        return waiting >= min(max(_FEWEST, count // _SHARE), _MOST)

    def sight(self) -> str | None:
        """Return the moment that the vectors in memory are of."""
        with self._lock:
            if not self._looked:
                self.refresh()
            return self._state.moment if self._state and self._state.loaded is None else None

    def refresh(self) -> None:
        """Load the files where they are others than what is in memory. Raises `Corrupt`."""
        with self._lock:
            manifest = self._folder.manifest()
            if self._looked and manifest == self._manifest:
                return
            while manifest is not None and not self._load(manifest):
                # Another process replaced it meanwhile; where none did, a file is missing.
                manifest = self._folder.newer_than(manifest)
            if manifest is None:
                self._rows, self._state = new_rows(self._kind, self._dimension), None
            self._manifest, self._looked, self._kept_back = manifest, True, 0

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest; exactly so where only some are allowed, and always where it is flat."""
        check_dimension(vector, self._dimension)
        with self._lock:
            return self._rows.search(vector, limit, allowed)

    def drop(self) -> None:
        """Remove the files."""
        with self._lock:
            self._folder.clear()
            self.close()

    def close(self) -> None:
        """Release the memory."""
        with self._lock:
            self._rows, self._state = new_rows(self._kind, self._dimension), None
            self._manifest, self._looked = None, False

    def _load(self, manifest: Manifest) -> bool:
        """Load what a manifest names; tell whether it is there still."""
        index, keys = self._folder.read(manifest.index), self._folder.read(manifest.keys)
        if index is None or keys is None:
            return False
        self._rows = rows_of(manifest.kind, self._dimension, index, keys)
        self._state = manifest.state
        return True


def open_faiss(address: EngineAddress, _mark: str, dimension: int) -> FaissEngine:
    """Open the engine in a folder. Raises `InvalidInput` for an unknown option."""
    unknown = address.options.keys() - {"kind"}
    kind = address.options.get("kind", FLAT)
    if unknown or kind not in KINDS:
        raise InvalidInput(
            f"{address} has an option that this engine does not know.",
            hint="Write ?kind=flat or ?kind=hnsw, or neither.",
        )
    return FaissEngine(VectorFolder(address.folder), dimension, kind)
