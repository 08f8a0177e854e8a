"""What finding texts costs beside other systems: the same texts, vectors and questions for all, in one run.

Paragraphs of HotpotQA, varied up to size, with its questions; vectors of the static embedder, made beforehand. Each
system fills its folder in one process and answers in a fresh one (`benchmarks.peer_systems`). The others are no
dependencies of Treering; they are looked for in a Python environment of their own:

    uv venv peers && uv pip install --python peers/bin/python lancedb txtai mem0ai
    TREERING_BENCH_PEERS=peers/bin/python python -m benchmarks cost --size 10000
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Collection, MissingData, load
from benchmarks.figures import Figure, Missing, Row, at_most, number
from benchmarks.paragraphs import varied
from benchmarks.peer_systems import SYSTEMS, whole
from benchmarks.plan import Plan, workplace
from treering.models.static_model import StaticEmbedder

SIZES = (2_000,)
_OURS = "Treering"
_OWN = frozenset({_OURS, "FTS5 + numpy"})
"""Systems that our own Python runs."""

_ROOT = Path(__file__).resolve().parents[1]
_CALL = "from benchmarks.peer_systems import main; main()"
_QUERY_RATIO = 1.2
_MEBIBYTE = 2**20
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""For all systems: threads of a product of matrices that wait for the others count as CPU seconds, too."""

Answers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Measure:
    """One column of the comparison: what it is called, and how the figures of a system give it."""

    name: str
    unit: str
    key: str
    scale: float = 1.0


_MEASURES = (
    _Measure("adds", "texts per CPU s", "adds"),
    _Measure("a question", "ms CPU", "query"),
    _Measure("recall at 5", "%", "recall"),
    _Measure("memory to fill", "MiB", "fill_memory"),
    _Measure("memory to answer", "MiB", "memory"),
    _Measure("disk", "MiB", "disk", 1 / _MEBIBYTE),
    _Measure("first answer of a fresh process", "s CPU", "first"),
)


def measure(plan: Plan) -> list[Row]:
    """Measure all systems that are there, at each size that was asked for."""
    try:
        collection = load("hotpotqa").collections[0]
    except MissingData as missing:
        return [Missing("cost beside others", str(missing))]
    return [row for size in plan.sizes or SIZES for row in _compared(collection, size)]


def _compared(collection: Collection, size: int) -> Iterator[Row]:
    found: dict[str, Answers] = {}
    missing: list[Missing] = []
    with workplace() as given:
        give(given, collection, size)
        for name in SYSTEMS:
            try:
                found[name] = _measured(name, given)
            except MissingSystem as error:
                missing.append(Missing(f"{size:,}: {name}", str(error)))
            told = ", ".join(f"{key} {number(value)}" for key, value in found.get(name, {}).items())
            print(f"  {size:,} texts, {name}: {told or missing[-1].why}", file=sys.stderr, flush=True)
    for each in _MEASURES:
        for name, answers in found.items():
            ratio = answers[each.key] / (found[_OURS][each.key] or 1)
            target = at_most(_QUERY_RATIO * found["FTS5 + numpy"][each.key]) if _is_held(each, name) else None
            note = "" if name == _OURS else f"{ratio:.2g} × ours"
            yield Figure(f"{size:,}: {each.name}, {name}", each.scale * answers[each.key], each.unit, target, note)
    yield from missing


def _is_held(measured: _Measure, name: str) -> bool:
    return name == _OURS and measured.key == "query"


class MissingSystem(Exception):
    """A system is not installed; the message says where it was looked for."""


def give(folder: Path, collection: Collection, size: int) -> None:
    """Write texts, questions and their vectors: first the paragraphs that answer, then others up to size."""
    asked = collection.questions
    wanted = set().union(*(question.gold for question in asked))
    ordered = sorted(collection.passages, key=lambda passage: passage.id not in wanted)
    made = varied([(passage.title, passage.text) for passage in ordered], size)
    ids = [passage.id for passage in ordered[:size]] + [f"{title} #{n}" for n, (title, _) in enumerate(made)]
    texts = [{"id": ids[n], "title": title, "text": text} for n, (title, text) in enumerate(made)]
    kept = {text["id"] for text in texts}
    questions = [{"text": one.text, "gold": sorted(one.gold)} for one in asked if one.gold <= kept]
    embedder = StaticEmbedder()
    for name, rows, spoken in (
        ("texts", texts, [whole(text) for text in texts]),
        ("questions", questions, [str(question["text"]) for question in questions]),
    ):
        (folder / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        np.save(folder / f"{name}.npy", embedder.embed_documents(spoken))


def _measured(name: str, given: Path) -> Answers:
    with workplace() as folder:
        filled = _run(name, "fill", folder, given)
        answered = _run(name, "ask", folder, given)
    return {**filled, "fill_memory": filled["memory"], **answered}


def _run(name: str, what: str, folder: Path, given: Path) -> dict[str, float]:
    """Run a system in a process of its own. Raises `MissingSystem` where it is not installed."""
    python = sys.executable if name in _OWN else os.environ.get("TREERING_BENCH_PEERS", "")
    if not python:
        raise MissingSystem("set TREERING_BENCH_PEERS to the Python of an environment that has it")
    command: Sequence[str] = (python, "-c", _CALL, what, name, str(folder))
    environment = {**os.environ, "TREERING_BENCH_GIVEN": str(given), **_ONE_THREAD}
    ended = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MissingSystem(f"it ended with {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    if "missing" in answer:
        raise MissingSystem(f"{python} has no module {answer['missing']}; install it there")
    return answer
