"""Questions that documentation answers beside questions that code answers: which of them search gets right.

The labels of `docs_or_code.json` were written from reading twelve public repositories, before anything was searched.
A question names every acceptable place, as `PATH` or `PATH#SECTION`. Half of the repositories are for tuning.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.code_data import clone_of
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row
from benchmarks.plan import Plan
from treering import Space
from treering.verbs.query.search import SearchReport
from treering.verbs.shown_hits import ShownHit

CUTOFFS = (1, 3)
_QUICK_REPOSITORIES = 1
_LABELS = Path(__file__).with_name("docs_or_code.json")


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where the first acceptable file and section came, counted from 1; 0 if among the first hits there was none."""

    question: str
    answered_by: str
    half: str
    file: int
    section: int


def measure(plan: Plan) -> list[Row]:
    """Ask every question of its repository, by words as right after ingest. `quick`: of one repository."""
    labels = json.loads(_LABELS.read_text(encoding="utf-8"))
    names = list(labels["repositories"])[: _QUICK_REPOSITORIES if plan.quick else None]
    try:
        ranks = [one for name in names for one in _asked(name, labels, plan.cache)]
    except MissingData as missing:
        return [Missing("documentation or code", str(missing))]
    return list(_figures(ranks))


def ranks_of(space: Space, question: Mapping[str, Any], half: str, *, semantic: bool = False) -> Ranks:
    """Search for a question twice: for files, and for passages."""
    places = [place.partition("#")[::2] for place in question["places"]]

    def first(group: str) -> int:
        options = {"limit": 10, "semantic": semantic, "group": group}
        report = space.query("search", input={"text": question["question"]}, options=options)
        assert isinstance(report, SearchReport)
        answers = (_answers(hit, places, whole=group == "source") for hit in report.hits)
        return next((rank for rank, answer in enumerate(answers, start=1) if answer), 0)

    return Ranks(question["question"], question["answered_by"], half, first("source"), first("none"))


def _asked(name: str, labels: Mapping[str, Any], cache: Path) -> Iterator[Ranks]:
    of = labels["repositories"][name]
    with space_at(clone_of(name), of["commit"], cache) as space:
        for question in labels["questions"]:
            if question["repository"] == name:
                yield ranks_of(space, question, of["half"])


def _answers(hit: ShownHit, places: Sequence[tuple[str, str]], *, whole: bool) -> bool:
    path = hit.origin.rpartition("#")[2]
    return any(path == file and (whole or section in f"{hit.heading}\n{hit.text}") for file, section in places)


def _figures(ranks: Sequence[Ranks]) -> Iterator[Figure]:
    for half in sorted({one.half for one in ranks}):
        for kind in ("documentation", "code"):
            of = [one for one in ranks if one.half == half and one.answered_by == kind]
            for what in ("file", "section"):
                for cutoff in CUTOFFS:
                    found = sum(0 < getattr(one, what) <= cutoff for one in of)
                    name = f"{half}, answered by {kind}: {what} @{cutoff}"
                    yield Figure(name, 100 * found / len(of), "%", None, f"{found} of {len(of)} questions")
