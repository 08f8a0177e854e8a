"""Decide which hits are about a question: one rule for searches, packs, recall and the memory client.

A hit is measured by its nearness in meaning and by its share of the question's words, the rarer the more
(`HitSignals`). It is *weak* if it has too little of both, by itself or beside the best of all hits, whatever their
types. If no hit is relevant, or chance brings as much (`chance`), nothing answers the question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treering.retrieval.search.chance import RelevanceEvidence
from treering.retrieval.search.hit_signals import HitSignals, broken_names, is_talk
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.known_words import KnownWords
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import Retrieval
from treering.retrieval.tuning import TUNING

WEAK = "weak"
"""The flag of a hit with much less in common with the question than the best one, or of all if none answers it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether anything that was found answers a question, and which hits are about something else."""

    answers: bool = True
    weak: frozenset[int] = frozenset()
    """The keys of these hits."""

    @classmethod
    def of(cls, known: KnownWords, question: Question, *found: Retrieval, answered: bool = False) -> "Judgement":
        """Judge all that was found for a question, by one search or several.

        Nothing is weak if it cannot be decided: in a read of the past, or if the index is behind. With `answered`, and
        if a hit was found by its id, path or title, the best hits are taken to answer the question.
        """
        if not known.idf.weights or question.lag.behind:
            return cls()
        rankings = [[HitSignals.of(known.idf, question.meaning, hit) for hit in one.hits] for one in found]
        hits = [one for ranking in rankings for one in ranking]
        checked = [one for ranking in rankings for one in ranking[: TUNING.relevance.max_checked]]
        if not (answered or any(one.is_named for one in checked) or answers(known.idf, question, checked)):
            return cls(False, frozenset(one.hit.head.key for one in hits))
        outdated = {source for one in found for source in _outdated(one)}
        current = [one for one in hits if one.hit.head.object_id not in outdated]
        best = max(map(_relevance, current), default=0.0)
        notes = _are_notes(known.idf, hits)
        weak = (one for ranking in rankings for one in _weak(ranking, best, notes=notes))
        return cls(True, frozenset(one.hit.head.key for one in weak))


def _outdated(found: Retrieval) -> Iterator[str]:
    """Yield the sources that superseded knowledge rests on: what replaced it is not measured by them."""
    for source, heads in found.resting.items():
        if any(one.status == "superseded" for one in heads):
            yield source


def answers(idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> bool:
    """Return whether any of the best hits is relevant to a question, and chance does not bring as much."""
    if is_talk(hits) and idf.dates:  # when a turn was said it seldom says itself
        idf = idf.undated()
        hits = [HitSignals.of(idf, question.meaning, one.hit) for one in hits]
    evidence = RelevanceEvidence.of(idf, question, hits)
    return any_relevant(idf, question, hits) and not (evidence and evidence.is_chance)


def any_relevant(idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> bool:
    """Return whether any hit is relevant by itself, among notes by nearness and words together."""
    if _are_notes(idf, hits):
        against = TUNING.relevance.broken_names_weight * broken_names(question, hits)
        return any(_relevance(one) - against >= _least_relevance(one) for one in hits)
    meaning = question.meaning
    if meaning is not None and any((one.cosine or -1.0) >= idf.near_from(meaning) for one in hits):
        return True
    return any(one.coverage >= _least_coverage(one) for one in hits)


def _least_coverage(one: HitSignals) -> float:
    if one.is_turn:
        return TUNING.relevance.min_coverage_of_turn
    return TUNING.relevance.min_coverage if one.cosine is None else TUNING.relevance.min_coverage_if_far


def relevance_of(near: float, coverage: float) -> float:
    """Return how relevant a text is by its nearness (`HitSignals.near`) and what it covers of a question."""
    return near + TUNING.relevance.coverage_weight * coverage


def _relevance(one: HitSignals) -> float:
    return relevance_of(one.near, one.coverage)


def _least_relevance(one: HitSignals) -> float:
    return TUNING.relevance.min_relevance - (TUNING.relevance.nearness_unknown if one.cosine is None else 0.0)


def _are_notes(idf: IdfWeights, hits: Sequence[HitSignals]) -> bool:
    """Return whether a space is small and has no code: there a word in common says little of a text that is far."""
    return idf.is_small and all(one.is_knowledge or one.is_text for one in hits)


def _weak(ranking: Sequence[HitSignals], best: float, *, notes: bool) -> Iterator[HitSignals]:
    """Yield the hits of a ranking that are about something else. A task concerns many files: these never are.

    Among notes each has to be relevant by itself, but the best is: what it replaced may be what answers.
    """
    scores = [one.hit.score / one.hit.trusted.factor for one in ranking]
    top = max(scores, default=0.0)
    for one, score in zip(ranking, scores, strict=True):
        if one.is_named or not (one.is_knowledge or one.is_text):
            continue
        share = TUNING.relevance.min_score_share_of_turn if one.is_turn else TUNING.relevance.min_score_share
        is_bridged = one.is_turn or one.bridged >= TUNING.relevance.min_bridged
        is_kept = one.is_text and is_bridged and score >= share * top
        least = max(TUNING.relevance.min_share * best, min(_least_relevance(one), best) if notes else 0.0)
        if not is_kept and _relevance(one) < least:
            yield one
