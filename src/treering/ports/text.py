"""The port of search by text: words, parts of names, places and days, with filters inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from treering.ports.passages import AskedDays
from treering.ports.reach import Reach

MOST_COUNTED = 2_000
"""Where the passages that have a term are counted, counting ends here: such a term is a common one."""


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What to look for, as `derived.analysis` prepares it.

    `words` are terms of the word index. `identifiers` are names as typed, folded, for the index of parts of names.
    `phrases` are what stood in double quotes, each as terms of the word index one after the other. `emphasis` are
    terms among the words that count twice: what a long text says in its title, or again and again.
    """

    words: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    emphasis: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scored:
    """A passage key and its raw score in one arm; higher is better."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class NamePart:
    """A name to look for inside of others. Where the term `whole` occurs in anything current, it is left out."""

    name: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class TextRequest:
    """One search by text. What is empty is not looked for."""

    reach: Reach
    limit: int
    """Of each ranking but that by days."""
    words: tuple[str, ...] = ()
    """Terms, and phrases of several terms with a space between each two; any of them is enough.

    One that stands there twice counts twice.
    """
    names: tuple[NamePart, ...] = ()
    place: str = ""
    """An object id, segment id, origin, title or heading, or the end of one."""
    days: tuple[AskedDays, ...] = ()
    days_limit: int = 2_000
    counted: tuple[str, ...] = ()
    """Terms of which is asked how many current passages in the scopes of the reach have them. No filter counts."""
    words_in: str = ""
    """A role of places (`derived.roles`) whose passages are ranked by the same words once more, by themselves."""


@dataclass(frozen=True, slots=True)
class TextFound:
    """What one search by text found, best first."""

    words: Sequence[Scored] = ()
    """By BM25 over the words."""
    names: Sequence[Scored] = ()
    """By BM25 over stretches of names."""
    places: Sequence[Scored] = ()
    """By how much of an id, origin, title or heading it is, from 0 to 1."""
    days: Sequence[Scored] = ()
    """Turns said on days asked for, or that speak of them; then the newest.

    A period that only in part is asked for counts by that part; of several the best counts.
    """
    counts: Mapping[str, int] = field(default_factory=dict)
    """By each of the terms to be counted that occurs: how many passages have it, at most `MOST_COUNTED`."""
    passages: int = 0
    """How many passages those terms were looked for in, at most `MOST_COUNTED`; 0 where none were to be counted."""
    words_in: Sequence[Scored] = ()
    """What `words` are, of places in the role asked for alone; the scores compare with those in `words`."""


class TextSearch(Protocol):
    """Search by text in one space."""

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, in one round trip; the answers are in their order."""
        ...
