"""Whether a hit shows the line that answers: questions about public repositories, labelled by hand.

A label is the path of a file at a commit and a part of the line. A question is found if one of the first hits has
that line in its passage, and the line is visible if a hit shows it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.code_data import clone_of
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.plan import Plan
from treering import Space
from treering.verbs.reading import ShownHit, ShownPassage

_LABELS = Path(__file__).with_name("agent_lines.json")
_HITS = 10
_QUICK_QUESTIONS = 2


@dataclass(frozen=True, slots=True)
class LineQuestion:
    """A question, and the line that answers it: a part of it, in a file."""

    question: str
    path: str
    line: str


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """Whether the hits of a question have the line that answers in their passages, and whether one shows it."""

    found: bool
    visible: bool


def measure(plan: Plan, tuned_on: tuple[str, ...]) -> list[Row]:
    """Ask the questions of each repository, and sum up those tuned on and the others."""
    rows: list[Row] = []
    tuned: list[ShownAnswer] = []
    others: list[ShownAnswer] = []
    for repository, labels in json.loads(_LABELS.read_text(encoding="utf-8")).items():
        questions = [LineQuestion(**one) for one in labels["questions"]]
        try:
            clone = clone_of(repository)
        except MissingData as missing:
            rows.append(Missing(f"lines, {repository}", str(missing)))
            continue
        with space_at(clone, labels["commit"], plan.cache) as space:
            asked = questions[: _QUICK_QUESTIONS if plan.quick else None]
            (tuned if repository in tuned_on else others).extend(shown_answer(space, one) for one in asked)
    return [*rows, *_rows("lines, tuned on", tuned), *_rows("lines, other repositories", others)]


def _rows(name: str, answers: list[ShownAnswer]) -> Iterator[Row]:
    if not answers:
        return
    found = [one for one in answers if one.found]
    visible = sum(one.visible for one in found)
    of = f"of {len(answers)} questions"
    yield Figure(f"{name}: in the first {_HITS} hits", 100 * len(found) / len(answers), "%", None, of)
    yield Figure(
        f"{name}: visible in the hit", 100 * visible / max(len(found), 1), "%", at_least(90), f"of {len(found)} found"
    )
    yield Figure(f"{name}: visible at all", 100 * visible / len(answers), "%", None, of)


def shown_answer(space: Space, asked: LineQuestion) -> ShownAnswer:
    """Ask a question as the command line does."""
    hits = space.query("search", input={"text": asked.question}, options={"limit": _HITS}).hits
    passages = [one for hit in hits if _path(hit) == asked.path for one in (hit, *hit.more)]
    return ShownAnswer(
        found=any(asked.line in one.text for one in passages), visible=any(_shows(one, asked.line) for one in passages)
    )


def _path(hit: ShownHit) -> str:
    return hit.place.partition("#")[0].partition(" @ ")[0]


def _shows(passage: ShownHit | ShownPassage, line: str) -> bool:
    lines = passage.text.split("\n")
    return any(line in lines[place] for place in passage.lines)
