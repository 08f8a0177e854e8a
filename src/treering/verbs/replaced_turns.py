"""Turns of conversations that later turns replaced or other people contest: marked in answers.

A replaced turn is directly behind its replacement.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from treering.core.characters import unmarked
from treering.ports.ledger import AsOf
from treering.registry import brought
from treering.retrieval.search.replaced import SUPERSEDED
from treering.verbs.engine import Engine

TurnPlace = tuple[str, str]
"""A source and a segment of it."""


@dataclass(frozen=True, slots=True)
class FoundTurn:
    """A turn among hits, and the conversation that it is in."""

    place: TurnPlace
    scope: str
    origin: str
    as_of: AsOf = None
    """The state of the conversation in which it was found."""


@dataclass(frozen=True, slots=True)
class ReplacingTurn:
    """The turn that replaced another one, at the end of the chain, or that contests it."""

    source_id: str
    segment_id: str
    turn: int
    text: str
    speaker: str = ""
    at: datetime | None = None
    leads: bool = True
    """Whether it belongs above the turn that it replaced: the question is about the replaced part."""
    degree: str = ""
    """`in part` or `perhaps`; empty if it replaced all of the turn for sure."""
    contests: bool = False
    """Whether it replaced nothing: another person states something else."""

    @property
    def place(self) -> TurnPlace:
        """Where it is."""
        return self.source_id, self.segment_id

    @property
    def words(self) -> str:
        """Which turn it is, whose, and when. Not what it says: that is data, and is shown as a hit.

        For instance `in part by turn 3 (Ada, 2026-03-03)`.
        """
        by = ", ".join(filter(None, (unmarked(self.speaker), f"{self.at:%Y-%m-%d}" if self.at else "")))
        degree = f"{self.degree} " if self.degree else ""
        return f"{degree}by turn {self.turn}{f' ({by})' if by else ''}"

    @property
    def mark(self) -> str:
        """The mark of the other turn, such as `superseded by turn 3 (Ada, 2026-03-03)`, or `contested by …`."""
        return f"{'contested' if self.contests else SUPERSEDED} {self.words}"


UNREAD = (
    "Some conversations with results are not read to their end yet, so marks of replaced statements may be missing. "
    "The next search reads on."
)
"""The warning of an answer with `ReplacedTurns.is_partial`."""


class ReplacedTurns(dict[TurnPlace, ReplacingTurn]):
    """By the place of a replaced or contested turn the turn that replaced or contests it."""

    is_partial: bool = False
    """Whether conversations were not read to their end, so that turns may be missing."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if turns may be missing."""
        return (UNREAD,) if self.is_partial else ()


FindReplaced = Callable[[Engine, Sequence[FoundTurn], str, datetime], Mapping[TurnPlace, ReplacingTurn]]
"""Return which of some turns were replaced or are contested, and by which, for a question and when it is asked.

A mapping may be `ReplacedTurns`.
"""


def replaced_turns(engine: Engine, turns: Sequence[FoundTurn], question: str, now: datetime) -> ReplacedTurns:
    """Return which of some turns others replaced or contest, as the installed parts know it."""
    found = ReplacedTurns()
    for find in brought("replaced_turns") if turns else ():
        replaced = find(engine, turns, question, now)
        found.update(replaced)
        found.is_partial |= isinstance(replaced, ReplacedTurns) and replaced.is_partial
    return found


_Hit = TypeVar("_Hit")
_Key = TypeVar("_Key", bound=Hashable)


def behind_replacements(
    hits: Sequence[_Hit],
    replaced: Mapping[_Key, _Key],
    *,
    key_of: Callable[[_Hit], _Key],
    look_up: Callable[[_Hit, _Key], _Hit | None],
    past: bool = False,
) -> list[_Hit]:
    """Return hits with each replaced one behind what replaced it, but never before its place; others stay in theirs.

    The latest of a chain comes first. If it is not among the hits, it is looked up. `past`: the oldest comes first, and
    what replaced it directly behind.
    """
    by_key = {key_of(hit): hit for hit in hits}
    behind: dict[_Key, list[_Key]] = {}
    for key in by_key:
        if key in replaced:
            behind.setdefault(replaced[key], []).append(key)
    ordered: dict[_Key, _Hit] = {}
    for hit in hits:
        if (key := key_of(hit)) in ordered:
            continue
        later = _later(key, replaced)
        latest = later[0]
        if latest not in by_key and (absent := look_up(hit, latest)) is not None:
            by_key[latest] = absent
        chain = _oldest_first(latest, behind) if past else later
        ordered |= {one: by_key[one] for one in chain if one in by_key and one not in ordered}
    return list(ordered.values())


def _later(key: _Key, replaced: Mapping[_Key, _Key]) -> list[_Key]:
    """Return what replaced a key, the latest first, and the key itself."""
    later = [key]
    while (key := replaced.get(key, later[0])) not in later:
        later.insert(0, key)
    return later


def _oldest_first(key: _Key, behind: dict[_Key, list[_Key]]) -> list[_Key]:
    """Return all that a key replaced, directly or through others, and the key itself."""
    return [*(one for each in behind.pop(key, ()) for one in _oldest_first(each, behind)), key]
