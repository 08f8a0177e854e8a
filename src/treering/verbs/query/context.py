"""`query` in mode `context`: what is believed, decided, constrained, done and open around a task."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any, ClassVar

from pydantic import Field

from treering.core.filters import matches
from treering.core.objects import Fact, Knowledge, Object, title_of
from treering.ports.ledger import Altered, head_of
from treering.ports.passages import Reach
from treering.ports.runtime import fresh_id
from treering.retrieval.index.passages import is_shown, is_withheld, passages_of, record_of
from treering.retrieval.search.fusion import PLACES, VECTORS, WORDS
from treering.retrieval.search.packing import (
    ConflictNote,
    ContextPack,
    Packed,
    PackItem,
    Surroundings,
    UnnumberedItem,
    estimate_written,
    name_nearest,
    pack,
    render,
    shortened,
)
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import spread_over_sources
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.search.trust import Wording
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens, telling_terms
from treering.verbs.envelope import READS, AskingInput, Call, Mode
from treering.verbs.feedback import answer_name, feedback_for
from treering.verbs.query.attached import Attached, attached_to
from treering.verbs.query.code_related import may_break
from treering.verbs.query.context_parts import (
    Citing,
    FoundForTask,
    belief_item,
    conflicts_of,
    gather,
    missing_of,
    next_reads_of,
    source_items,
    summary_of,
)
from treering.verbs.query.search import knowledge_on, only_replaced, reranking_of, reranking_warnings
from treering.verbs.reading import (
    SUPERSEDED,
    Asked,
    Empty,
    Explanations,
    ReadReport,
    SearchOptions,
    altered_warnings,
    answered_sequence,
    question_of,
    reach_of,
    scope_warnings,
    understood_days,
    warnings_of,
    why_empty,
    zone_of,
)
from treering.verbs.trees import notes_of, notes_of_objects

# Which knowledge, work and activities belong to a task: by their words, by what they rest on, by what they name.


_BELIEFS = 16
_NOISE_SHARE = 0.2
"""Part of the best score in the words arm below which a belief is noise."""

_OF_PEOPLE = 0.4
"""Part of what the passages beside it reach that knowledge has to reach which people or agents wrote: it is short."""

_NAMED = 2
"""Words of a subject that a question has to have, and half of them, to have named it."""

_COPIED = "adapter"
"""The channel of what an adapter read off a source: the source says it too, and is found there."""


def without_weak_beliefs(beliefs: Sequence[Hit], sources: Sequence[Hit], question: Question, reach: Reach) -> list[Hit]:
    """Leave out beliefs that have less to do with the task than the passages beside them.

    By words or by meaning, whichever says more. Scores are scaled within each of the two rankings; the raw ones can
    be compared between them, but not between what stands now and what stood once.
    """
    if reach.withdrawn or reach.at is not None:
        return list(beliefs)
    threshold = _Threshold.of(
        sources, question, best_words=max((_raw(hit, WORDS) for hit in (*beliefs, *sources)), default=0.0)
    )
    asked = frozenset(question.terms.words)
    copied = {hit.head.key: copy for hit in beliefs if (copy := _CopiedAttribute.of(hit, asked))}
    told = [
        hit
        for hit in beliefs
        if PLACES in hit.fused.parts or threshold.is_reached_by(hit, copied=copied.get(hit.head.key))
    ]
    # What was asked for by its words needs no other attribute beside it that is only near.
    if any(hit.head.key in copied and copied[hit.head.key].is_asked_for for hit in told):
        told = [hit for hit in told if hit.head.key not in copied or copied[hit.head.key].is_asked_for]
    # The version of acme is what was asked for, not that of each of its parts.
    named = {hit.head.key for hit in told if hit.head.key in copied and copied[hit.head.key].names_all_of_its_subject}
    return [hit for hit in told if not named or hit.head.key in named or hit.head.key not in copied]


@dataclass(frozen=True, slots=True)
class _CopiedAttribute:
    """What a question has to do with an attribute that an adapter read off a source, such as a version of a package.

    There are many, all short and full of the name of their subject, which in a repository stands everywhere.
    """

    names_all_of_its_subject: bool
    is_asked_for: bool
    """Whether the question has a word of the attribute, or most of the name of its subject."""

    @classmethod
    def of(cls, hit: Hit, asked: Set[str]) -> "_CopiedAttribute | None":
        payload = hit.item.payload if isinstance(hit.item, Knowledge) else None
        if hit.state.origin_channel != _COPIED or not isinstance(payload, Fact) or payload.value is None:
            return None
        subject = set(telling_terms(payload.subject))
        told = set(telling_terms(f"{payload.predicate} {payload.value}"))
        named = len(subject & asked)
        is_named = named >= _NAMED and 2 * named >= len(subject)
        return cls(subject <= asked, is_named or bool((asked - subject) & told))


@dataclass(frozen=True, slots=True)
class _Threshold:
    """What the passages found for a task reach in the middle of their ranks, by words and by meaning."""

    best_words: float
    """The best score in the words arm."""
    nearest: float
    """The best cosine."""
    words: float
    meaning: float | None
    """How far the cosine is above that of what is unrelated; `None` without vectors."""
    unrelated: float

    @classmethod
    def of(cls, sources: Sequence[Hit], question: Question, *, best_words: float) -> "_Threshold":
        words = median([_raw(hit, WORDS) for hit in sources] or [0.0])
        if question.meaning is None:
            return cls(best_words, 0.0, words, None, 0.0)
        unrelated = question.meaning.unrelated_below
        cosines = [_raw(hit, VECTORS) for hit in sources] or [unrelated]
        return cls(best_words, max(cosines), words, max(0.0, median(cosines) - unrelated), unrelated)

    def is_reached_by(self, hit: Hit, *, copied: _CopiedAttribute | None) -> bool:
        if copied and not copied.is_asked_for:
            return self.meaning is not None and _raw(hit, VECTORS) > self.nearest
        part = 1.0 if hit.state.origin_channel == _COPIED else _OF_PEOPLE
        words, above = _raw(hit, WORDS), _raw(hit, VECTORS) - self.unrelated
        by_words = words >= max(part * self.words, _NOISE_SHARE * self.best_words) and words > 0
        return by_words or (self.meaning is not None and above >= max(0.0, part * self.meaning))


def resting_on(
    resting: Sequence[Knowledge], sources: Sequence[Hit], beliefs: Sequence[Hit]
) -> list[tuple[Object, float]]:
    """Choose knowledge that rests on the very segments that answer: it belongs to the task by its evidence.

    What an adapter copied from them does not: it says nothing that they do not say.
    """
    known = {hit.head.object_id for hit in beliefs}
    best = {(hit.head.object_id, hit.head.part): hit.score for hit in reversed(sources)}
    found: list[tuple[Object, float]] = []
    for item in resting:
        refs = item.evidence_refs if item.origin_channel != _COPIED else ()
        score = max((best.get((ref.source_id, ref.segment_id), 0.0) for ref in refs), default=0.0)
        if score and item.id not in known:
            found.append((item, score))
    return sorted(found, key=lambda pair: (-pair[1], pair[0].id))[:_BELIEFS]


def without_replaced(
    sources: Sequence[UnnumberedItem], resting: Sequence[Knowledge], question: Question, *, all_of_them: bool
) -> list[UnnumberedItem]:
    """Leave out passages that only superseded knowledge rests on: what they say was replaced.

    One that says more than that knowledge is put last and flagged, and so is each with `all_of_them`.
    """
    replaced = only_replaced(resting)
    first: list[UnnumberedItem] = []
    last: list[UnnumberedItem] = []
    for draft in sources:
        held = replaced.get((draft.item.object_id, draft.item.segment_id))
        if not held:
            first.append(draft)
        elif all_of_them or _says_more(draft, frozenset[str]().union(*map(_terms_of, held)), question):
            flags = (*draft.item.flags, SUPERSEDED)
            last.append(replace(draft, item=draft.item.model_copy(update={"flags": flags})))
    return [*first, *last]


def _says_more(draft: UnnumberedItem, told: Set[str], question: Question) -> bool:
    """Tell whether a passage mostly speaks of other things than what was told, and maybe of what is asked."""
    said = frozenset(telling_terms(f"{draft.item.title}\n{draft.item.text}"))
    asked = said.intersection(question.terms.words)
    return 2 * len(said & told) < len(said) and (not asked or not asked <= told)


def _terms_of(item: Object) -> frozenset[str]:
    return frozenset(telling_terms(f"{title_of(item)}\n{passages_of(item)[0].text}"))


def objects_of(
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


def _raw(hit: Hit, arm: str) -> float:
    part = hit.fused.parts.get(arm)
    return part.raw if part else 0.0


_LIFETIME = timedelta(hours=1)
_DEFAULT_TOKENS = 4_000
_ATTEMPTS = 4
"""Times that a pack is made to fit; then it is shortened from its end."""

_NOT_MENTIONED = (
    "The words that tell what the task is about occur nowhere here, or nowhere together. "
    "Name what is known here, or look with mode search."
)


class ContextInput(AskingInput):
    """What the context is for."""

    TEXT: ClassVar[str] = "task"

    task: Asked = Field(description="The task in hand, as you would tell a colleague.")


class ContextReport(ReadReport):
    """A context pack, as values and as Markdown with recalled text fenced as data."""

    pack: ContextPack
    text: str

    def named(self) -> Iterable[tuple[str, str, str]]:
        """Return the places that it cites."""
        return ((one.origin, one.object_id, one.segment_id or "") for one in self.pack.citations)

    def numbered_places(self) -> Mapping[int, str]:
        """Return the cited places by their marks."""
        cited = self.pack.citations
        return {int(one.mark.strip("[]")): f"{one.object_id} {one.segment_id}".strip() for one in cited}


def context(call: Call, given: ContextInput, options: SearchOptions) -> ContextReport:
    """Gather, relate, and pack what is known for a task."""
    reach = reach_of(call, options)
    question = question_of(call, given.task, semantic=options.semantic, zone=zone_of(call, options))
    found = gather(
        call,
        question,
        reach,
        deep=options.deep,
        reranking=reranking_of(call, options),
        adjusting=feedback_for(call, given.task) if options.as_of is None else None,
    )
    altered = {**found.sources.altered, **found.beliefs.altered, **found.altered}
    attached = attached_to(call.engine.ledger, found.nodes, reach, altered)
    most = options.max_tokens or _DEFAULT_TOKENS
    drafts = _drafts(call, found, attached, reach, altered, max_tokens=most)
    packed = pack(drafts, max_tokens=most) if found.answers else name_nearest(drafts)
    say = partial(
        _around,
        given.task,
        found=found,
        attached=attached,
        conflicts=conflicts_of(call, packed, reach, altered),
        users=may_break(call, _shown(packed, found), reach),
        here=_standing_here(call, found) if packed.drafts else (),
    )
    packed, around = _within(most, packed, drafts, say)
    built, text, left_out = _shortened(
        _built(call, packed, around, answered_sequence(found.sources, reach)), packed, most
    )
    if options.explain:
        built = built.model_copy(update={"trace": {**built.trace, "hits": _explained(call, found)}})
    empty = not built.items
    return ContextReport(
        verb="query",
        mode="context",
        scope=call.scope,
        status="empty" if empty else "ok",
        warnings=(
            *scope_warnings(call, options, (hit.state.scope for hit in (*found.sources.hits, *found.beliefs.hits))),
            *warnings_of(question),
            *reranking_warnings(found.sources),
            *altered_warnings(altered),
        ),
        ids=(built.id, *dict.fromkeys(item.object_id for item in built.items)),
        pack=built,
        text=text,
        understood=understood_days(question, built.generated_at),
        empty=_why_empty(call, found, reach) if empty else None,
        left_out=left_out,
        as_of=answered_sequence(found.sources, reach),
        answer=answer_name(call.scope, given.task),
        trace={"sources": dict(found.sources.trace), "beliefs": dict(found.beliefs.trace)},
    )


def _drafts(
    call: Call,
    found: FoundForTask,
    attached: Sequence[Attached],
    reach: Reach,
    altered: Altered,
    *,
    max_tokens: int,
) -> list[UnnumberedItem]:
    """Return all that may be packed, best first: what is believed, and passages of sources."""
    left_out = found.weak if found.answers and found.strong_alone else frozenset()
    shown = spread_over_sources([hit for hit in found.sources.hits if hit.head.key not in left_out])
    sources = list(source_items(shown, notes_of(call.tree, call.engine.ledger, shown), found.weak))
    if not found.answers:
        return sources
    seen = {(cited.object_id, cited.segment_id) for cited in pack(sources, max_tokens=max_tokens).citations}
    near = [hit for hit in shown if (hit.head.object_id, hit.head.part) in seen]
    bearing = found.sources.resting.keys()
    resting = knowledge_on(call, [hit.head.object_id for hit in near if hit.head.object_id in bearing], altered)
    beliefs = [hit for hit in found.beliefs.hits if hit.head.key not in left_out]
    answering = without_weak_beliefs(beliefs, found.sources.hits, found.question, reach)
    objects = objects_of(answering, attached, resting_on(resting, near, answering), reach)
    believed = _beliefs(call, found, objects, reach, altered)
    standing = without_replaced(sources, resting, found.question, all_of_them=reach.withdrawn)
    if not believed and not standing:  # an old answer that is flagged says more than none
        return without_replaced(sources, resting, found.question, all_of_them=True)
    return [*believed, *standing]


def _explained(call: Call, found: FoundForTask) -> dict[str, dict[str, Any]]:
    """Return by hit, named by its object and segment, how it was found."""
    return {
        f"{hit.head.object_id} {hit.head.part}".strip(): explanations.of(hit)
        for each in (found.sources, found.beliefs)
        for explanations in [Explanations(call, each)]
        for hit in each.hits
    }


def _beliefs(
    call: Call,
    found: FoundForTask,
    objects: Sequence[tuple[Object, float]],
    reach: Reach,
    altered: Altered,
) -> list[UnnumberedItem]:
    """Cite the knowledge, the work and the activities that belong to the task, each with its score."""
    citing = Citing.read(call, [item for item, _ in objects], reach, altered)
    wording = Wording.of(found.question.text)
    trusted = found.beliefs.policy.channel_trust
    items = [item for item, _ in objects]
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, items), read=items)
    return [
        belief_item(item, score, citing, wording, trusted, reach, notes.get(item.id, "")) for item, score in objects
    ]


def _why_empty(call: Call, found: FoundForTask, reach: Reach) -> Empty:
    if found.answers:
        return why_empty(call, found.question, reach)
    hint = " ".join(filter(None, (found.known.words.told(), _NOT_MENTIONED)))
    return Empty(reason="unknown_entity", hint=hint)


def _within(
    max_tokens: int, packed: Packed, drafts: Sequence[UnnumberedItem], say: Callable[[Packed], Surroundings]
) -> tuple[Packed, Surroundings]:
    """Pack so that it keeps to the budget as it is written, with all that is said around it.

    What is said depends on what is packed: drafts are packed anew with as much less as was too much.
    """
    around, reserved = say(packed), 0
    for _ in range(_ATTEMPTS):
        excess = estimate_written(packed, around) - max_tokens
        if excess <= 0 or not packed.drafts:
            break
        reserved += excess
        packed = pack(drafts, max_tokens=max_tokens, around=reserved)
        around = say(packed)
    return packed, around


def _shortened(built: ContextPack, packed: Packed, max_tokens: int) -> tuple[ContextPack, str, tuple[str, ...]]:
    """Return a pack and how it is written, shortened from its end where it is too long; and what is left out of it."""
    text, left_out = render(built), [_ref(item) for item in packed.left_out]
    used = estimate_tokens(text)
    if used > max_tokens:
        built, dropped = shortened(built, max_tokens)
        text = cut_to_tokens(render(built), max_tokens)
        left_out, used = [*dropped, *left_out], estimate_tokens(text)
    budget = {"max_tokens": max_tokens, "used_tokens": used, "left_out": len(left_out)}
    return built.model_copy(update={"budget": budget}), text, tuple(left_out)


def _ref(item: PackItem) -> str:
    return f"{item.object_id} {item.segment_id}".strip()


def _standing_here(call: Call, found: FoundForTask) -> list[Hit]:
    """Return the passages of sources that were found, without those of which the tree that is asked from has others."""
    hits = (*found.sources.hits, *found.sources.further)
    elsewhere = notes_of(call.tree, call.engine.ledger, hits)
    return [hit for hit in hits if hit.head.key not in elsewhere]


def _shown(packed: Packed, found: FoundForTask) -> list[Hit]:
    kept = {(item.object_id, item.segment_id) for item in packed.unnumbered}
    return [hit for hit in found.sources.hits if (hit.head.object_id, hit.head.part) in kept]


def _around(
    task: str,
    packed: Packed,
    *,
    found: FoundForTask,
    attached: Sequence[Attached],
    conflicts: Sequence[ConflictNote],
    users: Mapping[tuple[str, str], str],
    here: Sequence[Hit],
) -> Surroundings:
    """Say what a pack says around its items."""
    ids = {item.object_id for item in packed.unnumbered}
    contested = tuple(note for note in conflicts if not ids.isdisjoint(note.ids))
    kept = {(item.object_id, item.segment_id) for item in packed.unnumbered}
    return Surroundings(
        task=task,
        summary=summary_of(packed, contested, found),
        conflicts=contested,
        may_break=tuple(told for place, told in users.items() if place in kept),
        missing_context=missing_of(packed, found),
        recommended_next_reads=next_reads_of(packed, attached, here if packed.drafts else (), found.histories),
    )


def _built(call: Call, packed: Packed, around: Surroundings, sequence: int | None) -> ContextPack:
    now = call.engine.clock.now()
    return ContextPack(
        id=fresh_id("context_pack", call.engine.clock),
        task=around.task,
        summary=around.summary,
        scope=call.scope,
        items=packed.items,
        conflicts=around.conflicts,
        may_break=around.may_break,
        missing_context=around.missing_context,
        recommended_next_reads=around.recommended_next_reads,
        citations=packed.citations,
        generated_at=now,
        expires_at=now + _LIFETIME,
        budget={},
        trace={"as_of": sequence},
    )


CONTEXT = Mode(
    name="context",
    summary="A cited context pack for a task: believed, decided, constrained, done, open.",
    input=ContextInput,
    options=SearchOptions,
    report=ContextReport,
    run=context,
    rights=READS,
)
