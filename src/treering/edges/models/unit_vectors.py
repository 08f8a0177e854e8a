"""Rows that an embedding model answers with, checked and brought to unit length."""

from collections.abc import Sequence

import numpy as np

from treering.core.errors import Unavailable
from treering.ports.embedder import Vector


def unit_vectors(rows: Sequence[Sequence[float]], *, count: int, model: str) -> Vector:
    """Return rows as `float32[n, dim]` of unit length. Raises `Unavailable` for what are not `count` directions."""
    try:
        vectors = np.asarray(rows, np.float32)
    except (ValueError, TypeError):
        vectors = np.empty(0, np.float32)
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise Unavailable(
            f"{model} did not answer with {count} vectors of equal length for {count} texts.", hint="Use another model."
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise Unavailable(f"{model} answered with a vector of zeros.", hint="Use another model.")
    unit: Vector = (vectors / lengths).astype(np.float32)
    return unit
