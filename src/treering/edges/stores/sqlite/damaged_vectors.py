"""Finding stored vectors that are not what was kept, by their digests."""

from collections.abc import Iterator

import apsw

from treering.edges.index_rows.vector_digests import is_damaged
from treering.edges.stores.sqlite.tables import has_digests

_ROWS = (
    "SELECT v.key, m.name, m.dimension, t.hash, v.vector, {digest} FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.id = v.model_id LEFT JOIN passage_texts t ON t.id = v.text_id"
)


def count_damaged(connection: apsw.Connection) -> int:
    """Count the vectors that are not what was kept. One without a digest, from an older version, passes."""
    return sum(1 for _ in _damaged(connection))


def drop_damaged(connection: apsw.Connection) -> None:
    """Forget the vectors that are not what was kept, in a write transaction."""
    gone = [(key,) for key in _damaged(connection)]
    connection.executemany("DELETE FROM passage_vectors WHERE key = ?", gone)


def _damaged(connection: apsw.Connection) -> Iterator[int]:
    sql = _ROWS.format(digest="v.digest" if has_digests(connection) else "NULL")
    for key, *row in connection.execute(sql):
        if is_damaged(*row):
            yield key
