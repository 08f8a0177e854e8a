"""Technologies of engines by the scheme of their address, loaded when one is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from treering.core.errors import InvalidInput, MissingExtra
from treering.edges.engines.engine_address import FORMS, EngineAddress
from treering.ports.vector_engine import VectorEngine

OpenEngine = Callable[[EngineAddress, str, int], VectorEngine]
"""Opens the engine at an address, for what is kept with a mark, of vectors of a dimension."""


@dataclass(frozen=True, slots=True)
class EngineBackend:
    """A technology of engines. `load` imports what opens them; `extra` names the optional dependencies it imports.

    `shows_graph`: whether it keeps what passages are, and not their vectors alone.
    """

    load: Callable[[], OpenEngine]
    extra: str
    shows_graph: bool = False

    def open(self, address: EngineAddress, mark: str, dimension: int) -> VectorEngine:
        """Open the engine at an address. Raises `MissingExtra`, and what opening it raises."""
        try:
            opener = self.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
                raise
            raise MissingExtra(self.extra, needed_for=f"An engine {address.scheme}:…") from error
        return opener(address, mark, dimension)


def backend_of(address: EngineAddress, backends: Mapping[str, EngineBackend]) -> EngineBackend:
    """Return the technology that an address names. Raises `InvalidInput` where there is none."""
    backend = backends.get(address.scheme)
    if backend is None:
        raise InvalidInput(f"There is no engine {address.scheme}:…", hint=f"Write {FORMS}.")
    return backend
