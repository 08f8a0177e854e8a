"""The signals of a hit for a question: its nearness in meaning, and the words they have in common."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.fusion import BRIDGED, PLACES, RELEASE, VECTORS
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.question import Meaning, Question, speaker_of
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.text.analysis import index_text, query_words
from treering.retrieval.text.typed_words import names_written, pairs_of_names
from treering.retrieval.tuning import TUNING


@dataclass(frozen=True, slots=True)
class HitSignals:
    """A hit with its signals."""

    hit: Hit
    terms: tuple[str, ...]
    """Its index terms, with repetitions."""
    distinct: frozenset[str]
    """Its index terms."""
    cosine: float | None
    """`None` if it was not compared with the question by a vector."""
    near: float
    """The nearness of the cosine; 0 without a cosine."""
    coverage: float
    """`IdfWeights.coverage` of its terms."""

    @classmethod
    def of(cls, idf: IdfWeights, meaning: Meaning | None, hit: Hit) -> "HitSignals":
        """Compute the signals of a hit from the text that is shown."""
        part = hit.fused.parts.get(VECTORS)
        terms = tuple(index_text(hit.titled_text).split())
        distinct = frozenset(terms)
        near = nearness(part.raw, meaning.unrelated_below) if part and meaning else 0.0
        return cls(hit, terms, distinct, part.raw if part else None, near, idf.coverage(distinct))

    @property
    def relevance(self) -> float:
        """Its nearness and coverage combined."""
        return relevance_of(self.near, self.coverage)

    @property
    def bridged(self) -> float:
        """How strongly the graph links it to two parts of the question, from 0 to 1."""
        part = self.hit.fused.parts.get(BRIDGED)
        return part.raw if part else 0.0

    @property
    def is_turn(self) -> bool:
        """Whether it is a turn of a conversation."""
        return is_turn(self.hit.head)

    @property
    def is_knowledge(self) -> bool:
        """Whether it is knowledge, work or an activity."""
        return self.hit.item is not None

    @property
    def is_text(self) -> bool:
        """Whether it is a turn, or prose of a source that is not a file of a project."""
        head = self.hit.head
        return self.is_turn or (not self.is_knowledge and head.role == "prose" and head.place_role == NO_PLACE)

    @property
    def is_named(self) -> bool:
        """Whether the question contains its id, path or title, or asks for its release."""
        return not self.hit.fused.parts.keys().isdisjoint({PLACES, RELEASE})


def nearness(cosine: float, unrelated_below: float) -> float:
    """Return how far a cosine is above unrelated, as a share of the distance to identical meaning; may be negative."""
    return max((cosine - unrelated_below) / (1 - unrelated_below), TUNING.relevance.min_nearness)


def relevance_of(near: float, coverage: float) -> float:
    """Return the relevance of a text by its nearness and its coverage of a question."""
    return near + TUNING.relevance.coverage_weight * coverage


def is_talk(hits: Sequence[HitSignals]) -> bool:
    """Return whether most hits are turns of a conversation."""
    return 2 * sum(hit.is_turn for hit in hits) > len(hits)


def names_asked(idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> set[str]:
    """Return the terms of names in a question, without the names of speakers of the hits."""
    speakers = {speaker_of(one.hit.head) for one in hits if one.is_turn}
    return (idf.weights.keys() & set(names_written(question.text))).difference(*map(query_words, speakers))


def broken_names(question: Question, hits: Sequence[HitSignals]) -> float:
    """Return the share of the pairs of words of names in a question that no hit has together, in any order."""
    pairs = list(pairs_of_names(question.text))
    if not pairs:
        return 0.0
    wanted = frozenset[str]().union(*(one | other for one, other in pairs))
    having = [one for one in hits if not wanted.isdisjoint(one.distinct)]
    placed = [[(at, term) for at, term in enumerate(one.terms) if term in wanted] for one in having]
    return sum(not any(_are_together(*pair, terms) for terms in placed) for pair in pairs) / len(pairs)


def _are_together(one: Set[str], other: Set[str], placed: Sequence[tuple[int, str]]) -> bool:
    ones, others = ([at for at, term in placed if term in terms] for terms in (one, other))
    return any(0 < abs(at - near) <= TUNING.relevance.max_name_gap for at in ones for near in others)
