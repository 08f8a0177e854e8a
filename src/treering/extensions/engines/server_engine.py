"""The parts shared by engines on servers."""

import json

from treering.core.errors import Corrupt, InvalidInput
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, VectorChanges, VectorEngine

REBUILD = "Run `treering index rebuild`: it refills the engine from the space, which has all vectors."


class ServerEngine(VectorEngine):
    """A `VectorEngine` on a server. `shown`: the address of the server, for errors."""

    def __init__(self, shown: str, dimension: int) -> None:
        self._shown = shown
        self._dimension = dimension

    @property
    def searches(self) -> bool:
        """Whether the server can search."""
        return True

    def _check(self, changes: VectorChanges) -> None:
        for vector in changes.vectors.values():
            check_dimension(vector, self._dimension)

    def _state_of(self, told: object) -> EngineState:
        """Parse a stored state. Raises `Corrupt`."""
        match told:
            case {"mark": str(mark), "moment": str(moment), "count": int(count), "loaded": int() | None as loaded}:
                return EngineState(mark, moment, count, loaded)
        raise Corrupt(f"The state stored in {self._shown} is damaged.", hint=REBUILD)

    def _state_in(self, content: str | bytes) -> EngineState:
        """Parse a state from JSON. Raises `Corrupt`."""
        try:
            state = json.loads(content)
        except ValueError:
            state = None
        return self._state_of(state)


def check_dimension(vector: Vector, dimension: int) -> None:
    """Raise `InvalidInput` for a vector of another shape."""
    if vector.shape != (dimension,):
        raise InvalidInput(
            f"A vector of shape {vector.shape} cannot be compared.", hint=f"This index has {dimension} components."
        )
