"""Which spaces of a database have background work that waits: the one look across spaces, for who does such work.

It passes the fence around a space by a policy of its own, which a session has to ask for and which shows it the queues
and the names of spaces only.
"""

from collections.abc import Sequence

from treering.edges.stores.postgres.failures import translated
from treering.edges.stores.postgres.pools import shared_pool
from treering.edges.stores.postgres.schema import FINDING, QUEUES, SCHEMA
from treering.edges.stores.postgres.target import Target

_WAIT_SECONDS = 20.0

# One probe of an index per space, however long its queue is.
_SPACES_OF = """
SELECT space FROM (
  WITH RECURSIVE next(space) AS (
    (SELECT space FROM {table} WHERE {free} ORDER BY space LIMIT 1)
    UNION ALL
    SELECT (SELECT q.space FROM {table} q WHERE q.space > next.space AND {free} ORDER BY q.space LIMIT 1)
    FROM next WHERE next.space IS NOT NULL
  ) SELECT space FROM next WHERE space IS NOT NULL
) AS of_{table}
"""
_FREE = {"vector_queue": "claimed_until <= {now}", "promised_work": "claimed_until <= {now}", "waiting_objects": "true"}
_NOW = "extract(epoch FROM now())::double precision"


class WaitingSpaces:
    """Looks which spaces of a database have work that nobody is at. `close` gives its connections back."""

    def __init__(self, target: Target) -> None:
        self._place = target.shown
        with translated(self._place):
            self._pool = shared_pool(target)

    def names(self) -> Sequence[str]:
        """Return the names of the spaces, the oldest first. Raises `Unavailable`."""
        spaces = " UNION ".join(_SPACES_OF.format(table=table, free=_FREE[table].format(now=_NOW)) for table in QUEUES)
        sql = f"SELECT name FROM space_names WHERE space IN ({spaces}) ORDER BY space"  # noqa: S608 - our own SQL
        with translated(self._place):
            connection = self._pool.take(timeout=_WAIT_SECONDS)
            try:
                with connection.transaction():
                    connection.execute(f"SET LOCAL search_path = {SCHEMA}; SET LOCAL {FINDING} = 'on'")
                    return [name for (name,) in connection.execute(sql)]
            finally:
                self._pool.put_back(connection)

    def close(self) -> None:
        """Give the connections back."""
        self._pool.give_up()
