"""A reranker whose answers a test decides, and which notes what it was asked to read."""

import numpy as np


class CountingReranker:
    """Scores a text by how often a word stands in it."""

    model_id = "counting"

    def __init__(self, *, prefers):
        self.read = []
        self._prefers = prefers

    def score(self, question, texts):
        self.read += texts
        return np.array([text.casefold().count(self._prefers) for text in texts], np.float32)
