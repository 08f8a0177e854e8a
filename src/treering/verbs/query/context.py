"""`query` in mode `context`: what is believed, decided, constrained, done and open around a task."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import Field

from treering.core.objects import Knowledge, Object, title_of
from treering.ports.ledger import Altered, head_of
from treering.ports.passages import Reach
from treering.ports.runtime import fresh_id
from treering.retrieval.index.passages import passages_of
from treering.retrieval.search.named_code import first_test_of
from treering.retrieval.search.pack_budget import Packed, UnnumberedItem, name_nearest, pack
from treering.retrieval.search.packing import ConflictNote, ContextPack, render, shortened
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.search.trust import Wording
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens, telling_terms
from treering.retrieval.tuning import PACK_GROUPS, TUNING, values_of
from treering.verbs.envelope import READS, AskingInput, Call, Mode
from treering.verbs.feedback import answer_name, feedback_for
from treering.verbs.query.attached import Attached, attached_to
from treering.verbs.query.code_related import may_break
from treering.verbs.query.context_items import (
    Citing,
    belief_item,
    by_file,
    source_items,
    without_repeated,
    without_stubs,
)
from treering.verbs.query.context_knowledge import files_of, is_about_task, knowledge_about
from treering.verbs.query.context_notes import conflicts_of, missing_of, next_reads_of, rules_of, summary_of
from treering.verbs.query.context_parts import FoundForTask, gather
from treering.verbs.query.search import (
    knowledge_on,
    only_replaced,
    place_of,
    reranking_of,
    reranking_warnings,
    turns_of,
    with_replacing_turns,
)
from treering.verbs.reading import (
    SUPERSEDED,
    Asked,
    Empty,
    Explanations,
    ReadReport,
    Replaced,
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
from treering.verbs.replaced_turns import replaced_turns
from treering.verbs.trees import notes_of, notes_of_objects


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


_LIFETIME = timedelta(hours=1)
_DEFAULT_TOKENS = 4_000

_NOT_MENTIONED = (
    "The key words of the task do not occur here, or do not occur together. Use names that occur "
    "here, or try mode search."
)


class ContextInput(AskingInput):
    """The task."""

    TEXT: ClassVar[str] = "task"

    task: Asked = Field(description="The current task, as you would describe it to a colleague.")


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
    sequence = answered_sequence(found.sources, reach)
    most = options.max_tokens or _DEFAULT_TOKENS
    drafts = _drafts(call, found, attached, reach, altered)
    notes = _Notes(given.task, found, attached, rules_of(call, reach, altered), sequence)
    built, text, left_out = _fitted(call, drafts, notes, reach, altered, max_tokens=most)
    if options.explain:
        explained = {"hits": _explained(call, found), "tuning": values_of(PACK_GROUPS)}
        built = built.model_copy(update={"trace": {**built.trace, **explained}})
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
        empty=_why_empty(call, found, reach, len(left_out) if found.answers else 0) if empty else None,
        left_out=left_out,
        as_of=sequence,
        answer=answer_name(call.scope, given.task),
        trace={"sources": dict(found.sources.trace), "beliefs": dict(found.beliefs.trace)},
    )


def _drafts(
    call: Call,
    found: FoundForTask,
    attached: Sequence[Attached],
    reach: Reach,
    altered: Altered,
) -> list[UnnumberedItem]:
    """Return all that may be packed, best first: what is believed, and passages of sources."""
    shown = _ordered(found)
    by_turn = replaced_turns(call.engine, turns_of(shown), found.question.text) if reach.at is None else {}
    shown = [*with_replacing_turns(shown, by_turn, found.question.text, most=len(shown) + len(by_turn))]
    marks = {hit.head.key: Replaced(turn=by).note for hit in shown if (by := by_turn.get(place_of(hit)))}
    notes = {**notes_of(call.tree, call.engine.ledger, shown), **marks}
    whole = {hit.head.key for hit in found.definitions}
    sources = list(source_items(shown, found.question.text, notes, found.judgement.weak, whole))
    if not found.answers:
        return sources
    ranked = by_file(found.passages)
    bearing = [hit.head.object_id for hit in ranked if hit.head.object_id in found.sources.resting]
    resting = knowledge_on(call, bearing, altered)
    about_files = knowledge_about(files_of(ranked), resting, found.known.idf, reach)
    believed = _beliefs(call, found, attached, about_files, reach, altered)
    remaining = without_repeated(sources, believed)
    standing = without_replaced(remaining, resting, found.question, all_of_them=reach.withdrawn)
    if not believed and not standing:  # an old answer that is flagged says more than none
        return without_replaced(sources, resting, found.question, all_of_them=True)
    return [*believed, *standing]


def _ordered(found: FoundForTask) -> list[Hit]:
    """Order passages: the definitions that the task names, a test of them, then the best files."""
    hits = without_stubs(found.passages)
    first = [*found.definitions, *first_test_of(found.definitions, hits)]
    keys = {hit.head.key for hit in first}
    return [*first, *by_file([hit for hit in hits if hit.head.key not in keys])]


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
    attached: Sequence[Attached],
    about_files: Sequence[tuple[Object, float]],
    reach: Reach,
    altered: Altered,
) -> list[UnnumberedItem]:
    """Cite the knowledge, the work and the activities that belong to the task, each once and with its score."""
    by_words = [(hit.item, hit.score) for hit in found.about_task if hit.item]
    belonging = [(item, 0.0) for one in attached for item in one.items]
    citing = Citing.read(call, [item for item, _ in (*by_words, *belonging, *about_files)], reach, altered)
    about_task = [pair for pair in by_words if is_about_task(pair[0], citing, found.known.idf)]
    found_once = {item.id: (item, score) for item, score in reversed((*about_task, *belonging, *about_files))}
    objects = [*found_once.values()][::-1]
    wording = Wording.of(found.question.text)
    trusted = found.beliefs.policy.channel_trust
    items = [item for item, _ in objects]
    notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, items), read=items)
    superseded: dict[str, list[str]] = {}
    for one in found.withdrawn:
        superseded.setdefault(one.successor, []).append(one.title)
    return [
        belief_item(item, score, citing, wording, trusted, reach, notes.get(item.id, ""), superseded.get(item.id, ()))
        for item, score in objects
    ]


def _why_empty(call: Call, found: FoundForTask, reach: Reach, left_out: int) -> Empty:
    if left_out:
        return Empty(reason="filtered_out", count=left_out, hint="Nothing fits into max_tokens. Give a larger number.")
    if found.answers:
        return why_empty(call, found.question, reach)
    hint = " ".join(filter(None, (found.known.words.told(), _NOT_MENTIONED)))
    return Empty(reason="unknown_entity", hint=hint)


def _in_tree(call: Call, found: FoundForTask) -> list[Hit]:
    """Return the passages of sources that were found, except those that the work tree asked from has otherwise."""
    hits = (*found.sources.hits, *found.sources.further)
    elsewhere = notes_of(call.tree, call.engine.ledger, hits)
    return [hit for hit in hits if hit.head.key not in elsewhere]


def _shown(packed: Packed, found: FoundForTask) -> list[Hit]:
    places = {(item.object_id, item.segment_id) for item in packed.unnumbered}
    hits = {hit.head.key: hit for hit in (*found.definitions, *found.sources.hits)}
    return [hit for hit in hits.values() if (hit.head.object_id, hit.head.part) in places]


@dataclass(frozen=True, slots=True)
class _Notes:
    """What may be stated around the items of a pack; which of it is depends on the items."""

    task: str
    found: FoundForTask
    attached: Sequence[Attached]
    rules: Sequence[tuple[str, str]]
    sequence: int | None
    conflicts: Sequence[ConflictNote] = ()
    users: Mapping[tuple[str, str], str] = field(default_factory=dict)
    here: Sequence[Hit] = ()


def _fitted(
    call: Call, drafts: Sequence[UnnumberedItem], notes: _Notes, reach: Reach, altered: Altered, *, max_tokens: int
) -> tuple[ContextPack, str, tuple[str, ...]]:
    """Return a pack that keeps to the budget as it is written, its text, and what is left out of it.

    Notes depend on the items and take part of the budget, so the items are packed again in the room notes leave.
    """
    if not notes.found.answers:
        packed = name_nearest(drafts)
        notes = replace(notes, here=_in_tree(call, notes.found))
    else:
        packed = pack(drafts, max_tokens=max_tokens)
        notes = replace(
            notes,
            conflicts=conflicts_of(call, packed, reach, altered),
            users=may_break(call, _shown(packed, notes.found), reach),
            here=_in_tree(call, notes.found) if packed.drafts else (),
        )
        sections = len({item.section for item in packed.unnumbered})
        frame = _frame_tokens(_built(call, packed, notes), max_tokens)
        packed = pack(drafts, max_tokens=max_tokens, around=frame + sections * TUNING.context.frame_tokens)
    built, dropped = shortened(_built(call, packed, notes), max_tokens)
    left_out = (*dropped, *(f"{one.item.object_id} {one.item.segment_id}".strip() for one in packed.left_out))
    text = cut_to_tokens(render(built), max_tokens)
    budget = {"max_tokens": max_tokens, "used_tokens": estimate_tokens(text), "left_out": len(left_out)}
    return built.model_copy(update={"budget": budget}), text, left_out


def _frame_tokens(built: ContextPack, max_tokens: int) -> int:
    """Return the tokens of what is written around the items; notes that only help take no more than their share."""
    frame = built.model_copy(update={"items": ()})
    needed = estimate_tokens(render(frame.model_copy(update={"may_break": (), "recommended_next_reads": ()})))
    return min(estimate_tokens(render(frame)), needed + int(max_tokens * TUNING.packing.helpful_share))


def _built(call: Call, packed: Packed, notes: _Notes) -> ContextPack:
    now = call.engine.clock.now()
    ids = {item.object_id for item in packed.unnumbered}
    places = {(item.object_id, item.segment_id) for item in packed.unnumbered}
    contested = tuple(note for note in notes.conflicts if not ids.isdisjoint(note.ids))
    return ContextPack(
        id=fresh_id("context_pack", call.engine.clock),
        task=notes.task,
        summary=summary_of(packed, contested, notes.found),
        scope=call.scope,
        items=packed.items,
        rules=tuple(line for identity, line in notes.rules if identity not in ids)[: TUNING.context.max_rules],
        conflicts=contested,
        may_break=tuple(line for place, line in notes.users.items() if place in places),
        missing_context=missing_of(packed, notes.found),
        recommended_next_reads=next_reads_of(packed, notes.attached, notes.here, notes.found),
        citations=packed.citations,
        generated_at=now,
        expires_at=now + _LIFETIME,
        budget={},
        trace={"as_of": notes.sequence},
    )


CONTEXT = Mode(
    name="context",
    summary="A cited context pack for a task: beliefs, decisions, constraints, completed and open work.",
    input=ContextInput,
    options=SearchOptions,
    report=ContextReport,
    run=context,
    rights=READS,
)
