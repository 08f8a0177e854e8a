"""Retrieving: filters, then candidates from search, calibrated and weighed by the switches of a profile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from typing import Any, Literal

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput
from treering.core.filters import METADATA, And, Compare, Filter, Not, matches, over_lists, parse_filter
from treering.core.objects import Source
from treering.core.scope import ROOT
from treering.parts.client.items.documents import (
    AGENT,
    CONTEXT,
    HAPPENED,
    PREFIX,
    TIMES,
    USER,
    RetrievedMemories,
    content_of,
    item_of,
    known_name,
    moment_text,
    plain_value,
    scope_of,
)
from treering.parts.client.items.weighing import NO_RERANKER, FoundMemory, Weighing, weighed
from treering.parts.client.profiles import Switches
from treering.ports.ledger import ObjectRequest, head_of
from treering.ports.passages import Reach
from treering.retrieval.index.passages import is_shown, passages_of, record_of
from treering.retrieval.search.fusion import VECTORS, Fused
from treering.retrieval.search.retrieval import retrieve
from treering.retrieval.text.analysis import index_text, telling_terms
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call
from treering.verbs.reading import note_recalled, question_of, warnings_of

RecallScope = Literal["session", "lineage", "agent", "user", "space"]
SCOPES: tuple[RecallScope, ...] = ("session", "lineage", "agent", "user", "space")


@dataclass(frozen=True, slots=True)
class Who:
    """Who stores and retrieves: the type of the agent, and the user it works for, where they are known."""

    agent_type: str | None = None
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ages:
    """How old what is retrieved may be, in seconds; `None`: no limit."""

    session_ttl: float | None = None
    """Since it was stored."""
    max_age: float | None = None
    """Since what it tells of happened."""


def metadata_filter(filters: Mapping[str, Any] | None) -> Filter:
    """Read filters over metadata: a value, a list of values, or `{"gte": …, "exists": …}` for each key.

    Raises `InvalidInput` for an unknown operator or an operand that makes no sense.
    """
    named = {f"{METADATA}{known_name(str(key))}": _operand(str(key), value) for key, value in (filters or {}).items()}
    return over_lists(parse_filter(named))


def reach_of(
    *, scope: RecallScope, session_id: str | None, who: Who, ages: Ages, where: Filter, now: datetime
) -> Reach:
    """Return what a retrieval may see. Raises `InvalidInput` where its scope needs an agent or user nobody named."""
    own = Compare("scope", "eq", scope_of(session_id))
    wide = scope in {"agent", "user", "space"} or session_id is None
    parts: list[Filter] = [
        Compare("type", "eq", "source"),
        Compare("origin", "prefix", PREFIX),
        where,
        *_young(ages, now),
    ]
    match scope:
        case "session":
            parts.append(own)
        case "agent":
            parts.append(_by(AGENT, who.agent_type, scope))
        case "user":
            parts.append(_by(USER, who.user_id, scope))
        case "lineage" | "space":
            pass
        case _:
            raise InvalidInput(f"There is no scope {scope!r}.", hint=f"Give one of: {', '.join(SCOPES)}.")
    if wide and scope != "session":
        parts.append(Not(Compare(f"{METADATA}{CONTEXT}", "exists", True)))
        return Reach(scope=ROOT, descend=True, where=And(tuple(parts)), now=now)
    return Reach(scope=scope_of(session_id), where=And(tuple(parts)), now=now)


def _young(ages: Ages, now: datetime) -> list[Filter]:
    """Return what leaves out that which is too old."""
    found: list[Filter] = []
    if ages.session_ttl is not None:
        found.append(Compare("created_at", "gte", render_time(now - timedelta(seconds=ages.session_ttl))))
    if ages.max_age is not None:
        found.append(Compare(f"{METADATA}{HAPPENED}", "gte", render_time(now - timedelta(seconds=ages.max_age))))
    return found


def _by(key: str, value: str | None, scope: str) -> Filter:
    if value is None:
        raise InvalidInput(
            f"The scope {scope!r} needs a {key}, and this client has none.",
            hint=f"Open the client with {key}=…, or filter by {key}.",
        )
    return Compare(f"{METADATA}{key}", "eq", value)


def _operand(key: str, value: Any) -> Any:
    if value is None:
        return {"exists": False}
    if isinstance(value, Mapping):
        return {_operator(name): _value(key, one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return {"in": [_value(key, one) for one in value]}
    return _value(key, value)


def _operator(name: object) -> str:
    return str(name).removeprefix("$")


def _value(key: str, value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(key, one) for one in value]
    if key in TIMES and not isinstance(value, bool):
        return moment_text(key, value)
    return plain_value(value)


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
    note_recalled(engine, found.hits[: asked.limit])
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


# How like a memory is to a query, on one scale from 0 to 1 for every embedder.


RELATED = 0.7
_SURE = 0.6
"""So far on the way from chance to identity, a text is as like as can be."""
_FAR = 0.5
"""So far below chance, relative to the way above it, a text has nothing in common."""


def of_cosine(cosine: float, *, unrelated_below: float) -> float:
    """Bring a cosine to the scale: `unrelated_below`, which belongs to the embedder, is 0.7."""
    room = max(1.0 - unrelated_below, 1e-6)
    above = (cosine - unrelated_below) / room
    if above >= 0:
        return RELATED + (1 - RELATED) * min(1.0, above / _SURE)
    return RELATED * max(0.0, 1 + above / _FAR)


def of_words(sought: Collection[str], text: str) -> float:
    """Bring the part of a query's words that stand in a text to the scale: half of them are 0.7."""
    if not sought:
        return 0.0
    return sqrt(len(frozenset(sought).intersection(index_text(text).split())) / len(sought))


def similarity(sought: Collection[str], text: str, fused: Fused, *, unrelated_below: float) -> float:
    """Tell how like a text is to a query that found it. `sought`: the words of the query that tell."""
    near = fused.parts.get(VECTORS)
    by_meaning = of_cosine(near.raw, unrelated_below=unrelated_below) if near else 0.0
    return by_meaning if by_meaning == 1 else max(by_meaning, of_words(sought, text))
