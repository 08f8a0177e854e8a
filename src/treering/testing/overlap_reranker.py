"""A reranker without a model: a text that has more of the question's words scores higher, and that is all it knows."""

from collections.abc import Sequence

import numpy as np

from treering.derived.analysis import index_text
from treering.ports.reranker import Scores


class OverlapReranker:
    """Scores a text by the share of the question's words in it: for tests, and for people who write backends."""

    @property
    def model_id(self) -> str:
        """Name what made the scores."""
        return "overlap"

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text: `float32[n]`, from 0 to 1."""
        asked = set(index_text(question).split())
        return np.array([len(asked & set(index_text(text).split())) / max(len(asked), 1) for text in texts], np.float32)
