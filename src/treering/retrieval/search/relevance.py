"""Decide which hits are about a question: one rule for searches, packs, recall and the memory client.

The relevance of a hit combines its nearness in meaning with its coverage, the share of the question's words it has,
weighted by rarity (`HitSignals`). A hit is weak if its relevance is too low, in itself or compared with the best hit of
any type. Nothing answers the question if no hit is relevant, or if chance explains the hits (`chance`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treering.retrieval.search.chance import RelevanceEvidence
from treering.retrieval.search.hit_signals import HitSignals, broken_names, is_talk
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.known_words import KnownWords
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import Retrieval
from treering.retrieval.text.analysis import index_text
from treering.retrieval.text.typed_words import ids_written
from treering.retrieval.tuning import TUNING

WEAK = "weak"
"""The flag of a hit with much less in common with the question than the best one, or of all if none answers it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether any hit answers a question, and the keys of the weak hits."""

    answers: bool = True
    weak: frozenset[int] = frozenset()

    @classmethod
    def of(cls, known: KnownWords, question: Question, *found: Retrieval, answered: bool = False) -> "Judgement":
        """Judge the hits of one or several searches for a question.

        Hits of unrelated searches are weak and do not count. No other hit is weak if this is unknown: in reads of the
        past, or if the index is behind. The question is answered if `answered` is true or a hit matched by its id, path
        or title.
        """
        unrelated = frozenset(hit.head.key for one in found if one.unrelated for hit in one.hits)
        if not known.idf.weights or question.lag.behind:
            return cls(weak=unrelated)
        related = [one for one in found if not one.unrelated]
        rankings = [[HitSignals.of(known.idf, question.meaning, hit) for hit in one.hits] for one in related]
        hits = [one for ranking in rankings for one in ranking]
        checked = [one for ranking in rankings for one in ranking[: TUNING.question.first_hits]]
        if not (answered or any(one.is_named for one in checked) or answers(known.idf, question, checked)):
            return cls(False, unrelated.union(one.hit.head.key for one in hits))
        outdated = frozenset[str]().union(*(one.outdated for one in related))
        current = [one for one in hits if one.hit.head.object_id not in outdated]
        best = max((one.relevance for one in current), default=0.0)
        are_notes = _are_notes(known.idf, hits)
        weak = (one for ranking in rankings for one in _weak(ranking, best, are_notes=are_notes))
        return cls(True, unrelated.union(one.hit.head.key for one in weak))


def answers(idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> bool:
    """Return whether any of the best hits is relevant to a question, and chance does not explain them."""
    if _asks_for_unknown_id(idf, question):
        return False
    if is_talk(hits) and idf.dates:  # turns seldom contain their own date
        idf = idf.undated()
        hits = [HitSignals.of(idf, question.meaning, one.hit) for one in hits]
    evidence = RelevanceEvidence.of(idf, question, hits)
    return any_relevant(idf, question, hits) and not (evidence and evidence.is_chance)


def any_relevant(idf: IdfWeights, question: Question, hits: Sequence[HitSignals]) -> bool:
    """Return whether any hit is relevant by itself: notes by their relevance, other hits by nearness or coverage."""
    if _are_notes(idf, hits):
        penalty = TUNING.relevance.broken_names_weight * broken_names(question, hits)
        return any(one.relevance - penalty >= _min_relevance(one) for one in hits)
    meaning = question.meaning
    if meaning is not None and any((one.cosine or -1.0) >= idf.near_from(meaning) for one in hits):
        return True
    return any(one.coverage >= _min_coverage(one) for one in hits)


def _asks_for_unknown_id(idf: IdfWeights, question: Question) -> bool:
    """Return whether a question is mainly about an id that no passage has. Nearness is no evidence for ids."""
    unknown, parts = set[str](), set[str]()
    for one in ids_written(question.text):
        whole, *rest = index_text(one).split()
        parts.update(rest)
        unknown.update({whole} & idf.unknown)
    weight = idf.share(unknown)
    return bool(unknown) and weight >= TUNING.relevance.min_unknown_id_share * (1 - idf.share(parts))


def _are_notes(idf: IdfWeights, hits: Sequence[HitSignals]) -> bool:
    """Return whether a space is small and has no code. There, a common word means little without nearness."""
    return idf.is_small and all(one.is_knowledge or one.is_text for one in hits)


def _min_coverage(one: HitSignals) -> float:
    if one.is_turn:
        return TUNING.relevance.min_coverage_of_turn
    return TUNING.relevance.min_coverage if one.cosine is None else TUNING.relevance.min_coverage_if_far


def _min_relevance(one: HitSignals) -> float:
    return TUNING.relevance.min_relevance - (TUNING.relevance.nearness_unknown if one.cosine is None else 0.0)


def _weak(ranking: Sequence[HitSignals], best: float, *, are_notes: bool) -> Iterator[HitSignals]:
    """Yield the weak hits of a ranking. Code is never weak, because a task concerns many files.

    A note must be relevant by itself, unless it is the best hit, because its superseded version may be the answer.
    """
    scores = [one.hit.score / one.hit.trusted.factor for one in ranking]
    top = max(scores, default=0.0)
    for one, score in zip(ranking, scores, strict=True):
        if one.is_named or not (one.is_knowledge or one.is_text):
            continue
        min_relevance = TUNING.relevance.min_share * best
        if are_notes:
            min_relevance = max(min_relevance, min(_min_relevance(one), best))
        if one.relevance < min_relevance and not _is_second_step(one, score, top):
            yield one


def _is_second_step(one: HitSignals, score: float, top: float) -> bool:
    """Return whether a text may be a later step of a chain of questions, which shares no word with the question."""
    min_share = TUNING.relevance.min_score_share_of_turn if one.is_turn else TUNING.relevance.min_score_share
    is_linked = one.is_turn or one.bridged >= TUNING.relevance.min_bridged
    return one.is_text and is_linked and score >= min_share * top
