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

MOST_CHECKED = 10
"""How many of the best hits of a ranking may answer a question."""


@dataclass(frozen=True, slots=True)
class RelevanceTuning:
    """Thresholds of relevance, chosen by `python -m benchmarks precision` on its tuning halves.

    Coverage is the share of the question's weight that a hit has, times the square root of the number of its words
    (`IdfWeights.coverage`); nearness is the share of the way from unrelated to the same in meaning.
    """

    min_coverage: float = 0.6
    """In a large space, the least coverage that answers."""
    min_coverage_of_turn: float = 0.5
    """The same of a turn: it is short and seldom repeats a question (LoCoMo)."""
    min_coverage_if_far: float = 0.8
    """The same of another text that has a vector, which is far."""
    coverage_weight: float = 0.45
    """What coverage counts beside nearness in the relevance of a hit (cases; .35 to .55 are as good)."""
    min_relevance: float = 0.1
    """The least relevance that answers in a small space (cases; spaces of 12 to 100 passages of all sets)."""
    nearness_unknown: float = -0.15
    """The nearness of a text that has no vector, for that (cases, by words)."""
    broken_names_weight: float = 0.4
    """What names that no hit has whole count against that (HotpotQA, LoCoMo)."""
    min_share: float = 0.35
    """The least share of the best relevance: what has less is about something else (cases; knowledge of code)."""
    min_score_share: float = 0.6
    """The share of the best score of its ranking that keeps a text: the graph finds the second step of a chain of
    questions, which shares no word with it (MuSiQue)."""
    min_bridged: float = 0.2
    """How surely the graph has to lead there (cases; .4 loses a tenth of the second steps in small spaces of MuSiQue
    and HotpotQA)."""
    min_score_share_of_turn: float = 0.5
    """The same of a turn, wherever the graph leads (LongMemEval)."""


TUNING = RelevanceTuning()


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
        checked = [one for ranking in rankings for one in ranking[:MOST_CHECKED]]
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
        against = TUNING.broken_names_weight * broken_names(question, hits)
        return any(_relevance(one) - against >= _least_relevance(one) for one in hits)
    meaning = question.meaning
    if meaning is not None and any((one.cosine or -1.0) >= idf.near_from(meaning) for one in hits):
        return True
    return any(one.coverage >= _least_coverage(one) for one in hits)


def _least_coverage(one: HitSignals) -> float:
    if one.is_turn:
        return TUNING.min_coverage_of_turn
    return TUNING.min_coverage if one.cosine is None else TUNING.min_coverage_if_far


def relevance_of(near: float, coverage: float) -> float:
    """Return how relevant a text is by its nearness (`HitSignals.near`) and what it covers of a question."""
    return near + TUNING.coverage_weight * coverage


def _relevance(one: HitSignals) -> float:
    return relevance_of(one.near, one.coverage)


def _least_relevance(one: HitSignals) -> float:
    return TUNING.min_relevance - (TUNING.nearness_unknown if one.cosine is None else 0.0)


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
        share = TUNING.min_score_share_of_turn if one.is_turn else TUNING.min_score_share
        is_bridged = one.is_turn or one.bridged >= TUNING.min_bridged
        is_kept = one.is_text and is_bridged and score >= share * top
        least = max(TUNING.min_share * best, min(_least_relevance(one), best) if notes else 0.0)
        if not is_kept and _relevance(one) < least:
            yield one
