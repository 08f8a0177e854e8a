"""Recall question by question: what one run kept, and another is compared with.

Two runs ask the same questions, so their difference is taken question by question (a paired bootstrap): it shows
gains of one or two points that lie within the intervals of both runs taken by themselves.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.figures import Figure, Missing, Row, at_least

Found = npt.NDArray[np.float64]
"""Percent of the evidence found, by question and cut-off: `float64[n, cutoffs]`."""

_ROUNDS = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions in percent, with the bounds of its bootstrap 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall of one set by question and cut-off; `questions` are the ids of the questions, in the order of `found`."""

    name: str
    cutoffs: tuple[int, ...]
    found: Found
    questions: tuple[str, ...]

    def __str__(self) -> str:
        figures = "   ".join(f"R@{cutoff} {estimate}" for cutoff, estimate in self.at().items())
        return f"{self.name:12} {len(self.found):4} questions   {figures}"

    def at(self) -> dict[int, Estimate]:
        """Estimate the recall at each cut-off."""
        return dict(zip(self.cutoffs, estimates(self.found), strict=True))

    def gain_over(self, other: "Recall") -> dict[int, Estimate]:
        """Estimate how much more is found than by another configuration, at the questions and cut-offs of both.

        Raises ValueError where the two have no question or no cut-off in common.
        """
        cutoffs = [cutoff for cutoff in self.cutoffs if cutoff in other.cutoffs]
        asked = [question for question in self.questions if question in set(other.questions)]
        if not cutoffs or not asked:
            raise ValueError(f"{self.name}: no question or no cut-off is in both runs")
        return dict(zip(cutoffs, estimates(self._of(asked, cutoffs) - other._of(asked, cutoffs)), strict=True))

    def _of(self, questions: Sequence[str], cutoffs: Sequence[int]) -> Found:
        rows = {question: row for row, question in enumerate(self.questions)}
        columns = [self.cutoffs.index(cutoff) for cutoff in cutoffs]
        return self.found[np.ix_([rows[question] for question in questions], columns)]


def estimates(found: Found) -> list[Estimate]:
    """Estimate the mean of each column over questions; the interval by drawing questions again."""
    drawn = np.random.default_rng(0).integers(len(found), size=(_ROUNDS, len(found)))
    low, high = np.percentile(found[drawn].mean(axis=1), (2.5, 97.5), axis=0)
    return [Estimate(*map(float, bounds)) for bounds in zip(found.mean(axis=0), low, high, strict=True)]


def keep(file: Path, recalls: Mapping[str, Recall]) -> None:
    """Write recalls, by configuration, to a file; what it holds of other sets stays in it."""
    held = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for configuration, recall in recalls.items():
        rows = dict(zip(recall.questions, recall.found.tolist(), strict=True))
        held.setdefault(recall.name, {})[configuration] = {"cutoffs": recall.cutoffs, "found": rows}
    file.write_text(json.dumps(held, ensure_ascii=False, indent=1), encoding="utf-8")


def kept(file: Path, name: str) -> dict[str, Recall]:
    """Read what a file holds of the set `name`, by configuration; nothing where it does not have the set."""
    held = json.loads(file.read_text(encoding="utf-8")).get(name, {})
    return {
        configuration: Recall(
            name,
            tuple(one["cutoffs"]),
            np.array(list(one["found"].values()), np.float64),
            tuple(one["found"]),
        )
        for configuration, one in held.items()
    }


def compared(recalls: Mapping[str, Recall], file: Path) -> Iterator[Row]:
    """Say how much more is found than the run that wrote `file` found, for each configuration."""
    for configuration, recall in recalls.items():
        before = kept(file, recall.name).get(configuration)
        if before is None:
            yield Missing(f"{recall.name}, {configuration}, against {file.name}", "it is not in that file")
            continue
        for cutoff, gain in recall.gain_over(before).items():
            name = f"{recall.name} R@{cutoff}, {configuration}, against {file.name}"
            verdict = "worse" if gain.high < 0 else "better" if gain.low > 0 else "within noise"
            note = f"95 % [{gain.low:+.1f}, {gain.high:+.1f}], paired: {verdict}"
            yield Figure(name, gain.mean, "points", None, note)


def gains(recall: Recall, without: Recall, by: str) -> Iterator[Figure]:
    """Say what one configuration finds more than another, which it should never find less than."""
    for cutoff, gain in recall.gain_over(without).items():
        note = f"95 % [{gain.low:+.1f}, {gain.high:+.1f}], paired"
        yield Figure(f"{recall.name} R@{cutoff}, gain by {by}", gain.mean, "points", at_least(0), note)
