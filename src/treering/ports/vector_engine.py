"""Ports of engines that search vectors beside a space: what a store tells them, and what they answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from treering.ports.passages import Reach
from treering.ports.search import Vector

Keys = npt.NDArray[np.int64]
"""Keys of passages."""

ENGINE = "index"
"""Whoever holds this lease writes to the engine of a space."""


@dataclass(frozen=True, slots=True)
class DescribedPassage:
    """What an engine may show people of a passage: where it stands, and what it is tied to in the graph.

    `mentions`, `titles` and `statements` (subject and object) name entities. `references`: the fields of its object
    that name another object, and the id of that. `links`: the types of the links that begin at its object, and the id
    of the other. `text`: what it says.
    """

    object_id: str
    part: str
    type: str
    kind: str
    role: str
    scope: str
    title: str
    heading: str
    origin: str
    mentions: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    statements: tuple[tuple[str, str], ...] = ()
    references: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    text: str = ""


Describe = Callable[[Sequence[int]], Mapping[int, DescribedPassage]]
"""Describes those of some passages, by key, that are still there."""


@dataclass(frozen=True, slots=True)
class VectorChanges:
    """Passages whose vectors came or went, and the moment a reader has seen with them.

    `vectors` has the vectors of those of the passages that are current and have one; the others are gone. `left`
    counts the entries of the feed that follow. `described` is filled for engines that show people the graph.
    """

    moment: str
    keys: tuple[int, ...] = ()
    vectors: Mapping[int, Vector] = field(default_factory=dict)
    left: int = 0
    described: Mapping[int, DescribedPassage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """The engine that a space uses: its address as it was given, with its password, and the mark of what it keeps.

    The mark is made when the engine is chosen. An engine that keeps something with another mark belongs to another
    space.
    """

    address: str = field(repr=False)
    mark: str


class VectorFeed(Protocol):
    """The vectors that one model made for the current passages of a space, in the order in which they came and went.

    A moment is a text that only the feed can read. It names a place in the feed of this space and of no other: in a
    copy that was put back and written to since, it is unknown.
    """

    def moment(self) -> str:
        """Return the moment that the feed has reached."""
        ...

    def since(self, moment: str, limit: int) -> VectorChanges | None:
        """Return what changed since a moment, `limit` entries at most; `None` where the feed no longer says."""
        ...

    def page(self, after: int, limit: int) -> VectorChanges:
        """Return current passages that have a vector, those with the lowest keys above `after` first."""
        ...

    def forgotten_since(self, moment: str) -> int | None:
        """Count the passages that were erased since a moment; `None` where the feed no longer says."""
        ...

    def count(self) -> int:
        """Count the current passages that have a vector."""
        ...

    def allowed(self, reaches: Sequence[Reach]) -> Sequence[Keys | None]:
        """Return, for each reach, the current passages that it may see; `None` where it sees all of them."""
        ...

    def read(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the passages that have one, current or not."""
        ...

    def chosen(self, *, fresh: bool = True) -> ChosenEngine | None:
        """Return the engine that the space uses, or `None` where it uses none.

        Not `fresh`: as this process last read it, where asking would cost a round trip to a server.
        """
        ...

    def choose(self, engine: ChosenEngine | None) -> None:
        """Keep durably which engine the space uses from now on."""
        ...


@dataclass(frozen=True, slots=True)
class EngineState:
    """What an engine keeps, durably: the moment of the feed that it has followed to, and how many vectors.

    `mark` names the space, the model and the dimension. `loaded`: the greatest key of those that were taken over so
    far; `None` once all were.
    """

    mark: str
    moment: str
    count: int = 0
    loaded: int | None = None


class VectorEngine(Protocol):
    """A mirror of the vectors of one space that finds the nearest. It may be late; the space has every vector itself.

    Every call may raise `Unavailable`, and `Corrupt` if stored data is damaged. Safe to use from many threads; one
    process at a time writes.
    """

    @property
    def kind(self) -> str:
        """Its name for people, with how it searches."""
        ...

    @property
    def searches(self) -> bool:
        """Whether it can search. One that cannot is a copy for other programs; the space's own vectors answer."""
        ...

    def state(self) -> EngineState | None:
        """Return the state of what it has, or `None` if it is empty. Searches see that or something newer."""
        ...

    def begin(self, state: EngineState) -> None:
        """Remove everything, and begin with a state of no vectors."""
        ...

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Write changes and the state they lead to (its `count` apart). Raises `InvalidInput` for a dimension.

        Durable when it returns, except while vectors are loaded or more changes follow (`changes.left`).
        """
        ...

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the passages nearest to a vector (unit length), of those allowed, best first.

        `None` if it cannot find them exactly among the allowed ones. Raises `InvalidInput` for another dimension.
        """
        ...

    def drop(self) -> None:
        """Remove everything that it has of the space."""
        ...

    def close(self) -> None:
        """Release connections and memory. Doing it twice is harmless."""
        ...


@dataclass(frozen=True, slots=True)
class EngineReport:
    """How the engine of a space is: `address` is printed without its password.

    `state`: `none` (no engine is used), `loading` (it takes vectors over), `following` (changes wait), `ready`, or
    `failing` (the built-in vectors answer, for the reason in `problem`).
    """

    state: str
    address: str = ""
    kind: str = ""
    vectors: int = 0
    total: int = 0
    waiting: int = 0
    problem: str = ""
    hint: str = ""


class EngineSelection(Protocol):
    """Which engine searches the vectors of a space, and its upkeep."""

    def use(self, address: str) -> EngineReport:
        """Use the engine at an address from now on. Raises `InvalidInput`, `MissingExtra`, `Unavailable`."""
        ...

    def report(self) -> EngineReport:
        """Tell how the engine is."""
        ...

    def advance(self) -> bool:
        """Have the engine follow for a moment; tell whether more waits. Raises `Unavailable`, `Corrupt`."""
        ...

    def rebuild(self) -> EngineReport:
        """Begin anew with what the engine keeps. `advance` goes on with it."""
        ...

    def drop(self) -> EngineReport:
        """Remove what the engine keeps, and use none; tell what was used until now."""
        ...
