"""Retrieving: filters, then candidates from search, calibrated and weighed by the switches of a profile."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from treering.core.arguments import check_type
from treering.core.canonical import render_time
from treering.core.errors import InvalidInput
from treering.core.errors import nearest as nearest_name
from treering.core.filters import (
    EVERYTHING,
    METADATA,
    And,
    Compare,
    Filter,
    Not,
    Or,
    element_name,
    matches,
    parse_filter,
)
from treering.core.objects import Object, Source
from treering.core.scope import ROOT
from treering.extensions.client.items.documents import (
    AGENT,
    CONTEXT,
    HAPPENED,
    PREFIX,
    TIMES,
    USER,
    MemoryItem,
    RetrievedMemories,
    content_of,
    item_of,
    known_name,
    moment_text,
    plain_value,
    scope_of,
)
from treering.extensions.client.items.replacing import Reader, replaced_memories
from treering.extensions.client.items.similarity import of_relevance
from treering.extensions.client.items.weighing import NO_RERANKER, FoundMemory, Weighing, weighed
from treering.extensions.client.profiles import Switches
from treering.ports.ledger import ObjectRequest, head_of
from treering.ports.passages import PassageRequest, Reach
from treering.retrieval.index.passages import is_shown, passages_of, record_of
from treering.retrieval.index.rounds import nearest, run_together
from treering.retrieval.search.fusion import VECTORS, Fused
from treering.retrieval.search.hit_signals import nearness
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.known_words import known_words
from treering.retrieval.search.lines import LineQuery
from treering.retrieval.search.question import Meaning, Question, asks_about_past
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.retrieval import Retrieval, retrieval
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call
from treering.verbs.read_reports import warnings_of
from treering.verbs.reading import note_recalled, question_of
from treering.verbs.replaced_turns import behind_replacements

NOT_COMPARED = (
    "Some memories are not compared yet, so marks of replaced ones may be missing. The next search continues."
)
"""The warning of an answer if the memories of an owner were not all compared."""
RecallScope = Literal["session", "lineage", "agent", "user", "space"]
SCOPES: tuple[RecallScope, ...] = ("session", "lineage", "agent", "user", "space")


@dataclass(frozen=True, slots=True)
class Who:
    """The type of the agent that stores and retrieves, and the user it works for, if known."""

    agent_type: str | None = None
    user_id: str | None = None

    @property
    def visible(self) -> Filter:
        """The memories that it may see: of its user, and without a user; all if it has no user."""
        if self.user_id is None:
            return EVERYTHING
        return Or((metadata_filter({USER: self.user_id}), metadata_filter({USER: None})))

    def sees(self, item: Object) -> bool:
        """Return whether an object is not a memory of another user."""
        return not isinstance(item, Source) or self.owns(item.metadata)

    def owns(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether metadata is of its user, of several with its user, or of no user; as `visible`."""
        users = metadata.get(USER)
        named = users if isinstance(users, list) else [users]
        return self.user_id is None or users is None or self.user_id in named


@dataclass(frozen=True, slots=True)
class Ages:
    """The maximum age of retrieved memories, in seconds; `None`: no limit."""

    session_ttl: float | None = None
    """Since it was stored."""
    max_age: float | None = None
    """Since the remembered event."""


def metadata_filter(filters: Mapping[str, Any] | None) -> Filter:
    """Read filters on metadata: a value, a list of values, or `{"gte": …, "exists": …}` for each key.

    Raises `InvalidInput` for an unknown operator or an invalid operand.
    """
    check_type(filters, Mapping | None, name="filters", expected="a dictionary", hint="Give such as {'topic': 'bees'}.")
    by_field = {f"{METADATA}{known_name(str(key))}": _operand(str(key), one) for key, one in (filters or {}).items()}
    return _over_lists(parse_filter(by_field))


def wanted_keys(filters: Mapping[str, Any] | None) -> dict[str, Filter]:
    """Return the metadata keys that memories need for some filters, each with the filter for memories that have it."""
    wanted = [key for key, one in (filters or {}).items() if one is not None and one != {"exists": False}]
    return {str(key): metadata_filter({str(key): {"exists": True}}) for key in wanted}


def _over_lists(where: Filter) -> Filter:
    """Extend a filter to lists in metadata that contain the requested value.

    Equality and `in` with up to 100 values match elements, and `exists` matches lists; order compares single values
    only.
    """
    match where:
        case And(parts):
            return And(tuple(map(_over_lists, parts)))
        case Or(parts):
            return Or(tuple(map(_over_lists, parts)))
        case Not(part):
            return Not(_over_lists(part))
        case Compare(field, "ne", value) if field.startswith(METADATA):
            return Not(_over_lists(Compare(field, "eq", value)))
        case Compare(field, "exists", False) if field.startswith(METADATA):
            return Not(_over_lists(Compare(field, "exists", value=True)))
        case Compare(field, "exists") if field.startswith(METADATA):
            return Or((where, Compare(element_name(field), "exists", value=True)))
        case Compare(field, "eq" | "in", value) if field.startswith(METADATA):
            values = value if isinstance(value, tuple) else (value,)
            if len(values) > _MAX_LIST_VALUES:
                return where
            return Or((where, *(Compare(element_name(field, one), "exists", value=True) for one in values)))
        case _:
            return where


def reach_of(
    *, scope: RecallScope, session_id: str | None, who: Who, ages: Ages, where: Filter, now: datetime
) -> Reach:
    """Return the memories visible to a retrieval. Only the scope `space` includes memories of other users.

    Raises `InvalidInput` if its scope needs an unknown agent or user.
    """
    if scope not in SCOPES:
        raise InvalidInput(f"Unknown scope {scope!r}.", hint=f"Use one of: {', '.join(SCOPES)}.")
    own = Compare("scope", "eq", scope_of(session_id))
    wide = scope in {"agent", "user", "space"} or session_id is None
    parts: list[Filter] = [
        Compare("type", "eq", "source"),
        Compare("origin", "prefix", PREFIX),
        where,
        *([] if scope == "space" else [who.visible]),
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
    if wide and scope != "session":
        parts.append(Not(Compare(f"{METADATA}{CONTEXT}", "exists", True)))
        return Reach(scope=ROOT, descend=True, where=And(tuple(parts)), now=now)
    return Reach(scope=scope_of(session_id), where=And(tuple(parts)), now=now)


def _young(ages: Ages, now: datetime) -> list[Filter]:
    """Return the conditions on the age."""
    conditions: list[Filter] = []
    if ages.session_ttl is not None:
        conditions.append(Compare("created_at", "gte", render_time(now - timedelta(seconds=ages.session_ttl))))
    if ages.max_age is not None:
        conditions.append(Compare(f"{METADATA}{HAPPENED}", "gte", render_time(now - timedelta(seconds=ages.max_age))))
    return conditions


def _by(key: str, value: str | None, scope: str) -> Filter:
    if value is None:
        raise InvalidInput(
            f"The scope {scope!r} needs the {key} of the client, which has none.",
            hint=f"Open the client with {key}=…, or filter by {key}.",
        )
    return Compare(f"{METADATA}{key}", "eq", value)


def _operand(key: str, value: Any) -> Any:
    if value is None:
        return {"exists": False}
    if isinstance(value, Mapping):
        return {str(name).removeprefix("$"): _value(key, one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return {"in": [_value(key, one) for one in value]}
    return _value(key, value)


def _value(key: str, value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(key, one) for one in value]
    if key in TIMES and not isinstance(value, bool):
        return moment_text(key, value)
    return plain_value(value)


_CANDIDATES_PER_MEMORY = 2
_MAX_LIST_VALUES = 100
"""Candidates that are compared with each other, for each memory wanted; the search adds half as many."""

_MIN_CANDIDATES, _MAX_CANDIDATES = 20, 200

_MOST_UNRELATED = 500
"""The maximum number of passages or memories that are listed, or compared with a query besides search results."""
_MAX_WEAK = TUNING.client.related - 0.01
"""The maximum similarity of a memory that has much less in common with the query than the best one."""


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """A query of a memory, with its options."""

    query: str
    limit: int
    reach: Reach
    min_similarity: float
    switches: Switches
    priorities: tuple[str, ...] = ()
    no_reranker: str = NO_RERANKER
    older: Mapping[str, Reach] = field(default_factory=dict)
    """By name of a setting that limits the age, the reach without that limit."""
    unfiltered: Reach | None = None
    """The reach without filters and limits of the age."""
    reader: Reader = field(default_factory=Reader)
    keys: Mapping[str, Filter] = field(default_factory=dict)
    """By metadata key that the filters require, the filter for memories that have it."""

    @property
    def wants_unrelated(self) -> bool:
        """Whether memories are included that the search considers unrelated to the query."""
        return self.min_similarity < TUNING.client.related


def recall(engine: Engine, request: MemoryQuery) -> RetrievedMemories:
    """Return the memories that answer best; without a query the newest."""
    if not request.query.strip():
        newest = listed(engine, newest_memories(engine, request.reach, limit=request.limit), request.reader)
        return RetrievedMemories(newest, trace={"warnings": [] if newest else [*_unknown_keys(engine, request)]})
    call = Call(engine, request.reach.scope)
    question = question_of(call, request.query, now=request.reach.now)
    searching = retrieval(
        question,
        reach=request.reach,
        limit=min(max(request.limit * _CANDIDATES_PER_MEMORY, _MIN_CANDIDATES), _MAX_CANDIDATES),
        by_source=1,
        repeating=True,
        whole=True,
    )
    steps = [searching, known_words(question, request.reach)]
    results, known = run_together(steps, index=engine.index, ledger=engine.ledger)
    note_recalled(engine, results.hits[: request.limit])
    like = _Likeness(known.idf, question.meaning)
    candidates = _candidates(results, like, weak=Judgement.of(known, question, results).weak)
    near = [one for one in candidates if one.similarity >= TUNING.client.related]
    if request.wants_unrelated:
        far = [one for one in candidates if one not in near]
        if len(candidates) <= request.limit:
            far += _unrelated(engine, question, request.reach, like, candidates)
        near += _ranked_behind(near, far)
    near = [one for one in near if one.similarity >= request.min_similarity]
    ranked, not_used = weighed(near, _weighing(engine, request))
    trace: dict[str, Any] = {
        "candidates": len(candidates),
        "below_min_similarity": max(0, len(candidates) - len(near)),
        "switches": list(request.switches.names),
        "warnings": [*warnings_of(question)],
        "not_used": [*not_used],
    }
    query = LineQuery(request.query, engine.quick)
    known_replaced = replaced_memories(engine, [one.source for one in ranked], request.reader)
    replaced = known_replaced.current
    if known_replaced.is_partial:
        trace["warnings"].append(NOT_COMPARED)
    ordered = _current_first(engine, ranked, replaced, request)[: request.limit]
    shown = [_with_lines(item_of(one.source, one.similarity), query) for one in ordered]
    items = _marked(engine, shown, replaced)
    if all(one.source.scope != request.reach.scope for one in ordered) and _is_empty_session(engine, request):
        trace["warnings"].append("No memory is stored in this session.")
    if not items:
        trace["warnings"] += _unknown_keys(engine, request)
    for setting, hidden in _hidden_by_age(engine, request) if len(items) < request.limit else ():
        trace[f"hidden_by_{setting.rpartition('.')[2]}"] = hidden
        trace["warnings"].append(f"{setting} hides {hidden} older memories. Set it to null to retrieve them.")
    return RetrievedMemories(items, trace=trace)


def _is_empty_session(engine: Engine, request: MemoryQuery) -> bool:
    """Return whether the client sees no memory in the session of a query, whatever its filters."""
    everything = request.unfiltered or request.reach
    session = everything.scope
    own = And((everything.where, Compare("scope", "eq", session)))
    return session != ROOT and not engine.index.passages.count(replace(everything, where=own, withdrawn=True))


def _candidates(results: Retrieval, like: "_Likeness", *, weak: Collection[int]) -> list[FoundMemory]:
    """Return the memories of the hits; the similarity of `weak` ones is below the threshold for related ones."""
    best = max((hit.score for hit in results.hits), default=0.0) or 1.0
    similarities = (
        min(like(hit.text, _cosine(hit.fused)), _MAX_WEAK if hit.head.key in weak else 1.0) for hit in results.hits
    )
    return [
        FoundMemory(hit.source, content_of(hit.source), hit.score / best, similarity)
        for hit, similarity in zip(results.hits, similarities, strict=True)
        if hit.source
    ]


def _weighing(engine: Engine, request: MemoryQuery) -> Weighing:
    return Weighing(
        query=request.query,
        now=request.reach.now or engine.clock.now(),
        switches=request.switches,
        priorities=request.priorities,
        reranker=engine.reranker,
        no_reranker=request.no_reranker,
        referred=lambda ids: [one for one in read_sources(engine, ids).values() if is_visible(one, request.reach)],
    )


def _current_first(
    engine: Engine, found: Sequence[FoundMemory], replaced: Mapping[str, str], asked: MemoryQuery
) -> list[FoundMemory]:
    """Put replaced memories directly behind their replacement, which is looked up if it was not found."""
    absent = set(replaced.values()) - {one.source.id for one in found}
    sources = read_sources(engine, sorted(absent))

    def look_up(one: FoundMemory, identity: str) -> FoundMemory | None:
        source = sources.get(identity)
        if source is None or not is_visible(source, asked.reach):
            return None
        return replace(one, source=source, text=content_of(source))

    return behind_replacements(
        found, replaced, key_of=lambda one: one.source.id, look_up=look_up, past=asks_about_past(asked.query)
    )


def _marked(engine: Engine, items: Sequence[MemoryItem], replaced: Mapping[str, str]) -> list[MemoryItem]:
    """Return memories with the id and time of their replacements."""
    later = read_sources(engine, [replaced[one.id] for one in items if one.id in replaced])
    times = {identity: item_of(source).timestamp for identity, source in later.items()}
    by = [replaced.get(one.id, "") for one in items]
    return [
        replace(one, replaced_by=current, replaced_at=times.get(current))
        for one, current in zip(items, by, strict=True)
    ]


def _hidden_by_age(engine: Engine, asked: MemoryQuery) -> Iterator[tuple[str, int]]:
    """Yield the settings that hide older memories, each with the number of memories that only it hides."""
    passages = engine.index.passages
    shown = passages.count(asked.reach) if asked.older else 0
    for setting, reach in asked.older.items():
        if (hidden := passages.count(reach) - shown) > 0:
            yield setting, hidden


def _unknown_keys(engine: Engine, asked: MemoryQuery) -> Iterator[str]:
    """Yield a warning for each metadata key of the filters that no memory has, if there are memories."""
    everything = asked.unfiltered or asked.reach
    for key, having in asked.keys.items():
        with_key = replace(everything, where=And((everything.where, having)))
        if engine.index.passages.count(with_key):
            continue
        if known := {name for one in newest_memories(engine, everything) for name in one.metadata}:
            yield f"filters: no memory has the metadata key {key!r}. {nearest_name(key, sorted(known - {CONTEXT}))}"


def _with_lines(item: MemoryItem, query: LineQuery) -> MemoryItem:
    if item.content.count("\n") < TUNING.lines.max_shown:
        return item
    return replace(item, lines=query.lines_of(item.content).shown)


@dataclass(frozen=True, slots=True)
class _Likeness:
    """Computes the similarity of texts to a query."""

    idf: IdfWeights
    meaning: Meaning | None

    def __call__(self, text: str, cosine: float | None) -> float:
        near = None if cosine is None or self.meaning is None else nearness(cosine, self.meaning.unrelated_below)
        return of_relevance(near, self.idf.coverage(frozenset(index_text(text).split())))


def newest_memories(engine: Engine, reach: Reach, *, limit: int = _MOST_UNRELATED) -> list[Source]:
    """Return the memories in reach, newest first.

    Reads few more than `limit` of them: the index leaves out the ones older than the `limit` newest read so far.
    """
    newest: list[Source] = []
    seen, within, is_last = set[str](), reach, True
    while ids := [one for one in _ids(engine, within) if one not in seen]:
        batch = ids[-limit:] if is_last else ids[:limit]
        seen.update(batch)
        newest += [one for one in read_sources(engine, batch).values() if is_visible(one, reach)]
        newest = sorted(newest, key=lambda one: item_of(one).timestamp, reverse=True)[:limit]
        if len(newest) == limit:
            oldest = Compare(f"{METADATA}{HAPPENED}", "gte", render_time(item_of(newest[-1]).timestamp))
            within = replace(reach, where=And((reach.where, oldest)))
        is_last = not is_last  # memories may be stored in any order, such as the newest first
    return newest


def _ids(engine: Engine, reach: Reach) -> list[str]:
    """Return the ids of the memories in reach, the first stored one first."""
    return [*dict.fromkeys(identity for identity, _ in engine.index.passages.places(reach))]


def listed(engine: Engine, sources: Sequence[Source], reader: Reader) -> list[MemoryItem]:
    """Return memories that are listed without a query, in order, and marked if others replaced them."""
    return _marked(engine, [item_of(one) for one in sources], replaced_memories(engine, sources, reader).current)


def _cosine(fused: Fused) -> float | None:
    near = fused.parts.get(VECTORS)
    return near.raw if near else None


def _ranked_behind(near: Sequence[FoundMemory], far: Sequence[FoundMemory]) -> list[FoundMemory]:
    """Rank memories by similarity behind others, so that a lower threshold only adds memories at the end."""
    floor = min((one.score for one in near), default=1.0)
    ranked = sorted(far, key=lambda one: -one.similarity)
    return [replace(one, score=floor * (1 + one.similarity) / 2) for one in ranked]


def _unrelated(
    engine: Engine,
    question: Question,
    reach: Reach,
    like: _Likeness,
    related: Sequence[FoundMemory],
) -> list[FoundMemory]:
    """Return other memories in reach than the related ones: those nearest to a query, newest first."""
    cosines = _cosines(engine, question, reach, limit=_MOST_UNRELATED)
    known = {one.source.id for one in related}
    sources = read_sources(engine, [identity for identity in cosines if identity not in known])
    # Counting takes longer than a search among thousands, and is only needed if some have no vector yet.
    if len(cosines) < _MOST_UNRELATED and len(cosines.keys() | known) < min(
        engine.index.passages.count(reach), _MOST_UNRELATED
    ):
        sources = {one.id: one for one in newest_memories(engine, reach)} | sources
    visible = (
        one
        for one in sorted(sources.values(), key=lambda one: one.id, reverse=True)
        if one.id not in known and is_visible(one, reach)
    )
    texts = ((one, content_of(one), cosines.get(one.id)) for one in visible)
    return [FoundMemory(source, text, 0.0, like(text, cosine)) for source, text, cosine in texts]


def _cosines(engine: Engine, question: Question, reach: Reach, *, limit: int) -> dict[str, float]:
    """Return the cosine of the nearest passage of each memory that has a vector."""
    if question.meaning is None:
        return {}
    (near,) = nearest([question.meaning.request(reach=reach, limit=limit)], engine.index)
    by_key = question.meaning.cosines(near)
    (read,) = engine.index.passages.read([PassageRequest(tuple(by_key), reach)])
    cosines: dict[str, float] = {}
    for key in read.visible:
        identity = read.heads[key].object_id
        cosines[identity] = max(cosines.get(identity, -1.0), by_key[key])
    return cosines


def read_sources(engine: Engine, ids: Iterable[str]) -> dict[str, Source]:
    """Read sources; skip missing ones, and any that differ from the audit log."""
    wanted = tuple(dict.fromkeys(ids))
    if not wanted:
        return {}
    (read,) = engine.ledger.read([ObjectRequest(objects=wanted)])
    return {identity: one for identity, one in read.objects.items() if isinstance(one, Source)}


def is_visible(source: Source, reach: Reach) -> bool:
    """Return whether a memory that was not searched for is visible: by state, scope and filters."""
    return is_shown(head_of(source), reach) and _fits(source, reach.where)


def _fits(source: Source, where: Filter) -> bool:
    return matches(where, record_of(passages_of(source)[0]))
