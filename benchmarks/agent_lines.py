"""Whether a hit shows the line that answers: questions about public repositories, labelled by hand.

A label is the path of a file at a commit and a part of the line. A question is found if one of the first hits has
that line in its passage, and the line is visible if a hit shows it. The rules are tuned on the repositories of
the set `tuning`; the others, `held out`, check them.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from benchmarks.code_data import clone_of
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least
from benchmarks.plan import Plan
from treering import Space
from treering.extensions.mcp.dispatcher import LINES_FOR_MODELS
from treering.retrieval import limits
from treering.retrieval.tuning import TUNING
from treering.verbs.shown_hits import ShownHit, ShownPassage, lines_shown_of

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


_SURFACES = {"a person": TUNING.lines.max_shown, "a model": LINES_FOR_MODELS}
"""Lines of a hit, by who reads it."""
_GROUPS = {"tuning": "tuned on", "held out": "other repositories"}


def measure(plan: Plan) -> list[Row]:
    """Ask the questions of each repository, and sum up those tuned on and the others."""
    rows: list[Row] = []
    answers: dict[tuple[str, str], list[ShownAnswer]] = defaultdict(list)
    for repository, labels in json.loads(_LABELS.read_text(encoding="utf-8")).items():
        try:
            clone = clone_of(repository)
        except MissingData as missing:
            rows.append(Missing(f"lines, {repository}", str(missing)))
            continue
        group = _GROUPS[labels["set"]]
        questions = [LineQuestion(**one) for one in labels["questions"]]
        with space_at(clone, labels["commit"], plan.cache) as space:
            for reader, lines in _SURFACES.items():
                asked = questions[: _QUICK_QUESTIONS if plan.quick else None]
                answers[group, reader] += (shown_answer(space, one, lines) for one in asked)
    return [*rows, *chain.from_iterable(_rows(*named, given) for named, given in answers.items())]


def _rows(group: str, reader: str, answers: list[ShownAnswer]) -> Iterator[Row]:
    found = [one for one in answers if one.found]
    visible = sum(one.visible for one in found)
    if reader == "a person":
        of = f"of {len(answers)} questions"
        yield Figure(f"lines, {group}: in the first {_HITS} hits", 100 * len(found) / len(answers), "%", None, of)
    of = f"of {len(found)} found; {_SURFACES[reader]} lines of a hit"
    share = 100 * visible / max(len(found), 1)
    yield Figure(f"lines, {group}: visible to {reader}", share, "%", at_least(90), of)


def shown_answer(space: Space, asked: LineQuestion, lines: int) -> ShownAnswer:
    """Ask a question, and look at what its hits show."""
    options = {"limit": _HITS, "lines": lines}
    hits = space.query("search", input={"text": asked.question}, options=options).hits
    passages = [one for hit in hits if _path(hit) == asked.path for one in (hit, *hit.more)]
    return ShownAnswer(
        found=any(asked.line in one.text for one in passages), visible=any(_shows(one, asked.line) for one in passages)
    )


def _path(hit: ShownHit) -> str:
    return hit.place.partition("#")[0].partition(" @ ")[0]


def _shows(passage: ShownHit | ShownPassage, line: str) -> bool:
    return any(line in row.text for row in lines_shown_of(passage, frozenset(), max_chars=limits.MAX_LINE_CHARS))
