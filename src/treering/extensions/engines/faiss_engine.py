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

from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import EngineAddress
from treering.extensions.engines.server_engine import check_dimension
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.system.machine import make_folder, private, sync_folder

FLAT, HNSW = "flat", "hnsw"
KINDS = (FLAT, HNSW)
_LINKS = 16
_BUILD_BREADTH = 64
_SEARCH_BREADTH = 200
_GONE = -1
_MOST_GONE = 5  # one row in so many may be gone before the graph is made anew


class Rows:
    """Vectors by key. Every vector is compared."""

    def __init__(self, dimension: int, index: Any = None, keys: Keys | None = None) -> None:
        self._dimension = dimension
        self._index = self._new() if index is None else index
        self._keys = np.empty(0, np.int64) if keys is None else keys

    def keys(self) -> Keys:
        """Return the keys, by row; a row that is gone has -1."""
        return self._keys

    def put(self, keys: Keys, vectors: npt.NDArray[np.float32]) -> None:
        """Add vectors under keys that are not there."""
        self._index.add(vectors)
        self._keys = np.concatenate([self._keys, keys])

    def remove(self, keys: Keys) -> None:
        """Forget keys; one that is not there is no error. The rows behind them move up."""
        gone = np.flatnonzero(np.isin(self._keys, keys))
        if len(gone):
            self._index.remove_ids(faiss.IDSelectorBatch(gone))
            self._keys = np.delete(self._keys, gone)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the keys of the nearest, best first: exactly so where only some are allowed."""
        return _searched(self._index, self._keys, vector, limit, allowed)

    def packed(self) -> bytes:
        """Return the index as bytes."""
        packed: bytes = faiss.serialize_index(self._index).tobytes()
        return packed

    def _new(self) -> Any:
        return faiss.IndexFlatIP(self._dimension)


class HnswRows(Rows):
    """A graph leads to the nearest. A removed vector is overwritten; its row stays until the graph is made anew."""

    def remove(self, keys: Keys) -> None:
        """Overwrite the vectors of keys with zeros; make the graph anew where too many are."""
        gone = np.flatnonzero(np.isin(self._keys, keys) & (self._keys != _GONE))
        if not len(gone):
            return
        self._vectors()[gone] = 0
        self._keys = self._keys.copy()
        self._keys[gone] = _GONE
        if np.count_nonzero(self._keys == _GONE) * _MOST_GONE > len(self._keys):
            left = self._keys != _GONE
            vectors, kept = self._vectors()[left].copy(), self._keys[left]
            self._index, self._keys = self._new(), np.empty(0, np.int64)
            self.put(kept, vectors)

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
        """Return the keys of the nearest, best first. Where only some are allowed these are compared one by one.

        A graph that is searched through a filter finds about half of the nearest.
        """
        if allowed is not None:
            return _searched(self._storage(), self._keys, vector, limit, allowed)
        gone = int(np.count_nonzero(self._keys == _GONE))
        wide = min(limit + gone, len(self._keys))
        parameters = faiss.SearchParametersHNSW(efSearch=max(_SEARCH_BREADTH, 2 * wide))
        return _found(self._index, self._keys, vector, wide, parameters)[:limit]

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
    """Return no vectors yet."""
    return HnswRows(dimension) if kind == HNSW else Rows(dimension)


def rows_of(kind: str, dimension: int, index: memoryview, keys: memoryview) -> Rows:
    """Return the vectors that were packed. The bytes are those that were written: their checksum was compared."""
    read = faiss.deserialize_index(np.frombuffer(index, np.uint8))
    known = np.frombuffer(keys, "<i8").astype(np.int64)
    if read.d != dimension:
        raise InvalidInput(
            f"The engine contains vectors of another model, with {read.d} components instead of {dimension}.",
            hint="Choose another engine address, or refill this engine with your model: `treering index rebuild`.",
        )
    if read.ntotal != len(known):
        raise Corrupt("The keys of the engine do not match its vectors.", hint="Run `treering index rebuild`.")
    return HnswRows(dimension, read, known) if kind == HNSW else Rows(dimension, read, known)


def checked(vectors: Mapping[int, Vector], dimension: int) -> npt.NDArray[np.float32]:
    """Return vectors as rows. Raises `InvalidInput` for another dimension, at which FAISS only asserts."""
    for vector in vectors.values():
        check_dimension(vector, dimension)
    return np.array(list(vectors.values()), np.float32).reshape(-1, dimension)


def _searched(index: Any, keys: Keys, vector: Vector, limit: int, allowed: Keys | None) -> Keys:
    if allowed is None:
        return _found(index, keys, vector, limit, None)
    rows = _rows_allowed(keys, allowed)
    # The selector keeps a pointer to the rows: they have to live as long as the search.
    chosen = faiss.IDSelectorBatch(rows)
    return _found(index, keys, vector, min(limit, len(rows)), faiss.SearchParameters(sel=chosen))


def _rows_allowed(keys: Keys, allowed: Keys) -> Keys:
    """Return the rows of allowed keys, by a table of all keys: several times faster than comparing two lists."""
    passes = np.zeros(int(keys.max(initial=_GONE)) + 2, np.bool_)
    passes[allowed[allowed < len(passes) - 1]] = True
    return np.flatnonzero(passes[keys])  # a row that is gone has the last place, which nothing passes


def _found(index: Any, keys: Keys, vector: Vector, limit: int, parameters: Any) -> Keys:
    if limit < 1 or not index.ntotal:
        return np.empty(0, np.int64)
    _, rows = index.search(vector.astype(np.float32).reshape(1, -1), min(limit, index.ntotal), params=parameters)
    found: Keys = keys[rows[0][rows[0] >= 0]]
    kept: Keys = found[found != _GONE]
    return kept


_FILE = "vectors.treering"
_EARLIER, _EARLIER_MANIFEST = ("vectors-*", "keys-*"), "manifest.json"
"""Files of earlier versions, which wrote several that a manifest names."""
_FORMAT = 2
_CHECKSUM, _MAX_HEADER = 64, 65_536  # bytes
Stamp = tuple[int, int, int]
HINT = "Run `treering index rebuild`: it recreates the files from the space, which has all vectors."


@dataclass(frozen=True, slots=True)
class Content:
    """What a file contains: a checksum, a line of JSON with `kind` and `state`, the keys, and an index of FAISS."""

    kind: str
    state: EngineState
    index: memoryview
    keys: memoryview


class VectorFile:
    """The file in a folder with the vectors of a space. It is replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / _FILE
        self._part = folder / f"{_FILE}.part"

    def stamp(self) -> Stamp | None:
        """Return what differs once the file is replaced; `None` if there is none. Raises `Unavailable`."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unavailable(error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> Content:
        """Read the file. Raises `Corrupt`, `Unavailable`."""
        try:
            content = memoryview(self._path.read_bytes())
        except OSError as error:
            raise self._unavailable(error) from error
        checksum, rest = content[:_CHECKSUM], content[_CHECKSUM:]
        try:
            if bytes(checksum).decode() == _checksum(rest):
                return _content_of(rest)
        except (ValueError, TypeError, KeyError):
            pass  # another program wrote it
        raise Corrupt(f"{self._path} was modified, or has another version.", hint=HINT)

    def write(self, kind: str, state: EngineState, index: bytes, keys: bytes) -> None:
        """Replace the file, durably. Raises `Unavailable`."""
        told = {"format": _FORMAT, "kind": kind, "keys": len(keys), "state": asdict(state)}
        rest = b"\n".join((json.dumps(told).encode(), keys + index))
        try:
            make_folder(self.folder)
            with open(self._part, "wb", opener=private) as file:
                file.write(_checksum(rest).encode())
                file.write(rest)
                file.flush()
                os.fsync(file.fileno())
            self._part.replace(self._path)
            sync_folder(self.folder)
        except OSError as error:
            raise self._unavailable(error) from error

    def remove_earlier(self) -> None:
        """Remove files of an earlier version: the space fills the engine again. Raises `Unavailable`."""
        manifest = self.folder / _EARLIER_MANIFEST
        try:
            if manifest.is_file() and b'"checksum"' in (told := manifest.read_bytes()) and b'"loaded"' in told:
                for path in (path for pattern in _EARLIER for path in self.folder.glob(pattern)):
                    path.unlink(missing_ok=True)
                manifest.unlink(missing_ok=True)
        except OSError as error:
            raise self._unavailable(error) from error

    def clear(self) -> None:
        """Remove the file, and the folder if nothing else is in it. Raises `Unavailable`."""
        try:
            self._path.unlink(missing_ok=True)
            self._part.unlink(missing_ok=True)
            self.remove_earlier()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(
            f"The files in {self.folder} cannot be read or written: {error.strerror or error}.",
            hint="Check the folder, its permissions and the free disk space.",
        )


def _checksum(content: bytes | memoryview) -> str:
    return blake2b(content, digest_size=_CHECKSUM // 2).hexdigest()


def _content_of(rest: memoryview) -> Content:
    """Parse what follows the checksum. Raises `ValueError`, `TypeError`, `KeyError`."""
    end = bytes(rest[:_MAX_HEADER]).index(b"\n")
    told = json.loads(bytes(rest[:end]))
    if told["format"] != _FORMAT:
        raise ValueError(told["format"])
    body = rest[end + 1 :]
    return Content(told["kind"], EngineState(**told["state"]), body[told["keys"] :], body[: told["keys"]])


_MAX_UNWRITTEN = 10_000
"""Changes that are collected in memory while vectors are loaded, or a quarter of the vectors if that is more."""


class FaissEngine:
    """`ports.vector_engine.VectorEngine` over a file in a folder. All vectors are in memory: 1.5 kB for each of 384.

    The file is read when it is needed first, and again after another process wrote it.
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
        """What people call it."""
        return f"FAISS {self._kind}"

    @property
    def searches(self) -> bool:
        """Return true."""
        return True

    def state(self) -> EngineState | None:
        """Return the state of what is in memory, reading a file that another process wrote. Raises `Corrupt`."""
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
        """Remove everything. A file of before is overwritten, damaged or not."""
        with self._lock:
            self._file.clear()
            self.close()
            self._state = state
            self._write()

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Change the vectors in memory, and write them once no more changes follow, or there are many."""
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
        """Return the nearest; exactly so if only some are allowed, and always if it is flat."""
        check_dimension(vector, self._dimension)
        with self._lock:
            if self._state is None:
                self.state()
            return self._rows.search(vector, limit, allowed)

    def drop(self) -> None:
        """Remove the files."""
        with self._lock:
            self._file.clear()
            self.close()

    def close(self) -> None:
        """Release the memory."""
        with self._lock:
            self._rows, self._state = new_rows(self._kind, self._dimension), None
            self._stamp, self._unwritten = None, 0

    def _write(self) -> None:
        """Write the file. If that fails, memory is released, so that the file counts."""
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
