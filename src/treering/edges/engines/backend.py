"""A technology of engines: what opens them, and the optional dependencies that it imports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from treering.core.errors import MissingExtra
from treering.edges.engines.engine_address import EngineAddress
from treering.ports.vector_engine import VectorEngine

OpenEngine = Callable[[EngineAddress, str, int], VectorEngine]
"""Opens the engine at an address, for what is kept with a mark, of vectors of a dimension."""

OverConnection = Callable[[object], OpenEngine]
"""Returns what opens engines over an open driver, which stays open. Raises `InvalidInput` for another driver."""

_Opens = TypeVar("_Opens", covariant=True)


@dataclass(frozen=True, slots=True)
class EngineBackend(Generic[_Opens]):
    """A technology of engines. `load` imports what opens them; `extra` names the optional dependencies it imports."""

    load: Callable[[], _Opens]
    extra: str

    def loaded(self, what: str) -> _Opens:
        """Import what opens them, for `what`. Raises `MissingExtra`."""
        try:
            return self.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
                raise
            raise MissingExtra(self.extra, needed_for=what) from error
