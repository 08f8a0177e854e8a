"""Two processes in one discussion, some of them killed in the middle: the memory is that of a quiet run.

`python tests/soak/discussion_soak.py [--turns 2000] [--kills 40]` prints how often the model was called, and what went
wrong; exit code 1 where something did. The talk, its moments of death and the model are made of a seed.
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

from discussion_worker import open_discussion, open_space, talk

from treering import Space
from treering.core.objects import Knowledge, Summary
from treering.ports.ledger import Selection

WORKER = Path(__file__).with_name("discussion_worker.py")
_ALIVE = (0.05, 0.6)  # seconds a process lives, from its being ready, before it is killed
_ALIVE_A_TURN = 0.01  # at most, so that a short talk is not over before


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the talk is, and how many processes are killed on the way."""

    turns: int = 2_000
    kills: int = 40
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a discussion came down to."""

    messages: tuple[str, ...]
    memories: tuple[tuple[str, str, int, int], ...]
    summary: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done. `calls` and `fewest` count the calls of the model by kind, here and in the quiet run."""

    plan: Plan
    killed: int
    memories: int
    calls: Counter[str]
    fewest: Counter[str]
    wrong: tuple[str, ...]

    def figures(self) -> Iterator[str]:
        """Say what was done, line by line."""
        yield f"{self.plan.turns} turns, {self.killed} processes killed, {self.memories} memories"
        yield f"model calls: {self.calls.total()}, at least needed: {self.fewest.total()} ({dict(self.fewest)})"
        yield f"wrong: {len(self.wrong)}"
        yield from self.wrong[:20]


def soak(plan: Plan, folder: Path) -> Outcome:
    """Let the processes talk, kill some, and compare with a run that nothing disturbs."""
    disturbed, quiet = folder / "disturbed", folder / "quiet"
    disturbed.mkdir()
    quiet.mkdir()
    killed, wrong = _talk(plan, disturbed)
    fewest = _quietly(plan, quiet)
    with open_space(disturbed / "space.db") as space, open_space(quiet / "space.db") as other:
        found = _settled(space, disturbed / "calls")
        expected = _settled(other, quiet / "calls")
        calls = _counted(disturbed / "calls")
        wrong += [*_differences(found, expected), *_unsound(space), *_too_many(calls, fewest, killed)]
    return Outcome(plan, killed, len(found.memories), calls, fewest, tuple(wrong))


def _talk(plan: Plan, folder: Path) -> tuple[int, list[str]]:
    """Run the processes until everything is said; return how many were killed and what went wrong."""
    chance = random.Random(plan.seed)
    workers = [_Worker(folder, number, plan.turns) for number in (0, 1)]
    for worker in workers:
        worker.await_ready()
    killed, (least, most) = 0, _ALIVE
    while killed < plan.kills and all(worker.is_at_it() for worker in workers):
        time.sleep(chance.uniform(least, min(most, _ALIVE_A_TURN * plan.turns)))
        killed += chance.choice(workers).kill_and_start()
    return killed, [problem for worker in workers for problem in worker.finish()]


class _Worker:
    """A process, and those that take its place after it was killed."""

    def __init__(self, folder: Path, number: int, turns: int) -> None:
        self._command = [sys.executable, "-W", "error", str(WORKER), str(folder), str(number), str(turns)]
        self._errors = folder / f"{number}.errors"
        self._start()

    def await_ready(self) -> None:
        """Wait until it has opened the space: before that there is nothing to disturb."""
        if self._process.stdout:
            self._process.stdout.readline()

    def is_at_it(self) -> bool:
        return self._process.poll() is None

    def kill_and_start(self) -> bool:
        """Kill it, unless it has ended by itself; tell whether it was killed."""
        if not self.is_at_it():
            return False
        self._process.kill()
        self._wait()
        self._start()
        self.await_ready()
        return True

    def finish(self) -> list[str]:
        """Wait for its end; return what went wrong."""
        self._wait()
        said = self._errors.read_text(encoding="utf-8")
        ending = self._process.returncode
        return [*([f"a process ended with {ending}"] if ending else []), *([said] if said else [])]

    def _start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=errors)

    def _wait(self) -> None:
        with self._process:
            pass


def _quietly(plan: Plan, folder: Path) -> Counter[str]:
    """Record the same talk at once in one process, and update once; return the calls that took."""
    with open_space(folder / "space.db") as space:
        discussion = open_discussion(space, folder / "calls", thinking=0)
        discussion.record(talk(plan.turns), start=0)
        discussion.update()
    return _counted(folder / "calls")


def _settled(space: Space, calls: Path) -> Remembered:
    """Finish what the last killed process left undone, and read everything."""
    discussion = open_discussion(space, calls, thinking=0)
    discussion.update(wait_seconds=10)
    made = discussion.all_memories()
    memories = [(memory.item.title, memory.item.summary, memory.first, memory.last) for memory in made]
    return Remembered(
        messages=tuple(message.text for message in discussion.messages()),
        memories=tuple(memories),
        summary=discussion.summary(),
        facts=tuple(sorted(line for line in discussion.state().splitlines() if line.strip())),
    )


def _differences(found: Remembered, expected: Remembered) -> Iterator[str]:
    for name in Remembered.__slots__:
        here, there = getattr(found, name), getattr(expected, name)
        if here != there:
            yield f"{name} differ: {_first_difference(here, there)}"


def _first_difference(here: Sequence[object], there: Sequence[object]) -> str:
    at = next((at for at, (one, other) in enumerate(zip(here, there, strict=False)) if one != other), None)
    at = min(len(here), len(there)) if at is None else at
    return f"{len(here)} against {len(there)}, at {at}: {here[at : at + 2]!r} against {there[at : at + 2]!r}"


def _unsound(space: Space) -> Iterator[str]:
    """Check the audit, the index, and that one version of each text is live, over one chain of versions."""
    space.engine.ledger.verify()
    yield from space.engine.index.upkeep.differences()
    selected = space.engine.ledger.select(Selection(scope="/", descend=True, types=("knowledge",)))
    told = [item for item in selected if isinstance(item, Knowledge) and isinstance(item.payload, Summary)]
    for form in ("rolling_summary", "state_document"):
        versions = [item for item in told if isinstance(item.payload, Summary) and item.payload.form == form]
        statuses = Counter(item.status for item in versions)
        if statuses != {"active": 1, "superseded": len(versions) - 1}:
            yield f"{form}: {dict(statuses)}"
        chained = Counter(parent for item in versions for parent in item.derived_from if _is_in(parent, versions))
        yield from (f"{form}: {parent} is followed {count} times" for parent, count in chained.items() if count > 1)
    yield from (f"{item.status}: {item.title}" for item in told if item.status in {"stale", "contested", "candidate"})


def _is_in(identity: str, items: Sequence[Knowledge]) -> bool:
    return any(item.id == identity for item in items)


def _too_many(calls: Counter[str], fewest: Counter[str], killed: int) -> Iterator[str]:
    if calls.total() > fewest.total() + killed:
        yield f"{calls.total()} calls of the model, {fewest.total()} are needed and {killed} may be lost"


def _counted(calls: Path) -> Counter[str]:
    return Counter(line.split(" ", 1)[0] for line in calls.read_text(encoding="utf-8").splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill processes that keep one discussion, and see nothing is lost.")
    parser.add_argument("--turns", type=int, default=Plan.turns)
    parser.add_argument("--kills", type=int, default=Plan.kills)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="treering-soak-") as folder:
        outcome = soak(Plan(**vars(given)), Path(folder))
    sys.stdout.write("\n".join(outcome.figures()) + "\n")
    sys.exit(bool(outcome.wrong))


if __name__ == "__main__":
    main()
