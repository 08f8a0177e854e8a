"""Durable single writes: eight processes on one space, none lost, no error."""

from collections.abc import Iterator, Mapping, Sequence
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
    alone = race("record", 1, seconds=seconds, address=address)
    many = race("record", _PROCESSES, seconds=seconds, address=address)
    answers = [*alone, *many]
    shares = [len(answer["made"]) for answer in many]
    longest = max(answer["longest"] for answer in many)
    note = f"{min(shares)} to {max(shares)} by each, the slowest took {longest:.2f} s"
    yield Figure(f"durable writes, {_PROCESSES} processes", sum(shares) / seconds, "per s", at_least(200), note)
    yield Figure("— lost, of those acknowledged", _lost(address, answers), "", at_most(0))
    errors = [error for answer in answers for error in answer["errors"]]
    yield Figure("— errors", len(errors), "", at_most(0), "; ".join(sorted(set(errors))[:3]))
    yield Figure("durable writes, 1 process", len(alone[0]["made"]) / seconds, "per s")


def _inserting(folder: Path, seconds: float) -> Iterator[Figure]:
    """Insert plain rows with SQLite, as durably: what the disk and the file's lock allow here."""
    for processes in (_PROCESSES, 1):
        path = folder / f"plain{processes}.db"
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE t(body)")
        connection.close()
        total = sum(answer["made"] for answer in race("insert", processes, seconds=seconds, path=str(path)))
        yield Figure(f"— baseline: plain SQLite rows, {_named(processes)}", total / seconds, "per s")


def _lost(address: str, answers: Sequence[Mapping[str, Any]]) -> int:
    """Count the writes that were acknowledged and are not there."""
    made = [identity for answer in answers for identity in answer["made"]]
    with treering.open(address, background=False, create=False) as space:
        return len(made) - len(space.engine.ledger.heads(made))


def _named(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"
