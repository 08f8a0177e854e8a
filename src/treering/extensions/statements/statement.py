"""Statements and their relations, as values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Literal

Force = Literal["asserted", "planned", "done", "ended", "reported", "past", "suggested", "asked", "hypothetical"]
"""The force of a sentence. Only the first five assert something."""

STATED: frozenset[Force] = frozenset({"asserted", "planned", "done", "ended", "reported"})

ValueKind = Literal["time", "date", "amount", "label", "code", "address", "name"]
"""The kind of a value. A label is the number of one of several objects: `sample 7`, `terminal 2`."""
RelationKind = Literal["corrects", "replaces", "ends", "completes", "reassigns", "repeats", "settles"]
"""The effect of a statement on an earlier one. `settles`: it accepts a suggestion, which is valid from then on."""


_OWN = re.compile(r"(?<!\w)(?:i|i['’]\w+|my|mine|ich|mein\w*|yo|mi|mis)(?!\w)", re.IGNORECASE)
MIN_WORDS = 3
"""Words of a statement without values that says something by itself."""
_SETS = ("subject", "topics", "attributes", "modifiers", "cues", "verbs", "inherited", "names", "units")
_NOTHING: frozenset[str] = frozenset()
_NO_KEYS: Mapping[ValueKind, frozenset[str]] = {}


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message as rules read it. `machine`: a model said it, so nothing in it is a fact by itself."""

    position: int
    speaker: str
    text: str
    at: datetime | None = None
    machine: bool = False


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A value in a statement: as written, and folded for comparison."""

    kind: ValueKind
    text: str
    key: str
    first: date | None = None
    last: date | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence or clause of a message, with its subject and content.

    `author` said it (in a quote: the person quoted), `owner` is the person it is about, empty for a group. `subject`
    holds the stems before the verb, `topics` all stems that are no values.

    Thousands of statements stay in memory, so empty sets (216 bytes each) are one object.
    """

    message: int
    number: int
    author: str
    owner: str
    text: str
    force: Force
    positive: bool = True
    subject: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    modifiers: frozenset[str] = frozenset()
    values: tuple[StatedValue, ...] = ()
    cues: frozenset[str] = frozenset()
    single: bool = False
    """Whether a person has one value of its attributes at a time."""
    at: datetime | None = None
    quoted_by: str = ""
    answers: str = ""
    """The question it answers, if it says little without it."""
    about: tuple[int, int] | None = None
    """The statement before it in its message, if it says little without that."""
    verbs: frozenset[str] = frozenset()
    """The topics that name the activity, not its object."""
    inherited: frozenset[str] = frozenset()
    """The topics that it has only from its context: the continued statement or the question."""
    names: frozenset[str] = frozenset()
    """The stems of names in it, of people, places and products, and of words such as `my brother`."""
    units: frozenset[str] = frozenset()
    """The stems of counted things: `28 kids`."""
    refers: bool = False
    """Whether it begins with a pronoun for an earlier topic."""
    agreed_by: str = ""
    """The person who accepted it, if it was a suggestion."""
    begins: bool = True
    """Whether it is the first sentence of its message."""
    has_substance: bool = field(init=False, repr=False, compare=False)
    """Whether it says something by itself: `thx` and `dreading it` do not."""
    is_own: bool = field(init=False, repr=False, compare=False)
    """Whether it speaks in the first person."""
    things: frozenset[str] = field(init=False, repr=False, compare=False)
    """The topics without verbs."""
    keys: Mapping[ValueKind, frozenset[str]] = field(init=False, repr=False, compare=False)
    """Its values by kind, for comparison."""

    def __post_init__(self) -> None:
        for name in _SETS:
            if not getattr(self, name):
                self._set(name, _NOTHING)
        is_long = bool(self.topics) and len(self.text.split()) >= MIN_WORDS
        self._set("has_substance", bool(self.values) or len(self.topics) > 1 or is_long)
        self._set("is_own", _OWN.search(self.text) is not None)
        self._set("things", self.topics if self.topics.isdisjoint(self.verbs) else self.topics - self.verbs)
        self._set("keys", _keys_of(self.values) if self.values else _NO_KEYS)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def id(self) -> tuple[int, int]:
        """The position of the message, and its place in it."""
        return self.message, self.number

    @property
    def is_stated(self) -> bool:
        """Whether it says that something holds."""
        return self.force in STATED


def _keys_of(values: tuple[StatedValue, ...]) -> Mapping[ValueKind, frozenset[str]]:
    kinds = {value.kind for value in values}
    return {kind: frozenset(value.key for value in values if value.kind == kind) for kind in kinds}


@dataclass(frozen=True, slots=True)
class Relation:
    """A later statement changes an earlier one. An unsure relation marks the earlier statement and retires nothing."""

    kind: RelationKind
    source: Statement
    target: Statement
    sure: bool = True
