"""What each operation costs as a space grows, in prose, conversations and code (`benchmarks.scale_texts`).

    TREERING_BENCH_DATA=… TREERING_BENCH_CLONES=… python -m benchmarks scale
    TREERING_BENCH_KINDS=prose python -m benchmarks scale --size 1000000

Each step runs in a process of its own (`benchmarks.scale_steps`). Results are merged into `docs/benchmarks/scale.json`,
or the file of `--keep`; `python -m benchmarks.scale_page` writes them into the page.

`TREERING_BENCH_SPACES=FOLDER` keeps the spaces and the figures of each step in a folder. A run that was stopped then
continues with the step that was running, and filling a space with the texts that are missing.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, Target, at_least, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.processes import probe
from benchmarks.scale_texts import KINDS
from treering import __version__

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs/benchmarks/scale.json"
SIZES = (1_000, 10_000, 100_000)
_QUICK_SIZES = (200, 400)
_SCRIPT_SIZE = 100_000
"""The script is measured up to this size: its search and its memory grow with the space."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Threads of a product of matrices that wait for the others count as CPU seconds, too."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of a space: its name, its unit, and its targets by size."""

    name: str
    unit: str
    targets: Mapping[int, Target]


def _all(target: Target) -> Mapping[int, Target]:
    return dict.fromkeys((1_000, 10_000, 100_000, 300_000, 1_000_000), target)


MEASURES: Mapping[str, Measure] = {
    "passages": Measure("passages", "", {}),
    "bulk": Measure("bulk add", "passages per CPU s", {}),
    "note": Measure("one note", "ms", {}),
    "search": Measure("search", "ms", _all(at_most(60))),
    "search_after_note": Measure("a note and the search after it", "ms", {}),
    "context": Measure("context", "ms", _all(at_most(120))),
    "brief": Measure("brief", "ms", {}),
    "recall": Measure("vector recall at 10 of exact search", "%", _all(at_least(98))),
    "first": Measure("first answer of a new process", "s", _all(at_most(1.5))),
    "prepare": Measure("the same, preparing tables", "s", {}),
    "memory": Measure("resident memory", "MiB", {100_000: at_most(250), 1_000_000: at_most(1_200)}),
    "own_memory": Measure("– not mapped from files", "MiB", {}),
    "prepare_memory": Measure("– at most, preparing tables", "MiB", {}),
    "disk": Measure("disk, space", "MiB", {}),
    "prepared": Measure("disk, prepared tables", "MiB", {}),
    "read": Measure("reading ahead in the background", "s", {}),
    "read_memory": Measure("– memory at most", "MiB", {}),
    "status": Measure("`status`", "s", {}),
    "verify": Measure("verification of the audit log", "s", {}),
    "backup": Measure("backup, verified", "s", {}),
    "erase": Measure("erasure of one source", "s", _all(at_most(1))),
    "erase_last": Measure("– of the last one added", "s", _all(at_most(1))),
    "maintain_memory": Measure("– memory at most of these", "MiB", {}),
    "lint": Measure("`lint structure`", "s", {}),
    "lint_memory": Measure("– memory at most", "MiB", {}),
    "reopen": Measure("first answer after `kill -9`", "s", {}),
    "lost": Measure("– acknowledged notes lost", "", _all(at_most(0))),
    "merge_first": Measure("first merge of a copy with 1 % more", "s", {}),
    "merge": Measure("later merge of 1 % more", "s", {}),
    "script_bulk": Measure("script: bulk add", "passages per CPU s", {}),
    "script_note": Measure("script: one note", "ms", {}),
    "script_search": Measure("script: search", "ms", {}),
    "script_memory": Measure("script: resident memory", "MiB", {}),
    "script_disk": Measure("script: disk", "MiB", {}),
}
"""The figures in order of the table."""

_STEPS = (
    *("scale_fill", "scale_read", "scale_prepare", "scale_first", "scale_ask"),
    *("scale_maintain", "scale_lint", "scale_kill", "scale_merge"),
)
_BYTES = frozenset({"disk", "prepared", "script_disk"})


def measure(plan: Plan) -> list[Row]:
    """Measure each kind of text at each size."""
    os.environ.update(_ONE_THREAD)
    named = os.environ.get("TREERING_BENCH_KINDS", "")
    rows: list[Row] = []
    for kind in named.split(",") if named else KINDS:
        try:
            next(KINDS[kind].items())
        except MissingData as missing:
            rows.append(Missing(f"scale, {kind}", str(missing)))
            continue
        for size in plan.sizes or (_QUICK_SIZES if plan.quick else SIZES):
            figures = _measured(kind, size)
            rows += _rows(kind, size, figures)
            if not plan.quick:
                keep(plan.keep or FILE, kind, size, figures)
    return rows


def keep(file: Path, kind: str, size: int, figures: Mapping[str, float]) -> None:
    """Merge the figures of a space into a file, with the commit and the machine."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    run = f"Treering {__version__}, commit {commit.stdout.strip()}, {datetime.now(UTC):%Y-%m-%d}, {machine}"
    known.setdefault(kind, {})[str(size)] = {"run": run, **{name: float(f"{one:.4g}") for name, one in figures.items()}}
    known[kind] = {size: known[kind][size] for size in sorted(known[kind], key=int)}
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _measured(kind: str, size: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    steps = [*_STEPS, *(["scale_script"] if size <= _SCRIPT_SIZE else [])]
    with _folder(kind, size) as folder:
        for step in steps:
            done = folder / f"{step}.json"
            if not done.exists():
                done.write_text(json.dumps(probe(step, folder=str(folder), kind=kind, size=size)), encoding="utf-8")
            figures |= json.loads(done.read_text(encoding="utf-8"))
            print(f"  {kind}, {size:,}, {step}", file=sys.stderr, flush=True)
    return {name: one / 2**20 if name in _BYTES else one for name, one in figures.items()}


def _folder(kind: str, size: int) -> AbstractContextManager[Path]:
    """Return a folder for a space: one that is kept, or a temporary one."""
    spaces = os.environ.get("TREERING_BENCH_SPACES")
    if not spaces:
        return workplace()
    folder = Path(spaces) / f"{kind}-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    return nullcontext(folder)


def _rows(kind: str, size: int, figures: Mapping[str, float]) -> Iterator[Figure]:
    for name, one in MEASURES.items():
        if name in figures:
            yield Figure(f"{kind}, {size:,}: {one.name}", figures[name], one.unit, one.targets.get(size))
