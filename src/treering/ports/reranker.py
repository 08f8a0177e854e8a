"""The port for reading a question and a text together."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float32]
"""`float32[n]`: one score per text, higher is better, on a scale of the model's own."""


class Reranker(Protocol):
    """Tells how well texts answer a question, from both at once (a cross-encoder).

    That finds more than comparing vectors and costs a run of the model per text, so that it is only done for the best
    of what was found. A score must be a function of question, text and `model_id` alone, and not of other texts.
    """

    @property
    def model_id(self) -> str:
        """Name what made the scores."""
        ...

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text by how well it answers, in the order given. Empty texts are allowed."""
        ...
