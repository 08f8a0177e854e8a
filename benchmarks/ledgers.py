"""Durable commits by eight processes, in one space and in a space each: on SQLite and on Postgres, in one run.

A commit to a ledger alone is what a store can do; with its index what was written is found when the commit returns,
which is what a space does. `TREERING_BENCH_POSTGRES` names the database: `postgresql://USER@HOST/DATABASE`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.plan import Plan, workplace
from benchmarks.processes import race_each

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


def postgres_spaces() -> Callable[[str], str] | None:
    """Return how the address of a space on the server is made; `None` where no server is named."""
    server = os.environ.get(SERVER)
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
            answers = race_each("commit", given)
            made = [answer["made"] for answer in answers]
            slowest = max(answer["longest"] for answer in answers)
            cpu = sum(answer["cpu"] for answer in answers) / sum(made)
            note = (
                f"{min(made)} to {max(made)} by each, the slowest took {slowest:.2f} s, "
                f"{1000 * cpu:.1f} ms CPU in clients"
            )
            target = at_least(wanted) if store == "Postgres" else None
            name = f"{store}: commits, a ledger {what}, {_PROCESSES} processes, {way}"
            yield Figure(name, sum(made) / seconds, "per s", target, note)


def _file(folder: Path, name: str) -> str:
    return f"sqlite:{folder / name}.db"
