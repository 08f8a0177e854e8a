"""What is asked, prepared for the arms."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from treering.derived import periods
from treering.derived.analysis import LONGEST_QUERY
from treering.derived.dates import asked_ranges
from treering.derived.long_question import essence_of, is_long, terms_of
from treering.ports.embedder import Embedder
from treering.ports.passages import AskedDays
from treering.ports.reach import Reach
from treering.ports.text import TextQuery
from treering.ports.vectors import Lag, Near, NearRequest, Vector

LED_SHARE = 0.5
"""What the best of the leads counts for in a cosine of deep search."""

_LED_POOL = 30
_NO_LAG = Lag(0, 0)


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

    def request(self, *, reach: Reach, limit: int, keys: Iterable[int] = ()) -> NearRequest:
        """Return what asks for the passages nearest to the question and to each lead, and compares others with them.

        With `limit` 0 nothing is looked for.
        """
        limits = (limit, *(min(limit, _LED_POOL) for _ in self.leads))
        return NearRequest(reach, (self.own, *self.leads), limits, tuple(sorted(keys)))

    def cosines(self, near: Near) -> dict[int, float]:
        """Return the cosines of what was compared: half of each is that of the best lead, if there are any."""
        own, *led = near.cosines
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
    lag: Lag = _NO_LAG
    """How far the vectors lagged behind when it was asked."""

    @classmethod
    def of(cls, text: str, *, embedder: Embedder | None, now: datetime | None = None, lag: Lag = _NO_LAG) -> "Question":
        """Prepare a question asked `now`; without a time "last Friday" and "in May" name no days."""
        read = text[:LONGEST_QUERY]
        told = essence_of(read) if is_long(read) else read
        meaning = Meaning(embedder.embed_query(told), embedder.unrelated_below) if embedder else None
        days = tuple(days_asked(read, now))
        return cls(read, terms_of(read), meaning, embedder, days, unread=len(text) - len(read), lag=lag)

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
