"""The dimension of vectors, checked in front of libraries that would not say what is wrong."""

from treering.core.errors import InvalidInput
from treering.ports.vectors import Vector


def check_dimension(vector: Vector, dimension: int) -> None:
    """Raise `InvalidInput` for a vector of another shape."""
    if vector.shape != (dimension,):
        raise InvalidInput(
            f"A vector of shape {vector.shape} cannot be compared.", hint=f"This index keeps {dimension} components."
        )
