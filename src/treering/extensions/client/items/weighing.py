"""The ranking switches: pure functions that weight, drop and add memories among search results.

Each factor is a round number; none was tuned. Scores are relative to the best result, from 0 to 1.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import prod, sqrt
from typing import Any

from treering.core.canonical import parse_time
from treering.core.objects import Source
from treering.extensions.client.items.documents import HAPPENED, TYPE
from treering.extensions.client.profiles import Switches
from treering.ports.models import Reranker
from treering.retrieval.search.reranking import Candidate, diversify
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.retrieval.tuning import TUNING

_CLIENT = TUNING.client

NO_RERANKER = "no reranking model is available"
RERANKED = 20
"""The maximum number of memories that a cross-encoder reads."""


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A candidate: its score relative to the best one, and its similarity to the query."""

    source: Source
    text: str
    score: float
    similarity: float

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the memory."""
        return self.source.metadata


@dataclass(frozen=True, slots=True)
class Weighing:
    """The query and the options of the ranking."""

    query: str
    now: datetime
    switches: Switches
    priorities: tuple[str, ...] = ()
    reranker: Reranker | None = None
    no_reranker: str = NO_RERANKER
    """The reason if there is no reranker."""
    referred: Callable[[Sequence[str]], Sequence[Source]] = lambda _: ()
    """Returns the visible memories among some ids."""


def weighed(candidates: Sequence[FoundMemory], by: Weighing) -> tuple[list[FoundMemory], tuple[str, ...]]:
    """Rank candidates by priorities, importance and the enabled switches.

    Return them, best first, and the steps that were skipped.
    """
    on = by.switches
    ranked = _sorted(_times(one, _standing_factor(one, by)) for one in candidates)
    not_used: tuple[str, ...] = ()
    if on.enable_reranking:
        ranked, not_used = _reranked(ranked, by)
    factors = [factor for name, factor in _FACTORS.items() if getattr(on, name)]
    ranked = _sorted(_times(one, prod((factor(one, by) for factor in factors), start=1.0)) for one in ranked)
    if on.enable_recency_bias:
        ranked = _newest_first(ranked)
    if on.enable_deduplication:
        ranked = _without_duplicates(ranked)
    if on.enable_mmr:
        ranked = _by_marginal_relevance(ranked)
    if on.enable_cross_reference_expansion:
        ranked = _with_references(ranked, by)
    return ranked, not_used


def _standing_factor(one: FoundMemory, by: Weighing) -> float:
    importance = one.metadata.get("importance_score")
    weight = importance if isinstance(importance, int | float) else 0.5
    return (1 + _priority(one, by.priorities)) * (1 + _CLIENT.importance * (weight - 0.5))


def _priority(one: FoundMemory, priorities: Sequence[str]) -> float:
    """Return the bonus for the first priority that a memory matches: by memory type, tag or metadata key."""
    tags = one.metadata.get("tags")
    values = [one.metadata.get(TYPE), *(tags if isinstance(tags, list) else [tags])]
    names = {*one.metadata, *(name for name in values if isinstance(name, str))}
    for place, priority in enumerate(priorities):
        if priority in names:
            return _CLIENT.max_raise * (1 - place / len(priorities))
    return 0.0


def _by_age(one: FoundMemory, by: Weighing) -> float:
    """Return the share of its weight that a memory has at its age, times its own `temporal_weight`."""
    half_life = _CLIENT.half_life_days * 86_400.0
    faded: float = 0.5 ** (max((by.now - _happened(one)).total_seconds(), 0.0) / half_life)
    weight = one.metadata.get("temporal_weight")
    return faded * (min(max(weight, 0.0), 1.0) if isinstance(weight, int | float) else 1.0)


def _by_success(one: FoundMemory, _by: Weighing) -> float:
    match _succeeded(one.metadata):
        case True:
            return 1 + _CLIENT.outcome
        case False:
            return 1 - _CLIENT.outcome
        case _:
            return 1.0


def _by_failure(one: FoundMemory, by: Weighing) -> float:
    failed = _succeeded(one.metadata) is False or one.metadata.get(TYPE) == "failure_analysis"
    if not failed:
        return 1.0
    values = [one.metadata.get(name) for name in ("tool", "error", "patterns", "error_type")]
    words = set(index_text(" ".join(str(part) for part in values if part)).split())
    return 1 + (2 if words & set(telling_terms(by.query)) else 1) * _CLIENT.outcome


_FACTORS: Mapping[str, Callable[[FoundMemory, Weighing], float]] = {
    "enable_temporal_weighting": _by_age,
    "enable_success_weighting": _by_success,
    "enable_failure_pattern_matching": _by_failure,
}

_ADDRESS = re.compile(r"(?:\w+:)?//(?:www\.)?(?P<host>[^/?#]*)(?P<path>[^?#]*)(?P<query>[^#]*)", re.IGNORECASE)

_GOOD = frozenset({"success", "succeeded", "completed", "ok", "done"})
_BAD = frozenset({"failed", "failure", "error", "exception", "timeout"})


def _succeeded(metadata: Mapping[str, Any]) -> bool | None:
    """Return whether the remembered event was a success; `None` if unknown."""
    success = metadata.get("success")
    if isinstance(success, bool):
        return success
    status = str(metadata.get("status") or metadata.get("outcome") or "").casefold()
    return True if status in _GOOD else False if status in _BAD else None


def _reranked(ranked: Sequence[FoundMemory], by: Weighing) -> tuple[list[FoundMemory], tuple[str, ...]]:
    """Rank the best candidates by the mean of the cross-encoder's score and the score so far."""
    if by.reranker is None:
        return list(ranked), (f"reranking: {by.no_reranker}",)
    best = ranked[:RERANKED]
    if not best:
        return [], ()
    scores = by.reranker.score(by.query, [one.text for one in best])
    low, high = float(scores.min()), float(scores.max())
    placed = [(float(score) - low) / (high - low) if high > low else 0.5 for score in scores]
    mixed = [replace(one, score=(one.score + place) / 2) for one, place in zip(best, placed, strict=True)]
    # Candidates that were not read stay behind.
    rest = [replace(one, score=one.score / 2) for one in ranked[RERANKED:]]
    return _sorted([*mixed, *rest]), ()


def _newest_first(ranked: Sequence[FoundMemory]) -> list[FoundMemory]:
    """Raise each score by its rank in time: the newest by half, the oldest not at all."""
    by_time = sorted(range(len(ranked)), key=lambda at: _happened(ranked[at]))
    last = max(len(ranked) - 1, 1)
    raised = {at: 1 + _CLIENT.max_raise * place / last for place, at in enumerate(by_time)}
    return _sorted(_times(one, raised[at]) for at, one in enumerate(ranked))


def _without_duplicates(ranked: Sequence[FoundMemory]) -> list[FoundMemory]:
    """Return the best of each group with the same URL, or the same or nearly the same text."""
    seen, distinct = set[str](), list[FoundMemory]()
    for one in ranked:
        keys = {_url(one.metadata), " ".join(one.text.casefold().split())} - {""}
        if not keys & seen:
            distinct.append(one)
        seen |= keys
    candidates = [Candidate(at, one.score, one.text) for at, one in enumerate(distinct)]
    choice = diversify(candidates, len(distinct))
    return [distinct[at] for at in sorted(choice.keys)]


def _url(metadata: Mapping[str, Any]) -> str:
    """Return the URL of a memory, without parts that do not change the page."""
    url = str(next((metadata[name] for name in ("url", "visited_url", "source_url") if metadata.get(name)), ""))
    match = _ADDRESS.match(url)
    return match["host"].casefold() + match["path"].rstrip("/") + match["query"] if match else url


def _by_marginal_relevance(ranked: Sequence[FoundMemory]) -> list[FoundMemory]:
    """Order by maximal marginal relevance (Carbonell & Goldstein 1998), with the cosine of words as similarity."""
    words = [frozenset(index_text(one.text).split()) for one in ranked]
    left, chosen = list(range(len(ranked))), list[int]()
    likest, share = [0.0] * len(ranked), _CLIENT.mmr_lambda
    while left:
        best = max(left, key=lambda at: share * ranked[at].score - (1 - share) * likest[at])
        left.remove(best)
        chosen.append(best)
        for at in left:
            likest[at] = max(likest[at], _likeness(words[at], words[best]))
    return [ranked[at] for at in chosen]


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / sqrt(len(one) * len(other)) if one and other else 0.0


def _with_references(ranked: Sequence[FoundMemory], by: Weighing) -> list[FoundMemory]:
    """Insert the references of each memory after it, unless they are already ranked above."""
    by_id = {one.source.id: one for one in ranked}
    named = [identity for one in ranked for identity in _references(one.metadata) if identity not in by_id]
    added = {source.id: source for source in by.referred(list(dict.fromkeys(named)))}
    order: dict[str, FoundMemory] = {}
    for one in ranked:
        order.setdefault(one.source.id, one)
        for identity in _references(one.metadata):
            source = added.get(identity)
            other = by_id.get(identity) or (_with_source(source, one) if source else None)
            if other:
                order.setdefault(identity, other)
    return list(order.values())


def _with_source(source: Source, one: FoundMemory) -> FoundMemory:
    text = "".join(part.excerpt for part in source.segments)
    return FoundMemory(source, text, one.score, one.similarity)


def _references(metadata: Mapping[str, Any]) -> Iterable[str]:
    """Yield the ids that a memory refers to."""
    several = metadata.get("references")
    yield from (one for one in (several if isinstance(several, list) else [several]) if isinstance(one, str))
    crossed = metadata.get("cross_references")
    for ids in crossed.values() if isinstance(crossed, Mapping) else ():
        yield from (one for one in (ids if isinstance(ids, list) else [ids]) if isinstance(one, str))


def _happened(one: FoundMemory) -> datetime:
    happened_at = one.metadata.get(HAPPENED)
    return parse_time(happened_at) if isinstance(happened_at, str) else one.source.captured_at


def _times(one: FoundMemory, factor: float) -> FoundMemory:
    return replace(one, score=one.score * factor)


def _sorted(memories: Iterable[FoundMemory]) -> list[FoundMemory]:
    return sorted(memories, key=lambda one: -one.score)
