"""An embedding model that a host gives as a function of texts."""

from collections.abc import Callable, Sequence

import numpy as np

from treering.core.errors import TreeringError, Unavailable
from treering.edges.models.calibration import unrelated_below
from treering.edges.models.unit_vectors import unit_vectors
from treering.ports.embedder import Vector

EmbeddingFunction = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, in their order; of any length, and of the same dimension always."""

_EMPTY = " "  # some models refuse a text without any character


class FunctionEmbedder:
    """An `Embedder` over a function, which is asked for a few texts at once: they tell how it spreads texts.

    `name` names the model: vectors of the same name and dimension are compared. Raises `Unavailable` for what the
    function raises.
    """

    def __init__(self, embed: EmbeddingFunction, name: str) -> None:
        self._embed = embed
        self._name = name
        self.unrelated_below, self.dimension = unrelated_below(lambda texts, query: self._asked(texts))  # noqa: ARG005

    @property
    def model_id(self) -> str:
        """Name the model and its dimension."""
        return f"{self._name}:{self.dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length, in the order given."""
        return self._asked(texts) if texts else np.empty((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> Vector:
        """Embed what somebody asks: `float32[dim]`, unit length."""
        return np.asarray(self._asked([text])[0], np.float32)

    def _asked(self, texts: Sequence[str]) -> Vector:
        try:
            rows = self._embed([text.encode("utf-8", "replace").decode() or _EMPTY for text in texts])
        except TreeringError:
            raise
        except Exception as error:
            # A function of a host raises what it likes.
            raise Unavailable(f"The embedding model {self._name} failed: {error!r}", hint="Look at it.") from error
        return unit_vectors(rows, count=len(texts), model=self._name)
