"""Digests of stored vectors: a vector cannot be made anew without its model, so damage shows by nothing else.

A digest is of the vector, the text it is of and the model that made it.
"""

from hashlib import blake2b

_SIZE = 8
_COMPONENT = 2  # bytes


def vector_digest(model: str, text_hash: bytes, vector: bytes) -> bytes:
    """Return the digest of a vector in its stored form."""
    return blake2b(vector, digest_size=_SIZE, key=blake2b(text_hash, key=model.encode()[-64:]).digest()).digest()


def is_damaged(
    model: str, dimension: int | None, text_hash: bytes | None, vector: object, digest: bytes | None
) -> bool:
    """Tell whether a vector is not what was kept. One without a digest, from an older version, passes."""
    if not isinstance(vector, bytes) or len(vector) != _COMPONENT * (dimension or 0) or text_hash is None:
        return True
    return digest not in {None, vector_digest(model, text_hash, vector)}
