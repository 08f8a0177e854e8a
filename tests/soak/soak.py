"""Many processes on one project, some of them killed, and whether anything was lost.

`python tests/soak/soak.py [--processes 8] [--seconds 60] [--kills 0]` prints the figures; it exits with 1 where
anything is wrong.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from soak_journal import Step, held, read_steps
from soak_worker import PROJECT, SHARED_DOCS

import treering
from treering.extensions.projects.documents import text_of
from treering.extensions.projects.spaces import Projects
from treering.ports.ledger import Selection
from treering.testing.fakes import HashingEmbedder

WORKER = Path(__file__).with_name("soak_worker.py")


@dataclass(frozen=True, slots=True)
class Plan:
    """How many processes, for how long, how many of them killed on the way."""

    processes: int
    seconds: float
    kills: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, and what is wrong: nothing, it is to be hoped."""

    plan: Plan
    steps: Sequence[Step]
    wrong: Sequence[str]

    @property
    def interrupted(self) -> int:
        """Count the calls in the middle of which a worker was killed."""
        return sum(step.outcomes is None for step in self.steps)

    def figures(self) -> Iterator[str]:
        """Say what was done, line by line."""
        for verb in ("index", "delete", "retrieve"):
            waits = [step.seconds for step in self.steps if step.verb == verb and step.outcomes is not None]
            if waits:
                rate = len(waits) / self.plan.seconds
                yield f"{verb}: {rate:.1f} per s, median {1000 * median(waits):.0f} ms, longest {max(waits):.2f} s"
        yield f"{self.plan.kills} workers killed, {self.interrupted} calls interrupted"
        yield f"wrong: {len(self.wrong)}"
        yield from self.wrong[:20]


def soak(plan: Plan, folder: Path) -> Outcome:
    """Let the workers work, stop them, and look at what is there."""
    wrong = _work(plan, folder)
    journals = [list(read_steps(folder / f"{number}.journal")) for number in range(plan.processes)]
    steps = [step for journal in journals for step in journal]
    wrong += [step.wrong for step in steps if step.wrong]
    with treering.open_projects(folder / "projects", background=False, embedder=HashingEmbedder()) as memory:
        wrong += _problems(memory, journals)
    return Outcome(plan, steps, wrong)


def _work(plan: Plan, folder: Path) -> list[str]:
    """Run the workers to their end; return what they wrote to their error streams, and who ended wrongly."""
    workers = [_Worker(folder, number) for number in range(plan.processes)]
    for worker in workers:
        worker.start(plan.seed)
    for worker in workers:
        worker.await_ready()
    _kill(workers, plan)
    (folder / "stop").touch()
    return [problem for worker in workers for problem in worker.finish()]


def _kill(workers: Sequence["_Worker"], plan: Plan) -> None:
    """Let the time pass; kill some workers on the way and start them again."""
    chance, began = random.Random(plan.seed), time.monotonic()
    moments = sorted(chance.uniform(0.05, 0.95) * plan.seconds for _ in range(plan.kills))
    for number, moment in enumerate(moments, start=1):
        _sleep_until(began + moment)
        worker = chance.choice(workers)
        # One that has not opened the project yet would be killed in the middle of nothing.
        worker.await_ready()
        worker.kill()
        worker.start(1_000 * number + plan.seed)
    for worker in workers:
        worker.await_ready()
    _sleep_until(began + plan.seconds)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


class _Worker:
    """A process, and those that take its place after it was killed."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._number = number
        # To a file: a pipe that nobody reads would hold up a process that has much to say.
        self._errors = folder / f"{number}.errors"
        self._ready = False

    def start(self, seed: int) -> None:
        command = [sys.executable, "-W", "error", str(WORKER), str(self._folder), str(self._number), str(seed)]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        self._ready = False

    def await_ready(self) -> None:
        """Wait until it has opened the project, or has ended."""
        if not self._ready and self._process.stdout:
            self._process.stdout.readline()
        self._ready = True

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def finish(self) -> list[str]:
        """Wait for its end; return what went wrong."""
        self._end()
        said = self._errors.read_text(encoding="utf-8")
        ending = self._process.returncode
        return [*([f"process {self._number} ended with {ending}"] if ending else []), *([said] if said else [])]

    def _end(self) -> None:
        with self._process:
            pass


def _problems(memory: Projects, journals: Sequence[Sequence[Step]]) -> Iterator[str]:
    """Hold what the project says now against what the workers were told."""
    with memory.engine(PROJECT) as engine:
        engine.ledger.verify()
        yield from engine.index.upkeep.differences()
        sources = engine.ledger.select(Selection(descend=True, types=("source",)))
        there = Counter(text_of(item) for item in sources if item.status == "active")
    yield from (f"there {count} times: {doc}" for doc, count in there.items() if count > 1)
    own = {doc: state for journal in journals for doc, state in held(journal).items()}
    yield from (f"not in the project: {doc}" for doc, state in own.items() if state and doc not in there)
    yield from (f"deleted and still there: {doc}" for doc, state in own.items() if state is False and doc in there)
    yield from (f"never said: {doc}" for doc in there.keys() - own.keys() - set(SHARED_DOCS))
    for doc in SHARED_DOCS:
        yield from _imbalance(doc, present=doc in there, steps=[step for journal in journals for step in journal])


def _imbalance(doc: str, *, present: bool, steps: Sequence[Step]) -> Iterator[str]:
    """Compare how often a shared document was told to come and go with whether it is there.

    Each call that did not return may have done one of both, or nothing.
    """
    told = Counter(
        step.outcomes[place]
        for step in steps
        for place, other in enumerate(step.docs)
        if other == doc and step.outcomes is not None and step.verb != "retrieve"
    )
    came, went = told["created"], told["deleted"]
    open_ends = Counter(step.verb for step in steps if step.outcomes is None and doc in step.docs)
    if not came - went - open_ends["delete"] <= present <= came - went + open_ends["index"]:
        yield f"came {came} times, went {went} times, is{'' if present else ' not'} there: {doc}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Let many processes work on one project and see that nothing is lost.")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treering-soak-") as folder:
        outcome = soak(Plan(**vars(given)), Path(folder))
    sys.stdout.write("\n".join(outcome.figures()) + "\n")
    sys.exit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
