"""`query` in mode `context`: what is believed, decided, constrained, done and open around a task."""

from collections.abc import Sequence
from datetime import timedelta

from pydantic import Field

from treering.core.pack import ContextPack
from treering.derived.packing import Packed, UnnumberedItem, name_nearest, pack, render
from treering.derived.retrieval import Hit
from treering.derived.spreading import spread_over_sources
from treering.derived.trusting import Wording
from treering.ports.clock import fresh_id
from treering.ports.ledger import Altered
from treering.ports.reach import Reach
from treering.tools.attached import Attached, attached_to
from treering.tools.context_beliefs import objects_of, resting_on, to_the_point
from treering.tools.context_items import Citing, belief_item, source_items
from treering.tools.context_notes import conflicts_of, missing_of, next_reads_of, summary_of
from treering.tools.context_search import FoundForTask, gather
from treering.tools.envelope import AskingInput, Call, Mode
from treering.tools.may_break import may_break
from treering.tools.reading import (
    Asked,
    Empty,
    Explanations,
    ReadReport,
    SearchOptions,
    altered_warnings,
    question_of,
    reach_of,
    scope_warnings,
    stood_at,
    warnings_of,
    why_empty,
)
from treering.tools.rereading import rereading_of, rereading_warnings
from treering.tools.rights import READS

_LIFETIME = timedelta(hours=1)
_DEFAULT_TOKENS = 4_000
_NOT_SPOKEN_OF = (
    "The words that tell what the task is about occur nowhere here, or nowhere together. "
    "Name what is known here, or look with mode search."
)


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
    found = gather(call, question, reach, deep=options.deep, rereading=rereading_of(call, options))
    altered = {**found.sources.altered, **found.beliefs.altered, **found.altered}
    attached = attached_to(call.engine.ledger, found.nodes, reach, altered)
    shown = spread_over_sources(found.sources.hits)
    sources = list(source_items(shown))
    if found.answers:
        max_tokens = options.max_tokens or _DEFAULT_TOKENS
        seen = {(cited.object_id, cited.segment_id) for cited in pack(sources, max_tokens=max_tokens).citations}
        near = [hit for hit in shown if (hit.head.object_id, hit.head.part) in seen]
        beliefs = _beliefs(call, found, near, attached, reach, altered)
        packed = pack([*beliefs, *sources], max_tokens=max_tokens)
    else:
        packed = name_nearest(sources)
    built = _build(call, given.task, packed, reach, found, attached, options, altered)
    if options.explain:
        hits = {
            f"{hit.head.object_id} {hit.head.part}".strip(): explanations.of(hit)
            for each in (found.sources, found.beliefs)
            for explanations in [Explanations(call, each)]
            for hit in each.hits
        }
        built = built.model_copy(update={"trace": {**built.trace, "hits": hits}})
    empty = not packed.items
    return ContextReport(
        verb="query",
        mode="context",
        scope=call.scope,
        status="empty" if empty else "ok",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in (*found.sources.hits, *found.beliefs.hits))),
            *warnings_of(question),
            *rereading_warnings(found.sources),
            *altered_warnings(altered),
        ),
        ids=(built.id, *dict.fromkeys(item.object_id for item in packed.items)),
        pack=built,
        text=render(built),
        empty=_why_empty(call, found, reach) if empty else None,
        left_out=tuple(f"{item.object_id} {item.segment_id}".strip() for item in packed.left_out),
        as_of=stood_at(found.sources, reach),
        trace={"sources": dict(found.sources.trace), "beliefs": dict(found.beliefs.trace)},
    )


def _beliefs(
    call: Call, found: FoundForTask, shown: Sequence[Hit], attached: Sequence[Attached], reach: Reach, altered: Altered
) -> list[UnnumberedItem]:
    """Choose and cite the knowledge, the work and the activities that belong to the task."""
    answering = to_the_point(found.beliefs.hits, found.sources.hits, found.question, reach)
    related = resting_on(call, shown, answering, reach, altered)
    objects = objects_of(answering, attached, related, reach)
    citing = Citing.read(call, [item for item, _ in objects], reach, altered)
    wording = Wording.of(found.question.text)
    trusted = found.beliefs.policy.channel_trust
    return [belief_item(item, score, citing, wording, trusted, reach) for item, score in objects]


def _why_empty(call: Call, found: FoundForTask, reach: Reach) -> Empty:
    if found.answers:
        return why_empty(call, found.question, reach)
    hint = " ".join(filter(None, (found.known.words.told(), _NOT_SPOKEN_OF)))
    return Empty(reason="unknown_entity", hint=hint)


def _build(
    call: Call,
    task: str,
    packed: Packed,
    reach: Reach,
    found: FoundForTask,
    attached: Sequence[Attached],
    options: SearchOptions,
    altered: Altered,
) -> ContextPack:
    now = call.engine.clock.now()
    conflicts = conflicts_of(call, packed, reach, altered)
    kept = {(item.object_id, item.segment_id) for item in packed.items}
    shown = [hit for hit in found.sources.hits if (hit.head.object_id, hit.head.part) in kept]
    return ContextPack(
        id=fresh_id("context_pack", call.engine.clock),
        task=task,
        summary=summary_of(packed, conflicts, found),
        scope=call.scope,
        items=packed.items,
        conflicts=conflicts,
        may_break=may_break(call, shown, reach),
        missing_context=missing_of(packed, found),
        recommended_next_reads=next_reads_of(packed, attached),
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


CONTEXT = Mode(
    name="context",
    summary="A context pack for a task: believed, decided, constrained, done, open; cited; inside a token budget.",
    input=ContextInput,
    options=SearchOptions,
    report=ContextReport,
    run=context,
    rights=READS,
)
