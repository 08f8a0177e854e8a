"""What is asked, prepared for the arms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from treering.derived.analysis import query_terms
from treering.ports.index import Index, TextQuery, Vector
from treering.ports.reach import Reach

Embed = Callable[[str], Vector]

LED_SHARE = 0.5
"""What the best of the leads counts for in a cosine of deep search."""

_LED_POOL = 30


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a question means, as a vector; in deep search with `leads`: the question together with what it led to.

    Adding what was found first to the question and asking again is what finds the second hop of a chain
    ("query expansion"; the "FULL" passage seeds of the notes on HippoRAG 2).
    """

    own: Vector
    leads: tuple[Vector, ...] = ()

    def search(self, index: Index, *, reach: Reach, limit: int) -> dict[int, float]:
        """Give the passages nearest to the question, and those nearest to each lead, with their cosines."""
        near = {hit.key for hit in index.by_vector(self.own, reach=reach, limit=limit)}
        for lead in self.leads:
            near |= {hit.key for hit in index.by_vector(lead, reach=reach, limit=_LED_POOL)}
        return self.similarities(index, sorted(near))

    def similarities(self, index: Index, keys: Sequence[int]) -> dict[int, float]:
        """Give the cosines of those of the keys that have a vector: half of it that of the best lead, if any."""
        own = index.similarities(self.own, keys)
        led = [index.similarities(lead, keys) for lead in self.leads]
        if not led:
            return dict(own)
        return {key: (1 - LED_SHARE) * of + LED_SHARE * max(one[key] for one in led) for key, of in own.items()}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: its text, its terms, and what it means where the embedder could tell."""

    text: str
    terms: TextQuery
    meaning: Meaning | None
    embed: Embed | None = None

    @classmethod
    def of(cls, text: str, *, embed: Embed | None) -> "Question":
        """Prepare a question."""
        return cls(text, query_terms(text), Meaning(embed(text)) if embed else None, embed)

    def led_by(self, leads: Sequence[str]) -> "Question":
        """Give the question asked together with each of some texts. Costs an encoding for each."""
        if self.meaning is None or self.embed is None:
            return self
        vectors = tuple(self.embed(f"{self.text} {lead}") for lead in leads)
        return replace(self, meaning=Meaning(self.meaning.own, vectors))


Arms = Mapping[str, Mapping[int, float]]
"""Raw scores of passages, by arm and key; higher is better."""
