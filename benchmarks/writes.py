"""Durable single writes: eight processes on one space, none lost, no error."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

import treering
from benchmarks.figures import Figure, Row, at_least, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import race

_PROCESSES = 8
_SECONDS = 10.0
_QUICK_SECONDS = 1.0


def measure(plan: Plan) -> list[Row]:
    """Record work items from 8 processes and from one, and insert plain rows the same way."""
    seconds = _QUICK_SECONDS if plan.quick else _SECONDS
    with workplace() as folder:
        return [*_recording(folder / "space.db", seconds), *_inserting(folder, seconds)]


def _recording(path: Path, seconds: float) -> Iterator[Figure]:
    address = f"sqlite:{path}"
    with treering.open(address, background=False):
        pass
    alone = race("record", 1, seconds, address=address)
    many = race("record", _PROCESSES, seconds, address=address)
    made = [identity for answer in (*alone, *many) for identity in answer["made"]]
    errors = [error for answer in (*alone, *many) for error in answer["errors"]]
    total = sum(len(answer["made"]) for answer in many)
    yield Figure(
        f"durable writes, {_PROCESSES} processes", total / seconds, "per s", at_least(200), _per_write(many, total)
    )
    yield Figure("— lost, of those acknowledged", _lost(address, made), "", at_most(0))
    yield Figure("— errors", len(errors), "", at_most(0), "; ".join(sorted(set(errors))[:3]))
    single = sum(len(answer["made"]) for answer in alone)
    yield Figure("durable writes, 1 process", single / seconds, "per s", None, _per_write(alone, single))


def _inserting(folder: Path, seconds: float) -> Iterator[Figure]:
    """Insert plain rows with SQLite, as durably: what the disk and the file's lock allow here."""
    for processes in (_PROCESSES, 1):
        path = folder / f"plain{processes}.db"
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE t(body)")
        connection.close()
        answers = race("insert", processes, seconds, path=str(path))
        total = sum(answer["made"] for answer in answers)
        yield Figure(
            f"— baseline: plain SQLite rows, {_named(processes)}",
            total / seconds,
            "per s",
            None,
            _per_write(answers, total),
        )


def _lost(address: str, made: list[str]) -> int:
    with treering.open(address, background=False, create=False) as space:
        return len(set(made)) - len(space.engine.ledger.heads(made)) + len(made) - len(set(made))


def _named(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"
