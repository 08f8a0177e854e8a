"""Digests of stored vectors: a vector cannot be made anew without its model, so damage shows by nothing else.

A digest is of the vector, the text it is of and the model that made it.
"""

from collections.abc import Iterator
from hashlib import blake2b

import apsw

from treering.edges.stores.sqlite.tables import has_digests

_SIZE = 8
_COMPONENT = 2  # bytes
_ROWS = (
    "SELECT v.key, m.name, m.dimension, t.hash, v.vector, {digest} FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.id = v.model_id LEFT JOIN passage_texts t ON t.id = v.text_id"
)


def vector_digest(model: str, text_hash: bytes, vector: bytes) -> bytes:
    """Return the digest of a vector in its stored form."""
    return blake2b(vector, digest_size=_SIZE, key=blake2b(text_hash, key=model.encode()[-64:]).digest()).digest()


def count_damaged(connection: apsw.Connection) -> int:
    """Count the vectors that are not what was kept. One without a digest, from an older version, passes."""
    return sum(1 for _ in _damaged(connection))


def drop_damaged(connection: apsw.Connection) -> None:
    """Forget the vectors that are not what was kept, in a write transaction."""
    gone = [(key,) for key in _damaged(connection)]
    connection.executemany("DELETE FROM passage_vectors WHERE key = ?", gone)


def _damaged(connection: apsw.Connection) -> Iterator[int]:
    sql = _ROWS.format(digest="v.digest" if has_digests(connection) else "NULL")
    for key, model, dimension, text_hash, vector, digest in connection.execute(sql):
        whole = isinstance(vector, bytes) and len(vector) == _COMPONENT * (dimension or 0) and text_hash is not None
        if not whole or digest not in {None, vector_digest(model, text_hash, vector)}:
            yield key
