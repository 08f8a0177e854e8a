"""Pointers for prompts as people type them: named files, tests and lines, tracebacks, bugs, questions, small talk.

Each prompt is labeled with the files that an agent should open first; a prompt without such files should get nothing.
Prompts of ten further repositories are also labeled with the lines of the definitions to open: a place in another
definition of a right file is wrong. Half of these repositories are held out. The labels were written before the answers
were seen. The spaces contain the repositories at the commits in the file.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.code_data import clone_of
from benchmarks.code_files import space_at
from benchmarks.data import MissingData
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.plan import Plan
from treering import Space
from treering.extensions.coding_agents.pointers import pointers
from treering.extensions.coding_agents.shown_lines import HookLine, within_budget
from treering.retrieval.text.analysis import estimate_tokens

LABELS = Path(__file__).with_name("agent_prompts.json")
_FIRST = 3
_QUICK_PROMPTS = 4


@dataclass(frozen=True, slots=True)
class LabeledPrompt:
    """A prompt, its kind, and the files that an agent should open first; none if it needs no pointers.

    `lines`: the definitions to open, such as `src/app.py:10-20`; none if only files are labeled.
    """

    repository: str
    kind: str
    prompt: str
    right: frozenset[str]
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The pointers that one prompt got: the path and line (0: a whole file) of each place, and the tokens of all."""

    places: Sequence[tuple[str, int]]
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A prompt and its pointers."""

    labeled: LabeledPrompt
    got: Answered

    @property
    def right(self) -> list[bool]:
        """Whether each place is in a right file."""
        return [path in self.labeled.right for path, _ in self.got.places]

    @property
    def right_lines(self) -> list[bool]:
        """Whether each place is in a definition to open."""
        return [any(_contains(one, path, line) for one in self.labeled.lines) for path, line in self.got.places]


@dataclass(frozen=True, slots=True)
class Labels:
    """The commit of each repository, the repositories that nothing is tuned on, and the prompts."""

    commits: Mapping[str, str]
    held_out: frozenset[str]
    prompts: Sequence[LabeledPrompt]


def read_prompts() -> Labels:
    """Return the labeled prompts."""
    data = json.loads(LABELS.read_text(encoding="utf-8"))
    prompts = [LabeledPrompt(**{**one, "right": frozenset(one["right"])}) for one in data["prompts"]]
    return Labels(data["commits"], frozenset(data["held_out"]), prompts)


def measure(plan: Plan) -> Iterator[Row]:
    """Ask the prompts of every repository that has a clone."""
    labels = read_prompts()
    outcomes: list[Outcome] = []
    for repository, commit in labels.commits.items():
        prompts = [one for one in labels.prompts if one.repository == repository]
        asked = prompts[: _QUICK_PROMPTS if plan.quick else None]
        try:
            with space_at(clone_of(repository), commit, plan.cache) as space:
                outcomes += [Outcome(one, answered(space, one.prompt)) for one in asked]
        except MissingData as missing:
            yield Missing(f"typed prompts, {repository}", str(missing))
    of_files = [one for one in outcomes if not one.labeled.lines]
    for kind in dict.fromkeys(one.labeled.kind for one in of_files):
        yield from _figures(f"typed prompts, {kind}, tuned on", [one for one in of_files if one.labeled.kind == kind])
    yield from _figures("typed prompts, all, tuned on", of_files)
    for name, is_held_out in (("typed prompts with lines, tuned on", False), ("typed prompts with lines", True)):
        of_lines = [one for one in outcomes if one.labeled.lines]
        chosen = [one for one in of_lines if (one.labeled.repository in labels.held_out) == is_held_out]
        yield from _figures(name, chosen)
        yield from _line_figures(name, chosen)


def answered(space: Space, prompt: str) -> Answered:
    """Ask for the pointers of a prompt."""
    began = time.perf_counter()
    text, shown = within_budget(pointers(space, prompt))
    return Answered([*_shown_places(shown)], estimate_tokens(text) if text else 0, time.perf_counter() - began)


def _figures(name: str, outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    needed = [one for one in outcomes if one.labeled.right]
    shown = [one for one in needed if one.got.tokens]
    others = [one for one in outcomes if not one.labeled.right]
    if needed:
        places = [right for one in needed for right in one.right]
        first = [any(one.right[:_FIRST]) for one in needed]
        yield Figure(f"{name}: with pointers", _share(one.got.tokens > 0 for one in needed), "%", at_least(60))
        yield Figure(f"{name}: a right file first", _share(any(one.right[:1]) for one in needed), "%")
        yield Figure(f"{name}: a right file in the first {_FIRST}", _share(first), "%", at_least(75))
        yield Figure(f"{name}: right places", _share(places), "%", note=f"of {len(places)} shown")
    if others:
        yield Figure(f"{name}: pointers without need", _share(bool(one.got.tokens) for one in others), "%", at_most(2))
    if shown:
        yield Figure(f"{name}: pointers", median(one.got.tokens for one in shown), "tokens", at_most(150))
    if outcomes:
        yield Figure(f"{name}: time", 1000 * median(one.got.seconds for one in outcomes), "ms", at_most(300))


def _line_figures(name: str, outcomes: Sequence[Outcome]) -> Iterator[Figure]:
    if outcomes:
        places = [right for one in outcomes for right in one.right_lines]
        yield Figure(f"{name}: a right line first", _share(any(one.right_lines[:1]) for one in outcomes), "%")
        yield Figure(f"{name}: a right line", _share(any(one.right_lines) for one in outcomes), "%")
        yield Figure(f"{name}: places with a right line", _share(places), "%", note=f"of {len(places)} shown")


def _shown_places(shown: Sequence[HookLine]) -> Iterator[tuple[str, int]]:
    """Yield the path and line of places; entries of memory and commands begin with a label."""
    for one in shown:
        path, colon, line = (place := one.text.split(" ")[0]).rpartition(":")
        if line:
            yield (path, int(line)) if colon and line.isdigit() else (place, 0)


def _contains(lines: str, path: str, line: int) -> bool:
    """Return whether labeled lines, such as `src/app.py:10-20`, contain a line of a file."""
    labeled, _, span = lines.rpartition(":")
    first, _, last = span.partition("-")
    return path == labeled and int(first) <= line <= int(last)


def _share(values: Iterable[bool]) -> float:
    every = [*values]
    return 100 * sum(every) / len(every) if every else 0.0
