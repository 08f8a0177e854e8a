"""`query` in mode `context`: what is believed, decided, constrained, done and open around a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil

from pydantic import Field

from treering.core.characters import label
from treering.core.evidence import EvidenceRef, Segment
from treering.core.filters import And, Compare, Filter, matches
from treering.core.injection import instruction_flags
from treering.core.lifecycle import is_over
from treering.core.locator import place_in
from treering.core.objects import Activity, Channel, Knowledge, Node, Object, WorkItem, title_of
from treering.core.pack import Citation, ConflictNote, ContextPack, PackItem
from treering.core.trust import TrustLevel, trust_of
from treering.derived.analysis import index_text
from treering.derived.fusion import PLACES, VECTORS, WORDS
from treering.derived.gaps import names_in, unknown_among
from treering.derived.packing import Packed, UnnumberedItem, cite, pack, quoted, render, section_of
from treering.derived.passages import passages_of, record_of
from treering.derived.profile import code_before_tests
from treering.derived.question import Question
from treering.derived.reranking import Rereading
from treering.derived.retrieval import Hit, Retrieval, is_shown, is_withheld, retrieval
from treering.derived.rounds import Steps, run_together
from treering.derived.trusting import Wording, repetition_flags
from treering.ports.clock import fresh_id
from treering.ports.ledger import Altered, ObjectRequest, ObjectsFound, Selection, head_of, sources_named
from treering.ports.passages import PassageRequest, PassagesFound
from treering.ports.reach import Reach
from treering.ports.text import TextFound, TextRequest
from treering.tools.attached import Attached, attached_to, named_nodes
from treering.tools.envelope import AskingInput, Call, Mode
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
from treering.tools.rereading import rereading_of, rereading_warnings
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


class ContextInput(AskingInput):
    """What the context is for."""

    TEXT = "task"

    task: Asked = Field(description="The task in hand, as you would tell a colleague.")


class ContextReport(ReadReport):
    """A context pack, as values and as Markdown with recalled text fenced as data."""

    pack: ContextPack
    text: str


def context(call: Call, given: ContextInput, options: SearchOptions) -> ContextReport:
    """Gather, relate, and pack what is known for a task."""
    reach = reach_of(call, options)
    question = question_of(call, given.task, semantic=options.semantic)
    found = _gather(call, question, reach, deep=options.deep, rereading=rereading_of(call, options))
    altered = {**found.sources.altered, **found.beliefs.altered, **found.altered}
    answering = _to_the_point(found.beliefs.hits, found.sources.hits, question, reach)
    shown = code_before_tests(found.sources.hits, given.task)
    attached = attached_to(call.engine.ledger, found.nodes, reach, altered)
    related = _resting_on(call, shown, answering, reach, altered)
    objects = _objects(answering, attached, related, reach)
    citing = _Citing.read(call, [item for item, _ in objects], reach, altered)
    wording = Wording.of(question.text)
    trusted = found.beliefs.policy.channel_trust
    drafts = [_belief(item, score, citing, wording, trusted, reach) for item, score in objects]
    drafts += [_source(hit) for hit in shown]
    packed = pack(drafts, max_tokens=options.max_tokens or _DEFAULT_TOKENS)
    built = _build(call, given.task, packed, reach, found, attached, options, altered)
    if options.explain:
        hits = {
            f"{hit.head.object_id} {hit.head.part}".strip(): explanation(call, hit, each)
            for each in (found.sources, found.beliefs)
            for hit in each.hits
        }
        built = built.model_copy(update={"trace": {**built.trace, "hits": hits}})
    empty = not packed.items
    return ContextReport(
        verb="query",
        mode="context",
        scope=call.scope,
        status="empty" if empty else "ok",
        warnings=(*warnings_of(question), *rereading_warnings(found.sources), *altered_warnings(altered)),
        ids=(built.id, *dict.fromkeys(item.object_id for item in packed.items)),
        pack=built,
        text=render(built),
        empty=why_empty(call, question, reach) if empty else None,
        left_out=tuple(f"{item.object_id} {item.segment_id}".strip() for item in packed.left_out),
        as_of=stood_at(found.sources, reach),
        trace={"sources": dict(found.sources.trace), "beliefs": dict(found.beliefs.trace)},
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found for a task, each by a search of its own."""

    question: Question
    sources: Retrieval
    beliefs: Retrieval
    withdrawn: tuple[tuple[str, str, str], ...]
    """Id, title and status of knowledge that is withdrawn or over, and shares more than a chance word with the task."""
    unknown: tuple[str, ...]
    """Names in the task that nothing here mentions."""
    nodes: tuple[Node, ...]
    """Nodes that the task names."""
    altered: Mapping[str, str]


def _gather(call: Call, question: Question, reach: Reach, *, deep: bool, rereading: Rereading | None) -> _Found:
    """Search for everything at once, so that a store in another place is asked few questions.

    Only sources are read again: nothing else is a turn of a conversation.
    """
    altered = Altered()
    of_sources = _only(reach, ("source",))
    of_beliefs = _only(reach, ("knowledge", "activity", "work_item"))
    sources, beliefs, withdrawn, unknown, nodes = run_together(
        [
            retrieval(
                question,
                reach=of_sources,
                limit=_SOURCES,
                max_per_source=_PER_SOURCE,
                deep=deep,
                rereading=rereading,
            ),
            retrieval(question, reach=of_beliefs, limit=_BELIEFS, deep=deep),
            _withdrawn(question, reach, altered),
            _unknown_names(question, reach),
            named_nodes(question, reach, altered),
        ],
        index=call.engine.index,
        ledger=call.engine.ledger,
    )
    over = [(item.id, title_of(item), "over") for item in beliefs.over if _is_expired(item, question)]
    return _Found(question, sources, beliefs, (*withdrawn, *over), tuple(unknown), tuple(nodes), altered)


def _only(reach: Reach, types: tuple[str, ...]) -> Reach:
    return replace(reach, where=And((reach.where, Compare("type", "in", types))))


def _to_the_point(beliefs: Sequence[Hit], sources: Sequence[Hit], question: Question, reach: Reach) -> list[Hit]:
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
        if _is_near(question, hit) or _raw(hit, WORDS) >= _FAINT * best or PLACES in hit.fused.parts
    ]


def _is_near(question: Question, hit: Hit) -> bool:
    return question.meaning is not None and question.meaning.is_related(_raw(hit, VECTORS))


def _raw(hit: Hit, arm: str) -> float:
    part = hit.fused.parts.get(arm)
    return part.raw if part else 0.0


def _resting_on(
    call: Call, sources: Sequence[Hit], beliefs: Sequence[Hit], reach: Reach, altered: Altered
) -> list[tuple[Object, float]]:
    """Find knowledge that rests on the very segments that answer: it belongs to the task by its evidence."""
    if reach.at is not None or not sources:
        return []
    known = {hit.head.object_id for hit in beliefs}
    best = {(hit.head.object_id, hit.head.part): hit.score for hit in reversed(sources)}
    ids = tuple(dict.fromkeys(hit.head.object_id for hit in sources))
    (read,) = call.engine.ledger.read([ObjectRequest(dependents=ids)])
    altered |= read.altered
    found: dict[str, float] = {}
    for identity in (one for source_id in ids for one in read.dependents.get(source_id, ())):
        item = read.objects.get(identity)
        refs = item.evidence_refs if isinstance(item, Knowledge) else ()
        score = max((best.get((ref.source_id, ref.segment_id), 0.0) for ref in refs), default=0.0)
        if score and identity not in known:
            found[identity] = score
    ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:_BELIEFS]
    return [(read.objects[identity], score) for identity, score in ranked]


def _objects(
    hits: Sequence[Hit], attached: Sequence[Attached], related: Sequence[tuple[Object, float]], reach: Reach
) -> list[tuple[Object, float]]:
    """Return what was found, each once: what answers, what is attached to what the task names, what is only related.

    All of it passes the same gate.
    """
    near = [(item, score) for item, score in related if is_shown(head_of(item), reach) and not is_withheld(item, reach)]
    found = [
        *((hit.item, hit.score) for hit in hits if hit.item),
        *((item, 0.0) for one in attached for item in one.items),
        *(one for one in near if matches(reach.where, record_of(passages_of(one[0])[0]))),
    ]
    return list({item.id: (item, score) for item, score in reversed(found)}.values())[::-1]


@dataclass(frozen=True, slots=True)
class _Citing:
    """What citations need of the sources they name."""

    origins: Mapping[str, str]
    """By id of a source: what it is called. One in another scope is not in it."""
    segments: Mapping[tuple[str, str], Segment]

    @classmethod
    def read(cls, call: Call, items: Sequence[Object], reach: Reach, altered: Altered) -> "_Citing":
        """Read all of it at once, but for what does not verify, which is noted."""
        refs = [ref for item in items if isinstance(item, Knowledge) for ref in item.evidence_refs]
        if not items:
            return cls({}, {})
        request = ObjectRequest(
            heads=tuple(dict.fromkeys(sources_named(items))),
            segments=tuple(dict.fromkeys((ref.source_id, ref.segment_id) for ref in refs)),
            as_of=reach.at,
            vanished=True,
        )
        (found,) = call.engine.ledger.read([request])
        altered |= found.altered
        return cls({identity: head.title for identity, head in found.heads.items()}, found.segments)

    def of(self, item: Object) -> Iterator[Citation]:
        """Return the citations of an object."""
        match item:
            case Knowledge():
                yield from (cited for ref in item.evidence_refs if (cited := self._evidence(ref)))
            case Activity() | WorkItem():
                for source_id in item.source_refs:
                    yield Citation(mark="", object_id=source_id, origin=self.origins.get(source_id, source_id))
            case _:
                return

    def _evidence(self, ref: EvidenceRef) -> Citation | None:
        """Cite evidence that is what the audit log says; of a source in another scope only its id is told."""
        origin = self.origins.get(ref.source_id, ref.source_id)
        if origin == ref.source_id:
            return cite(ref, origin=origin, place="")
        segment = self.segments.get((ref.source_id, ref.segment_id))
        return cite(ref, origin=origin, place=place_in(segment.locator, origin)) if segment else None


def _belief(
    item: Object,
    score: float,
    citing: _Citing,
    wording: Wording,
    trusted: Mapping[Channel, TrustLevel],
    reach: Reach,
) -> UnnumberedItem:
    passage = passages_of(item)[0]
    words = f"{title_of(item)}\n{passage.text}"
    return UnnumberedItem(
        PackItem(
            section=section_of(item.type, item.kind),
            object_id=item.id,
            kind=item.kind,
            status=item.status,
            title=title_of(item),
            text=passage.text,
            score=round(score, 6),
            flags=(
                *instruction_flags(words),
                *repetition_flags(wording.repeated_in(words)),
                *(["over"] if reach.now and is_over(item, now=reach.now) else []),
            ),
            channel=item.origin_channel,
            trust=trust_of(item.origin_channel, item.status, trusted),
        ),
        tuple(citing.of(item)),
    )


def _source(hit: Hit) -> UnnumberedItem:
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
    return UnnumberedItem(item, (origin,))


def _build(
    call: Call,
    task: str,
    packed: Packed,
    reach: Reach,
    found: _Found,
    attached: Sequence[Attached],
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
        missing_context=_missing(packed, found),
        recommended_next_reads=_next_reads(packed, attached),
        citations=packed.citations,
        generated_at=now,
        expires_at=now + _LIFETIME,
        budget={
            "max_tokens": options.max_tokens or _DEFAULT_TOKENS,
            "used_tokens": packed.used_tokens,
            "left_out": len(packed.left_out),
        },
        trace={"as_of": stood_at(found.sources, reach)},
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
    """Name everything contested in the pack, together with the claims it contradicts."""
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
        if isinstance(item, Knowledge):
            groups.setdefault(item.claim_key() or item.id, []).append(item)
    return tuple(_note(group) for group in groups.values() if any(item.id in contested for item in group))


def _note(group: Sequence[Knowledge]) -> ConflictNote:
    return ConflictNote(
        ids=tuple(item.id for item in group),
        summary="Contested: " + " ↔ ".join(f"{quoted(item.title)} (`{item.id}`)" for item in group),
    )


def _missing(packed: Packed, found: _Found) -> tuple[str, ...]:
    """Say what the task speaks of that the space does not know, and what it knew but had to withdraw."""
    unknown = ", ".join(label(name) for name in found.unknown[:_READS])
    gaps = [f"Nothing here mentions {unknown}."] if unknown else []
    gaps += [
        f"`{identity}` ({quoted(title)}) is {status}: do not rely on it." for identity, title, status in found.withdrawn
    ]
    sections = {item.section for item in packed.items}
    if packed.items and not sections & {"decisions", "constraints"}:
        gaps.append("No decision or constraint is recorded for this; crystallize what you decide.")
    return (*gaps, *lag_warning(found.question.lag))


def _unknown_names(question: Question, reach: Reach) -> Steps[list[str]]:
    """Find the names in a task that nothing in the scopes of the read mentions."""
    if reach.at is not None:
        return []  # which words occurred at that time is not kept
    names = names_in(question.text)
    terms = sorted({term for terms in names.values() for term in terms})
    found: TextFound = yield TextRequest(reach, 0, known=tuple(terms))
    return unknown_among(names, found.known)


def _withdrawn(question: Question, reach: Reach, altered: Altered) -> Steps[list[tuple[str, str, str]]]:
    """Find withdrawn knowledge that shares more than a chance word with the task."""
    if reach.withdrawn or reach.at is not None:
        return []
    gone: Filter = And((Compare("type", "eq", "knowledge"), Compare("status", "in", _WITHDRAWN)))
    words = (*question.terms.words, *question.terms.phrases)
    hits: TextFound = yield TextRequest(replace(reach, where=gone, withdrawn=True), _READS, words=words)
    if not hits.words:
        return []
    found: PassagesFound = yield PassageRequest(tuple(hit.key for hit in hits.words))
    ids = [found.heads[hit.key].object_id for hit in hits.words if hit.key in found.heads]
    read: ObjectsFound = yield ObjectRequest(objects=tuple(ids))
    altered |= read.altered
    items = [read.objects[identity] for identity in ids if identity in read.objects]
    return [(item.id, title_of(item), item.status) for item in items if _is_about(item, question)]


def _is_expired(item: Object, question: Question) -> bool:
    return isinstance(item, Knowledge) and _is_about(item, question)


def _is_about(item: Object, question: Question) -> bool:
    """Tell whether an object shares more than a chance word with a question."""
    asked = set(question.terms.words)
    words = set(index_text(f"{title_of(item)} {passages_of(item)[0].text}").split())
    return len(asked & words) >= min(_SHARED, ceil(len(asked) / 2))


def _next_reads(packed: Packed, attached: Sequence[Attached]) -> tuple[str, ...]:
    """Name what did not fit, best first, and the wholes of which only parts are in the pack."""
    more = [
        f"{one.left_out} more that belong to {quoted(one.node.name)} (`{one.node.id}`, mode related)"
        for one in attached
        if one.left_out
    ]
    left = [
        f"{quoted(item.title)} (`{item.object_id}` {item.segment_id})" for item in packed.left_out if item.segment_id
    ]
    cut = [
        f"{quoted(item.title)}, the rest of it (`{item.object_id}` {item.segment_id})"
        for item in packed.items
        if "cut" in item.flags
    ]
    return tuple(dict.fromkeys([*more, *cut, *left]))[:_READS]


CONTEXT = Mode(
    name="context",
    summary="A context pack for a task: believed, decided, constrained, done, open; cited; inside a token budget.",
    input=ContextInput,
    options=SearchOptions,
    report=ContextReport,
    run=context,
    rights=READS,
)
