"""Rows that a move carries to another server as they are, and the removal of a copy.

What the audit log tells of is copied by the ledger's own means (`ports.copying`), and the index is made while that
comes. What is carried here neither is: records of patches and idempotency keys change without an event, jobs,
leases and promised work are in no log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from treering.edges.stores.postgres.index_schema import INDEX_TABLES
from treering.edges.stores.postgres.index_state import EPOCH, MODELS, read_state, write_state
from treering.edges.stores.postgres.marks import Mark
from treering.edges.stores.postgres.schema import TABLES
from treering.edges.stores.postgres.transactions import SpaceRow, Transaction
from treering.edges.stores.postgres.vector_queue import fill_queue

COPIED = ("spaces", "objects", "revisions", "texts", "segments", "dependencies", "referrers", "links", "audit")
"""Tables that copying the ledger fills."""

_MADE = frozenset(INDEX_TABLES)
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

_LEASE = ("name text", "owner text", "process bigint", "renewed float8", "seconds float8")
_PROMISE = ("kind text", "key text", "times bigint", "claimant text", "promised float8", "claimed_until float8")
CARRIED = (*(one.table for one in (*OUTCOMES, *OPERATIONAL)), "leases", "promised_work")
"""Tables that are carried here; `_MADE` and `COPIED` are all others."""


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


def carry_leases(source: Transaction, target: Transaction) -> None:
    """Have the target hold the source's leases, each as old by the target's clock as it is by the source's."""
    target.later("DELETE FROM leases WHERE space = %(space)s")
    names = ", ".join(column.split()[0] for column in _LEASE)
    later = target.row.server_seconds - source.row.server_seconds
    rows = source.rows(f"SELECT {names} FROM leases WHERE space = %(space)s")  # noqa: S608 - our own names
    shifted = [(*row[:3], row[3] + later, row[4]) for row in rows]
    target.insert("leases", _LEASE, shifted)


def carry_promises(source: Transaction, target: Transaction) -> None:
    """Have the target hold the work that was promised at the source, with its times by the target's clock."""
    target.later("DELETE FROM promised_work WHERE space = %(space)s")
    names = ", ".join(column.split()[0] for column in _PROMISE)
    later = target.row.server_seconds - source.row.server_seconds
    rows = source.rows(f"SELECT {names} FROM promised_work WHERE space = %(space)s")  # noqa: S608 - our own names
    target.insert("promised_work", _PROMISE, [(*row[:4], row[4] + later, row[5] + later) for row in rows])


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
        "UPDATE spaces SET sequence = 0, hash = %s, last_time = NULL, policy_seq = NULL, policy = NULL, moving = %s "
        "WHERE space = %s"
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
