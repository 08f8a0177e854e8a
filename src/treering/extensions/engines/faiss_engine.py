"""An engine in files: FAISS, flat or HNSW."""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from treering.core.errors import Corrupt, InvalidInput
from treering.extensions.engines.engine_address import ANOTHER_MODEL, EngineAddress
from treering.extensions.engines.server_engine import check_dimension, using_files
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.system.machine import make_folder, private, sync_folder

FLAT, HNSW = "flat", "hnsw"
KINDS = (FLAT, HNSW)
_LINKS = 16
_BUILD_BREADTH = 64
_SEARCH_BREADTH = 200
_GONE = -1
_MOST_GONE = 5  # the graph is rebuilt when more than one of this many rows is deleted


class Rows:
    """Vectors by key. A search compares all of them."""

    def __init__(self, dimension: int, index: Any = None, keys: Keys | None = None) -> None:
        self._dimension = dimension
        self._index = self._new() if index is None else index
        self._keys = np.empty(0, np.int64) if keys is None else keys

    def keys(self) -> Keys:
        """Return the key of each row, or -1 for a deleted row."""
        return self._keys

    def put(self, keys: Keys, vectors: npt.NDArray[np.float32]) -> None:
        """Add vectors under new keys."""
        self._index.add(vectors)
        self._keys = np.concatenate([self._keys, keys])

    def remove(self, keys: Keys) -> None:
        """Delete keys, if they exist. Later rows move up."""
        gone = np.flatnonzero(np.isin(self._keys, keys))
        if len(gone):
            self._index.remove_ids(faiss.IDSelectorBatch(gone))
            self._keys = np.delete(self._keys, gone)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the keys of the nearest vectors, best first. With `allowed`, the result is exact."""
        return _searched(self._index, self._keys, vector, limit, allowed)

    def packed(self) -> bytes:
        """Return the index as bytes."""
        packed: bytes = faiss.serialize_index(self._index).tobytes()
        return packed

    def _new(self) -> Any:
        return faiss.IndexFlatIP(self._dimension)


class HnswRows(Rows):
    """Vectors by key, with an HNSW graph. A deleted vector is overwritten; its row remains until a rebuild."""

    def remove(self, keys: Keys) -> None:
        """Overwrite the vectors of keys with zeros; rebuild the graph if there are too many."""
        gone = np.flatnonzero(np.isin(self._keys, keys) & (self._keys != _GONE))
        if not len(gone):
            return
        self._vectors()[gone] = 0
        self._keys = self._keys.copy()
        self._keys[gone] = _GONE
        if np.count_nonzero(self._keys == _GONE) * _MOST_GONE > len(self._keys):
            left = self._keys != _GONE
            vectors, keys_left = self._vectors()[left].copy(), self._keys[left]
            self._index, self._keys = self._new(), np.empty(0, np.int64)
            self.put(keys_left, vectors)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the keys of the nearest vectors, best first. With `allowed`, these are compared one by one.

        A filtered search of the graph finds about half of the nearest vectors.
        """
        if allowed is not None:
            return _searched(self._storage(), self._keys, vector, limit, allowed)
        gone = int(np.count_nonzero(self._keys == _GONE))
        wide = min(limit + gone, len(self._keys))
        parameters = faiss.SearchParametersHNSW(efSearch=max(_SEARCH_BREADTH, 2 * wide))
        return _nearest_keys(self._index, self._keys, vector, wide, parameters)[:limit]

    def _new(self) -> Any:
        index = faiss.IndexHNSWFlat(self._dimension, _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_BREADTH
        return index

    def _storage(self) -> Any:
        return faiss.downcast_index(self._index.storage)

    def _vectors(self) -> npt.NDArray[np.float32]:
        storage = self._storage()
        rows: npt.NDArray[np.float32] = faiss.rev_swig_ptr(storage.get_xb(), storage.ntotal * self._dimension)
        return rows.reshape(-1, self._dimension)


def new_rows(kind: str, dimension: int) -> Rows:
    """Return an empty set of vectors."""
    return HnswRows(dimension) if kind == HNSW else Rows(dimension)


def rows_of(kind: str, dimension: int, index: memoryview, keys: memoryview) -> Rows:
    """Decode vectors. The caller has verified their checksum."""
    read = faiss.deserialize_index(np.frombuffer(index, np.uint8))
    known = np.frombuffer(keys, "<i8").astype(np.int64)
    if read.d != dimension:
        raise InvalidInput(
            f"The engine contains vectors of another model, with {read.d} components instead of {dimension}.",
            hint=ANOTHER_MODEL,
        )
    if read.ntotal != len(known):
        raise Corrupt("The keys of the engine do not match its vectors.", hint="Run `treering index rebuild`.")
    return HnswRows(dimension, read, known) if kind == HNSW else Rows(dimension, read, known)


def checked(vectors: Mapping[int, Vector], dimension: int) -> npt.NDArray[np.float32]:
    """Return vectors as rows. Raises `InvalidInput` for a wrong dimension, which FAISS only asserts."""
    for vector in vectors.values():
        check_dimension(vector, dimension)
    return np.array(list(vectors.values()), np.float32).reshape(-1, dimension)


def _searched(index: Any, keys: Keys, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
    if allowed is None:
        return _nearest_keys(index, keys, vector, limit, None)
    rows = _rows_allowed(keys, allowed)
    # The selector has a pointer to the rows, which must exist during the search.
    chosen = faiss.IDSelectorBatch(rows)
    return _nearest_keys(index, keys, vector, min(limit, len(rows)), faiss.SearchParameters(sel=chosen))


def _rows_allowed(keys: Keys, allowed: Keys) -> Keys:
    """Return the rows of allowed keys. A table of all keys is several times faster than comparing two lists."""
    passes = np.zeros(int(keys.max(initial=_GONE)) + 2, np.bool_)
    passes[allowed[allowed < len(passes) - 1]] = True
    return np.flatnonzero(passes[keys])  # deleted rows use the last entry, which is always false


def _nearest_keys(index: Any, keys: Keys, vector: Vector, limit: int, parameters: Any) -> Keys:
    if limit < 1 or not index.ntotal:
        return np.empty(0, np.int64)
    _, rows = index.search(vector.astype(np.float32).reshape(1, -1), min(limit, index.ntotal), params=parameters)
    nearest: Keys = keys[rows[0][rows[0] >= 0]]
    existing: Keys = nearest[nearest != _GONE]
    return existing


_FILE = "vectors.treering"
_EARLIER, _EARLIER_MANIFEST = ("vectors-*", "keys-*"), "manifest.json"
"""Files of earlier versions: several, named in a manifest."""
_FORMAT = 2
_CHECKSUM, _MAX_HEADER = 64, 65_536  # bytes
Stamp = tuple[int, int, int]
HINT = "Run `treering index rebuild`: it recreates the files from the space, which has all vectors."


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file: a checksum, a line of JSON with `kind` and `state`, the keys, and an index of FAISS."""

    kind: str
    state: EngineState
    index: memoryview
    keys: memoryview


class VectorFile:
    """The file with the vectors of a space. It is always replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / _FILE
        self._part = folder / f"{_FILE}.part"
        self._shown = f"The files in {folder}"

    def stamp(self) -> Stamp | None:
        """Return a value that changes when the file is replaced; `None` if it is missing. Raises `Unavailable`."""
        with using_files(self._shown):
            try:
                status = self._path.stat()
            except FileNotFoundError:
                return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> Content:
        """Read the file. Raises `Corrupt`, `Unavailable`."""
        with using_files(self._shown):
            content = memoryview(self._path.read_bytes())
        checksum, rest = content[:_CHECKSUM], content[_CHECKSUM:]
        try:
            if bytes(checksum).decode() == _checksum(rest):
                return _content_of(rest)
        except (ValueError, TypeError, KeyError):
            pass  # written by another program
        raise Corrupt(f"{self._path} was modified, or has another version.", hint=HINT)

    def write(self, kind: str, state: EngineState, index: bytes, keys: bytes) -> None:
        """Replace the file durably. Raises `Unavailable`."""
        header = {"format": _FORMAT, "kind": kind, "keys": len(keys), "state": asdict(state)}
        rest = b"\n".join((json.dumps(header).encode(), keys + index))
        with using_files(self._shown):
            make_folder(self.folder)
            with open(self._part, "wb", opener=private) as file:
                file.write(_checksum(rest).encode())
                file.write(rest)
                file.flush()
                os.fsync(file.fileno())
            self._part.replace(self._path)
            sync_folder(self.folder)

    def remove_earlier(self) -> None:
        """Delete files of an earlier version. The space fills the engine again. Raises `Unavailable`."""
        manifest = self.folder / _EARLIER_MANIFEST
        with using_files(self._shown):
            if manifest.is_file() and b'"checksum"' in (content := manifest.read_bytes()) and b'"loaded"' in content:
                for path in (path for pattern in _EARLIER for path in self.folder.glob(pattern)):
                    path.unlink(missing_ok=True)
                manifest.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete the file, and the folder if it is empty. Raises `Unavailable`."""
        with using_files(self._shown):
            self._path.unlink(missing_ok=True)
            self._part.unlink(missing_ok=True)
            self.remove_earlier()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()


def _checksum(content: bytes | memoryview) -> str:
    return blake2b(content, digest_size=_CHECKSUM // 2).hexdigest()


def _content_of(rest: memoryview) -> Content:
    """Parse the content after the checksum. Raises `ValueError`, `TypeError`, `KeyError`."""
    end = bytes(rest[:_MAX_HEADER]).index(b"\n")
    header = json.loads(bytes(rest[:end]))
    if header["format"] != _FORMAT:
        raise ValueError(header["format"])
    body = rest[end + 1 :]
    return Content(header["kind"], EngineState(**header["state"]), body[header["keys"] :], body[: header["keys"]])


_MAX_UNWRITTEN = 10_000
"""The number of changes collected in memory during loading, or a quarter of the vectors if that is more."""


class FaissEngine:
    """`ports.vector_engine.VectorEngine` over a file. All vectors are in memory: 1.5 kB each for 384 components.

    The file is read on first use, and again after another process wrote it.
    """

    def __init__(self, file: VectorFile, dimension: int, kind: str = FLAT) -> None:
        self._file = file
        self._dimension = dimension
        self._kind = kind
        self._lock = threading.RLock()
        self._rows: Rows = new_rows(kind, dimension)
        self._state: EngineState | None = None
        self._stamp: Stamp | None = None
        self._unwritten = 0

    @property
    def kind(self) -> str:
        """The name of the engine for users."""
        return f"FAISS {self._kind}"

    @property
    def searches(self) -> bool:
        """Return true."""
        return True

    def state(self) -> EngineState | None:
        """Return the state of the vectors in memory, reading the file again if it changed. Raises `Corrupt`."""
        with self._lock:
            stamp = self._file.stamp()
            if stamp != self._stamp:
                self.close()
                if stamp is not None:
                    content = self._file.read()
                    self._rows = rows_of(content.kind, self._dimension, content.index, content.keys)
                    self._state, self._stamp = content.state, stamp
            if stamp is None:
                self._file.remove_earlier()
            return self._state

    def begin(self, state: EngineState) -> None:
        """Delete everything. An existing file is overwritten, even if it is damaged."""
        with self._lock:
            self._file.clear()
            self.close()
            self._state = state
            self._write()

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Apply changes in memory; write the file after the last change, or when there are many."""
        vectors = checked(changes.vectors, self._dimension)
        with self._lock:
            self.state()
            self._rows.remove(np.array(changes.keys, np.int64))
            self._rows.put(np.array(list(changes.vectors), np.int64), vectors)
            count = int(np.count_nonzero(self._rows.keys() >= 0))
            self._state = replace(state, count=count)
            self._unwritten += len(changes.keys)
            is_last = state.loaded is None and not changes.left
            if is_last or self._unwritten > max(_MAX_UNWRITTEN, count // 4):
                self._write()

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest passages. The result is exact for a flat index, and with `allowed`."""
        check_dimension(vector, self._dimension)
        with self._lock:
            if self._state is None:
                self.state()
            return self._rows.search(vector, limit, allowed)

    def drop(self) -> None:
        """Delete the files."""
        with self._lock:
            self._file.clear()
            self.close()

    def close(self) -> None:
        """Release the memory."""
        with self._lock:
            self._rows, self._state = new_rows(self._kind, self._dimension), None
            self._stamp, self._unwritten = None, 0

    def _write(self) -> None:
        """Write the file. On failure, the memory is released, so that the file is read again."""
        rows, state = self._rows, self._state
        self.close()
        if state is not None:
            self._file.write(self._kind, state, rows.packed(), rows.keys().astype("<i8").tobytes())
            self._rows, self._state, self._stamp = rows, state, self._file.stamp()


def open_faiss(address: EngineAddress, _mark: str, dimension: int) -> FaissEngine:
    """Open the engine in a folder. Raises `InvalidInput` for an unknown option."""
    unknown = address.options.keys() - {"kind"}
    kind = address.options.get("kind", FLAT)
    if unknown or kind not in KINDS:
        raise InvalidInput(
            f"{address} has an option that this engine does not support.",
            hint="Use ?kind=flat or ?kind=hnsw, or neither.",
        )
    return FaissEngine(VectorFile(address.folder), dimension, kind)
