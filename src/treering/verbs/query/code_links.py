"""Links of code for `related` and context packs. An extension finds them; without one there are none."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from treering.core.objects import Object, Source
from treering.ports.passages import Reach
from treering.registry import brought
from treering.retrieval.search.retrieval import Hit
from treering.verbs.envelope import Call, Value

CodeRelation = Literal["imports", "calls", "uses", "tests", "changes_with"]
Direction = Literal["in", "out", "any"]


class CodeNeighbour(Value):
    """A place in code that is linked to the given one."""

    id: str
    """The source it is in."""
    segment_id: str = ""
    title: str
    symbol: str = ""
    """The name of the definition there, if any."""
    relation: CodeRelation
    direction: Direction
    told: str
    """The relation in words, such as `called by`."""
    of: str = ""
    """The used part of the other file, if it has a name."""
    place: str = ""
    """Such as `src/app.py#L10 @ 1f3c…`."""
    more: int = 0
    """How many more places in the same file there are."""


@dataclass(frozen=True, slots=True)
class CodeStart:
    """A start for links: a source, and segments of it; no segments mean the whole source."""

    source: Source
    segments: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    """The qualified names to follow, if these are not all that the segments define."""


class CodeLinks(Protocol):
    """Finds links between places in code."""

    def starts_named(self, call: Call, text: str, reach: Reach) -> Sequence[CodeStart]:
        """Return the places that a text names, such as a path, `path::symbol`, a symbol or a module."""
        ...

    def starts_at(self, call: Call, item: Object) -> Sequence[CodeStart]:
        """Return the file of code that an object is, or the files that a node is about."""
        ...

    def links(
        self,
        call: Call,
        starts: Sequence[CodeStart],
        reach: Reach,
        *,
        relations: Collection[str],
        direction: Direction,
    ) -> tuple[tuple[CodeNeighbour, ...], int]:
        """Return links of some places, and the number of those left out. `relations`: empty for all."""
        ...

    def lines_about_callers(self, call: Call, hits: Sequence[Hit], reach: Reach) -> Mapping[tuple[str, str], str]:
        """Return, by object and segment of the first hits in code, a line about its callers and tests."""
        ...


def code_links() -> CodeLinks | None:
    """Return the finder of links that an installed extension has."""
    return next(brought("code_links"), None)
