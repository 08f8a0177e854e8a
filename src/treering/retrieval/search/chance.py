"""Tell hits that answer a question from hits that share as much with it by chance, in large spaces of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from treering.retrieval.search.hit_signals import HitSignals, broken_names, is_talk, names_asked
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.question import Question, is_long
from treering.retrieval.tuning import TUNING


@dataclass(frozen=True, slots=True)
class RelevanceEvidence:
    """What the best hits have in common with a question."""

    near: float | None
    """The best nearness; `None` without vectors."""
    covered: float
    """The coverage of the hit that covers most."""
    largeness: float
    length: float
    """Binary logarithm of the number of terms of the hit that covers most: a long text covers more by chance."""
    missing: float
    """The share of the question's weight in names that the best hit lacks, without speakers."""
    rare: float
    """Of the weights of the two rarest terms that some passage has, the share that the first hits have."""
    broken: float
    """Of the pairs of neighbouring words of names ("Corey Taylor"), the share that no hit has together."""
    nameless: float
    """1 if the question has names, without speakers, and the three best hits have none of them; else 0."""
    talk: bool
    """Whether most of the hits are turns of a conversation; else they are prose."""

    @classmethod
    def of(cls, idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> "RelevanceEvidence | None":
        """Weigh hits; `None` for what was not fitted: small spaces, code, knowledge, long questions, quick vectors."""
        is_fitted = idf.largeness >= TUNING.idf.min_large and not is_long(question.text)
        if not hits or not is_fitted or not all(one.is_text for one in hits):
            return None
        meaning = question.meaning
        if meaning is not None and meaning.quick is not None:
            return None
        has_cosines = meaning is not None and any(one.cosine is not None for one in hits)
        rule = TUNING.chance
        best = sorted(hits, key=lambda one: -(rule.near_weight * one.near + one.coverage))
        longest = max((one.coverage, len(one.terms)) for one in hits)[1]
        names = names_asked(idf, question, hits)
        known = sorted(idf.weights.keys() - idf.unknown, key=lambda term: (-idf.weights[term], term))
        known = known[: rule.rarest_terms]
        rare = set(known) & set[str]().union(*(one.terms for one in hits[: rule.first_hits]))
        return cls(
            near=max(one.near for one in hits) if has_cosines else None,
            covered=max(one.coverage for one in hits),
            largeness=idf.largeness,
            length=log2(1 + longest),
            missing=idf.share(names.difference(best[0].terms)),
            rare=idf.share(rare) / (idf.share(known) or 1.0),
            broken=broken_names(question, hits),
            nameless=float(bool(names) and all(names.isdisjoint(one.terms) for one in best[: rule.first_hits])),
            talk=is_talk(hits),
        )

    @property
    def signals(self) -> tuple[float, ...]:
        """The numbers that are weighed."""
        return (
            self.near or 0.0,
            self.covered,
            self.largeness,
            self.length,
            self.missing,
            self.rare,
            self.broken,
            self.nameless,
            1.0,
        )

    @property
    def is_chance(self) -> bool:
        """Whether chance alone brings as much."""
        rule = TUNING.chance
        if self.near is None:
            weights = rule.talk_by_words if self.talk else rule.prose_by_words
        else:
            weights = rule.talk if self.talk else rule.prose
        return sum(weight * signal for weight, signal in zip(weights, self.signals, strict=True)) < 0
