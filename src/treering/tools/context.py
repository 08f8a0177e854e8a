"""`query` in mode `context`: what is believed, decided, constrained, done and open around a task."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from math import ceil

from pydantic import Field

from treering.core.characters import label
from treering.core.errors import NotFound
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare, Filter, matches
from treering.core.injection import instruction_flags
from treering.core.locator import place_in
from treering.core.objects import Activity, Knowledge, Object, WorkItem, title_of
from treering.core.pack import Citation, ConflictNote, ContextPack, PackItem
from treering.core.trust import trust_of
from treering.derived.analysis import index_text
from treering.derived.arms import RELATED_AT
from treering.derived.fusion import PLACES, VECTORS, WORDS
from treering.derived.gaps import names_in, unknown_among
from treering.derived.packing import Draft, Packed, cite, pack, quoted, render, section_of
from treering.derived.passages import passages_of, record_of
from treering.derived.profile import code_before_tests
from treering.derived.question import Question
from treering.derived.retrieval import Hit, Retrieval, is_shown, retrieve
from treering.derived.trusting import Wording, repetition_flags
from treering.ports.clock import fresh_id
from treering.ports.ledger import Altered, Selection, head_of, noted
from treering.ports.reach import Reach
from treering.tools.envelope import Call, Mode, Value
from treering.tools.reading import (
    Asked,
    ReadReport,
    SearchOptions,
    altered_warnings,
    explanation,
    lag_warning,
    question_of,
    reach_of,
    stood_at,
    warnings_of,
    why_empty,
)
from treering.tools.rights import READS

_LIFETIME = timedelta(hours=1)
_SOURCES = 24
_BELIEFS = 16
_PER_SOURCE = 4
_READS = 8
_DEFAULT_TOKENS = 4_000
_FAINT = 0.2
"""Part of the best score in the words arm below which a belief is noise."""

_WITHDRAWN = ("stale", "superseded")
_SHARED = 2
"""Words withdrawn knowledge has to share with a task to be warned of."""


class ContextInput(Value):
    """What the context is for."""

    task: Asked = Field(description="The task in hand, as you would tell a colleague.")


class ContextReport(ReadReport):
    """A context pack, as values and as Markdown with recalled text fenced as data."""

    pack: ContextPack
    text: str


def context(call: Call, given: ContextInput, options: SearchOptions) -> ContextReport:
    """Gather, relate, and pack what is known for a task."""
    reach, altered = reach_of(call, options), Altered()
    question = question_of(call, given.task, semantic=options.semantic)
    deep = options.deep
    sources = _retrieve(call, question, reach, ("source",), _SOURCES, deep=deep, max_per_source=_PER_SOURCE)
    beliefs = _retrieve(call, question, reach, ("knowledge", "activity", "work_item"), _BELIEFS, deep=deep)
    altered |= {**sources.altered, **beliefs.altered}
    answering = _to_the_point(beliefs.hits, sources.hits, reach)
    shown = code_before_tests(sources.hits, given.task)
    related = _resting_on(call, shown, answering, reach, altered)
    objects = _objects(call, answering, related, reach, altered)
    wording = Wording.of(question.text)
    drafts = [_belief(call, item, score, reach, wording, altered) for item, score in objects]
    drafts += [_source(hit) for hit in shown]
    packed = pack(drafts, max_tokens=options.max_tokens or _DEFAULT_TOKENS)
    built = _build(call, given.task, packed, reach, question, options, altered)
    if options.explain:
        hits = {
            f"{hit.head.object_id} {hit.head.part}".strip(): explanation(call, hit, found, reach)
            for found in (sources, beliefs)
            for hit in found.hits
        }
        built = built.model_copy(update={"trace": {**built.trace, "hits": hits}})
    empty = not packed.items
    return ContextReport(
        verb="query",
        mode="context",
        scope=call.scope,
        status="empty" if empty else "ok",
        warnings=(*warnings_of(call, question), *altered_warnings(altered)),
        ids=(built.id, *dict.fromkeys(item.object_id for item in packed.items)),
        pack=built,
        text=render(built),
        empty=why_empty(call, question, reach) if empty else None,
        left_out=tuple(f"{item.object_id} {item.segment_id}".strip() for item in packed.left_out),
        as_of=stood_at(call, reach),
        trace={"sources": dict(sources.trace), "beliefs": dict(beliefs.trace)},
    )


def _retrieve(
    call: Call,
    question: Question,
    reach: Reach,
    types: tuple[str, ...],
    limit: int,
    *,
    deep: bool,
    max_per_source: int | None = None,
) -> Retrieval:
    only: Filter = And((reach.where, Compare("type", "in", types)))
    return retrieve(
        question,
        index=call.engine.index,
        ledger=call.engine.ledger,
        reach=replace(reach, where=only),
        limit=limit,
        max_per_source=max_per_source,
        deep=deep,
    )


def _to_the_point(beliefs: Sequence[Hit], sources: Sequence[Hit], reach: Reach) -> list[Hit]:
    """Leave out beliefs that share no more with the task than a common word.

    Scores are scaled within each of the two rankings; the raw ones can be compared between them, but not between
    what stands now and what stood once.
    """
    if reach.withdrawn or reach.at is not None:
        return list(beliefs)
    best = max((_raw(hit, WORDS) for hit in (*beliefs, *sources)), default=0.0)
    return [
        hit
        for hit in beliefs
        if _raw(hit, VECTORS) >= RELATED_AT or _raw(hit, WORDS) >= _FAINT * best or PLACES in hit.fused.parts
    ]


def _raw(hit: Hit, arm: str) -> float:
    part = hit.fused.parts.get(arm)
    return part.raw if part else 0.0


def _resting_on(
    call: Call, sources: Sequence[Hit], beliefs: Sequence[Hit], reach: Reach, altered: Altered
) -> list[tuple[str, float]]:
    """Find knowledge that rests on the very segments that answer: it belongs to the task by its evidence."""
    if reach.at is not None:
        return []
    known = {hit.head.object_id for hit in beliefs}
    best = {(hit.head.object_id, hit.head.part): hit.score for hit in reversed(sources)}
    found: dict[str, float] = {}
    for source_id in dict.fromkeys(hit.head.object_id for hit in sources):
        for item in _readable(call, call.engine.ledger.dependents(source_id), reach, altered):
            refs = item.evidence_refs if isinstance(item, Knowledge) else ()
            score = max((best.get((ref.source_id, ref.segment_id), 0.0) for ref in refs), default=0.0)
            if score and item.id not in known:
                found[item.id] = score
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:_BELIEFS]


def _objects(
    call: Call, hits: Sequence[Hit], related: Sequence[tuple[str, float]], reach: Reach, altered: Altered
) -> list[tuple[Object, float]]:
    """Read what was found; what is only related comes after what answers, and passes the same gate."""
    scores = {hit.head.object_id: hit.score for hit in hits}
    shown = [(item, scores[item.id]) for item in _readable(call, scores, reach, altered)]
    worth = dict(related)
    near = (item for item in _readable(call, worth, reach, altered) if is_shown(head_of(item), reach))
    return shown + [(item, worth[item.id]) for item in near if matches(reach.where, record_of(passages_of(item)[0]))]


def _readable(call: Call, identities: Iterable[str], reach: Reach, altered: Altered) -> Iterator[Object]:
    """Read objects, but for those that are gone meanwhile or not what the audit log says; the latter are noted."""
    for identity in identities:
        item = None
        with suppress(NotFound), noted(altered):
            item = call.engine.ledger.get(identity, as_of=reach.at)
        if item:
            yield item


def _belief(call: Call, item: Object, score: float, reach: Reach, wording: Wording, altered: Altered) -> Draft:
    passage = passages_of(item)[0]
    words = f"{title_of(item)}\n{passage.text}"
    places = tuple(_places(call, item, reach, altered))
    return Draft(
        PackItem(
            section=section_of(item.type, item.kind),
            object_id=item.id,
            kind=item.kind,
            status=item.status,
            title=title_of(item),
            text=passage.text,
            score=round(score, 6),
            flags=(*instruction_flags(words), *repetition_flags(wording.repeated_in(words))),
            channel=item.origin_channel,
            trust=trust_of(item.origin_channel, item.status, call.engine.ledger.policy.channel_trust),
        ),
        places,
    )


def _source(hit: Hit) -> Draft:
    place = place_in(hit.locator, hit.head.origin) if hit.locator else hit.head.origin
    item = PackItem(
        section="sources",
        object_id=hit.head.object_id,
        segment_id=hit.head.part,
        kind=hit.state.kind,
        status=hit.state.status,
        title=" — ".join(filter(None, (hit.head.title, hit.head.heading))),
        text=hit.text,
        score=round(hit.score, 6),
        flags=hit.flags,
        channel=hit.trusted.channel,
        trust=hit.trusted.level,
    )
    origin = Citation(
        mark="", object_id=hit.head.object_id, segment_id=hit.head.part, origin=hit.head.origin, place=place
    )
    return Draft(item, (origin,))


def _places(call: Call, item: Object, reach: Reach, altered: Altered) -> Iterable[Citation]:
    match item:
        case Knowledge():
            yield from (found for ref in item.evidence_refs if (found := _place(call, ref, reach, altered)))
        case Activity() | WorkItem():
            for source_id in item.source_refs:
                yield Citation(mark="", object_id=source_id, origin=_origin(call, source_id, reach, altered))
        case _:
            return


def _place(call: Call, ref: EvidenceRef, reach: Reach, altered: Altered) -> Citation | None:
    """Cite evidence that is what the audit log says; of a source in another scope only its id is told."""
    origin = _origin(call, ref.source_id, reach, altered)
    if origin == ref.source_id:
        return cite(ref, origin=origin, place="")
    with suppress(NotFound), noted(altered):
        segment = call.engine.ledger.segment(ref.source_id, ref.segment_id)
        return cite(ref, origin=origin, place=place_in(segment.locator, origin))
    return None


def _origin(call: Call, source_id: str, reach: Reach, altered: Altered) -> str:
    head = call.engine.ledger.heads([source_id], as_of=reach.at, altered=altered).get(source_id)
    return head.title if head else source_id


def _build(
    call: Call,
    task: str,
    packed: Packed,
    reach: Reach,
    question: Question,
    options: SearchOptions,
    altered: Altered,
) -> ContextPack:
    now = call.engine.clock.now()
    conflicts = _conflicts(call, packed, reach, altered)
    return ContextPack(
        id=fresh_id("context_pack", call.engine.clock),
        task=task,
        summary=_summary(packed, conflicts),
        scope=call.scope,
        items=packed.items,
        conflicts=conflicts,
        missing_context=_missing(call, question, packed, reach, altered),
        recommended_next_reads=_next_reads(packed),
        citations=packed.citations,
        generated_at=now,
        expires_at=now + _LIFETIME,
        budget={
            "max_tokens": options.max_tokens or _DEFAULT_TOKENS,
            "used_tokens": packed.used_tokens,
            "left_out": len(packed.left_out),
        },
        trace={"as_of": stood_at(call, reach)},
    )


def _summary(packed: Packed, conflicts: Sequence[ConflictNote]) -> str:
    if not packed.items:
        return "Nothing is known here for this task."
    counts: dict[str, int] = {}
    for item in packed.items:
        counts[item.section] = counts.get(item.section, 0) + 1
    parts = [f"{count} {section if count > 1 else _singular(section)}" for section, count in counts.items()]
    more = f"; {len(packed.left_out)} more did not fit" if packed.left_out else ""
    warning = f"; {len(conflicts)} unresolved" if conflicts else ""
    return f"Known for this task: {', '.join(parts)}{warning}{more}."


def _singular(section: str) -> str:
    return {"work": "work item", "activities": "activity"}.get(section, section.removesuffix("s"))


def _conflicts(call: Call, packed: Packed, reach: Reach, altered: Altered) -> tuple[ConflictNote, ...]:
    """Name every contested claim in the pack together with the claims it contradicts."""
    contested = [item.object_id for item in packed.items if item.status == "contested"]
    if not contested:
        return ()
    everything = Selection(
        scope=reach.scope,
        descend=reach.descend,
        types=("knowledge",),
        where=Compare("status", "eq", "contested"),
        as_of=reach.at,
    )
    groups: dict[str, list[Knowledge]] = {}
    for item in call.engine.ledger.select(everything, altered=altered):
        if isinstance(item, Knowledge) and (key := item.claim_key()):
            groups.setdefault(key, []).append(item)
    return tuple(_note(group) for group in groups.values() if any(item.id in contested for item in group))


def _note(group: Sequence[Knowledge]) -> ConflictNote:
    return ConflictNote(
        ids=tuple(item.id for item in group),
        summary="Contested: " + " ↔ ".join(f"{quoted(item.title)} (`{item.id}`)" for item in group),
    )


def _missing(call: Call, question: Question, packed: Packed, reach: Reach, altered: Altered) -> tuple[str, ...]:
    """Say what the task speaks of that the space does not know, and what it knew but had to withdraw."""
    unknown = ", ".join(label(name) for name in _unknown_names(call, question, reach)[:_READS])
    gaps = [f"Nothing here mentions {unknown}."] if unknown else []
    withdrawn = _withdrawn(call, question, reach, altered)
    gaps += [f"`{identity}` ({quoted(title)}) is {status}: do not rely on it." for identity, title, status in withdrawn]
    sections = {item.section for item in packed.items}
    if packed.items and not sections & {"decisions", "constraints"}:
        gaps.append("No decision or constraint is recorded for this; crystallize what you decide.")
    return (*gaps, *lag_warning(call))


def _unknown_names(call: Call, question: Question, reach: Reach) -> list[str]:
    if reach.at is not None:
        return []  # which words occurred at that time is not kept
    names = names_in(question.text)
    terms = sorted({term for terms in names.values() for term in terms})
    return unknown_among(names, call.engine.index.knows(terms, reach=reach))


def _withdrawn(call: Call, question: Question, reach: Reach, altered: Altered) -> list[tuple[str, str, str]]:
    """Name withdrawn knowledge that shares more than a chance word with the task."""
    if reach.withdrawn or reach.at is not None:
        return []
    gone: Filter = And((Compare("type", "eq", "knowledge"), Compare("status", "in", _WITHDRAWN)))
    index = call.engine.index
    hits = index.by_words(question.terms, reach=replace(reach, where=gone, withdrawn=True), limit=_READS)
    heads = index.heads([hit.key for hit in hits])
    items = _readable(call, [heads[hit.key].object_id for hit in hits], reach, altered)
    asked = set(question.terms.words)
    enough = min(_SHARED, ceil(len(asked) / 2))
    return [(item.id, title_of(item), item.status) for item in items if len(asked & _words_of(item)) >= enough]


def _words_of(item: Object) -> set[str]:
    return set(index_text(f"{title_of(item)} {passages_of(item)[0].text}").split())


def _next_reads(packed: Packed) -> tuple[str, ...]:
    """Name what did not fit, best first, and the wholes of which only parts are in the pack."""
    left = [
        f"{quoted(item.title)} (`{item.object_id}` {item.segment_id})" for item in packed.left_out if item.segment_id
    ]
    cut = [
        f"{quoted(item.title)}, the rest of it (`{item.object_id}` {item.segment_id})"
        for item in packed.items
        if "cut" in item.flags
    ]
    return tuple(dict.fromkeys([*cut, *left]))[:_READS]


CONTEXT = Mode(
    name="context",
    summary="A context pack for a task: believed, decided, constrained, done, open; cited; inside a token budget.",
    input=ContextInput,
    options=SearchOptions,
    report=ContextReport,
    run=context,
    rights=READS,
)
