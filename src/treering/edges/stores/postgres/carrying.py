"""Rows that a move carries to another server as they are, and the removal of a copy.

What the audit log tells of is copied by the ledger's own means (`ports.copying`), and the index is made while that
comes. What is carried here neither is: records of patches and idempotency keys change without an event, jobs,
leases and promised work are in no log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from treering.edges.stores.postgres.index_state import EPOCH, MODELS, read_state, write_state
from treering.edges.stores.postgres.marks import Mark
from treering.edges.stores.postgres.schema import TABLES
from treering.edges.stores.postgres.transactions import SpaceRow, Transaction
from treering.edges.stores.postgres.vector_queue import fill_queue

COPIED = ("spaces", "objects", "revisions", "texts", "segments", "dependencies", "referrers", "links", "audit")
"""Tables that copying the ledger fills."""

_COUNTED = {
    "event": "audit",
    "revision": "revisions",
    "segment": "segments",
    "link": "links",
    "patch": "patches",
    "receipt": "receipts",
}
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CarriedTable:
    """A table whose rows are carried. `key` and `columns`: name and type of each, such as `id text`."""

    table: str
    key: str
    columns: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of all columns, that of the key first."""
        return [column.split()[0] for column in (self.key, *self.columns)]


OUTCOMES = (
    CarriedTable("patches", "id text", ("status text", "body bytea")),
    CarriedTable("receipts", "hash bytea", ("key text", "body bytea")),
)
"""What an older form may have left out is carried as it is: both sides are equal, byte for byte."""

OPERATIONAL = (CarriedTable("jobs", "id text", ("number bigint", "body bytea")),)


@dataclass(frozen=True, slots=True)
class TimedTable:
    """A small table that is carried as a whole. `times`: columns of the server's seconds, 0 for never."""

    table: str
    columns: tuple[str, ...]
    times: tuple[str, ...]


TIMED = (
    TimedTable(
        "leases", ("name text", "owner text", "process bigint", "renewed float8", "seconds float8"), ("renewed",)
    ),
    TimedTable(
        "promised_work",
        ("kind text", "key text", "promised float8", "times bigint", "claimant text", "claimed_until float8"),
        ("promised", "claimed_until"),
    ),
)
CARRIED = tuple(one.table for one in (*OUTCOMES, *OPERATIONAL, *TIMED))
"""Tables that are carried here; those of the index and `COPIED` are all others."""


def carry_rows(source: Transaction, target: Transaction, tables: Sequence[CarriedTable]) -> None:
    """Have the target hold the rows that the source holds. Only what differs is read and written."""
    for one in tables:
        ours, theirs = (_digests(side, one) for side in (source, target))
        gone = list(theirs.keys() - ours.keys())
        key, kind = one.key.split()
        if gone:
            sql = f"DELETE FROM {one.table} WHERE space = %(space)s AND {key} = ANY(%(keys)s::{kind}[])"  # noqa: S608 - our tables
            target.later(sql, keys=gone)
        changed = [each for each, digest in ours.items() if theirs.get(each) != digest]
        for start in range(0, len(changed), _AT_ONCE):
            _carry(source, target, one, changed[start : start + _AT_ONCE])


def carry_beside(source: Transaction, target: Transaction) -> None:
    """Have the target hold the leases, the promised work and the engine of the source.

    Times are as long ago by the target's clock as they are by the source's.
    """
    later = target.row.server_seconds - source.row.server_seconds
    for one in TIMED:
        names = [column.split()[0] for column in one.columns]
        shifted = [f"CASE WHEN {name} = 0 THEN 0 ELSE {name} + %(later)s::float8 END" for name in names]
        chosen = ", ".join(shift if name in one.times else name for name, shift in zip(names, shifted, strict=True))
        rows = source.rows(f"SELECT {chosen} FROM {one.table} WHERE space = %(space)s", later=later)  # noqa: S608 - ours
        target.later(f"DELETE FROM {one.table} WHERE space = %(space)s")  # noqa: S608 - our tables
        target.insert(one.table, one.columns, rows)
    target.later("UPDATE spaces SET engine = %(engine)s WHERE space = %(space)s", engine=source.row.engine)


def carry_models(source: Transaction, target: Transaction) -> None:
    """Make the models of the source known to the target, under the same numbers: open spaces remember these."""
    sql = "SELECT id, name, dimension FROM passage_models WHERE space = %(space)s ORDER BY id"
    known = {row[0] for row in target.rows(sql)}
    for row in source.rows(sql):
        if row[0] not in known:
            target.insert("passage_models", ("id integer", "name text", "dimension integer"), [row])
            fill_queue(target, row[0])
    write_state(target, MODELS, max(read_state(source, MODELS), read_state(target, MODELS)))


def begin_epoch(source: Transaction, target: Transaction) -> None:
    """Have tables in memory that follow the source start over when they follow the target."""
    write_state(target, EPOCH, max(read_state(source, EPOCH), read_state(target, EPOCH)) + 1)


def record_counts(transaction: Transaction) -> dict[str, int]:
    """Count the records of a ledger, per table of an export."""
    counts = ", ".join(
        f"(SELECT count(*) FROM {table} WHERE space = %(space)s)"  # noqa: S608 - our tables
        for table in _COUNTED.values()
    )
    [row] = transaction.rows(f"SELECT {counts}")
    return dict(zip(_COUNTED, row, strict=True))


def empty_space(connection: psycopg.Connection, number: int, mark: Mark) -> None:
    """Remove all rows of a space but its own, which says `mark`, in an open transaction that sees the space."""
    for table in TABLES:
        if table != "spaces":
            connection.execute(f"DELETE FROM {table} WHERE space = %s", (number,))  # noqa: S608 - our tables
    sql = (
        "UPDATE spaces SET sequence = 0, hash = %s, last_time = NULL, policy_seq = NULL, policy = NULL, engine = NULL, "
        "moving = %s WHERE space = %s"
    )
    connection.execute(sql, (SpaceRow.EMPTY_HASH, str(mark), number))


def _digests(side: Transaction, one: CarriedTable) -> dict[object, str]:
    key, *others = one.names
    sql = f"SELECT {key}, md5(ROW({', '.join(others)})::text) FROM {one.table} WHERE space = %(space)s"  # noqa: S608 - our tables
    return dict(side.rows(sql))


def _carry(source: Transaction, target: Transaction, one: CarriedTable, keys: Sequence[object]) -> None:
    key, kind = one.key.split()
    names = one.names
    sql = (
        f"SELECT {', '.join(names)} FROM {one.table} WHERE space = %(space)s "  # noqa: S608 - our tables
        f"AND {key} = ANY(%(keys)s::{kind}[])"
    )
    rows = source.rows(sql, keys=list(keys))
    changed = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    conflict = f"ON CONFLICT (space, {key}) DO UPDATE SET {changed}"
    target.insert(one.table, (one.key, *one.columns), rows, conflict=conflict)
    target.flush()
