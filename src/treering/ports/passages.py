"""The port of passages: the searchable texts, their metadata for hits, and their visibility."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NamedTuple, Protocol

from treering.core.evidence import Triple
from treering.core.filters import EVERYTHING, Filter
from treering.core.scope import WHOLE_SPACE, Boundary, sees


@dataclass(frozen=True, slots=True)
class Reach:
    """The visibility of a read. Filters are applied inside the ranking, so they never reduce the number of results."""

    scope: str
    descend: bool = False
    where: Filter = EVERYTHING
    withdrawn: bool = False
    """Also objects that are no longer current (stale, superseded, archived)."""
    at: int | None = None
    """An audit sequence number: only passages of that state."""
    now: datetime | None = None
    """The time of the request: knowledge expired by then (`core.policy.is_over`) is withdrawn. `None`: not checked.

    An index need not implement it: the ledger decides.
    """
    boundary: Boundary = WHOLE_SPACE
    """The scopes that the caller may read. Nothing outside of it is counted, named or reached, whatever the request."""

    def sees(self, scope: str) -> bool:
        """Return whether the read covers objects at a scope."""
        return self.boundary.holds(scope) and sees(self.scope, scope, descend=self.descend)


@dataclass(frozen=True, slots=True)
class Passage:
    """One searchable text: a segment of a source (`part` is its id), or the text of an object (`part` empty).

    `gist` is the text to embed; `live` is whether the object is current. `said` is the time of a turn of a
    conversation. `role` is the form of the text (`core.evidence.Segment.role`), `place_role` the role of its file
    (`retrieval.index.code_places`), which the filter `role` uses.
    """

    object_id: str
    part: str
    type: str
    kind: str
    status: str
    scope: str
    role: str
    title: str
    heading: str
    text: str
    gist: str
    origin: str
    channel: str
    created_at: datetime
    updated_at: datetime
    live: bool
    triples: tuple[Triple, ...] = ()
    uses: tuple[str, ...] = ()
    """The other code that this code imports, calls and uses, in the format of `retrieval.index.code_names.CodeUse`."""
    defines: tuple[str, ...] = ()
    """The qualified names of definitions that fill a part of it."""
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    said: datetime | None = None
    place_role: str = "prose"


class PassageHead(NamedTuple):
    """The metadata of a hit before its text is read from the ledger."""

    key: int
    object_id: str
    part: str
    type: str
    kind: str
    scope: str
    role: str
    title: str
    heading: str
    origin: str
    place_role: str = "prose"


@dataclass(frozen=True, slots=True)
class AskedDays:
    """Days that a question is about, inclusive, and the score of a turn of that time (0 to 1)."""

    first: date
    last: date
    weight: float = 1.0


MOST_NAMED = 200
"""The maximum number of passages found by one name of code: those with the lowest keys."""


@dataclass(frozen=True, slots=True)
class PassageRequest:
    """Passages to read, by key.

    With `reach`, the result includes their visibility; with `days`, how well each matches those days; with `beside`,
    the turns before and after each turn of a conversation.

    `named` are names of code (`retrieval.index.code_names`): with `reach`, the current visible passages that define
    each are also returned, at most `MOST_NAMED` of each.
    """

    keys: tuple[int, ...]
    reach: Reach | None = None
    days: tuple[AskedDays, ...] = ()
    beside: bool = False
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassagesFound:
    """Passages by key; passages deleted meanwhile are missing."""

    heads: Mapping[int, PassageHead] = field(default_factory=dict)
    """Metadata of the requested passages, their neighbors, and those found by name."""
    visible: frozenset[int] = frozenset()
    """The requested passages that a read in reach may see, filters included."""
    beside: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By turn of a conversation, the turns before and after it."""
    dated: Mapping[int, float] = field(default_factory=dict)
    """How well the passages in `heads` match the requested days, as in `TextFound.days`."""
    named: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By name of code, the keys of passages that define it; their heads are in `heads`."""


class Passages(Protocol):
    """The passages of one space, by key. A key identifies one passage in all parts of an index."""

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Read passages for several requests, in one round trip; the answers are in their order."""
        ...

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        ...

    def places(self, reach: Reach) -> Sequence[tuple[str, str]]:
        """Return the object and the part of each passage in reach, ordered by object."""
        ...
