"""Retrieving: candidates from search, calibrated, weighed by the switches of a profile, best first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treering.core.filters import matches
from treering.core.objects import Source
from treering.derived.analysis import telling_terms
from treering.derived.passages import passages_of, record_of
from treering.derived.retrieval import retrieve
from treering.derived.showing import is_shown
from treering.memories.client.documents import RetrievedMemories, content_of, item_of
from treering.memories.client.profiles import Switches
from treering.memories.client.similarity import similarity
from treering.memories.client.weighing import NO_RERANKER, FoundMemory, Weighing, weighed
from treering.ports.ledger import ObjectRequest, head_of
from treering.ports.reach import Reach
from treering.tools.engine import Engine
from treering.tools.envelope import Call
from treering.tools.reading import question_of, warnings_of

_POOL = 2
"""Candidates that are weighed against each other, for each memory wanted; search adds half as many in reserve."""
_LEAST = 20
_MOST = 200


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """What is asked of a memory."""

    query: str
    limit: int
    reach: Reach
    min_similarity: float
    switches: Switches
    priorities: tuple[str, ...] = ()
    no_reranker: str = NO_RERANKER


def recall(engine: Engine, asked: MemoryQuery) -> RetrievedMemories:
    """Return the memories that answer best."""
    call = Call(engine, asked.reach.scope)
    question = question_of(call, asked.query, now=asked.reach.now)
    pool = min(max(asked.limit * _POOL, _LEAST), _MOST)
    found = retrieve(
        question,
        index=engine.index,
        ledger=engine.ledger,
        reach=asked.reach,
        limit=pool,
        by_source=1,
        repeating=True,
        whole=True,
    )
    best = max((hit.score for hit in found.hits), default=0.0) or 1.0
    sought = frozenset(telling_terms(asked.query))
    near, far = [], 0
    for hit in found.hits:
        like = similarity(sought, hit.text, hit.fused, unrelated_below=engine.embedder.unrelated_below)
        if like < asked.min_similarity:
            far += 1
        elif hit.source:
            near.append(FoundMemory(hit.source, content_of(hit.source), hit.score / best, like))
    weighing = Weighing(
        query=asked.query,
        now=asked.reach.now or engine.clock.now(),
        switches=asked.switches,
        priorities=asked.priorities,
        reranker=engine.reranker,
        no_reranker=asked.no_reranker,
        referred=lambda ids: [one for one in _sources(engine, ids).values() if _visible(one, asked.reach)],
    )
    ranked = weighed(near, weighing)
    trace: dict[str, Any] = {
        "candidates": len(found.hits),
        "below_min_similarity": far,
        "switches": list(asked.switches.names),
        "warnings": [*warnings_of(question), *ranked.warnings],
        "not_used": list(ranked.not_used),
    }
    return RetrievedMemories([item_of(one.source, one.similarity) for one in ranked.found[: asked.limit]], trace=trace)


def _sources(engine: Engine, ids: Sequence[str]) -> dict[str, Source]:
    """Read memories; those that are gone or not what the audit log says are left out."""
    if not ids:
        return {}
    (read,) = engine.ledger.read([ObjectRequest(objects=tuple(dict.fromkeys(ids)))])
    return {identity: one for identity, one in read.objects.items() if isinstance(one, Source)}


def _visible(source: Source, reach: Reach) -> bool:
    """Tell whether a memory that was not searched for may be shown to a read: state, scope and filters."""
    return is_shown(head_of(source), reach) and matches(reach.where, record_of(passages_of(source)[0]))
