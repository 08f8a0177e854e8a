"""What is asked, prepared for the arms."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from treering.derived import periods
from treering.derived.analysis import LONGEST_QUERY, query_terms
from treering.derived.dates import asked_ranges
from treering.ports.embedder import Embedder
from treering.ports.index import AskedDays, Index, TextQuery, Vector
from treering.ports.reach import Reach

LED_SHARE = 0.5
"""What the best of the leads counts for in a cosine of deep search."""

_LED_POOL = 30


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a question means, as a vector; in deep search with `leads`: the question together with what it led to.

    Adding what was found first to the question and asking again is what finds the second hop of a chain
    (pseudo-relevance feedback, Rocchio 1971). `unrelated_below` is what the embedder says of its cosines.
    """

    own: Vector
    unrelated_below: float
    leads: tuple[Vector, ...] = ()

    def is_related(self, cosine: float) -> bool:
        """Tell whether a text this near to the question may say something about it, by its meaning alone."""
        return cosine >= self.unrelated_below

    def search(self, index: Index, *, reach: Reach, limit: int) -> dict[int, float]:
        """Return the passages nearest to the question, and those nearest to each lead, with their cosines."""
        near = {hit.key for hit in index.by_vector(self.own, reach=reach, limit=limit)}
        for lead in self.leads:
            near |= {hit.key for hit in index.by_vector(lead, reach=reach, limit=_LED_POOL)}
        return self.similarities(index, sorted(near))

    def similarities(self, index: Index, keys: Sequence[int]) -> dict[int, float]:
        """Return the cosines of those of the keys that have a vector: half of it that of the best lead, if any."""
        own = index.similarities(self.own, keys)
        led = [index.similarities(lead, keys) for lead in self.leads]
        if not led:
            return dict(own)
        return {key: (1 - LED_SHARE) * of + LED_SHARE * max(one[key] for one in led) for key, of in own.items()}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: its text, its terms, what it means where the embedder could tell, and the days it is about.

    Of a long text only the beginning is read (`LONGEST_QUERY`), so that no question costs more than a long one;
    `unread` counts the characters behind it.
    """

    text: str
    terms: TextQuery
    meaning: Meaning | None
    embedder: Embedder | None = None
    days: tuple[AskedDays, ...] = ()
    unread: int = 0

    @classmethod
    def of(cls, text: str, *, embedder: Embedder | None, now: datetime | None = None) -> "Question":
        """Prepare a question asked `now`; without a time "last Friday" and "in May" name no days."""
        read = text[:LONGEST_QUERY]
        meaning = Meaning(embedder.embed_query(read), embedder.unrelated_below) if embedder else None
        days = tuple(days_asked(read, now))
        return cls(read, query_terms(read), meaning, embedder, days, unread=len(text) - len(read))

    def led_by(self, leads: Sequence[str]) -> "Question":
        """Return the question asked together with each of some texts. Costs an encoding for each."""
        if self.meaning is None or self.embedder is None:
            return self
        vectors = tuple(self.embedder.embed_query(f"{self.text} {lead}") for lead in leads)
        return replace(self, meaning=replace(self.meaning, leads=vectors))


def days_asked(text: str, now: datetime | None) -> Iterator[AskedDays]:
    """Return the days a question is about: short periods with the day before and after, days with their month too.

    What people remember as a day may be the next one, or some day of that month: half of it counts.
    """
    for found in asked_ranges(text, now)[:_MOST_RANGES]:
        slack = timedelta((found.last - found.first).days < _SHORT_DAYS)
        with suppress(OverflowError):
            yield AskedDays(found.first - slack, found.last + slack)
        if found.first == found.last:
            yield AskedDays(*periods.month(found.first.year, found.first.month), weight=_SAME_MONTH)


_SHORT_DAYS = 7
_SAME_MONTH = 0.5
_MOST_RANGES = 100

Arms = Mapping[str, Mapping[int, float]]
"""Raw scores of passages, by arm and key; higher is better."""
