"""An embedder without a model: texts that share words are near each other, and that is all it knows."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from treering.derived.analysis import index_text
from treering.ports.embedder import Vector


class HashingEmbedder:
    """Bags of stemmed words, hashed onto `dimension` axes with a sign each (feature hashing), unit length.

    Deterministic and quick: for tests, and for people who write backends.
    """

    unrelated_below = 0.62
    """More than by chance: with few axes, words that differ often share one."""

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = dimension

    @property
    def model_id(self) -> str:
        """Name what made the vectors."""
        return f"hashing/{self.dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts: `float32[n, dim]`, unit length."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else self._zeros(0)

    def embed_query(self, text: str) -> Vector:
        """Embed one text: `float32[dim]`, unit length."""
        vector = self._zeros(1)[0]
        # An empty text has to lie somewhere too.
        for term in index_text(text).split() or [""]:
            number = int.from_bytes(blake2b(term.encode(), digest_size=8).digest())
            vector[number % self.dimension] += 1.0 if number >> 63 else -1.0
        norm = np.linalg.norm(vector)
        if not norm:  # words that cancelled each other out
            vector[0] = norm = np.float32(1)
        unit: Vector = (vector / norm).astype(np.float32)
        return unit

    def _zeros(self, count: int) -> Vector:
        return np.zeros((count, self.dimension), np.float32)
