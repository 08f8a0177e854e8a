"""The port for turning text into vectors."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""`float32[dim]`, unit length; or `float32[n, dim]` with rows of unit length."""


class Embedder(Protocol):
    """Turns text into vectors of unit length, so that a dot product is a cosine.

    A vector must be a function of the text and `model_id` alone, and not of the texts embedded beside it:
    vectors are cached by content, and a rebuilt index has to equal the one that grew.
    """

    @property
    def model_id(self) -> str:
        """What made the vector: model, quantisation, dimension, and version of the text preparation.

        Vectors are comparable exactly when their `model_id` is equal.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        ...

    @property
    def unrelated_below(self) -> float:
        """The cosine below which a text that shares no word with a question says nothing about it: -1 to 1.

        It belongs to the model: some put all texts close together, others spread them. To find it, embed questions
        with texts that answer them and texts that do not, and take the cosine that parts the two best.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed stored texts: `float32[n, dim]`, unit length, in the order given. Empty texts are allowed."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed what somebody asks: `float32[dim]`, unit length."""
        ...
