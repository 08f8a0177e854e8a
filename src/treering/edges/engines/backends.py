"""Technologies of engines by the scheme of their address, loaded when one is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from treering.core.errors import InvalidInput, MissingExtra
from treering.edges.engines.engine_address import FORMS, EngineAddress
from treering.ports.vector_engine import VectorEngine

OpenEngine = Callable[[EngineAddress, str, int], VectorEngine]
"""Opens the engine at an address, for what is kept with a mark, of vectors of a dimension."""

OverConnection = Callable[[object, str | None], OpenEngine]
"""Returns what opens engines over an open driver, in a database of that name; the driver stays open."""

_Loaded = TypeVar("_Loaded")


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
        return _loaded(self.load, self.extra, f"An engine {address.scheme}:…")(address, mark, dimension)

    def check(self) -> None:
        """Raise `MissingExtra` where it cannot be opened here."""
        _loaded(self.load, self.extra, "This engine")


@dataclass(frozen=True, slots=True)
class ConnectionBackend:
    """A technology whose engines work over an open driver that a program gives. The rest is as of `EngineBackend`."""

    load: Callable[[], OverConnection]
    extra: str
    shows_graph: bool = False

    def over(self, connection: object, database: str | None) -> EngineBackend:
        """Return what opens engines over a driver. Raises `MissingExtra`, and `InvalidInput` for another driver."""
        opener = _loaded(self.load, self.extra, f"An engine over a {type(connection).__name__}")(connection, database)
        return EngineBackend(lambda: opener, self.extra, self.shows_graph)


def _loaded(load: Callable[[], _Loaded], extra: str, what: str) -> _Loaded:
    try:
        return load()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
        raise MissingExtra(extra, needed_for=what) from error


def backend_of(address: EngineAddress, backends: Mapping[str, EngineBackend]) -> EngineBackend:
    """Return the technology that an address names. Raises `InvalidInput` where there is none."""
    backend = backends.get(address.scheme)
    if backend is None:
        raise InvalidInput(f"There is no engine {address.scheme}:…", hint=f"Write {FORMS}.")
    return backend
