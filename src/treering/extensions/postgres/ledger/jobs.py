"""Outcomes of long work, leases and promised work in a space's database: neither audited nor exported."""

import os
from collections.abc import Callable, Iterator, Sequence, Set

from treering.extensions.postgres.connection.failures import from_column, to_column
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.ports.runtime import LONGEST_SECONDS, Claim, Holding
from treering.stores.rows.jobs import DatabaseJobs, check_lease_length
from treering.stores.rows.read_checks import Body

_ALL = "SELECT id, body FROM jobs WHERE space = %(space)s"
_KEEP = (
    "INSERT INTO jobs(space, id, number, body) SELECT %(space)s, %(id)s, coalesce(max(number), 0) + 1, %(body)s "
    "FROM jobs WHERE space = %(space)s ON CONFLICT (space, id) DO UPDATE SET body = excluded.body"
)


class PostgresJobs(DatabaseJobs[Transaction]):
    """The jobs of one space over transactions."""

    def is_prepared(self, _transaction: Transaction) -> bool:
        """Return true: a space is opened with the table."""
        return True

    def prepare(self, _transaction: Transaction) -> None:
        """Do nothing."""

    def read_ahead(self, _transaction: Transaction) -> None:
        """Do nothing: waiting jobs name the objects that their transaction writes."""

    def _body(self, transaction: Transaction, job_id: str) -> Body | None:
        body: Body | None = transaction.first(
            "SELECT body FROM jobs WHERE space = %(space)s AND id = %(id)s", id=job_id
        )
        return body

    def _all(self, transaction: Transaction) -> Sequence[tuple[str, Body]]:
        return transaction.rows(_ALL)

    def _newest(self, transaction: Transaction) -> Iterator[tuple[str, Body]]:
        return transaction.stream("jobs", f"{_ALL} ORDER BY number DESC, id DESC")

    def _put(self, transaction: Transaction, job_id: str, body: bytes) -> None:
        transaction.later(_KEEP, id=job_id, body=body)

    def _erased_among(self, transaction: Transaction, ids: Sequence[str]) -> Set[str]:
        sql = (
            "SELECT id FROM unnest(%(ids)s::text[]) AS named(id) "
            "WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.space = %(space)s AND o.id = named.id) "
            "AND EXISTS (SELECT 1 FROM audit a WHERE a.space = %(space)s AND a.target = named.id)"
        )
        return frozenset(transaction.column(sql, ids=ids))


_AT_ONCE = 60.0
"""In seconds: transactions whose times differ by less may have begun concurrently."""

_COLUMNS = "SELECT name, owner, process, renewed, seconds FROM leases WHERE space = %(space)s"
_TAKE = f"""
INSERT INTO leases(space, name, owner, process, renewed, seconds)
VALUES(%(space)s, %(name)s, %(owner)s, %(process)s, %(now)s, %(seconds)s)
ON CONFLICT (space, name) DO UPDATE
SET owner = excluded.owner, process = excluded.process, renewed = excluded.renewed, seconds = excluded.seconds
WHERE leases.owner = excluded.owner OR leases.renewed > excluded.renewed + {_AT_ONCE}
  OR leases.renewed + least(leases.seconds, {LONGEST_SECONDS}) <= excluded.renewed
RETURNING owner
"""

_SWEEP = """
DELETE FROM leases WHERE space = %(space)s AND name IN (
  SELECT name FROM leases WHERE space = %(space)s AND renewed + least(seconds, %(longest)s) <= %(now)s
  FOR UPDATE SKIP LOCKED)
"""
"""Remove expired leases, whose names contain scopes. It skips locked rows, so that it cannot deadlock."""

_CLEAR = (
    "DELETE FROM leases WHERE space = %(space)s AND name = %(name)s RETURNING name, owner, process, renewed, seconds"
)

Now = Callable[[Transaction], float]
"""Returns the time in seconds, by a clock shared by all owners of leases."""


def _server_seconds(transaction: Transaction) -> float:
    return transaction.row.server_seconds


class PostgresLeases:
    """`ports.runtime.Leases` of one space. Uses the server's time unless `now` is given."""

    def __init__(self, space: PostgresSpace, *, now: Now = _server_seconds) -> None:
        self._space = space
        self._now = now

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Acquire or renew a lease; return whether `owner` holds it."""
        check_lease_length(seconds)
        with self._space.beside() as transaction:
            now, process = self._now(transaction), os.getpid()
            named = {"name": to_column(name), "owner": to_column(owner)}
            taken = transaction.first(_TAKE, **named, process=process, now=now, seconds=seconds) is not None
            if taken and not seconds:
                transaction.later(_SWEEP, now=now, longest=LONGEST_SECONDS)
            return taken

    def holder(self, name: str) -> str | None:
        """Return the owner of a lease, or `None`."""
        return next((known.owner for known in self.held() if known.name == name), None)

    def held(self) -> Sequence[Holding]:
        """List the current leases, by name."""
        with self._space.read() as transaction:
            rows, now = transaction.rows(f"{_COLUMNS} ORDER BY name"), self._now(transaction)
        return [known for row in rows if (known := _holding(row, now))]

    def clear(self, name: str) -> Holding | None:
        """Remove a lease from its owner; return it."""
        with self._space.beside() as transaction:
            rows, now = transaction.rows(_CLEAR, name=to_column(name)), self._now(transaction)
        return next((known for row in rows if (known := _holding(row, now))), None)


def _holding(row: Row, now: float) -> Holding | None:
    """Return a lease; `None` if it has expired or the clock was set back."""
    name, owner, process, renewed, seconds = row
    age = now - renewed
    if age < -_AT_ONCE:
        return None
    left = min(seconds, LONGEST_SECONDS) - max(age, 0.0)
    return Holding(from_column(name), from_column(owner), process, max(age, 0.0), left) if left > 0 else None


_PROMISE = """
INSERT INTO promised_work(space, kind, key, promised, times, claimant, claimed_until)
VALUES(%(space)s, %(kind)s, %(key)s, %(now)s, 1, %(owner)s, %(now)s + %(seconds)s)
ON CONFLICT (space, kind, key) DO UPDATE
SET times = promised_work.times + 1, claimant = excluded.claimant, claimed_until = excluded.claimed_until
RETURNING times
"""
# Rows that another process is claiming are skipped. The free row is found once, before the update (as in
# `index.vector_queue`).
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
    """`ports.runtime.Backlog` of one space. Uses the server's time."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def promise(self, kind: str, key: str, owner: str, *, seconds: float) -> Claim:
        """Add work and claim it."""
        named = {"kind": kind, "key": to_column(key), "owner": owner, "seconds": seconds}
        with self._space.beside() as transaction:
            times = transaction.first(_PROMISE, **named, now=transaction.row.server_seconds)
        return Claim(kind, key, owner, times)

    def claim(self, kind: str, owner: str, *, seconds: float) -> Claim | None:
        """Claim the work that has waited longest, if it is free."""
        with self._space.beside() as transaction:
            now = transaction.row.server_seconds
            rows = transaction.rows(_CLAIM, kind=kind, owner=owner, seconds=seconds, now=now)
        return next((Claim(kind, from_column(key), owner, times) for key, times in rows), None)

    def done(self, claim: Claim) -> None:
        """Remove work, unless it was added again."""
        with self._space.beside() as transaction:
            transaction.later(_DONE, kind=claim.kind, key=to_column(claim.key), times=claim.times)

    def postpone(self, claim: Claim, *, seconds: float) -> None:
        """Release work after a number of seconds."""
        named = {"kind": claim.kind, "key": to_column(claim.key), "times": claim.times, "owner": claim.owner}
        with self._space.beside() as transaction:
            transaction.later(_POSTPONE, **named, seconds=seconds, now=transaction.row.server_seconds)

    def waiting(self) -> int:
        """Count the work that is not done."""
        with self._space.read() as transaction:
            return int(transaction.first("SELECT count(*) FROM promised_work WHERE space = %(space)s"))
