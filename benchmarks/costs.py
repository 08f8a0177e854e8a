"""Time, as the clock on the wall and the processor see it."""

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds on the wall, and seconds of CPU over all threads, with those of processes it started and waited for."""

    wall: float
    cpu: float


def cost_of(work: Callable[[], object]) -> Cost:
    """Do the work once."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    work()
    return Cost(time.perf_counter() - wall, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """Return the CPU time so far, with that of processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def typical(costs: Iterable[Cost]) -> Cost:
    """Return the median of both times."""
    known = list(costs)
    return Cost(median(cost.wall for cost in known), median(cost.cpu for cost in known))


def repeated(work: Callable[[], object], rounds: int) -> Cost:
    """Do the work several times and return the median of both times."""
    return typical(cost_of(work) for _ in range(rounds))


def milliseconds(seconds: float) -> float:
    """Turn seconds into milliseconds."""
    return 1_000 * seconds


def wall_note(cost: Cost) -> str:
    """Say what the clock on the wall showed."""
    return f"wall {milliseconds(cost.wall):,.3g} ms"
