"""Eight processes on sixteen spaces: a Citus cluster beside one Postgres, in the same run.

`TREERING_BENCH_POSTGRES` and `TREERING_BENCH_CITUS` name the databases (`postgresql://USER@HOST/DATABASE`), the latter
at the coordinator. The rounds alternate, and the figures are medians of the rounds.
"""

from statistics import median
from uuid import uuid4

from benchmarks.figures import Figure, Missing, Row
from benchmarks.ledgers import SERVER, postgres_spaces
from benchmarks.plan import Plan
from benchmarks.processes import race_each

_CLUSTER = "TREERING_BENCH_CITUS"
_PROCESSES, _SPACES = 8, 2
_ROUNDS, _SECONDS, _QUICK_SECONDS = 3, 8.0, 2.0


def measure(plan: Plan) -> list[Row]:
    """Measure commits and searches a second."""
    seconds = _QUICK_SECONDS if plan.quick else _SECONDS
    stores = {"Postgres": postgres_spaces(), "Citus": postgres_spaces(_CLUSTER)}
    if not all(stores.values()):
        return [Missing("commits and searches on a cluster", f"{SERVER} and {_CLUSTER} do not name two databases")]
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(1 if plan.quick else _ROUNDS):
        for store, address in stores.items():
            assert address is not None
            names = [[address(uuid4().hex) for _ in range(_SPACES)] for _ in range(_PROCESSES)]
            answers = race_each("write_and_search", [{"addresses": each, "seconds": seconds} for each in names])
            for what in ("commits", "searches"):
                rates.setdefault((what, store), []).append(sum(answer[what] for answer in answers) / seconds)
    return [
        Figure(
            f"{what} on {store}, {_PROCESSES} processes, {_PROCESSES * _SPACES} spaces",
            median(rounds),
            "per s",
            note=", ".join(f"{rate:.0f}" for rate in rounds),
        )
        for (what, store), rounds in sorted(rates.items())
    ]
