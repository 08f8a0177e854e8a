"""Promised work in a space's database, claimed by one process at a time."""

from treering.edges.stores.postgres.columns import from_column, to_column
from treering.edges.stores.postgres.space import PostgresSpace
from treering.ports.backlog import Claim

_PROMISE = """
INSERT INTO promised_work(space, kind, key, promised, times, claimant, claimed_until)
VALUES(%(space)s, %(kind)s, %(key)s, %(now)s, 1, %(owner)s, %(now)s + %(seconds)s)
ON CONFLICT (space, kind, key) DO UPDATE
SET times = promised_work.times + 1, claimant = excluded.claimant, claimed_until = excluded.claimed_until
RETURNING times
"""
# Rows that another process is claiming at this moment are passed over, not waited for.
# The free one is found once, before the update (`vector_claims`).
_CLAIM = """
WITH free AS MATERIALIZED (
  SELECT kind, key FROM promised_work WHERE space = %(space)s AND kind = %(kind)s AND claimed_until <= %(now)s
  ORDER BY promised, key LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE promised_work taken SET claimant = %(owner)s, claimed_until = %(now)s + %(seconds)s FROM free
WHERE taken.space = %(space)s AND taken.kind = free.kind AND taken.key = free.key
RETURNING taken.key, taken.times
"""
_ONE = "space = %(space)s AND kind = %(kind)s AND key = %(key)s AND times = %(times)s"
_DONE = f"DELETE FROM promised_work WHERE {_ONE}"  # noqa: S608 - our own SQL
_POSTPONE = (
    "UPDATE promised_work SET claimed_until = %(now)s + %(seconds)s "  # noqa: S608 - our own SQL
    f"WHERE {_ONE} AND claimant = %(owner)s"
)


class PostgresBacklog:
    """`ports.backlog.Backlog` of one space. Time is that of the server."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def promise(self, kind: str, key: str, owner: str, *, seconds: float) -> Claim:
        """Note work and claim it."""
        named = {"kind": kind, "key": to_column(key), "owner": owner, "seconds": seconds}
        with self._space.beside() as transaction:
            times = transaction.first(_PROMISE, **named, now=transaction.row.server_seconds)
        return Claim(kind, key, owner, times)

    def claim(self, kind: str, owner: str, *, seconds: float) -> Claim | None:
        """Claim the work that has waited longest of what nobody is at."""
        with self._space.beside() as transaction:
            now = transaction.row.server_seconds
            rows = transaction.rows(_CLAIM, kind=kind, owner=owner, seconds=seconds, now=now)
        return next((Claim(kind, from_column(key), owner, times) for key, times in rows), None)

    def done(self, claim: Claim) -> None:
        """Take work off the list, unless it was promised again."""
        with self._space.beside() as transaction:
            transaction.later(_DONE, kind=claim.kind, key=to_column(claim.key), times=claim.times)

    def postpone(self, claim: Claim, *, seconds: float) -> None:
        """Leave work to whoever comes after so many seconds."""
        named = {"kind": claim.kind, "key": to_column(claim.key), "times": claim.times, "owner": claim.owner}
        with self._space.beside() as transaction:
            transaction.later(_POSTPONE, **named, seconds=seconds, now=transaction.row.server_seconds)

    def waiting(self) -> int:
        """Count what was promised and is not done."""
        with self._space.read() as transaction:
            return int(transaction.first("SELECT count(*) FROM promised_work WHERE space = %(space)s"))
