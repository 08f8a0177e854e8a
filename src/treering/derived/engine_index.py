"""An index whose vectors an engine beside the space searches; all other parts are the space's own."""

from collections.abc import Sequence
from typing import Protocol

from treering.derived.engine_vectors import EngineVectors
from treering.ports.graph import Graph
from treering.ports.index import Behind, Index, Upkeep
from treering.ports.passages import Passages
from treering.ports.text import TextSearch
from treering.ports.vectors import Vectors


class EngineKeeping(Protocol):
    """What the upkeep of an index needs of the engine in use. None of these raises where it cannot be reached."""

    def to_forget(self) -> int:
        """Count what was erased and may still be in the engine."""
        ...

    def forget(self) -> bool:
        """Let the engine forget what was erased; tell whether it could."""
        ...

    def begin_anew(self) -> None:
        """Throw away what the engine keeps. It takes all vectors over again."""
        ...

    def differences(self) -> Sequence[str]:
        """Say how what it keeps differs from what it should keep, where it knows everything."""
        ...


class EngineIndex:
    """`ports.index.Index` over the index of a space, with another part for vectors."""

    def __init__(self, own: Index, vectors: EngineVectors, keeping: EngineKeeping) -> None:
        self._own = own
        self._vectors = vectors
        self._upkeep = EngineUpkeep(own.upkeep, keeping)

    @property
    def passages(self) -> Passages:
        """The passages of the space's own index."""
        return self._own.passages

    @property
    def text(self) -> TextSearch:
        """Search by text in the space's own index."""
        return self._own.text

    @property
    def vectors(self) -> Vectors:
        """Search by meaning, with the engine in use."""
        return self._vectors

    @property
    def graph(self) -> Graph:
        """The graph of the space's own index."""
        return self._own.graph

    @property
    def upkeep(self) -> Upkeep:
        """What keeps the space's own index right, and has the engine forget what was erased."""
        return self._upkeep


class EngineUpkeep:
    """`ports.index.Upkeep` of both. An engine that is merely late is not behind: what it lacks is searched besides."""

    def __init__(self, own: Upkeep, keeping: EngineKeeping) -> None:
        self._own = own
        self._keeping = keeping
        self._unreachable = False

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the space's index holds of objects, and what the engine has still to forget."""
        return self._own.remains(object_ids) + self._keeping.to_forget()

    def rebuild(self) -> int:
        """Make the passages anew, and throw away what the engine keeps."""
        made = self._own.rebuild()
        self._keeping.begin_anew()
        return made

    def behind(self) -> Behind:
        """Tell how far the space's own index is, else how much the engine has to forget."""
        own = self._own.behind()
        return own if own.total or self._unreachable else Behind(0, self._keeping.to_forget())

    def advance(self) -> Behind:
        """Go on with the space's own index, else have the engine forget what was erased."""
        own = self._own.advance()
        if own.total:
            return own
        if self._keeping.to_forget():
            self._unreachable = not self._keeping.forget()
        return self.behind()

    def differences(self) -> Sequence[str]:
        """Compare both with what they should hold."""
        return [*self._own.differences(), *self._keeping.differences()]
