"""Finding stored vectors that are not what was kept, by their digests."""

from treering.edges.index_rows.vector_digests import is_damaged
from treering.edges.stores.postgres.transactions import Transaction

_STORED = (
    "SELECT v.text_id, v.model_id, m.name, m.dimension, t.hash, v.vector, v.digest FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.space = v.space AND m.id = v.model_id "
    "LEFT JOIN passage_texts t ON t.space = v.space AND t.id = v.text_id WHERE v.space = %(space)s"
)
_FORGET = (
    "DELETE FROM passage_vectors v USING unnest(%(texts)s::bigint[], %(models)s::integer[]) AS gone(text, model) "
    "WHERE v.space = %(space)s AND v.text_id = gone.text AND v.model_id = gone.model"
)


def count_damaged(transaction: Transaction) -> int:
    """Count the vectors that are not what was kept, by their digests."""
    return len(_damaged(transaction))


def drop_damaged(transaction: Transaction) -> None:
    """Forget the vectors that are not what was kept, in a write transaction."""
    if damaged := _damaged(transaction):
        texts, models = ([row[place] for row in damaged] for place in range(2))
        transaction.later(_FORGET, texts=texts, models=models)


def _damaged(transaction: Transaction) -> list[tuple[int, int]]:
    return [(text, model) for text, model, *row in transaction.stream("vectors", _STORED) if is_damaged(*row)]
