"""What a part brings to a server: routes, further spaces, and what is done at its start, in between, and at its end."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from treering.ports.models import Embedder
from treering.registry import load, parts
from treering.surfaces.http.bounds import Bounds
from treering.surfaces.http.contract import Route
from treering.surfaces.http.served import ServedSpace, Stop
from treering.surfaces.http.workers import Workers
from treering.surfaces.web.view import ReadSpace
from treering.system.address import Address


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What a part is given of the server that it serves in."""

    space: ServedSpace
    workers: Workers
    bounds: Bounds
    stop: Stop
    background: bool
    """Whether vectors are made behind everyday work."""
    embedder: Embedder | None
    """A model for all spaces; none: each opens its own."""


class FurtherSpaces(Protocol):
    """Spaces besides the server's own, such as those of projects, each with an id."""

    def ids(self) -> list[str]:
        """Return the ids of those that can be listed."""
        ...

    def address(self, identity: str, /) -> Address:
        """Return where one is kept. Raises `InvalidInput` for what is not an id."""
        ...

    def count_open(self) -> tuple[int, int]:
        """Return how many are open, and how many of their texts wait for a vector."""
        ...

    def reads(self, identity: str, *, check_stop: Callable[[], None]) -> ReadSpace:
        """Return one for reading. What it is asked raises `NotFound` where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ServedPart:
    """What a part serves."""

    routes: Sequence[Route] = ()
    spaces: FurtherSpaces | None = None
    warm: Callable[[], None] | None = None
    """Called when the server starts; returns at once."""
    look_after: Callable[[], None] | None = None
    """Called now and then, for work that a process left behind."""
    close: Callable[[], Awaitable[None]] | None = None


def served_parts(context: ServerContext, chosen: Mapping[str, Any]) -> list[ServedPart]:
    """Return what each part serves. `chosen`: what its flags say, by the name of the part."""
    return [load(part.serving)(context, chosen.get(part.name)) for part in parts() if part.serving]
