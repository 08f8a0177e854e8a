"""Attacks on the memory client: processes killed in the middle of buffered writes, and many clients at once."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import treering
from attacks.attack import Attack, Count

_TESTS = Path(__file__).parents[2] / "tests"
_CLIENTS = _TESTS / "memories" / "client"
sys.path.append(str(_CLIENTS))
parts: Any = import_module("client_parts")
"""The configurations of the tests."""

_ROUNDS = 100
_MOST_ACKNOWLEDGED = 60
_AT_ONCE = 16
_EACH = 10
_ID_LENGTH = 20  # an id that was printed in part was not told to anybody


def _worker(path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that stores memories and prints each id when `store` has returned."""
    command = [sys.executable, str(_CLIENTS / "client_worker.py"), str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=_CLIENTS)


def _acknowledged(path: Path, round_: int, most: int) -> Iterator[str]:
    """Let a process store until it has told of so many memories; kill it then, whatever it is at."""
    with _worker(path, f"round {round_}") as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout, start=1):
            if number == most:
                process.kill()
            if len(line.strip()) > _ID_LENGTH and line.endswith("\n"):
                yield line.strip()


def _kept(path: Path) -> list[str]:
    """Return the ids of all that was ever written, after a client has taken over what was left."""
    with parts.blocking(parts.config(backend="sqlite", sqlite={"path": str(path)})) as client:
        client.retrieve("alignment")
    with treering.open(str(path), background=False, embedder=parts.PARTS["embedder"]) as space:
        return [one.target for one in space.engine.ledger.events(after=0) if one.event_type == "created"]


def _killed(folder: Path) -> Count:
    """Kill 100 processes in a row that write to one space, each at another moment."""
    path, moments = folder / "memory.db", random.Random(5)
    told = [
        identity
        for number in range(_ROUNDS)
        for identity in _acknowledged(path, number, moments.randint(1, _MOST_ACKNOWLEDGED))
    ]
    counts = Counter(_kept(path))
    lost, twice = sum(not counts[one] for one in told), sum(count > 1 for count in counts.values())
    left = len(list(Path(f"{path}.journal").glob("*")))
    note = f"{len(told)} acknowledged in {_ROUNDS} rounds, {lost} lost, {twice} written twice, {left} journals left"
    return Count(len(told), lost + twice + left, note)


def _crowded(folder: Path) -> Count:
    """Use one space from 16 processes at once."""
    path = folder / "memory.db"
    processes = [_worker(path, f"client {number}", str(_EACH)) for number in range(_AT_ONCE)]
    answers = [process.communicate() for process in processes]
    told = [line for out, _ in answers for line in out.split()]
    missing = _AT_ONCE * _EACH - len(set(told) & set(_kept(path)))
    failed = [process.returncode for process in processes if process.returncode]
    note = f"{missing} of {_AT_ONCE * _EACH} memories missing. {_first_line(answers)}".strip()
    return Count(_AT_ONCE, len(failed) + missing, note)


def _first_line(answers: Sequence[tuple[str, str]]) -> str:
    said = [error.strip().splitlines()[-1] for _, error in answers if error.strip()]
    return said[0] if said else ""


ATTACKS = (
    Attack("kill -9 in the middle of buffered writes, 100 rounds: what was acknowledged is there, once", _killed),
    Attack("16 processes with a client each store and retrieve in one space", _crowded),
)
