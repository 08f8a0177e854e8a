"""Measuring in fresh processes: start-up, memory, and many writers at once."""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.costs import Cost, cost_of

_ROOT = Path(__file__).resolve().parents[1]
_MEBIBYTE = 2**20


def run_alone(arguments: Sequence[str], folder: Path = _ROOT) -> Cost:
    """Run a Python command line (what follows `python`) to its end. Raises `CalledProcessError` where it fails."""
    command = [sys.executable, *arguments]
    return cost_of(partial(subprocess.run, command, stdout=subprocess.DEVNULL, cwd=folder, check=True))


def probe(name: str, **given: Any) -> dict[str, Any]:
    """Run a function of `benchmarks.probes` in a process of its own and return its answer."""
    return _answer_of(_start(name, given))


def race(name: str, processes: int, **given: Any) -> list[dict[str, Any]]:
    """Run a probe in several processes that begin their work together, and return all answers."""
    return race_each(name, [given] * processes)


def race_each(name: str, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run a probe once with each of what is given, in processes that begin together, and return all answers."""
    running = [_start(name, each) for each in given]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [_answer_of(process) for process in running]


def _start(name: str, given: dict[str, Any]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.probes", name, json.dumps(given)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT)


def _answer_of(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for a probe and return its answer. Raises `CalledProcessError` where it fails."""
    with process:
        out = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    answer: dict[str, Any] = json.loads(out)
    return answer


def peak_memory() -> float:
    """Return the most memory this process has had resident so far, in MiB."""
    try:
        # Not `getrusage`: there a process inherits the peak of the one that started it.
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (_MEBIBYTE if sys.platform == "darwin" else 1024)
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def disk_used(path: Path) -> int:
    """Return the bytes a space takes: its file and those beside it that belong to it."""
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))


def disk_used_in(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
