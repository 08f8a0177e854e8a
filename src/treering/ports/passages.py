"""The port of passages: the texts that can be found, what a hit needs of them, and who may see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol

from treering.core.evidence import Triple
from treering.core.filters import EVERYTHING, Filter

# What a read may see.


@dataclass(frozen=True, slots=True)
class Reach:
    """What a read may see. Filters are applied inside the ranking, so they never starve a result."""

    scope: str
    descend: bool = False
    where: Filter = EVERYTHING
    withdrawn: bool = False
    """Also objects that are no longer current (stale, superseded, archived)."""
    at: int | None = None
    """An audit sequence number: only passages as they stood then."""
    now: datetime | None = None
    """The time it is asked for: what was over by then (`core.policy.is_over`) is withdrawn. `None`: not judged.

    An index need not know it: the ledger decides.
    """


@dataclass(frozen=True, slots=True)
class Passage:
    """One searchable text: a segment of a source (`part` is its id), or the text form of an object (`part` empty).

    `gist` is what is embedded; `live` tells whether the object may be presented as how things stand. `said` is when a
    turn of a conversation was said. `role` is the form of the text (`core.evidence.Segment.role`), `place_role` what
    its file is for (`retrieval.index.code_places`), which the filter `role` asks for.
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
    """What code imports, calls and uses otherwise, as `retrieval.index.code_names.CodeUse` writes it."""
    defines: tuple[str, ...] = ()
    """The qualified names of definitions that fill a part of it."""
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    said: datetime | None = None
    place_role: str = "prose"


@dataclass(frozen=True, slots=True)
class PassageHead:
    """What a hit needs before its text is read from the ledger."""

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
    """Days that a question is about, both ends within, and what a turn of that time counts for (0 to 1)."""

    first: date
    last: date
    weight: float = 1.0


MOST_NAMED = 200
"""Passages found by one name of code: those with the lowest keys."""


@dataclass(frozen=True, slots=True)
class PassageRequest:
    """Passages to read, by key.

    With `reach`, which of them a read may see is told too; with `days`, how well each tells of those days; with
    `beside`, the turns before and after each turn of a conversation are read with it.

    `named` are names of code (`retrieval.index.code_names`): with `reach`, the current passages that vouch for each and
    that the read may see are found besides, at most `MOST_NAMED` of each.
    """

    keys: tuple[int, ...]
    reach: Reach | None = None
    days: tuple[AskedDays, ...] = ()
    beside: bool = False
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassagesFound:
    """What was read of passages, by key; those that are gone meanwhile are in none of it."""

    heads: Mapping[int, PassageHead] = field(default_factory=dict)
    """Of those asked for, of those beside them, and of those found by name."""
    visible: frozenset[int] = frozenset()
    """Those asked for that a read in reach may see, filters included."""
    beside: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Of turns of a conversation, the turns before and after."""
    dated: Mapping[int, float] = field(default_factory=dict)
    """How well those in `heads` tell of the days asked for, as `TextFound.days` gives it."""
    named: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By name of code, the passages that vouch for it, by key; their heads are in `heads`."""


class Passages(Protocol):
    """The passages of one space, by key. A key stands for one passage in all parts of an index."""

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Read passages for several requests, in one round trip; the answers are in their order."""
        ...

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        ...
