"""The parts shared by engines."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import EngineAddress
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, VectorChanges, VectorEngine

REBUILD = "Run `treering index rebuild`: it refills the engine from the space, which has all vectors."


class ServerEngine(VectorEngine):
    """A `VectorEngine` on a server. `shown`: the address of the server, for errors. A `lent` client stays open."""

    def __init__(self, shown: str, dimension: int, client: Any = None, *, lent: bool = False) -> None:
        self._shown = shown
        self._dimension = dimension
        self._client = client
        self._lent = lent

    @property
    def searches(self) -> bool:
        """Whether the server can search."""
        return True

    def close(self) -> None:
        """Close the client, unless it is lent."""
        if not self._lent:
            self._client.close()

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


@contextmanager
def using_files(shown: object) -> Iterator[None]:
    """Raise `Unavailable` if files cannot be used. `shown`: their name."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"{shown} cannot be read or written: {error.strerror or error}.",
            hint="Check the folder, its permissions and the free disk space.",
        ) from error


def invalid_address(address: EngineAddress, system: str, form: str) -> InvalidInput:
    """Return the error for an address that a driver refuses. `form`: a valid one."""
    return InvalidInput(f"{address} is not a {system} address.", hint=f"Write {form}.")


def invalid_connection(connection: object, wanted: str, hint: str) -> InvalidInput:
    """Return the error for a connection that is not of the wanted kind."""
    return InvalidInput(f"connection: {type(connection).__name__} is not a thread-safe {wanted}.", hint=hint)


def refused(shown: str, why: object) -> Unavailable:
    """Return the error for a request that a server refused. `shown`: its address."""
    hint = "Check the server's log, your permissions and the password."
    return Unavailable(f"{shown} refused the request: {why}.", hint=hint)


def unreachable(shown: str, error: Exception) -> Unavailable:
    """Return the error for a failed connection. The driver's message may contain secrets of the address."""
    return Unavailable(f"Cannot reach {shown} ({type(error).__name__}).", hint="Check that the server runs.")
