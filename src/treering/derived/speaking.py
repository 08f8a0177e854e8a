"""Whether what was found speaks of what was asked, by how rare the words are that both have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2, sqrt

from treering.derived.analysis import index_text
from treering.derived.fusion import VECTORS
from treering.derived.question import Meaning, Question
from treering.derived.retrieval import Hit
from treering.derived.ties import is_turn
from treering.ports.text import MOST_COUNTED, TextFound

SPOKEN_OF = 0.6
"""The least `Telling.strength` of a passage that speaks of a question (`docs/decisions`, `benchmarks/packs.py`)."""

SPOKEN_OF_IN_TALK = 0.5
"""The same of a turn of a conversation: it is short, seldom repeats a question, and is far from most in meaning."""

SPOKEN_OF_THOUGH_FAR = 0.8
"""The same of anything else, where every passage has a vector and none of them is near to the question."""

NEAR_SHARE = 0.1
"""Part of the way from unrelated (`Embedder.unrelated_below`) to the same at which a text counts as near.

In a large space; in a smaller one less: the fewer there are, the less near is the nearest by chance.
"""


RELATED_STRENGTH = 0.1
"""The least `Telling.strength` of a turn that has to do with a question, where another one speaks of it."""

RELATED_SHARE = 0.14
"""So far below unrelated, as a part of the way from there to the same, a text may be in meaning and have to do with it.

Both, and to ask `speaks_of` first, were found on three conversations of LoCoMo: of the turns that answer among the
first 20, 1.8 % are left out; of questions about other conversations 26 % still bring something, of 82 % without it.
"""

_SPEAKING = 10
"""Best hits that are asked whether they speak of a question."""


@dataclass(frozen=True, slots=True)
class Telling:
    """What each term of a question tells of what it is about, from 0 to 1, in a space of so many passages."""

    weights: Mapping[str, float] = field(default_factory=dict)
    largeness: float = 0.0
    """From 0 for an empty space to 1 for one of `MOST_COUNTED` passages or more."""

    @classmethod
    def of(cls, terms: Sequence[str], found: TextFound) -> "Telling":
        """Weigh the terms by how many passages have them: the fewer, the more.

        One that none has tells the more, the larger the space is: of a small one nobody expects that it knows many
        words.
        """
        largeness = log2(2 + found.passages) / log2(2 + MOST_COUNTED)
        weights = {term: 1 / log2(2 + found.counts[term]) if term in found.counts else largeness for term in terms}
        return cls(weights, largeness)

    def strength(self, terms: Iterable[str]) -> float:
        """Return how strongly a text with these terms speaks of the question: the share of the weights that it has.

        Times the square root of how many there are: the longer a question, the smaller a part of it any answer
        repeats.
        """
        total = sum(self.weights.values())
        shared = sum(self.weights[term] for term in self.weights.keys() & set(terms))
        return sqrt(len(self.weights)) * shared / total if total else 0.0

    def near_from(self, meaning: Meaning) -> float:
        """Return the cosine from which a text is near to the question, and not only the nearest of many."""
        return meaning.unrelated_below + NEAR_SHARE * self.largeness * (1 - meaning.unrelated_below)


def speaks_of(telling: Telling, question: Question, hits: Sequence[Hit]) -> bool:
    """Tell whether any of the hits speaks of a question, by its words or by its meaning."""
    meaning = question.meaning
    if meaning is not None and any(_cosine(hit) >= telling.near_from(meaning) for hit in hits):
        return True
    far = meaning is not None and not question.lag.pending
    return any(telling.strength(_terms_of(hit)) >= _least(hit, far=far) for hit in hits)


def related_hits(telling: Telling, question: Question, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return the hits that have to do with a question; none where none of the best speaks of it.

    All of them, where it cannot be told: where the question has no words that tell, or the index is behind.
    """
    if not telling.weights or question.lag.behind:
        return hits
    if not speaks_of(telling, question, hits[:_SPEAKING]):
        return ()
    return [hit for hit in hits if _is_related(telling, question, hit)]


def _is_related(telling: Telling, question: Question, hit: Hit) -> bool:
    meaning = question.meaning
    if meaning is None:
        return True  # by words alone too much would be left out that stands beside them
    near = meaning.unrelated_below - RELATED_SHARE * (1 - meaning.unrelated_below)
    return _cosine(hit) >= near or telling.strength(_terms_of(hit)) >= RELATED_STRENGTH


def _least(hit: Hit, *, far: bool) -> float:
    if is_turn(hit.head):
        return SPOKEN_OF_IN_TALK
    return SPOKEN_OF_THOUGH_FAR if far else SPOKEN_OF


def _terms_of(hit: Hit) -> frozenset[str]:
    """Return the index terms of a hit as it is shown."""
    return frozenset(index_text(f"{hit.head.title}\n{hit.head.heading}\n{hit.text}").split())


def _cosine(hit: Hit) -> float:
    part = hit.fused.parts.get(VECTORS)
    return part.raw if part else -1.0
