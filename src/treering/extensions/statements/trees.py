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
    leaves: npt.NDArray[np.float64]
    start: float

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Trees":
        """Read trees as they are stored: a list of questions and the values of the leaves for each."""
        questions = [question for tree in stored["trees"] for question in tree["questions"]]
        names = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in questions))}
        shape = (len(stored["trees"]), -1)
        return cls(
            names,
            np.array([names[name] for name, _ in questions], np.intp).reshape(shape),
            np.array([threshold for _, threshold in questions]).reshape(shape),
            np.array([tree["leaves"] for tree in stored["trees"]]),
            stored["start"],
        )

    def chances(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """Return the probability for each row of features."""
        matrix = np.zeros((len(rows), len(self.names)))
        for place, signs in enumerate(rows):
            for name, value in signs.items():
                if (column := self.names.get(name)) is not None:
                    matrix[place, column] = value
        answers = matrix[:, self.columns] > self.thresholds
        leaf = answers @ (1 << np.arange(self.columns.shape[1]))
        sums = self.start + self.leaves[np.arange(len(self.leaves)), leaf].sum(axis=1)
        chances: list[float] = (1 / (1 + np.exp(-sums))).tolist()
        return chances


@cache
def trees_in(path: Path) -> Trees:
    """Return the trees in a file."""
    return Trees.of(json.loads(path.read_text("utf-8")))
