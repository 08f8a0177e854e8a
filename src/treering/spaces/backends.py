"""The databases that store spaces, by the scheme of an address."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from treering.core.errors import needing
from treering.ports.runtime import SpacesWithWork
from treering.ports.stores import AccessKeys, Needs, Stores
from treering.registry import Place, Table, places_of_extensions
from treering.system.address import Address

_Opens = TypeVar("_Opens", covariant=True)
_Loaded = TypeVar("_Loaded")

OpenStores = Callable[[Address, Needs], Stores]


@dataclass(frozen=True, slots=True)
class Backend(Generic[_Opens]):
    """A technology that stores spaces.

    `load` imports the function that opens them, at its first use. `extra`: the optional dependencies that it imports;
    empty if it needs none. `title` names it in messages.
    """

    load: Callable[[], _Opens]
    extra: str = ""
    title: str = ""
    access_keys: Callable[[], Callable[[Address, bool], AccessKeys]] | None = None
    """Imports the function that opens the access keys at an address, creating them if its second argument is true."""
    spaces_with_work: Callable[[], Callable[[Address], SpacesWithWork]] | None = None
    """Imports the function that finds the spaces of a database with pending vectors."""

    def loaded(self, load: Callable[[], _Loaded], needed_for: str) -> _Loaded:
        """Import a part of it. Raises `MissingExtra` if the extra is not installed."""
        with needing(self.extra, needed_for):
            return load()


def place(location: str) -> Callable[[], Any]:
    """Return a function that imports a location, `module:name`."""
    found: Place[Any] = Place(location)
    return found.load


SQLITE: Backend[OpenStores] = Backend(
    place("treering.stores.sqlite.opening:open_stores"),
    access_keys=place("treering.stores.sqlite.access_keys:open_access_keys"),
)
BACKENDS: Table[Backend[OpenStores]] = Table(
    "treering.ledgers", lambda: {"sqlite": SQLITE} | dict(places_of_extensions("treering.ledgers"))
)
"""Databases that store spaces, by the scheme of an address. Entry points name a `Backend`."""
