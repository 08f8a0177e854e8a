"""Servers that share spaces: a directory says which of them has which space."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from treering.core.audit import Anchor
from treering.ports.copying import Told


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server as it stands. `answers`: whether it can be connected to. A draining one takes no new spaces."""

    name: str
    address: str
    spaces: int
    draining: bool
    answers: bool


@dataclass(frozen=True, slots=True)
class UnfinishedMove:
    """A move that was begun and is not done.

    `target`: the server that a copy is made on; `left_on`: the one whose old copy is still to be removed.
    """

    space: str
    server: str
    target: str | None
    left_on: str | None


@dataclass(frozen=True, slots=True)
class Relocation:
    """A space that was moved. `paused`: how long writers were held up, in seconds; all of it took `seconds`."""

    space: str
    old_server: str
    server: str
    head: Anchor
    counts: dict[str, int]
    """The number of records per table."""
    vectors: int
    """Vectors that came along."""
    paused: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StayedThere:
    """A space that is where it was to be. `given_up`: the server whose begun copy was removed, if there was one."""

    space: str
    server: str
    given_up: str | None = None


class ServerDirectory(Protocol):
    """The servers of a directory, for who administers them."""

    def add(self, name: str, address: str) -> int:
        """Add a server; return the number of spaces that it has already. Raises `InvalidInput`, `Conflict`."""
        ...

    def states(self) -> Sequence[ServerState]:
        """Return all servers, by name."""
        ...

    def unfinished(self) -> Sequence[UnfinishedMove]:
        """Return the moves that are not done."""
        ...

    def move(self, space: str, server: str, told: Told) -> Relocation | StayedThere:
        """Move a space to a server while it is used, or go on with a move that was broken off.

        To the server that it is on: give up a move that was begun. Raises `NotFound`, `Conflict`.
        """
        ...

    def drain(self, server: str, told: Told) -> Iterator[Relocation | StayedThere]:
        """Have a server take no new spaces, and move those that it has to the others, one after the other."""
        ...
