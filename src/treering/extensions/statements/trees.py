"""Boosted trees for the probability that a statement ends or replaces an earlier one.

`pairs.json` contains them and the command that fits them to labelled conversations.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TREES = Path(__file__).with_name("pairs.json")


@dataclass(frozen=True, slots=True)
class Trees:
    """Decision trees with the same test at each node of a level: whether a feature exceeds a threshold."""

    names: Mapping[str, int]
    """The column of each feature."""
    columns: npt.NDArray[np.intp]
    thresholds: npt.NDArray[np.float64]
    """The column and the threshold of each test. Trees share tests: a tenth of them differ."""
    tests: npt.NDArray[np.intp]
    """For each level the test of each tree."""
    leaves: npt.NDArray[np.float64]
    start: float

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Trees":
        """Read trees as they are stored: a list of questions and the values of the leaves for each."""
        questions = [(name, threshold) for tree in stored["trees"] for name, threshold in tree["questions"]]
        places = {question: place for place, question in enumerate(dict.fromkeys(questions))}
        names = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in questions))}
        tests = np.array([places[question] for question in questions], np.intp)
        return cls(
            names,
            np.array([names[name] for name, _ in places], np.intp),
            np.array([threshold for _, threshold in places]),
            np.ascontiguousarray(tests.reshape(len(stored["trees"]), -1).T),
            np.array([tree["leaves"] for tree in stored["trees"]]),
            stored["start"],
        )

    def chances(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """Return the probability for each row of features."""
        answers = self._matrix(rows).take(self.columns, axis=1) > self.thresholds
        leaf = sum(answers.take(tests, axis=1) * (1 << level) for level, tests in enumerate(self.tests))
        sums = self.start + self.leaves[np.arange(len(self.leaves)), leaf].sum(axis=1)
        chances: list[float] = (1 / (1 + np.exp(-sums))).tolist()
        return chances

    def _matrix(self, rows: Sequence[Mapping[str, float]]) -> npt.NDArray[np.float64]:
        column_of = self.names.get
        lines: list[list[float]] = []  # a list is set in half the time of an array
        for signs in rows:
            line = [0.0] * len(self.names)
            for name, value in signs.items():
                if (column := column_of(name)) is not None:
                    line[column] = value
            lines.append(line)
        return np.array(lines, np.float64)


@cache
def trees_in(path: Path) -> Trees:
    """Return the trees in a file."""
    return Trees.of(json.loads(path.read_text("utf-8")))
