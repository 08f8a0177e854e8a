"""Measuring in fresh processes: start-up, memory, and many writers at once."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.costs import Cost

_ROOT = Path(__file__).resolve().parents[1]
_MEBIBYTE = 2**20


def run_alone(arguments: Sequence[str]) -> Cost:
    """Run a Python command line (what follows `python`) to its end. Raises `CalledProcessError` where it fails."""
    start, used = time.perf_counter(), cpu_of_children()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, cwd=_ROOT, check=True)
    return Cost(time.perf_counter() - start, cpu_of_children() - used)


def cpu_of_children() -> float:
    """Give the CPU seconds of all processes started from here that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_probe(name: str, **given: Any) -> "subprocess.Popen[str]":
    """Start a function of `benchmarks.probes` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.probes", name, json.dumps(given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT)


def answer_of(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for a probe and give its answer. Raises `CalledProcessError` where it fails."""
    out, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    answer: dict[str, Any] = json.loads(out)
    return answer


def probe(name: str, **given: Any) -> dict[str, Any]:
    """Run a function of `benchmarks.probes` in a process of its own and give its answer."""
    return answer_of(start_probe(name, **given))


def peak_memory() -> float:
    """Give the most memory this process has had resident so far, in MiB."""
    try:
        # Not `getrusage`: there a process inherits the peak of the one that started it.
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (_MEBIBYTE if sys.platform == "darwin" else 1024)
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def disk_used(path: Path) -> int:
    """Give the bytes a space takes: its file and those beside it that belong to it."""
    return sum(file.stat().st_size for file in path.parent.glob(path.name + "*"))
