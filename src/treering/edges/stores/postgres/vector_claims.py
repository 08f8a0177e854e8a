"""Which process embeds which of the texts that wait: claims on rows of the queue, which lapse by themselves."""

from collections.abc import Sequence
from typing import Any

from treering.edges.index_rows.waiting import gists_of
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.object_reads import ObjectReads
from treering.edges.stores.postgres.space import PostgresSpace
from treering.ports.vectors import Pending

_OF_MODEL = (
    "q.space = %(space)s AND q.model_id = "
    "(SELECT id FROM passage_models WHERE space = %(space)s AND name = %(name)s AND dimension = %(dimension)s)"
)
# Rows that another process is claiming at this moment are passed over, not waited for.
# The free ones are found once, before the update: as a part of its join they could be looked for again for each row,
# and more be claimed than were asked for.
_CLAIM = f"""
WITH free AS MATERIALIZED (
  SELECT q.model_id, q.text_id FROM vector_queue q WHERE {_OF_MODEL} AND q.claimed_until <= %(now)s
  ORDER BY q.priority, q.text_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE vector_queue taken SET claimant = %(owner)s, claimed_until = %(now)s + %(seconds)s FROM free
WHERE taken.space = %(space)s AND taken.model_id = free.model_id AND taken.text_id = free.text_id
RETURNING taken.priority, taken.text_id
"""  # noqa: S608 - our own SQL
_TEXTS = (
    "SELECT encode(t.hash, 'hex'), p.object_id FROM unnest(%(texts)s::bigint[]) WITH ORDINALITY AS claimed(id, place) "
    "JOIN passage_texts t ON t.space = %(space)s AND t.id = claimed.id CROSS JOIN LATERAL "
    "(SELECT object_id FROM passages WHERE space = t.space AND text_id = t.id AND live AND until_seq IS NULL "
    "LIMIT 1) AS p ORDER BY claimed.place"
)
_RENEW = f"UPDATE vector_queue q SET claimed_until = %(until)s WHERE {_OF_MODEL} AND q.claimant = %(owner)s"  # noqa: S608
_GIVE_BACK = (
    "UPDATE vector_queue q SET claimant = '', claimed_until = 0 "  # noqa: S608 - our own SQL
    f"WHERE {_OF_MODEL} AND q.claimant = %(owner)s"
)
_OTHERS = (
    f"SELECT count(*) FROM vector_queue q WHERE {_OF_MODEL} "  # noqa: S608 - our own SQL
    "AND q.claimant <> %(owner)s AND q.claimed_until > %(now)s"
)


class PostgresVectorClaims:
    """`ports.vectors.VectorClaims` of one space and model. Time is that of the server."""

    def __init__(self, space: PostgresSpace, model: str, dimension: int) -> None:
        self._space = space
        self._model: dict[str, Any] = {"name": model, "dimension": dimension}

    def claim(self, owner: str, limit: int, *, seconds: float) -> Sequence[Pending]:
        """Claim texts that nobody has claimed, and return them."""
        with rows_of("the index", hint=REINDEX), self._space.beside() as transaction:
            asked = {**self._model, "owner": owner, "limit": limit, "seconds": seconds}
            claimed = sorted(transaction.rows(_CLAIM, **asked, now=transaction.row.server_seconds))
            waiting = transaction.rows(_TEXTS, texts=[text for _, text in claimed]) if claimed else []
            objects = ObjectReads(transaction).current(sorted({object_id for _, object_id in waiting}))
        texts = gists_of(objects.values())
        return [Pending(text_hash, texts[text_hash]) for text_hash, _ in waiting if text_hash in texts]

    def renew(self, owner: str, *, seconds: float) -> None:
        """Keep what `owner` still has claimed for so many seconds from now on."""
        with self._space.beside() as transaction:
            until = transaction.row.server_seconds + seconds
            transaction.later(_RENEW, **self._model, owner=owner, until=until)

    def give_back(self, owner: str) -> None:
        """Let others have what `owner` has claimed and not done."""
        with self._space.beside() as transaction:
            transaction.later(_GIVE_BACK, **self._model, owner=owner)

    def claimed_by_others(self, owner: str) -> int:
        """Count the texts that others are at."""
        with self._space.read() as transaction:
            now = transaction.row.server_seconds
            return int(transaction.first(_OTHERS, **self._model, owner=owner, now=now))
