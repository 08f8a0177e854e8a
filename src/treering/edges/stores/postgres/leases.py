"""Leases in a space's database. Operational: neither audited nor exported.

A row holds when the lease was renewed, by the clock of the server, which all processes on all machines share, and its
length. Where that clock was set back, a lease that was renewed in the future is one from before, and its holder is
taken for gone. A moment in the future is nothing of the kind: each transaction reads the clock when it begins, and one
that began earlier may come to the row later.
"""

import os
from collections.abc import Callable, Sequence

from treering.core.errors import InvalidInput
from treering.edges.stores.postgres.columns import from_column, to_column
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.lease import LONGEST_SECONDS, Holding

_AT_ONCE = 60.0
"""Seconds: transactions whose clocks differ by less may have been begun side by side."""

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

_CLEAR = (
    "DELETE FROM leases WHERE space = %(space)s AND name = %(name)s RETURNING name, owner, process, renewed, seconds"
)

Now = Callable[[Transaction], float]
"""Tells the time in seconds, by a clock that all who hold leases share."""


def _server_seconds(transaction: Transaction) -> float:
    return transaction.row.server_seconds


class PostgresLeases:
    """`ports.lease.Leases` of one space. Time is the server's unless `now` tells another one."""

    def __init__(self, space: PostgresSpace, *, now: Now = _server_seconds) -> None:
        self._space = space
        self._now = now

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease; tell whether `owner` holds it now."""
        if seconds > LONGEST_SECONDS:
            raise InvalidInput(
                f"A lease of {seconds:g} seconds is too long; at most {LONGEST_SECONDS:g} are allowed.",
                hint="Take it for less, and renew it.",
            )
        with self._space.beside() as transaction:
            now, process = self._now(transaction), os.getpid()
            named = {"name": to_column(name), "owner": to_column(owner)}
            return transaction.first(_TAKE, **named, process=process, now=now, seconds=seconds) is not None

    def holder(self, name: str) -> str | None:
        """Tell who holds a lease now."""
        return next((known.owner for known in self.held() if known.name == name), None)

    def held(self) -> Sequence[Holding]:
        """List the leases that are held now, by name."""
        with self._space.read() as transaction:
            rows, now = transaction.rows(f"{_COLUMNS} ORDER BY name"), self._now(transaction)
        return [known for row in rows if (known := _holding(row, now))]

    def clear(self, name: str) -> Holding | None:
        """Take a lease away from its owner; return what was held."""
        with self._space.beside() as transaction:
            rows, now = transaction.rows(_CLEAR, name=to_column(name)), self._now(transaction)
        return next((known for row in rows if (known := _holding(row, now))), None)


def _holding(row: Row, now: float) -> Holding | None:
    """Return a lease as it stands; `None` where its time is over, or the clock was set back behind it."""
    name, owner, process, renewed, seconds = row
    age = now - renewed
    if age < -_AT_ONCE:
        return None
    left = min(seconds, LONGEST_SECONDS) - max(age, 0.0)
    return Holding(from_column(name), from_column(owner), process, max(age, 0.0), left) if left > 0 else None
