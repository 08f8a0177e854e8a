"""Sixteen processes, one hot space and a thousand small ones: on SQLite and on Postgres, in one run.

Half of the processes write to the hot space, one commit after the other; the others go round their share of the small
spaces. Every fourth commit is followed by a search for what was written. `TREERING_BENCH_POSTGRES` names the database.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.ledgers import NO_SERVER, postgres_spaces
from benchmarks.plan import Plan, workplace
from benchmarks.processes import race_each

_PROCESSES, _QUICK_PROCESSES = 16, 4
_SMALL, _QUICK_SMALL = 1_000, 8
_SECONDS, _QUICK_SECONDS = 30.0, 2.0

Addresses = Sequence[Sequence[str]]
Answers = Sequence[Mapping[str, Any]]


def measure(plan: Plan) -> list[Row]:
    """Measure the hot space alone, the small ones alone, and both at once."""
    with workplace() as folder:
        rows: list[Row] = [*_using("SQLite", lambda name: _file(folder, name), plan)]
    on_server = postgres_spaces()
    if on_server is None:
        return [*rows, Missing("spaces on Postgres", NO_SERVER)]
    return [*rows, *_using("Postgres", on_server, plan)]


def _using(store: str, address: Callable[[str], str], plan: Plan) -> Iterator[Figure]:
    half = (_QUICK_PROCESSES if plan.quick else _PROCESSES) // 2
    small = _QUICK_SMALL if plan.quick else _SMALL
    seconds = _QUICK_SECONDS if plan.quick else _SECONDS
    run = uuid4().hex[:8]
    hot = [[address(f"{run}-hot")]] * half
    cold = [[address(f"{run}-{number}") for number in range(first, small, half)] for first in range(half)]
    ways: Mapping[str, tuple[Addresses, Addresses]] = {
        "the hot space alone": (hot, []),
        "small spaces alone": ([], cold),
        "both at once": (hot, cold),
    }
    for way, (hot_now, cold_now) in ways.items():
        given = [{"addresses": each, "seconds": seconds} for each in (*hot_now, *cold_now)]
        answers = race_each("use_spaces", given)
        in_hot, in_cold = answers[: len(hot_now)], answers[len(hot_now) :]
        if in_hot:
            yield from _told(f"{store}, {way}: one space, {half} processes", in_hot, seconds, store, wanted=200)
        if in_cold:
            name = f"{store}, {way}: {small:,} spaces, {half} processes"
            yield from _told(name, in_cold, seconds, store, wanted=800)


def _told(name: str, answers: Answers, seconds: float, store: str, *, wanted: float) -> Iterator[Figure]:
    commits = [len(answer["commits"]) for answer in answers]
    by_space = list(chain.from_iterable(answer["made"] for answer in answers))
    rate = sum(commits) / seconds
    shares = f"{min(commits)} to {max(commits)} by each process"
    if len(by_space) > len(answers):
        shares += f", {min(by_space)} to {max(by_space)} to each space"
    target = at_least(wanted) if store == "Postgres" else None
    yield Figure(f"{name}: commits", rate, "per s", target, shares)
    for what in ("commits", "queries"):
        took = 1000 * np.array(list(chain.from_iterable(answer[what] for answer in answers)) or [0.0])
        middle, late = np.percentile(took, (50, 95))
        yield Figure(f"— {what}, p50", float(middle), "ms", None, f"p95 {late:.1f} ms, the slowest {took.max():.0f} ms")


def _file(folder: Path, name: str) -> str:
    return f"sqlite:{folder / name}.db"
