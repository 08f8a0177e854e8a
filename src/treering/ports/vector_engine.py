"""Ports of engines that search vectors next to a space: the changes they receive, and the answers they return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from treering.ports.passages import Reach
from treering.ports.search import Vector

if TYPE_CHECKING:
    from treering.ports.index import Index
    from treering.ports.models import Embedder
    from treering.ports.stores import Needs, Stores

Keys = npt.NDArray[np.int64]
"""Keys of passages."""

ENGINE = "index"
"""The holder of this lease writes to the engine of a space."""


@dataclass(frozen=True, slots=True)
class DescribedPassage:
    """A passage's details that an engine may show to people: its place and its links in the graph.

    `mentions`, `titles` and `statements` (subject and object) are entities. `references`: the fields of its object that
    refer to another object, with the other's id. `links`: the types of the links from its object, with the other's id.
    `text`: its text.
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
"""Describe the remaining ones of some passages, by key."""


@dataclass(frozen=True, slots=True)
class VectorChanges:
    """Passages with added or removed vectors, and the moment of the feed after them.

    `vectors` has the vectors of the current passages that have one; the others were removed. `left` is the number of
    following entries in the feed. `described` is filled for engines that show the graph to people.
    """

    moment: str
    keys: tuple[int, ...] = ()
    vectors: Mapping[int, Vector] = field(default_factory=dict)
    left: int = 0
    described: Mapping[int, DescribedPassage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChosenEngine:
    """The engine of a space: its address as given, with its password, and the mark of its data.

    The mark is created when the engine is chosen. An engine with another mark belongs to another space.
    """

    address: str = field(repr=False)
    mark: str


class VectorFeed(Protocol):
    """The vectors of one model for the current passages of a space, in the order of their changes.

    A moment is a text that only the feed can read. It identifies a position in the feed of this space only: in a
    restored copy that was written to since, it is unknown.
    """

    def moment(self) -> str:
        """Return the moment that the feed has reached."""
        ...

    def since(self, moment: str, limit: int) -> VectorChanges | None:
        """Return the changes since a moment, at most `limit` entries; `None` if the feed no longer has them."""
        ...

    def page(self, after: int, limit: int) -> VectorChanges:
        """Return current passages that have a vector, those with the lowest keys above `after` first."""
        ...

    def forgotten_since(self, moment: str) -> int | None:
        """Count the passages erased since a moment; `None` if the feed no longer knows."""
        ...

    def count(self) -> int:
        """Count the current passages that have a vector."""
        ...

    def allowed(self, reaches: Sequence[Reach]) -> Sequence[Keys | None]:
        """Return, for each reach, the current passages it may see; `None` if it sees all of them."""
        ...

    def read(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of the passages that have one, current or not."""
        ...

    def chosen(self, *, fresh: bool = True) -> ChosenEngine | None:
        """Return the engine of the space, or `None` if it has none.

        Without `fresh`: as this process last read it, if reading it would cost a round trip to a server.
        """
        ...

    def choose(self, engine: ChosenEngine | None) -> None:
        """Store durably which engine the space uses from now on."""
        ...


@dataclass(frozen=True, slots=True)
class EngineState:
    """The durable state of an engine: the moment of the feed it has reached, and its number of vectors.

    `mark` identifies the space, the model and the dimension. `loaded`: the greatest key copied so far; `None` when all
    were copied.
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
        """Return the state of its content, or `None` if it is empty. Searches see this state or a newer one."""
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
        """Return the allowed passages nearest to a vector (unit length), best first.

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
    """The state of a space's engine: `address` is printed without its password.

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
        """Return the status of the engine."""
        ...

    def advance(self) -> bool:
        """Follow the feed for a moment; return whether more is pending. Raises `Unavailable`, `Corrupt`."""
        ...

    def rebuild(self) -> EngineReport:
        """Delete the engine's data to start again. `advance` refills it."""
        ...

    def drop(self) -> EngineReport:
        """Delete the engine's data and stop using it; return the previous engine."""
        ...


class VectorMirror(EngineSelection, Protocol):
    """The engine in use of an open space, and its background work."""

    def index_over(self, own: "Index") -> "Index":
        """Return an index whose vectors the engine searches."""
        ...

    def is_due(self) -> bool:
        """Return whether the engine has something to follow up."""
        ...

    def follow(self, goes_on: Callable[[], bool]) -> None:
        """Bring the engine up to date while `goes_on` returns true."""
        ...

    def close(self) -> None:
        """Close the engine, if it is open."""
        ...


class VectorMirrors(Protocol):
    """Opens the engine of a space. `given`: an engine or a vector store of the program that opens the space."""

    def embedder(self, given: object | None, embedder: "Embedder") -> "Embedder":
        """Return the embedder of the space, which may note queries for the store that was given."""
        ...

    def open(self, given: object | None, stores: "Stores", needs: "Needs", embedder: "Embedder") -> VectorMirror | None:
        """Return the engine of a space, or `None` if its stores report no changes of vectors."""
        ...
