"""Durable commits by eight processes, in one space and in a space each: on SQLite and on Postgres, in one run.

`TREERING_BENCH_POSTGRES` names the database: `postgresql://USER@HOST/DATABASE`.
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
_SERVER = "TREERING_BENCH_POSTGRES"


def measure(plan: Plan) -> list[Row]:
    """Commit one node per patch to ledgers alone, without an index."""
    seconds = _QUICK_SECONDS if plan.quick else _SECONDS
    with workplace() as folder:
        rows: list[Row] = [*_committing("SQLite", lambda name: _file(folder, name), seconds)]
    server = os.environ.get(_SERVER)
    if not server:
        return [*rows, Missing("commits on Postgres", f"{_SERVER} names no database: postgresql://USER@HOST/DATABASE")]
    joint = "&" if "?" in server else "?"
    return [*rows, *_committing("Postgres", lambda name: f"{server}{joint}space={name}", seconds)]


def _committing(store: str, address: Callable[[str], str], seconds: float) -> Iterator[Figure]:
    run = uuid4().hex
    ways = {
        "one space": ([address(run)] * _PROCESSES, 200),
        f"{_PROCESSES} spaces": ([address(f"{run}-{number}") for number in range(_PROCESSES)], 800),
    }
    for way, (addresses, wanted) in ways.items():
        answers = race_each("commit", [{"address": each, "seconds": seconds} for each in addresses])
        made = [answer["made"] for answer in answers]
        slowest = max(answer["longest"] for answer in answers)
        cpu = sum(answer["cpu"] for answer in answers) / sum(made)
        note = (
            f"{min(made)} to {max(made)} by each, the slowest took {slowest:.2f} s, {1000 * cpu:.1f} ms CPU in clients"
        )
        target = at_least(wanted) if store == "Postgres" else None
        yield Figure(f"{store}: commits, {_PROCESSES} processes, {way}", sum(made) / seconds, "per s", target, note)


def _file(folder: Path, name: str) -> str:
    return f"sqlite:{folder / name}.db"
