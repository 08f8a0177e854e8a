"""Decide in large spaces of texts whether hits answer a question or share as much with it by chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from treering.retrieval.search.hit_signals import HitSignals, broken_names, is_talk, names_asked
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.question import Question, is_long
from treering.retrieval.tuning import TUNING, Weights

SIGNALS = ("near", "covered", "largeness", "length", "missing")
"""The signals that `benchmarks.chance` fits, for each form, with vectors and by words alone."""


@dataclass(frozen=True, slots=True)
class RelevanceEvidence:
    """The signals of the best hits for a question."""

    near: float | None
    """The best nearness; `None` without vectors."""
    covered: float
    """The best coverage."""
    largeness: float
    """The size of the space (`IdfWeights.largeness`)."""
    length: float
    """The binary logarithm of the number of terms of the hit with the best coverage: long texts cover more."""
    missing: float
    """The share of the question's idf weight in names that the best hit lacks, without speakers."""
    broken: float
    """The share of the pairs of neighboring words of names ("Corey Taylor") that no hit has together."""
    nameless: float
    """1 if the question has names, without speakers, and the best hits have none of them; else 0."""
    talk: bool
    """Whether most of the hits are turns of a conversation; the others are prose."""

    @classmethod
    def of(cls, idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> "RelevanceEvidence | None":
        """Return the evidence; `None` if the rule was not fitted: small spaces, code, long questions, quick vectors."""
        is_fitted = not idf.is_small and not is_long(question.text)
        if not hits or not is_fitted or not all(one.is_text for one in hits):
            return None
        meaning = question.meaning
        if meaning is not None and meaning.quick is not None:
            return None
        has_cosines = meaning is not None and any(one.cosine is not None for one in hits)
        best = sorted(hits, key=lambda one: -(TUNING.chance.near_weight * one.near + one.coverage))
        names = names_asked(idf, question, hits)
        first = best[: TUNING.chance.first_hits]
        return cls(
            near=max(one.near for one in hits) if has_cosines else None,
            covered=max(one.coverage for one in hits),
            largeness=idf.largeness,
            length=log2(1 + max((one.coverage, len(one.terms)) for one in hits)[1]),
            missing=idf.share(names - best[0].distinct),
            broken=broken_names(question, hits),
            nameless=float(bool(names) and all(names.isdisjoint(one.distinct) for one in first)),
            talk=is_talk(hits),
        )

    @property
    def signals(self) -> tuple[float, ...]:
        """The values of `SIGNALS`."""
        return (self.near or 0.0, self.covered, self.largeness, self.length, self.missing)

    @property
    def is_chance(self) -> bool:
        """Whether chance explains the signals."""
        weights = self._weights
        score = weights["constant"] + TUNING.chance.broken * self.broken
        score += sum(weights.get(name, 0.0) * signal for name, signal in zip(SIGNALS, self.signals, strict=True))
        return score + (TUNING.chance.nameless * self.nameless if self.talk else 0.0) < 0

    @property
    def _weights(self) -> Weights:
        rule = TUNING.chance
        if self.near is None:
            return rule.talk_by_words if self.talk else rule.prose_by_words
        return rule.talk if self.talk else rule.prose
