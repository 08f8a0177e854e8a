"""The stored form of vectors, with digests that reveal damage."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from treering.core.errors import InvalidInput
from treering.ports.search import Vector
from treering.retrieval.index.tables import restored, stored_form


def undamaged_vectors(
    rows: Iterable[tuple[bytes, bytes, bytes | None]], *, model: str, dimension: int
) -> dict[str, Vector]:
    """Return undamaged vectors by content hash. `rows`: the hash, stored form and digest of each."""
    return {
        text_hash.hex(): restored(np.frombuffer(stored, np.int16))
        for text_hash, stored, digest in rows
        if len(stored) == dimension * np.dtype(np.int16).itemsize
        and digest in {None, vector_digest(model, text_hash, stored)}
    }


def stored_vector(vector: Vector, *, model: str, dimension: int) -> bytes:
    """Return the stored form of a vector. Raises `InvalidInput` for another dimension."""
    return stored_vectors(vector[np.newaxis], model=model, dimension=dimension)[0]


def stored_vectors(vectors: Vector, *, model: str, dimension: int) -> list[bytes]:
    """Return the stored form of each row of a matrix. Raises `InvalidInput` for another dimension."""
    if vectors.shape[1:] != (dimension,):
        raise InvalidInput(
            f"A vector of shape {vectors.shape[1:]} cannot be stored for {model}.",
            hint=f"This index has {dimension} components.",
        )
    return [row.tobytes() for row in stored_form(vectors)]


def cosine(stored: bytes, vector: Vector) -> float:
    """Return the cosine of a stored vector and another one."""
    return float(restored(np.frombuffer(stored, np.int16)) @ vector)


_SIZE = 8


_COMPONENT = 2  # bytes


def vector_digest(model: str, text_hash: bytes, vector: bytes) -> bytes:
    """Return the digest of a stored vector. It reveals damage, which nothing else does without the model."""
    return blake2b(vector, digest_size=_SIZE, key=blake2b(text_hash, key=model.encode()[-64:]).digest()).digest()


def is_damaged(
    model: str, dimension: int | None, text_hash: bytes | None, vector: object, digest: bytes | None
) -> bool:
    """Return whether a stored vector is damaged. Vectors of older versions have no digest and are accepted."""
    if not isinstance(vector, bytes) or len(vector) != _COMPONENT * (dimension or 0) or text_hash is None:
        return True
    return digest not in {None, vector_digest(model, text_hash, vector)}
