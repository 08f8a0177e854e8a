"""Vectors in the forms that pgvector reads."""

import struct
from collections.abc import Mapping

import numpy as np

from treering.ports.vectors import Vector

_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)


def copied(vectors: Mapping[int, Vector]) -> bytes:
    """Return what binary COPY reads of keys and vectors (all of one dimension)."""
    dimension = len(next(iter(vectors.values())))
    row = np.dtype(
        [
            *(("fields", ">i2"), ("key_size", ">i4"), ("key", ">i8")),
            *(("size", ">i4"), ("dimension", ">i2"), ("unused", ">i2"), ("values", ">f4", (dimension,))),
        ]
    )
    rows = np.zeros(len(vectors), row)
    rows["fields"], rows["key_size"], rows["size"], rows["dimension"] = 2, 8, 4 + 4 * dimension, dimension
    rows["key"] = list(vectors)
    rows["values"] = np.stack(list(vectors.values()))
    return _BEGIN + rows.tobytes() + _END


def written(vector: Vector) -> str:
    """Return a vector as text."""
    return f"[{','.join(map(str, vector.tolist()))}]"
