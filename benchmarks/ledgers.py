"""Durable commits by eight processes, in one space and in a space each: on SQLite and on Postgres, in one run.

A commit to a ledger alone is what a store can do; with its index what was written is found when the commit returns,
which is what a space does. Beside it, in the same run: a loop over the driver that writes the same rows, in as many
transactions. `TREERING_BENCH_POSTGRES` names the database: `postgresql://USER@HOST/DATABASE`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.figures import Figure, Missing, Row, Target, at_least
from benchmarks.plan import Plan, workplace
from benchmarks.processes import race_each

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

_PROCESSES = 8
_SECONDS = 10.0
_QUICK_SECONDS = 1.0
_ONE_SPACE = 200
_MANY_SPACES = 800
SERVER = "TREERING_BENCH_POSTGRES"
NO_SERVER = f"{SERVER} names no database: postgresql://USER@HOST/DATABASE"


def measure(plan: Plan) -> list[Row]:
    """Commit one node per patch, to ledgers alone and with their index."""
    seconds = _QUICK_SECONDS if plan.quick else _SECONDS
    with workplace() as folder:
        rows: list[Row] = [*_committing("SQLite", lambda name: _file(folder, name), seconds)]
    on_server = postgres_spaces()
    if on_server is None:
        return [*rows, Missing("commits on Postgres", NO_SERVER)]
    return [*rows, *_committing("Postgres", on_server, seconds)]


def postgres_spaces(variable: str = SERVER) -> Callable[[str], str] | None:
    """Return a function from a name to the address of a space on the server; `None` if no server is named."""
    server = os.environ.get(variable)
    if not server:
        return None
    joint = "&" if "?" in server else "?"
    return lambda name: f"{server}{joint}space={name}"


def _committing(store: str, address: Callable[[str], str], seconds: float) -> Iterator[Figure]:
    for what, indexed in (("alone", False), ("with its index", True)):
        run = uuid4().hex
        ways = {
            "one space": ([address(run)] * _PROCESSES, _ONE_SPACE),
            f"{_PROCESSES} spaces": ([address(f"{run}-{number}") for number in range(_PROCESSES)], _MANY_SPACES),
        }
        for way, (addresses, wanted) in ways.items():
            given = [{"address": each, "seconds": seconds, "indexed": indexed} for each in addresses]
            name = f"{store}: commits, a ledger {what}, {_PROCESSES} processes, {way}"
            target = at_least(wanted) if store == "Postgres" else None
            ours = _rate(name, race_each("commit", given), seconds, target)
            yield ours
            if store == "Postgres":
                floor = _rate(f"{name}, the same rows by the driver", race_each("insert_rows", given), seconds, None)
                for each in dict.fromkeys(addresses):
                    _drop_copies(each)
                yield replace(floor, note=f"{floor.value / ours.value:.1f} times as many; {floor.note}")


def _rate(name: str, answers: Sequence[dict[str, Any]], seconds: float, target: Target | None) -> Figure:
    made = [answer["made"] for answer in answers]
    slowest = max(answer["longest"] for answer in answers)
    cpu = sum(answer["cpu"] for answer in answers) / sum(made)
    note = f"{min(made)} to {max(made)} by each, the slowest took {slowest:.2f} s, {1000 * cpu:.1f} ms CPU in clients"
    return Figure(name, sum(made) / seconds, "per s", target, note)


def _file(folder: Path, name: str) -> str:
    return f"sqlite:{folder / name}.db"


# The floor: what one commit stores, written by the driver alone.


@contextmanager
def copied_tables(
    address: str, commit: Callable[[], None]
) -> "Iterator[tuple[psycopg.Connection, Composed, list[tuple[Composed, tuple[Any, ...]]]]]":
    """Give a connection, how to take turns, and inserts of the rows that a commit to the space leaves.

    The rows begin with the number of the space, which is left out: another one makes them new. The tables are copies
    with all indexes, without partitions and policies, in a schema by the name of the space.
    """
    import psycopg
    from psycopg.sql import SQL, Identifier, Placeholder
    from psycopg.types.string import TextLoader

    from treering.extensions.postgres.connection.target import target_of
    from treering.system.address import parse_address

    target = target_of(parse_address(address, named="the database"))
    commit()
    with psycopg.connect(target.conninfo, autocommit=True, prepare_threshold=1) as connection:
        connection.adapters.register_loader("jsonb", TextLoader)
        before = _rows(connection, target.space)
        commit()
        left = [(table, row) for table, rows in _rows(connection, target.space).items() for row in rows - before[table]]
        schema = Identifier(target.space)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(1)")
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            for table in before:
                copy = SQL("CREATE TABLE IF NOT EXISTS {}.{} (LIKE treering.{} INCLUDING INDEXES)")
                connection.execute(copy.format(schema, Identifier(table), Identifier(table)))
            turn = SQL("INSERT INTO {}.spaces(space, sequence, hash) VALUES(0, 0, '') ON CONFLICT DO NOTHING")
            connection.execute(turn.format(schema))
        inserts = [
            (
                SQL("INSERT INTO {}.{} VALUES({})").format(
                    schema, Identifier(table), SQL(", ").join([Placeholder()] * (1 + len(row)))
                ),
                row,
            )
            for table, row in left
        ]
        yield connection, SQL("SELECT FROM {}.spaces WHERE space = 0 FOR NO KEY UPDATE").format(schema), inserts


def _drop_copies(address: str) -> None:
    import psycopg
    from psycopg.sql import SQL, Identifier

    from treering.extensions.postgres.connection.target import target_of
    from treering.system.address import parse_address

    target = target_of(parse_address(address, named="the database"))
    with psycopg.connect(target.conninfo) as connection:
        connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(target.space)))


def _rows(connection: "psycopg.Connection", space: str) -> dict[str, set[tuple[Any, ...]]]:
    """Return all rows of a space by table, without the number of the space."""
    from psycopg.sql import SQL, Identifier

    from treering.extensions.postgres.connection.primary import see_space
    from treering.extensions.postgres.connection.schema import TABLES

    with connection.transaction():
        see_space(connection, space)
        return {
            table: {row[1:] for row in connection.execute(SQL("SELECT * FROM {}").format(Identifier(table)))}
            for table in TABLES
        }
