"""Links of code for `related` and context packs. An extension finds them; without one there are none."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
    lines: tuple[int, ...] = ()
    """All lines of its file that use the other place, apart from imports."""
    more: int = 0
    """How many more places in the same file there are."""
    sure: bool = True
    """False for a call of a method whose receiver is unknown, if several files define a method of that name."""


@dataclass(frozen=True, slots=True)
class CodeStart:
    """A start for links: a source, and segments of it; no segments mean the whole source."""

    source: Source
    segments: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()
    """The qualified names to follow, if these are not all that the segments define."""


LinksFound = tuple[tuple[CodeNeighbour, ...], int]
"""Links, and the number of those left out."""


@dataclass(frozen=True, slots=True)
class CodeLinks:
    """Functions that find links between places in code."""

    starts_named: Callable[[Call, str, Reach], Sequence[CodeStart]]
    """Returns the places that a text names, such as a path, `path::symbol`, a symbol or a module."""
    starts_at: Callable[[Call, Object], Sequence[CodeStart]]
    """Returns the file of code that an object is, or the files that a node is about."""
    links: Callable[[Call, Sequence[CodeStart], Reach, Collection[str], Direction], LinksFound]
    """Returns links of some places with some relations; no relations mean all."""
    lines_about_callers: Callable[[Call, Sequence[Hit], Reach], Mapping[tuple[str, str], Sequence[str]]]
    """Returns, by object and segment of the first hits in code, lines about its callers and tests."""


def code_links() -> CodeLinks | None:
    """Return the functions of an installed extension."""
    return next(brought("code_links"), None)
